// The run as data, and what follows from it: rings and their stages, the list of events, the state at each event.
//
// The page holds the run as the emulated GPU wrote it (timeline_page.cpp):
//   kernel, source, cycles, blocks, first_block, report
//   shared    of a block, in bytes: {reserved, static, dynamic, variables: [{name, offset, bytes}]}, 0 for dynamic memory
//   places    {at: "ring.cu:52", code: "wait(&empty[...]);"}
//   warps     {block, warp, name, begin, end, waits: [{begin, end, what, place, barrier?, phase?, open?, ender?}]}
//             ender: {step?, warp, place, track?, operation?, what?}
//   tracks    {block, unit, operations: [{number, begin, end, what, warp, place, barrier?, bytes?, target?}]}
//   arrivals  operations of units that are nothing but an arrival: {number, begin, end, what, warp, place}
//   barriers  {block, name}
//   steps     [kind, at, barrier, amount, warp, place, operation, phase, pending, bytes], the last three afterwards
// A number -1 stands for "none".

/** What a copy brings, by the line that asks for it; the first that matches. The figures of the lessons read this line, too. */
const OPERANDS = {"scale factors": "\\bsf[ab]\\b", "C": "\\bc_map\\b", "A": "load_a\\b|copy_(shared_)?tile\\(a\\b|\\.a\\b", "B": "load_b\\b|copy_(shared_)?tile\\(b\\b|\\.b\\b"};
const RECENT = 32;   // passes of a warp: the one for which it signals a barrier is among them
const STEP_FIELDS = ["kind", "at", "barrier", "amount", "warp", "place", "operation", "phase", "pending", "bytes"];

class Model {
  constructor(run) {
    Object.assign(this, run);
    this.steps = run.steps.map((values, index) =>
      Object.fromEntries([["index", index], ...STEP_FIELDS.map((field, i) => [field, values[i]])]));
    this.issued = new Map();
    for (const operation of [...this.arrivals, ...this.tracks.flatMap(track => track.operations)]) {
      this.issued.set(operation.number, operation);
    }
    this.stepsOf = this.barriers.map(() => []);
    for (const step of this.steps) this.stepsOf[step.barrier].push(step);
    this.waits = this.warps.flatMap((warp, row) => warp.waits.map(wait => Object.assign(wait, {row})))
      .sort((a, b) => a.begin - b.begin || a.row - b.row);
    this.openWaits = this.waits.filter(wait => wait.open);
    this.rings = findRings(this);
    this.stages = this.rings.flatMap(ring => ring.stages);
    this.part = new Map();   // barrier -> {stage, is: "full" or "empty"}
    for (const stage of this.stages) {
      this.part.set(stage.full, {stage, is: "full"});
      this.part.set(stage.empty, {stage, is: "empty"});
    }
    this.events = listEvents(this);
  }

  /** The warp that did a step, or that issued the operation that did. */
  issuer(step) {
    return step.warp >= 0 ? step.warp : this.issued.get(step.operation)?.warp ?? -1;
  }

  /** What a unit's operation moves or computes: "A, stage 1" of a copy into a ring, else the variable that it writes. */
  nameOf(operation) {
    if (!operation.target) return operation.what.includes("mma") ? "MMA" : operation.what;
    const code = this.places[operation.place]?.code ?? "", stage = this.part.get(operation.barrier)?.stage;
    const operand = Object.keys(OPERANDS).find(name => new RegExp(OPERANDS[name]).test(code));
    const name = operand ?? operation.target.replace(/\+0x0$/, "");
    return !stage ? name : `${operand ?? operation.target.split("+")[0]}, stage ${stage.index}`;
  }

  /** A barrier after the first `count` steps: {phase, pending, bytes, expected}, or null before it is initialised. */
  barrierAfter(barrier, count) {
    const steps = this.stepsOf[barrier], low = firstNotBelow(steps, count, step => step.index);
    if (low === 0 || steps[low - 1].kind === "invalidate") return null;
    let expected = 0;
    for (let i = low - 1; i >= 0 && expected === 0; --i) {   // the phase began with all arrivals pending
      if (steps[i].kind === "init" || steps[i].kind === "end") expected = steps[i].pending;
    }
    const {phase, pending, bytes} = steps[low - 1];
    return {phase, pending, bytes, expected};
  }

  /** "free", "filling" or "full". Each phase of `full` fills the stage, each phase of `empty` frees it. */
  stageAfter(stage, count) {
    const full = this.barrierAfter(stage.full, count), empty = this.barrierAfter(stage.empty, count);
    if (!full || !empty) return "";
    if (full.phase > empty.phase) return "full";
    if (full.bytes !== 0 || full.pending < full.expected) return "filling";
    return this.isTaken(stage, count) ? "filling" : "free";
  }

  /** Whether a producer has taken a stage that no bytes are announced for: it has passed `empty`, and fills it later. */
  isTaken(stage, count) {
    const {passes, ends} = stage;
    if (stage.announced) return false;
    const filled = firstNotBelow(ends, count), passed = firstNotBelow(passes, count);
    const isLater = passed > 0 && (filled === 0 || passes[passed - 1] > ends[filled - 1]);
    return isLater && (this.openWaits.length > 0 || filled < ends.length);
  }

  /** Whether a barrier is more than initialised. */
  isUsed(barrier) {
    return this.stepsOf[barrier].some(step => step.kind !== "init") || this.waits.some(wait => wait.barrier === barrier);
  }

  /** When the last thing happened that is not the end of a run that hangs. */
  lastHappening() {
    const ends = [...this.tracks.flatMap(track => track.operations.map(operation => operation.end)), ...this.openWaits.map(wait => wait.begin),
      ...this.warps.filter(warp => !warp.waits.at(-1)?.open).map(warp => warp.end)];
    return ends.reduce((last, end) => Math.max(last, end), this.events.at(-1).at);
  }

  /** The waits for a barrier that are under way at an event. */
  waitingFor(barrier, event) {
    const now = this.events[event];
    return this.waits.filter(wait => wait.barrier === barrier && wait.begin <= now.at && (wait.open || wait.end > now.at));
  }

  /** Number of the last event at or before a time. */
  eventAt(time) {
    let found = 0;
    for (let i = 0; i < this.events.length && this.events[i].at <= time; ++i) found = i;
    return found;
  }
}

/**
 * Finds pairs of barriers in which a role waits for one and then signals the other, and another role does the reverse. The
 * one whose first wait passed before anything had come (the phase before phase 0) is `empty`. Pairs with the same roles
 * are the stages of a ring.
 */
function findRings(model) {
  const follows = new Map(), producers = new Map(), consumers = new Map(), startsFree = new Set();
  const passedBy = model.warps.map(() => []);   // barriers that a warp has passed, the latest last, with times
  const note = (map, key, value) => map.set(key, (map.get(key) ?? new Set()).add(value));
  for (const step of model.steps) {
    const warp = model.issuer(step);
    if (warp < 0) continue;
    if (step.kind === "pass") {
      passedBy[warp].push(step);
      note(consumers, step.barrier, warp);
      if (step.phase === 0) startsFree.add(step.barrier);
    } else if (step.kind === "arrive" || step.kind === "expect" || step.kind === "deliver") {
      note(producers, step.barrier, warp);
      const asked = model.issued.get(step.operation)?.begin ?? step.at;
      const seen = new Set();
      for (const passed of passedBy[warp].slice(-RECENT).reverse()) {
        if (passed.at > asked || seen.has(passed.barrier) || passed.barrier === step.barrier) continue;
        seen.add(passed.barrier);
        const key = passed.barrier + ">" + step.barrier;
        follows.set(key, (follows.get(key) ?? 0) + 1 / seen.size);
      }
    }
  }
  const pairs = [];
  const weight = (a, b) => follows.get(a + ">" + b) ?? 0;
  for (let full = 0; full < model.barriers.length; ++full) {
    let best = -1, most = 0;
    for (let empty = 0; empty < model.barriers.length; ++empty) {
      if (model.barriers[full].block !== model.barriers[empty].block || !startsFree.has(empty) || startsFree.has(full)) continue;
      const one = weight(empty, full), other = weight(full, empty);
      if (one > 0 && other > 0 && one + other > most) [best, most] = [empty, one + other];
    }
    if (best >= 0 && !pairs.some(pair => pair.empty === best)) pairs.push({full, empty: best});
  }
  const rings = new Map();
  const text = warps => [...new Set([...(warps ?? [])].sort((a, b) => a - b).map(warp => roleOnly(model.warps[warp].name)))].join(", ");
  for (const pair of pairs) {
    const name = text(producers.get(pair.full)) + " \u2192 " + text(consumers.get(pair.full));
    const key = model.barriers[pair.full].block + ":" + name;
    if (!rings.has(key)) rings.set(key, {name, block: model.barriers[pair.full].block, stages: []});
    const ring = rings.get(key);
    const indexes = (barrier, kind) => model.stepsOf[barrier].filter(step => step.kind === kind).map(step => step.index);
    ring.stages.push({...pair, ring, index: ring.stages.length, passes: indexes(pair.empty, "pass"), ends: indexes(pair.full, "end"),
      announced: model.stepsOf[pair.full].some(step => step.kind === "expect")});
  }
  return [...rings.values()];
}

/** The number of elements before `limit`, in a list in rising order. */
function firstNotBelow(list, limit, value = each => each) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (value(list[middle]) < limit) low = middle + 1; else high = middle;
  }
  return low;
}

/** "produce" of "produce (warp 0)". */
function roleOnly(name) {
  return name.replace(/ \(warp \d+\)$/, "");
}

/** Steps of barriers and beginnings of waits, in the order of time. `count` says how many steps have happened then. */
function listEvents(model) {
  const events = [], waits = model.waits.filter(wait => wait.barrier !== undefined || wait.open);
  let next = 0;
  const addWaitsBefore = (time, count) => {
    while (next < waits.length && waits[next].begin < time) {
      events.push({at: waits[next].begin, wait: waits[next], count});
      ++next;
    }
  };
  for (const step of model.steps) {
    addWaitsBefore(step.at, step.index);
    events.push({at: step.at, step, count: step.index + 1});
  }
  addWaitsBefore(Infinity, model.steps.length);
  if (events.length === 0) events.push({at: 0, count: 0});
  return events;
}
