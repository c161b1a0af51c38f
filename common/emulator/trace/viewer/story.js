// What the run says in words: one sentence for each event, a few lines for whatever the pointer rests on.

class Story {
  constructor(model) { this.model = model; }

  warp(row) {
    const warp = this.model.warps[row];
    const name = warp.name.replace(/^(warp \d+), (.*)$/, "$1 ($2)");   // a sentence goes on after it
    return this.model.blocks > 1 ? `block ${warp.block} ${name}` : name;
  }

  barrier(number) {
    const barrier = this.model.barriers[number];
    return this.model.blocks > 1 ? `${barrier.name} of block ${barrier.block}` : barrier.name;
  }

  /** "full of stage 1 (produce -> consume)", or nothing for a barrier that is no part of a ring. */
  part(number) {
    const part = this.model.part.get(number);
    return part ? `"${part.is}" of stage ${part.stage.index} (${part.stage.ring.name})` : "";
  }

  place(number) {
    return number >= 0 ? this.model.places[number] : {at: "", code: ""};
  }

  /** What an event is: a sentence without markup. */
  event(event) {
    if (event.wait) return this.waits(event.wait);
    if (!event.step) return "Nothing happened to a barrier.";
    const step = event.step, name = this.barrier(step.barrier);
    const operation = this.model.issued.get(step.operation);
    const who = step.warp >= 0 ? this.warp(step.warp)
      : operation ? `${operation.what} of ${this.warp(operation.warp)}` : "a unit";
    switch (step.kind) {
      case "init": return `${who} initialises ${name} for ${count(step.amount, "arrival")} per phase`;
      case "invalidate": return `${who} invalidates ${name}`;
      case "arrive": return `${who} arrives at ${name}: ${count(step.amount, "arrival")}, ${step.pending} still pending`;
      case "expect": return `${who} announces ${count(step.amount, "byte")} at ${name}`;
      case "deliver": return `${who} brings ${count(step.amount, "byte")} to ${name}: ${step.bytes} still to come`;
      case "end": return `${who} ends phase ${step.phase - 1} of ${name}; phase ${step.phase} begins`;
      case "pass": return step.phase === 0
        ? `${who} passes ${name} at once: the phase before phase 0 counts as complete`
        : `${who} passes ${name}: phase ${step.phase - 1} is over`;
    }
    return step.kind;
  }

  waits(wait) {
    const who = this.warp(wait.row);
    const what = wait.barrier === undefined ? `waits for ${wait.what}` : `waits for ${this.barrier(wait.barrier)} to end phase ${wait.phase}`;
    return wait.open ? `${who} ${what}, to the end of the run` : `${who} ${what}`;
  }

  /** Who ended a wait. */
  ender(wait) {
    if (wait.open) {
      if (wait.barrier === undefined) return "Nothing has ended this wait.";
      const state = this.model.barrierAfter(wait.barrier, this.model.steps.length);
      return `Nothing has ended this wait. ${this.barrier(wait.barrier)} is still in phase ${wait.phase}` +
        (state ? `: ${this.pending(state)}.` : ".");
    }
    const ender = wait.ender;
    if (!ender || ender.warp < 0) {
      const own = {"its own copies": "Ended by the warp's own copies.", "its other lanes": "Ended by the last of the warp's own lanes."};
      return own[wait.what] ?? "What ended it was not recorded.";
    }
    const place = this.place(ender.place);
    const who = ender.what ? `${ender.what}, issued by ${this.warp(ender.warp)}` : this.warp(ender.warp);
    return `Ended by ${who}${place.at ? ` at ${place.at}` : ""}.`;
  }

  pending(state) {
    const arrivals = `${state.pending} of ${count(state.expected, "arrival")} pending`;
    if (state.bytes > 0) return `${arrivals}, ${count(state.bytes, "byte")} to come`;
    return state.bytes < 0 ? `${arrivals}, ${count(-state.bytes, "byte")} more than announced` : arrivals;
  }

  operation(operation, unit) {
    const name = operation.target ? `${this.model.nameOf(operation)}, ` : "";
    const lines = [`${unit}: ${name}${operation.what}, cycle ${operation.begin} to ${operation.end}`];
    if (operation.bytes) lines.push(count(operation.bytes, "byte") + (operation.target ? ` to ${operation.target}` : ""));
    if (operation.warp >= 0) lines.push(`issued by ${this.warp(operation.warp)}`);
    if (operation.barrier !== undefined) lines.push(`completes on ${this.barrier(operation.barrier)}`);
    return lines;
  }
}

function count(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
