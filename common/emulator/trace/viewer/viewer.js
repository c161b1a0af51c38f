// The page: what the buttons, the keys and the pointer do, and what is shown beside the drawing.

class Viewer {
  constructor(model) {
    this.model = model;
    this.story = new Story(model);
    this.lanes = new Lanes(document.getElementById("lanes"), model);
    this.event = 0;
    this.describeRun();
    this.listen();
    this.readAddress();
  }

  get(id) { return document.getElementById(id); }

  describeRun() {
    const {model} = this, open = model.openWaits.length;
    this.get("title").textContent = model.kernel;
    const which = model.blocks > 1 ? `the first cluster, ${model.blocks} blocks` : "the first block";
    this.get("summary").replaceChildren(`${model.source ? model.source + ", " : ""}${which}, ${model.cycles.toLocaleString("en")} cycles of virtual time, which is not the chip's. `,
      make("strong", "hang", open > 0 ? this.describeEnd(open) : ""));
    if (model.report) {
      this.get("report").hidden = false;
      this.get("report").open = true;
      this.get("report").querySelector("pre").textContent = model.report;
    }
  }

  /** How a run ended in which warps still wait: by a hang, or because what was found stopped it. */
  describeEnd(open) {
    const hangs = !this.model.report || /deadlock|endless loop/.test(this.model.report);
    if (hangs) return `It hangs: ${open === 1 ? "one warp waits" : open + " warps wait"} to the end.`;
    return `It was stopped while ${open === 1 ? "one warp" : open + " warps"} waited.`;
  }

  /** The address can name a moment: #event=12, #wait=3, #theme=dark. Otherwise a run that hangs is shown where it hangs. */
  readAddress() {
    const asked = new URLSearchParams(location.hash.slice(1));
    if (asked.has("theme")) document.documentElement.dataset.theme = asked.get("theme");
    const open = this.model.openWaits.find(wait => wait.barrier !== undefined) ?? this.model.openWaits[0];
    if (asked.has("event")) this.goTo(Number(asked.get("event")));
    else if (asked.has("wait")) this.select(this.model.waits[Number(asked.get("wait"))] ?? null);
    else if (open) this.select(open);
    else this.goTo(this.model.events.findIndex(event => event.step && !["init", "pass"].includes(event.step.kind)));
  }

  // ---- Moments and waits ----

  goTo(event) {
    const last = this.model.events.length - 1;
    this.event = Math.min(last, Math.max(0, Number.isFinite(event) ? event : 0));
    this.lanes.selected = null;
    this.showMoment();
  }

  /** Selects a wait, or nothing, and goes to the moment at which it ends; or begins, if it does not end. */
  select(wait) {
    this.lanes.selected = wait;
    if (wait) this.event = wait.open ? this.model.events.length - 1 : this.eventOfEnd(wait);
    this.showMoment();
  }

  eventOfEnd(wait) {
    const step = wait.ender?.step;
    return step === undefined ? this.model.eventAt(wait.end) : this.model.events.findIndex(event => event.step?.index === step);
  }

  nextWait(direction) {
    const {waits} = this.model, now = waits.indexOf(this.lanes.selected), time = this.model.events[this.event].at;
    let next = now + direction;
    if (now < 0) next = direction > 0 ? waits.findIndex(wait => wait.begin >= time) : waits.findLastIndex(wait => wait.begin <= time);
    if (waits[next]) this.select(waits[next]);
  }

  showMoment() {
    const {model, lanes} = this, selected = lanes.selected;
    lanes.cursor = model.events[this.event].at;
    lanes.reveal(selected?.open ? selected.begin : lanes.cursor);
    lanes.refresh();
    if (selected) lanes.revealRow(selected.row);
    this.showNow(selected);
    this.showState();
  }

  // ---- What is shown below the drawing ----

  showNow(wait) {
    const {model, story} = this, event = model.events[this.event];
    const lines = [make("p", "count", wait ? `A wait: cycle ${wait.begin} to ${wait.end}, ${wait.end - wait.begin} cycles`
      : `Event ${this.event + 1} of ${model.events.length}, cycle ${event.at}`)];
    lines.push(make("p", "sentence", (wait ? story.waits(wait) : story.event(event)) + "."));
    if (wait) {
      lines.push(...this.code(wait.place), make("p", wait.open ? "ender open" : "ender", story.ender(wait)), ...this.code(wait.ender?.place ?? -1));
      const part = wait.barrier === undefined ? "" : story.part(wait.barrier);
      if (part) lines.push(make("p", "quiet", `${story.barrier(wait.barrier)} is the barrier ${part}.`));
    } else {
      const place = event.wait?.place ?? event.step?.place ?? -1;
      lines.push(...this.code(place >= 0 ? place : model.issued.get(event.step?.operation)?.place ?? -1));
    }
    this.get("now").replaceChildren(...lines);
  }

  code(place) {
    if (place < 0) return [];
    const {at, code} = this.model.places[place];
    return [make("p", "code", ...(code ? [make("code", "", code), " "] : []), make("span", "quiet", at))];
  }

  showState() {
    const {model, story} = this, {count, step} = model.events[this.event];
    const parts = [];
    for (const ring of model.rings) {
      const chips = ring.stages.map(stage => {
        const state = model.stageAfter(stage, count) || "not yet";
        return make("span", `chip stage-${state}`, `stage ${stage.index}: ${state}`);
      });
      parts.push(make("p", "ring", (model.blocks > 1 ? `block ${ring.block}, ` : "") + `${ring.name} `, ...chips));
    }
    const head = make("tr", "", ...["barrier", "phase", "arrivals pending", "bytes to come", "waiting"].map(text => make("th", "", text)));
    const used = model.barriers.map((_, number) => number).filter(number => model.isUsed(number));
    const rows = used.map(number => {
      const state = model.barrierAfter(number, count), part = story.part(number);
      const waiting = model.waitingFor(number, this.event).map(wait => story.warp(wait.row)).join(", ");
      const cells = state ? [String(state.phase), `${state.pending} of ${state.expected}`, String(state.bytes), waiting] : ["", "", "", waiting];
      const row = make("tr", step?.barrier === number ? "changed" : "", make("th", "", story.barrier(number) + partOf(model, number)), ...cells.map(text => make("td", "", text)));
      row.dataset.barrier = number;
      if (part) row.title = part;
      return row;
    });
    const unused = model.barriers.length - used.length;
    if (rows.length > 0) parts.push(make("table", "barriers", make("thead", "", head), make("tbody", "", ...rows)));
    if (unused > 0) parts.push(make("p", "quiet", `${unused} more ${unused === 1 ? "is" : "are"} initialised and not used in this run.`));
    this.get("state").replaceChildren(...parts);
  }

  // ---- The pointer and the keys ----

  itemAt(target) {
    const row = this.lanes.rows[target?.dataset?.row];
    return row ? {row, item: row.items[target.dataset.item]} : null;
  }

  /** The lines that explain what is under the pointer. */
  describe({row, item}) {
    const {story, model} = this;
    if (item.wait) return [story.waits(item.wait), `cycle ${item.begin} to ${item.end}`, ...this.placeLines(item.wait.place),
      ...(item.wait.barrier === undefined ? [] : [story.part(item.wait.barrier)])];
    if (item.operation) return [...story.operation(item.operation, item.unit), ...this.placeLines(item.operation.place)];
    if (item.stage) return [`stage ${item.stage.index} of ${item.stage.ring.name}: ${item.text}`, `cycle ${item.begin} to ${item.end}`,
      `full: ${story.barrier(item.stage.full)}, empty: ${story.barrier(item.stage.empty)}`];
    if (item.tick) return [story.event({step: item.step}), `cycle ${item.begin}`, ...this.placeLines(item.step.place)];
    if (item.step) return [`${story.barrier(item.barrier)}: phase ${item.text}, parity ${item.text % 2}`, `cycle ${item.begin} to ${item.end}`, story.part(item.barrier)];
    return [`${model.warps[row.warp].name} runs`, `cycle ${item.begin} to ${item.end}`];
  }

  placeLines(place) {
    const {at, code} = this.story.place(place);
    return [code, at];
  }

  showTip(pointer) {
    const found = this.itemAt(pointer.target), tip = this.get("tip");
    tip.hidden = !found;
    if (!found) return;
    tip.replaceChildren(...this.describe(found).filter(line => line).map(line => make("div", "", line)));
    tip.style.left = `${Math.max(4, Math.min(pointer.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${pointer.clientY + 18 + tip.offsetHeight > innerHeight ? pointer.clientY - tip.offsetHeight - 10 : pointer.clientY + 18}px`;
  }

  click(pointer) {
    const found = this.itemAt(pointer.target);
    if (found?.item.wait) return this.select(found.item.wait);
    const x = pointer.clientX - this.lanes.svg.getBoundingClientRect().left;
    if (x < this.lanes.left) return;   // a name, which is at no time
    this.goTo(found?.item.step ? this.model.events.findIndex(event => event.step === found.item.step) : this.model.eventAt(this.lanes.time(x)));
  }

  listen() {
    const {lanes} = this, holder = lanes.holder;
    const actions = {first: () => this.goTo(0), back: () => this.goTo(this.event - 1), forward: () => this.goTo(this.event + 1),
      last: () => this.goTo(this.model.events.length - 1), in: () => lanes.zoom(2, this.focus()), out: () => lanes.zoom(0.5, this.focus()),
      fit: () => lanes.show(0, lanes.end), "next-wait": () => this.nextWait(1), theme: () => this.switchTheme()};
    for (const [id, action] of Object.entries(actions)) this.get(id).addEventListener("click", action);
    const keys = {ArrowLeft: actions.back, ArrowRight: actions.forward, Home: actions.first, End: actions.last, "+": actions.in, "=": actions.in,
      "-": actions.out, "0": actions.fit, n: actions["next-wait"], p: () => this.nextWait(-1), t: actions.theme, Escape: () => this.select(null)};
    document.addEventListener("keydown", key => {
      if (key.ctrlKey || key.altKey || key.metaKey) return;
      const sideways = {ArrowLeft: -1, ArrowRight: 1}[key.key];
      const action = key.shiftKey && sideways ? () => lanes.pan(sideways * (lanes.to - lanes.from) / 5) : keys[key.key];
      if (!action) return;
      key.preventDefault();
      action();
    });
    holder.addEventListener("wheel", wheel => {
      const x = wheel.clientX - lanes.svg.getBoundingClientRect().left;
      if (wheel.ctrlKey) lanes.zoom(Math.exp(-wheel.deltaY / 200), lanes.time(x));
      else if (Math.abs(wheel.deltaX) > Math.abs(wheel.deltaY)) lanes.pan(wheel.deltaX * (lanes.to - lanes.from) / lanes.width);
      else return;   // the page scrolls
      wheel.preventDefault();
    }, {passive: false});
    this.listenToDrags(holder);
    window.addEventListener("message", message => {   // a page around this one may say which theme it has
      if (["dark", "light"].includes(message.data?.theme)) document.documentElement.dataset.theme = message.data.theme;
    });
    new ResizeObserver(() => lanes.draw()).observe(holder);
    if (window.parent === window) return;
    document.documentElement.classList.add("framed");
    new ResizeObserver(() => window.parent.postMessage({timelineHeight: document.body.offsetHeight}, "*")).observe(document.body);
  }

  /** What a zoom keeps in place: the cursor, where it can be seen. */
  focus() {
    const {from, to, cursor} = this.lanes;
    return cursor >= from && cursor <= to ? cursor : (from + to) / 2;
  }

  /** One pointer moves the drawing, two zoom it; a pointer that has not moved is a click. */
  listenToDrags(holder) {
    const {lanes} = this, pointers = new Map();
    let moved = false, pressed = null;
    const spread = () => { const [a, b] = [...pointers.values()]; return Math.abs(a - b) + 1; };
    holder.addEventListener("pointerdown", pointer => {
      pointers.set(pointer.pointerId, pointer.clientX);
      [moved, pressed] = [pointers.size > 1, pointer.clientX];
    });
    holder.addEventListener("pointermove", pointer => {
      if (!pointers.has(pointer.pointerId)) return this.showTip(pointer);
      if (Math.abs(pointer.clientX - pressed) > 4) moved = true;
      if (!moved) return;
      const before = pointers.size > 1 ? spread() : pointers.get(pointer.pointerId);
      pointers.set(pointer.pointerId, pointer.clientX);
      if (pointers.size > 1) lanes.zoom(spread() / before);
      else lanes.pan((before - pointer.clientX) * (lanes.to - lanes.from) / (lanes.right - lanes.left));
    });
    const release = pointer => {
      if (pointers.delete(pointer.pointerId) && !moved && pointer.type === "pointerup") this.click(pointer);
    };
    for (const type of ["pointerup", "pointercancel", "pointerleave"]) holder.addEventListener(type, release);
    holder.addEventListener("pointerleave", () => { this.get("tip").hidden = true; });
  }

  switchTheme() {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = (root.dataset.theme ?? (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  }
}

function make(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

const viewer = new Viewer(new Model(JSON.parse(document.getElementById("run").textContent)));
