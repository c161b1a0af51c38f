// The drawing: a row for each warp, unit, stage and barrier, of which the visible part is made again on each change.

const SVG = "http://www.w3.org/2000/svg";
const ROW = {warp: 22, track: 18, stage: 16, barrier: 16, heading: 24};
const AXIS = 22, NARROW = 640, TIGHT = 900, LEAST = 8;   // pixels; the last: cycles across the screen

function element(name, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

class Lanes {
  constructor(holder, model) {
    this.holder = holder;
    this.model = model;
    this.svg = element("svg", {class: "drawing"});
    holder.append(this.svg);
    this.rows = listRows(model);
    this.end = Math.max(model.cycles, 1);
    this.from = 0;
    // A run that hangs is long for nothing: the watch for its end. What happened is shown first.
    this.to = model.openWaits.length > 0 ? Math.min(this.end, Math.max(LEAST, Math.ceil(model.lastHappening() * 1.3))) : this.end;
    this.cursor = 0;
    this.selected = null;
  }

  // ---- What is visible ----

  measure() {
    this.width = Math.max(this.holder.clientWidth, 200);
    this.above = this.width < NARROW;   // labels above their rows
    for (const row of this.rows) row.shown = this.width < TIGHT && row.short ? row.short : row.label;
    const room = Math.max(0, ...this.rows.filter(row => row.kind !== "heading").map(row => row.shown.length)) * 7 + 16;
    this.left = this.above ? 8 : Math.min(260, Math.max(110, room));
    this.right = this.width - 12;
    let y = AXIS + 4;
    for (const row of this.rows) {
      row.y = y + (this.above && row.kind !== "heading" ? 14 : 0);
      row.height = ROW[row.kind];
      y = row.y + row.height + 4;
    }
    this.height = y + 4;
  }

  x(time) { return this.left + (time - this.from) / (this.to - this.from) * (this.right - this.left); }
  time(x) { return this.from + (x - this.left) / (this.right - this.left) * (this.to - this.from); }

  zoom(factor, around = (this.from + this.to) / 2) {
    const span = Math.min(this.end, Math.max(LEAST, (this.to - this.from) / factor));
    const share = (around - this.from) / (this.to - this.from);
    this.show(around - share * span, span);
  }

  pan(time) { this.show(this.from + time, this.to - this.from); }

  show(from, span) {
    this.from = Math.min(Math.max(0, from), this.end - span);
    this.to = this.from + span;
    this.draw();
  }

  /** Moves the view if a time is outside of it. */
  reveal(time) {
    const span = this.to - this.from;
    if (time < this.from || time > this.to) this.show(time - span / 3, span);
  }

  /** Scrolls to a warp's row if it is not visible. */
  revealRow(warp) {
    const row = this.rows.find(row => row.warp === warp), {holder} = this;
    if (row.y < holder.scrollTop || row.y + row.height > holder.scrollTop + holder.clientHeight) holder.scrollTop = row.y - holder.clientHeight / 2;
  }

  // ---- Drawing ----

  draw() {
    this.measure();
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("width", this.width);
    this.svg.setAttribute("height", this.height);
    const parts = [this.hatching(), ...this.axis()];
    this.rows.forEach((row, index) => parts.push(...this.row(row, index)));
    this.line = element("line", {class: "cursor", y1: AXIS - 6, y2: this.height});
    parts.push(this.line);
    if (this.selected) parts.push(...this.arrow(this.selected));
    this.svg.replaceChildren(...parts);
    this.drawn = {from: this.from, to: this.to, selected: this.selected};
    this.moveCursor();
  }

  moveCursor() {
    for (const end of ["x1", "x2"]) this.line.setAttribute(end, this.x(this.cursor));
  }

  /** Draws what a step has changed: often nothing but the cursor. */
  refresh() {
    const {drawn} = this;
    if (drawn && drawn.from === this.from && drawn.to === this.to && drawn.selected === this.selected) this.moveCursor();
    else this.draw();
  }

  hatching() {
    return element("defs", {},
      element("pattern", {id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)"},
        element("rect", {class: "hatch-ground", width: 6, height: 6}), element("rect", {class: "hatch-line", width: 2.5, height: 6})),
      element("marker", {id: "head", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"},
        element("path", {d: "M0 0L8 4L0 8z"})));
  }

  axis() {
    const parts = [], about = (this.to - this.from) / Math.max(2, (this.right - this.left) / 90);
    const power = 10 ** Math.floor(Math.log10(about));
    const tick = Math.max(1, [1, 2, 5, 10].map(factor => factor * power).find(value => value >= about));
    for (let at = Math.ceil(this.from / tick) * tick; at <= this.to; at += tick) {
      const x = this.x(at);
      parts.push(element("line", {class: "grid", x1: x, x2: x, y1: AXIS - 4, y2: this.height}),
        element("text", {class: "tick", x, y: 12, "text-anchor": x < 24 ? "start" : x > this.right - 24 ? "end" : "middle"}, at.toLocaleString("en")));
    }
    return parts;
  }

  row(row, index) {
    if (row.kind === "heading") return [element("text", {class: "heading", x: 8, y: row.y + 17}, row.label)];
    const label = this.above ? {x: this.left, y: row.y - 3} : {x: this.left - 8, y: row.y + row.height / 2 + 4, "text-anchor": "end"};
    const parts = [element("rect", {class: "ground", x: this.left, width: this.right - this.left, y: row.y, height: row.height}),
      element("text", {class: "label", ...label}, row.shown)];
    const last = {bar: -1, tick: -1};   // where the last of its kind ended
    row.items.forEach((item, number) => {
      if (item.end < this.from || item.begin > this.to) return;
      const x = Math.max(this.left, this.x(item.begin)), end = Math.min(this.right, this.x(item.end));
      const kind = item.tick ? "tick" : "bar";
      if (end - x < 0.4 && x - last[kind] < 0.4) return;   // no room for it beside the one before
      last[kind] = Math.max(x + 0.4, end);
      const chosen = item.wait && item.wait === this.selected ? " chosen" : "";
      const mark = {"data-row": index, "data-item": number};
      parts.push(element("rect", {class: item.kind + chosen, x, width: Math.max(item.tick ? 1.5 : 0.6, end - x), y: row.y + (item.tick ? 3 : 0),
        height: row.height - (item.tick ? 6 : 0), ...mark}));
      const text = [item.text, item.short, item.wait?.what].find(each => each && end - x > each.length * 6.5 + 6);
      if (text) parts.push(element("text", {class: "inside " + item.kind, x: (x + end) / 2, y: row.y + row.height / 2 + 4}, text));
    });
    return parts;
  }

  /** From what ended a wait to its end. */
  arrow(wait) {
    const ender = wait.ender, model = this.model;
    if (!ender || ender.warp < 0) return [];
    const from = this.rows.find(row => ender.track === undefined ? row.warp === ender.warp : row.track === ender.track);
    const to = this.rows.find(row => row.warp === wait.row);
    let at = ender.step === undefined ? wait.end : model.steps[ender.step].at;
    if (ender.track !== undefined) at = model.tracks[ender.track].operations[ender.operation].end;
    const clamp = x => Math.min(this.right, Math.max(this.left, x));
    const x1 = clamp(this.x(at)), x2 = clamp(this.x(wait.end)), down = to.y > from.y ? 1 : -1;
    const y1 = from.y + (down > 0 ? from.height : 0), y2 = to.y + (down > 0 ? 0 : to.height);
    const bend = from === to ? 26 : 14;
    return [element("path", {class: "arrow", "marker-end": "url(#head)",
      d: `M${x1} ${y1}C${x1 + bend} ${y1 + down * 12} ${x2 + bend} ${y2 - down * 12} ${x2} ${y2}`})];
  }
}

/** What is drawn where, for all of the run. */
function listRows(model) {
  const rows = [];
  for (let block = 0; block < model.blocks; ++block) {
    const of = list => list.map((each, number) => ({each, number})).filter(({each}) => each.block === block);
    if (model.blocks > 1) rows.push({kind: "heading", label: `block ${block} of the cluster`, items: []});
    for (const {each, number} of of(model.warps)) {
      rows.push({kind: "warp", label: each.name, warp: number, items: warpItems(each, model)});
    }
    let before = "";
    for (const {each, number} of of(model.tracks)) {
      const kind = each.unit === "tensor core" ? "multiply" : "copy";
      const items = each.operations.map(operation => ({kind, begin: operation.begin, end: operation.end, operation, unit: each.unit,
        text: model.nameOf(operation), short: kind === "multiply" ? "\u00d7" : model.nameOf(operation).replace(", stage ", "")}));
      rows.push({kind: "track", label: each.unit === before ? "" : each.unit, track: number, items});
      before = each.unit;
    }
    for (const ring of model.rings.filter(ring => ring.block === block)) {
      rows.push({kind: "heading", label: `ring ${ring.name}`, items: []});
      for (const stage of ring.stages) rows.push({kind: "stage", label: `stage ${stage.index}`, items: stageItems(model, stage)});
    }
    const barriers = of(model.barriers).filter(({number}) => model.isUsed(number));
    if (barriers.length > 0) rows.push({kind: "heading", label: "barriers", items: []});
    for (const {each, number} of barriers) {
      rows.push({kind: "barrier", label: each.name + partOf(model, number), short: each.name, items: barrierItems(model, number)});
    }
  }
  return rows;
}

/** " (full 1)" for a barrier whose name does not say which part it has. */
function partOf(model, barrier) {
  const part = model.part.get(barrier);
  return part && !model.barriers[barrier].name.includes(part.is) ? ` (${part.is} ${part.stage.index})` : "";
}

function warpItems(warp, model) {
  const items = [];
  let from = warp.begin;
  for (const wait of warp.waits) {
    if (wait.begin > from) items.push({kind: "run", begin: from, end: wait.begin});
    items.push({kind: wait.open ? "open" : "wait", begin: wait.begin, end: wait.end, wait, text: wait.what + partOf(model, wait.barrier)});
    from = wait.end;
  }
  if (warp.end > from) items.push({kind: "run", begin: from, end: warp.end});
  return items;
}

function stageItems(model, stage) {
  const items = [];
  const steps = [...model.stepsOf[stage.full], ...model.stepsOf[stage.empty]].sort((a, b) => a.index - b.index);
  for (const step of steps) {
    const state = model.stageAfter(stage, step.index + 1), last = items.at(-1);
    if (last && last.text === state) continue;
    if (last) last.end = step.at;
    items.push({kind: "stage-" + state, begin: step.at, end: model.cycles, text: state, stage});
  }
  return items.filter(item => item.text !== "");
}

function barrierItems(model, barrier) {
  const phases = [], ticks = [];
  for (const step of model.stepsOf[barrier]) {
    if (step.kind === "init" || step.kind === "end") {
      if (phases.length > 0) phases.at(-1).end = step.at;
      phases.push({kind: step.phase % 2 === 0 ? "even" : "odd", begin: step.at, end: model.cycles, text: String(step.phase), barrier, step});
    } else if (step.kind !== "pass") {
      ticks.push({kind: "tick-" + step.kind, tick: true, begin: step.at, end: step.at, step});
    }
  }
  return [...phases, ...ticks];
}
