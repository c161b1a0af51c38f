"""The drawings of draw_runs.py: what a run did, as SVG. A run is the data of a timeline's page (trace/viewer/model.js lists it)."""

import json
import math
import pathlib
import re
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
STYLE = """
    :root { color-scheme: light dark; }
    text { fill: #222; } .quiet { fill: #666; font-size: 12px; } .middle { text-anchor: middle; } .end { text-anchor: end; } .small { font-size: 12px; text-anchor: middle; }
    .mono { font-family: monospace; font-size: 12px; } .part { fill: #666; font-size: 12px; text-anchor: middle; }
    rect, path { fill: none; stroke: #777; stroke-width: 1.2; } .even { fill: #d8e8f8; stroke: #36c; } .odd { fill: #fbe6cf; stroke: #c70; }
    .third { fill: #ecdcf4; stroke: #84c; } .rest { fill: #e8e8e8; stroke: #777; }
    .copying { fill: #fbe6cf; stroke: #c70; } .full { fill: #d8e8f8; stroke: #36c; } .read { fill: #dcefd6; stroke: #4a7c2c; }
    .passes { stroke: #2a7a2a; stroke-width: 4; } .sleeps { stroke: #b33; stroke-width: 4; stroke-dasharray: 7 5; }
    .tick { stroke: #ddd; } .arrow { stroke-width: 1.6; marker-end: url(#head); } #head path { fill: #777; stroke: none; }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd; } .quiet, .part { fill: #aaa; } rect, path { stroke: #999; } #head path { fill: #999; }
      .even, .full { fill: #1d3147; stroke: #6af; } .odd, .copying { fill: #43300f; stroke: #e9a23b; } .read { fill: #22381b; stroke: #8c6; }
      .tick { stroke: #333; } .passes { stroke: #6c6; } .sleeps { stroke: #f77; } .third { fill: #3a2347; stroke: #b8f; } .rest { fill: #333; stroke: #999; }
    }
  """


class Step:
    """What happened at a barrier, and what it held afterwards: a row of `steps` of a run (timeline_run.cpp writes it)."""

    def __init__(self, row):
        (self.kind, self.cycle, self.barrier, self.amount, self.warp, self.place, self.operation,
         self.phase, self.pending, self.bytes) = row


def steps(run):
    """Returns the steps in the order of time, which is that of the file for those of one cycle."""
    return sorted(map(Step, run["steps"]), key=lambda step: step.cycle)


SHAPE = re.compile(r'<(?:rect.* y="([^"]*)"|path.* class="([^"]*)"|path)')


def in_rows(parts):
    """Returns the lines of the file: boxes side by side are in one line, lines of one look, too, and words after what they follow."""
    lines, last = [], None
    for part in parts:
        shape = SHAPE.match(part)
        if not lines or shape and shape.groups() != last:
            lines.append("  ")
        last = shape.groups() if shape else last
        lines[-1] += part
    return lines


def svg(width, height, title, parts, style=STYLE):
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            'font-family="sans-serif" font-size="13">',
            f"  <!-- drawn by common/tools/draw_runs.py from a run -->\n  <title>{escape(title)}</title>\n  <style>{style}</style>"]
    if "url(#head)" in style:
        head.append('  <defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>')
    return "\n".join([*head, *in_rows(parts), "</svg>", ""])


def text(x, y, words, look=""):
    return f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{look}{chr(34)}" if look else ""}>{escape(words)}</text>'


def rect(x, y, width, height, look="", radius=0):
    return f'<rect{f" class={chr(34)}{look}{chr(34)}" if look else ""} x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}"/>'


# ---- Phases and parities ------------------------------------------------------------------------------------------------

def draw_phases(run):
    """The phases of a barrier that one thread moves on, and which parity passed after each of its moves."""
    moves = []   # the step of the move, its state in the end, and the parities that passed then
    for step in steps(run):
        if step.kind in ("init", "arrive"):
            moves.append([step, step, set()])
        elif step.kind == "end":
            moves[-1][1] = step
        elif step.kind == "pass":
            moves[-1][2].add((step.phase - 1) % 2)
    left, width, top = 150, 112, 84
    parts = [text(10, top + 24, "the phase"), text(10, top + 58, "still to arrive")]
    begin = 0
    for number, (move, state, _) in enumerate(moves):
        x = left + number * width
        words = f"init({move.amount})" if move.kind == "init" else "arrive"
        parts += [text(x, 40, words, "mono"), f'<path d="M{x} 50 V{top}"/>', text(x + width / 2, top + 58, str(state.pending), "small")]
        if number + 1 == len(moves) or moves[number + 1][1].phase != state.phase:
            first, span = left + begin * width, (number + 1 - begin) * width
            parts += [rect(first, top, span, 36, "even" if state.phase % 2 == 0 else "odd", 4),
                      text(first + 10, top + 23, f"phase {state.phase}")]
            begin = number + 1
    for parity in (0, 1):
        y = top + 90 + 28 * parity
        parts.append(text(10, y + 4, f"wait(parity {parity})", "mono"))
        for number, (_, _, passed) in enumerate(moves):
            x = left + number * width
            parts.append(f'<path class="{"passes" if parity in passed else "sleeps"}" d="M{x + 3} {y} H{x + width - 3}"/>')
    parts.append(text(left, top + 150, "dashed: sleeps until the phase has ended; solid: passes at once", "quiet"))
    return svg(left + len(moves) * width + 20, top + 166, "A barrier of two arrivals: the count goes 2, 1, and at zero the phase ends; "
               "which of the two parities a wait passes with changes with the phase", parts)


# ---- The barrier's word -------------------------------------------------------------------------------------------------

def draw_word(run):
    """What the word of the first barrier holds after each step of its first two phases."""
    said = {
        "init": lambda step: f"init: {step.amount} arrival for each phase",
        "expect": lambda step: f"a thread announces {step.amount} bytes",
        "arrive": lambda step: "... and arrives, in the same instruction",
        "deliver": lambda step: f"TMA has brought {step.amount} bytes",
        "end": lambda step: "nothing is pending: the phase ends",
        "pass": lambda step: f"a wait for parity {(step.phase - 1) % 2} passes",
    }
    rows = [step for step in steps(run) if step.barrier == 0]
    rows = rows[:next((place for place, step in enumerate(rows) if step.phase == 2), len(rows)) + 2]
    left, line, top = 390, 26, 56
    fields = [("phase", 100), ("arrivals pending", 150), ("bytes outstanding", 160)]
    parts, x = [text(70, 34, "what happens"), text(10, 34, "cycle", "quiet")], left
    for name, width in fields:
        parts.append(text(x + width / 2, 34, name, "part"))
        x += width
    for number, step in enumerate(rows):
        y = top + number * line
        parts.append(text(10, y + 4, str(step.cycle), "quiet"))
        parts.append(text(70, y + 4, said[step.kind](step)))
        x, look = left, "even" if step.phase % 2 == 0 else "odd"
        values = [f"{step.phase}, parity {step.phase % 2}", str(step.pending), str(step.bytes)]
        for (_, width), value in zip(fields, values):
            parts += [rect(x, y - 13, width, line - 2, look), text(x + width / 2, y + 4, value, "small")]
            x += width
    height = top + len(rows) * line
    parts.append(text(10, height + 6, "PTX does not say which bits hold what; this is what the word must hold.", "quiet"))
    return svg(x + 10, height + 20, "The word of a barrier, step by step, in a run: its phase, the arrivals and the bytes that are pending", parts)


# ---- The ring -----------------------------------------------------------------------------------------------------------

class Ring:
    """Which stage is in which state after a part of a run: one producer warp that announces bytes, one consumer warp."""

    def __init__(self, run, until):
        names = [barrier["name"] for barrier in run["barriers"]]
        self.stages = sum(name.startswith("full[") for name in names)
        self.announced, self.filled, self.read, self.freed = ([0] * self.stages for _ in range(4))
        counters = {("full", "expect"): self.announced, ("full", "end"): self.filled,
                    ("full", "pass"): self.read, ("empty", "end"): self.freed}
        for step in steps(run):
            array, _, stage = names[step.barrier].rstrip("]").partition("[")
            if step.cycle <= until and (array, step.kind) in counters:
                counters[array, step.kind][int(stage)] += 1

    def state(self, stage):
        if self.announced[stage] > self.filled[stage]:
            return "copying"
        if self.filled[stage] > self.freed[stage]:
            return "read" if self.read[stage] > self.freed[stage] else "full"
        return "empty"

    def rows(self):
        """How many rows have been announced, and how many consumed."""
        return sum(self.announced), sum(self.freed)


WORDS = {"copying": "filling", "full": "full", "read": "in use", "empty": "empty"}


def sector(x, y, inner, outer, begin, end, look):
    def point(radius, angle):
        return f"{x + radius * math.cos(angle):.1f} {y + radius * math.sin(angle):.1f}"
    return (f'<path{f" class={chr(34)}{look}{chr(34)}" if look else ""} d="M{point(outer, begin)} A{outer} {outer} 0 0 1 {point(outer, end)} '
            f'L{point(inner, end)} A{inner} {inner} 0 0 0 {point(inner, begin)} Z"/>')


def draw_ring(run):
    """The ring at four moments: at the beginning, when all stages are on their way, when a row is read, and in a later round."""
    ends = [step.cycle for step in steps(run)]
    def first(condition):
        return next(cycle for cycle in ends if condition(Ring(run, cycle)))
    stages = Ring(run, -1).stages
    moments = [(-1, "at the beginning: empty"),
               (first(lambda ring: ring.rows()[0] == stages), "all stages announced"),
               (first(lambda ring: any(ring.state(stage) == "read" for stage in range(stages))), "the first is read"),
               (first(lambda ring: ring.rows()[0] > stages), "the first, used again"),
               (ends[-1], "at the end: empty again")]
    side, inner, outer, columns = 208, 34, 92, 3
    below = 2 * outer + 118   # from one row of rings to the next
    parts = []
    for number, (cycle, words) in enumerate(moments):
        ring = Ring(run, cycle)
        x, top = side * (number % columns + 0.5) + 4, 54 + number // columns * below
        y = top + outer
        announced, freed = ring.rows()
        parts += [text(x, top - 32, words, "small"), text(x, top - 12, f"cycle {max(cycle, 0)}", "part")]
        for stage in range(stages):
            begin = 2 * math.pi * stage / stages - math.pi / 2
            end, state = begin + 2 * math.pi / stages, ring.state(stage)
            middle, radius = (begin + end) / 2, (inner + outer) / 2
            at = x + radius * math.cos(middle), y + radius * math.sin(middle)
            parts += [sector(x, y, inner, outer, begin, end, "" if state == "empty" else state),
                      text(at[0], at[1] - 3, f"stage {stage}", "part"), text(at[0], at[1] + 12, WORDS[state], "small")]
        parts += [text(x, y + outer + 24, f"producer: row {announced}, stage {announced % stages}", "part"),
                  text(x, y + outer + 42, f"consumer: row {freed}, stage {freed % stages}", "part")]
    notes = ["filling: announced, and the bytes are on their way", "The row and the stage of a role are those that it fills, or consumes, next."]
    bottom = 54 + (len(moments) - 1) // columns * below + 2 * outer
    parts += [text(10, bottom + 74 + 18 * number, note, "quiet") for number, note in enumerate(notes)]
    return svg(side * columns + 8, bottom + 106, f"A ring of {stages} stages at five moments of a run", parts)


# ---- Multicast ----------------------------------------------------------------------------------------------------------

def copies(run):
    """Returns (block that asks, block that gets it, name of the memory, offset, bytes, barrier) of each copy, in order."""
    found = []
    for track in run["tracks"]:
        for operation in track["operations"]:
            if track["unit"] == "TMA" and "target" in operation:
                name, _, offset = operation["target"].partition("+")
                barrier = run["barriers"][operation["barrier"]]
                found.append((operation["begin"], track["block"], barrier["block"], name, int(offset or "0", 16), operation["bytes"],
                              barrier["name"]))
    return [copy[1:] for copy in sorted(found)]


def draw_multicast(run):
    """The copies of the first row: each block asks for a part, which goes to all blocks, and what then is in their memory."""
    everything = copies(run)
    first = [copy for copy in everything if copy[5] == everything[0][5]]
    parts_of_row = sorted({(asks, offset, size) for asks, _, _, offset, size, _ in first})[:run["blocks"]]
    first = [copy for copy in first if (copy[0], copy[3], copy[4]) in parts_of_row][:run["blocks"] ** 2]
    announced = next(step.amount for step in steps(run) if step.kind == "expect" and run["barriers"][step.barrier]["name"] == first[0][5])
    colours, line, top, gap = ["even", "odd", "read"], 34, 70, 150
    parts, places = [text(10, 24, "a row in global memory"), text(300, 24, "shared memory of each block")], {}
    for number, (asks, offset, size) in enumerate(parts_of_row):
        y = top + number * gap
        look = colours[number % len(colours)]
        places[asks, offset] = y + line / 2
        parts += [rect(10, y, 150, line, look), text(85, y + 21, f"bytes {offset} to {offset + size - 1}", "small"),
                  text(10, y + line + 18, f"block {asks} asks for it", "quiet")]
    for block in range(run["blocks"]):
        y = top + block * gap - 20
        parts.append(text(300, y, f"block {block}"))
        for asks, gets, name, offset, size, barrier in first:
            if gets != block:
                continue
            number = [part[:2] for part in parts_of_row].index((asks, offset))
            box = y + 10 + number * line
            parts += [rect(300, box, 170, line, colours[number % len(colours)]), text(385, box + 21, f"{name} + {offset}", "small"),
                      f'<path class="arrow" d="M160 {places[asks, offset]:g} L296 {box + line / 2:g}"/>']
        brought = sum(copy[4] for copy in first if copy[1] == block)
        parts += [rect(490, y + 26, 190, 36, "", 10), text(585, y + 41, first[0][5], "small"),
                  text(585, y + 56, f"{brought} of {announced} bytes", "small")]
    height = top + (run["blocks"] - 1) * gap + 80
    title = f"Multicast: each of {run['blocks']} blocks asks for a part of a row, and each part goes to all of them and counts at the barrier of each"
    return svg(700, height, title, parts)


# ---- A pair of blocks ---------------------------------------------------------------------------------------------------

def draw_pair(run):
    """Who asks the engines of two blocks for what in the first step of K. The exercise asks for bytes and commits: not here."""
    warps, barriers = run["warps"], run["barriers"]
    everything = copies(run)
    first = [copy for copy in everything if copy[5] == everything[0][5]]
    full = next(step for step in steps(run) if step.kind == "expect")
    owner, name = barriers[full.barrier]["block"], barriers[full.barrier]["name"]
    width, left, gap = 330, 10, 60
    ys = {"load": 40, "full": 128, "multiply": 212, "core": 312}
    parts = []

    def x(block):
        return left + block * (width + gap)

    def box(block, row, look, *lines):
        parts.append(rect(x(block), ys[row], width, 22 + 18 * (len(lines) - 1) + 8, look, 6))
        parts.extend(text(x(block) + width / 2, ys[row] + 19 + 18 * number, line, "small") for number, line in enumerate(lines))

    def arrow(from_block, from_row, height, to_block, to_row, across=0):
        parts.append(f'<path class="arrow" d="M{x(from_block) + width / 2 + across:g} {ys[from_row] + height} '
                     f'L{x(to_block) + width / 2 + across:g} {ys[to_row] - 3}"/>')

    for block in range(run["blocks"]):
        parts.append(text(x(block), 26, f"block {block}"))
        asked = sum(copy[0] == block for copy in first)
        box(block, "load", "copying", next(warp["name"] for warp in warps if warp["block"] == block), f"asks for {asked} copies")
        arrow(block, "load", 48, owner, "full", -40 if owner == block else 40)
        units = [track for track in run["tracks"] if track["block"] == block and track["unit"] == "tensor core"]
        done = [operation for track in units for operation in track["operations"]]
        asking = {warps[operation["warp"]]["block"] for operation in done}
        issuer = [warp for warp in warps if warp["block"] == block and warp["name"].startswith("multiply")][0]
        issues = len({operation["number"] for track in run["tracks"] if track["unit"] == "tensor core"
                      for operation in track["operations"] if warps[operation["warp"]] is issuer})
        box(block, "multiply", "read" if issues else "", issuer["name"], f"asks for {issues} MMAs" if issues else "asks for nothing")
        box(block, "core", "full", "tensor core", f"does its half of {len(done)} MMAs, for block {min(asking)}")
        for other in asking:
            arrow(other, "multiply", 48, block, "core")
    box(owner, "full", "", name, f"{len(first)} copies signal it")
    arrow(owner, "full", 48, owner, "multiply")
    return svg(2 * left + 2 * width + gap, ys["core"] + 64, "A pair of blocks: both load, one warp asks for the MMAs, and two tensor "
               "cores do them", parts)


# ---- The budget of shared memory -----------------------------------------------------------------------------------------

MOST_SHARED = 227 * 1024   # that a block may have beside the reserved part; CUDA C++ Programming Guide, "Compute Capabilities"
# What a line of source copies: the first that matches. The viewer of timelines has the list.
COPIED = [(name, re.compile(pattern)) for name, pattern in json.loads(
    re.search(r"^const OPERANDS = (.*);$", (ROOT / "common/emulator/trace/viewer/model.js").read_text(encoding="utf-8"), re.MULTILINE)[1]).items()]
LOOKS = {"A": "even", "B": "odd", "scale factors": "read", "C": "third", "rows": "even"}


def shared_parts(run):
    """Returns (offset, bytes, what) of what copies have filled of the block's shared memory, and of the variables beside it."""
    shared, parts = run["shared"], {}
    variables = {variable["name"]: variable for variable in shared["variables"]}
    for track in run["tracks"]:
        for operation in track["operations"]:
            name, _, offset = operation.get("target", "").partition("+")
            if name not in variables or track["unit"] != "TMA" or "try_cancel" in operation["what"]:
                continue
            code = run["places"][operation["place"]]["code"]
            what = next((operand for operand, pattern in COPIED if pattern.search(code)), "rows")
            parts[variables[name]["offset"] + int(offset or "0", 16)] = (operation["bytes"], what)
    return [(offset, *part) for offset, part in sorted(parts.items())]


def draw_budget(*runs):
    """A bar for each kernel: what is reserved, what copies fill, and the rest of what the launch asked for."""
    left, width, line, top = 190, 600, 40, 62
    scale = width / (MOST_SHARED + 1024)
    parts = [text(10, 22, "Shared memory of a block, in KiB: of the 228 of an SM each block loses 1 to the system")]
    for kib in range(0, 200, 32):
        parts += [text(left + kib * 1024 * scale, 48, str(kib), "part")]
    parts.append(text(left + width - 5, 48, "228", "part"))
    used = set()
    for number, (figure_run, marker) in enumerate(runs):
        shared, y = figure_run["shared"], top + number * line
        asked = shared["static"] + shared["dynamic"]
        parts += [text(10, y + 12, "chapter " + marker["name"][:2]), text(10, y + 27, re.split(r"[<(]", figure_run["kernel"])[0], "quiet"),
                  rect(left, y, width, 22), rect(left, y, (asked + shared["reserved"]) * scale, 22, "rest")]
        for offset, size, what in shared_parts(figure_run):
            used.add(what)
            parts.append(rect(left + offset * scale, y, size * scale, 22, LOOKS[what]))
        parts.append(text(left + width + 10, y + 15, f"{(asked + shared['reserved']) / 1024:.1f}", "quiet"))
    y = top + len(runs) * line + 10
    x = 10
    for what in [*(name for name in LOOKS if name in used and name != "rows"), None]:
        words = f"{what}, by copies" if what else "asked for, and not filled by a copy: barriers, slices that threads write"
        parts += [rect(x, y - 11, 16, 14, LOOKS[what] if what else "rest"), text(x + 24, y, words, "quiet")]
        x += 50 + int(8.2 * len(words))
        if x > 560:
            x, y = 10, y + 24
    return svg(left + width + 60, y + 16, "The shared memory of a block of each kernel: tiles that copies fill, and the rest that the launch asked for", parts)
