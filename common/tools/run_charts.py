"""The drawings of draw_runs.py along time: which role or stage was busy with what, and when. A run is as in run_figures.py."""

from run_figures import rect, steps, svg, text

LEFT, WIDTH, LANE, TOP = 170, 690, 34, 66
RUN_STYLE = (   # three lines, for there are many of these files
    ":root { color-scheme: light dark; } text { fill: #222; } .quiet, .part { fill: #666; font-size: 12px; } "
    ".part { text-anchor: middle; } .end { text-anchor: end; }\n"
    "    .full { fill: #9cc3ee; } .rest { fill: #e8e8e8; } .stuck { fill: #f2a0a0; } .copying { fill: #f3bd7d; } "
    ".read { fill: #a8d394; } .tick { stroke: #ddd; }\n"
    "    @media (prefers-color-scheme: dark) { text { fill: #ddd; } .quiet, .part { fill: #aaa; } .tick { stroke: #333; } "
    ".full { fill: #2f5f96; } .rest { fill: #333; } .stuck { fill: #8d2f2f; } .copying { fill: #9a6418; } .read { fill: #41702f; } }")


class Chart:
    """Lanes from the top down, over the cycles from 0 to `end`."""

    def __init__(self, end):
        self.end, self.parts, self.lanes = end, [], []

    def x(self, cycle):
        return LEFT + WIDTH * min(cycle, self.end) / self.end

    def lane(self, name):
        """Begins the next lane."""
        self.lanes.append(name)
        self.parts.append(text(LEFT - 12, self.y() + 19, name, "end"))

    def y(self):
        return TOP + (len(self.lanes) - 1) * LANE

    def bar(self, begin, end, look, words=""):
        """A bar in the current lane; the words are left out where they have no room."""
        if begin >= self.end or end <= begin:
            return
        left, right = self.x(begin), self.x(end)
        self.parts.append(rect(left, self.y(), right - left, LANE - 8, look))
        if words and right - left > 7.8 * len(words) + 4:
            self.parts.append(text((left + right) / 2, self.y() + 18, words, "small"))

    def bars(self, intervals, look):
        """Bars without words, as one shape."""
        boxes = [f"M{self.x(begin):.0f} {self.y()}V{self.y() + LANE - 8}H{max(self.x(end), self.x(begin) + 1):.0f}V{self.y()}z" for begin, end in intervals]
        if boxes:
            self.parts.append(f'<path class="{look}" d="{"".join(boxes)}"/>')

    def down(self, cycle, lanes, look="arrow"):
        """An arrow from the current lane to one below."""
        x = self.x(cycle)
        self.parts.append(f'<path class="{look}" d="M{x:.1f} {self.y() + LANE - 8} V{self.y() + lanes * LANE - 2}"/>')

    def finish(self, title, head, legend, notes=(), **style):
        """Returns the picture. `legend` has (look, words) of each colour."""
        tick = next(size for scale in (10, 100, 1000, 10000) for size in (scale, 2 * scale, 5 * scale) if self.end / size <= 8)
        bottom, parts = TOP + len(self.lanes) * LANE, [text(20, 24, head)]
        for cycle in range(0, int(self.end) + 1, tick):
            x = self.x(cycle)
            parts.append(f'<path class="tick" d="M{x:.1f} {TOP - 8} V{bottom}"/>')
            if not style or x + 4 * len(str(cycle)) < LEFT + WIDTH:
                parts.append(text(x, TOP - 14, str(cycle), "part"))
        parts += [text(LEFT - 12, TOP - 14, "cycle", "quiet end"), *self.parts]
        x, y = 20, bottom + (24 if legend else 4)
        for look, words in legend:
            width = 34 + int(7.8 * len(words))
            if x + width > LEFT + WIDTH:
                x, y = 20, y + 22
            parts += [rect(x, y - 11, 16, 14, look), text(x + 22, y, words, "quiet")]
            x += width
        for note in notes:
            y += 20
            parts.append(text(20, y, note, "quiet"))
        return svg(LEFT + WIDTH + 20, y + 16, title, parts, **style)


def units(run, name):
    """Returns the operations of a unit of all blocks, in the order in which they began."""
    found = [operation for track in run["tracks"] if track["unit"] == name for operation in track["operations"]]
    return sorted(found, key=lambda operation: (operation["begin"], operation["number"]))


def ranges(first, later):
    """Returns (begin, end) of intervals of which each ends where the next begins; `later` has the other beginnings, and the last end."""
    return list(zip([first, *later], later))


# ---- Any run: its warps and units ----------------------------------------------------------------------------------------

def joined(intervals, gap):
    """Returns the intervals in order; those that are less than `gap` apart are one."""
    found = []
    for begin, end in sorted(intervals):
        if found and begin - found[-1][1] < gap:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([begin, end])
    return found


def roles(run):
    """Returns (name, warps) of the first block; neighbours that have one role, or do the same, are together."""
    found = []
    for warp in (warp for warp in run["warps"] if warp["block"] == run["warps"][0]["block"]):
        role, _, number = warp["name"].partition(" (")
        doing = role if number else role.partition(", ")[2]
        if found and doing and found[-1][0] == doing:
            found[-1][2].append(warp)
        else:
            found.append((doing, role if number else "warp", [warp]))
    numbers = lambda warps: f"{warps[0]['warp']}-{warps[-1]['warp']}" if len(warps) > 1 else f"{warps[0]['warp']}"   # noqa: E731
    return [(word if len(word) > 16 else f"{word} {numbers(warps)}", warps) for _, word, warps in found]


def draw_run(run):
    """When each role of the first block runs and waits, and when its units work. The first warp stands for all of its role."""
    end = run["cycles"]
    chart, pixel = Chart(end), end / WIDTH
    for name, warps in roles(run):
        first = warps[0]
        chart.lane(name)
        waits = joined(((wait["begin"], wait["end"]) for wait in first["waits"] if not wait.get("open")), pixel)
        opened = [wait["begin"] for wait in first["waits"] if wait.get("open")]
        stops = min(opened, default=first["end"])
        chart.bars([(first["begin"], stops)], "full")
        chart.bars(waits, "rest")
        chart.bars([(stops, end)] if opened else [], "stuck")
    block = run["warps"][0]["block"]
    for name in ("TMA", "tensor core"):
        work = [(operation["begin"], operation["end"]) for track in run["tracks"] if (track["unit"], track["block"]) == (name, block)
                for operation in track["operations"]]
        if work:
            chart.lane(name)
            chart.bars(joined(work, pixel), "copying" if name == "TMA" else "read")
    drawn = "".join(chart.parts)
    legend = [(look, words) for look, words in (("full", "runs"), ("rest", "waits"), ("stuck", "waits to the end"), ("copying", "copies"),
                                                ("read", "products")) if f'"{look}"' in drawn]
    kernel = run["kernel"].partition("<")[0]
    return chart.finish(f"What the warps and units of a block of {kernel} did",
                        f"{kernel}, its first block: roles, and the numbers of their warps", legend, style=RUN_STYLE)


# ---- Two warpgroups in turn ----------------------------------------------------------------------------------------------

def draw_ping_pong(run):
    """The tiles of two warpgroups: when each waits for its turn, has products under way, and stores."""
    group_of = lambda operation: run["warps"][operation["warp"]]["warp"] // 4   # noqa: E731
    tiles = []   # [warpgroup, begin, end] of its products: a tile ends where the other warpgroup begins
    for operation in units(run, "tensor core"):
        if not tiles or tiles[-1][0] != group_of(operation):
            tiles.append([group_of(operation), operation["begin"], operation["end"]])
        tiles[-1][2] = max(tiles[-1][2], operation["end"])
    groups = sorted({group for group, _, _ in tiles})
    chart = Chart(run["cycles"])
    for place, group in enumerate(groups):
        chart.lane(f"warpgroup {place}")
        warps = [warp for warp in run["warps"] if warp["warp"] // 4 == group]
        waits = sorted((wait["begin"], wait["end"]) for warp in warps for wait in warp["waits"] if wait["what"].startswith("multiplied"))
        for begin, end in waits:
            chart.bar(begin, end, "rest")
        for number, (of, begin, end) in enumerate(tiles):
            if of == group:
                later = [start for start in [*(wait for wait, _ in waits), *(start for other, start, _ in tiles if other == of)] if start >= end]
                stored = min(later, default=max(warp["end"] for warp in warps))
                chart.bar(begin, end, "full", f"tile {number}")
                chart.bar(end, stored, "read", f"tile {number}")
    chart.lane("tensor core")
    for number, (group, begin, end) in enumerate(tiles):
        chart.bar(begin, end, ["even", "odd"][groups.index(group)], f"tile {number}")
    return chart.finish("Two warpgroups in turn: while one stores its tile, the products of the other's are under way, and the tensor core is hardly "
                        "ever without work", "Ping-pong: tiles of one block in a run", [("full", "products under way"), ("read", "epilogue"),
                        ("rest", "waits for its turn"), ("even", "for warpgroup 0"), ("odd", "for warpgroup 1")])


# ---- Rings with several readers ------------------------------------------------------------------------------------------

def history(run, barrier, kind):
    """Returns the steps of a kind at a barrier, in order."""
    return [step for step in steps(run) if step.barrier == barrier and step.kind == kind]


def find_barriers(run, ring):
    """Returns where the full and the empty barrier of each stage of a ring are in the run; `ring` begins their names."""
    of_name = {barrier["name"]: place for place, barrier in enumerate(run["barriers"])}
    number = sum(name.startswith(f"{ring}full[") for name in of_name)
    return [(of_name[f"{ring}full[{stage}]"], of_name[f"{ring}empty[{stage}]"]) for stage in range(number)]


def draw_two_rings(run):
    """The stages of tiles and of accumulators where each k-tile takes one of both."""
    role = lambda step: run["warps"][step.warp]["name"].split()[0] if step.warp >= 0 else ""   # noqa: E731
    chart = Chart(run["cycles"])
    input_barriers, output_barriers = find_barriers(run, ""), find_barriers(run, "output_barriers.")
    tiles, sums = len(input_barriers), len(output_barriers)
    for stage, (full, empty) in enumerate(input_barriers):
        chart.lane(f"tiles, stage {stage}")
        commits = [step.cycle for step in history(run, empty, "arrive") if step.warp < 0]
        for turn, (begin, filled, read, freed) in enumerate(zip(history(run, full, "expect"), history(run, full, "end"), commits,
                                                                history(run, empty, "end"))):
            begun = next(step.cycle for step in history(run, full, "pass") if step.cycle >= filled.cycle and role(step) == "multiply")
            chart.bar(begin.cycle, filled.cycle, "copying", f"k-tile {stage + turn * tiles}")
            chart.bar(begun, read, "full", str(stage + turn * tiles))
            chart.bar(read, freed.cycle, "read", str(stage + turn * tiles))
    for stage, (full, empty) in enumerate(output_barriers):
        chart.lane(f"sums, stage {stage}")
        taken = [step for step in history(run, empty, "pass") if role(step) == "multiply"]
        for turn, (begin, filled, freed) in enumerate(zip(taken, history(run, full, "end"), history(run, empty, "end"))):
            chart.bar(begin.cycle, filled.cycle, "full", str(stage + turn * sums))
            chart.bar(filled.cycle, freed.cycle, "read", str(stage + turn * sums))
    return chart.finish("Each k-tile takes a stage of both rings: the tensor core fills an accumulator from a stage of tiles, and the storing threads then "
                        "free both", f"Two rings: {tiles} stages of tiles, {sums} of sums; a number is a k-tile", [("copying", "copies under way"),
                        ("full", "the MMA warp has both stages"), ("read", "storing threads have both stages")])


# ---- The throttle of launch control --------------------------------------------------------------------------------------

def draw_throttle(run):
    """When each role begins its turns, and when the next unit is requested and answered."""
    role = lambda step: run["warps"][step.warp]["name"].split()[0] if step.warp >= 0 else ""   # noqa: E731
    ordered = [step for step in steps(run) if run["barriers"][step.barrier]["name"].startswith("scheduling")]
    full = {step.barrier for step in ordered if step.kind == "expect"}
    permits = [step.cycle for step in ordered if step.kind == "end" and role(step) == "load" and step.barrier not in full]
    requests = [step.cycle for step in ordered if step.kind == "expect"]
    answers = [step.cycle for step in ordered if step.kind == "end" and step.barrier in full]
    turns = {}   # role: when each turn after the first begins
    for name in ("load", "multiply", "store"):
        first = next(warp["warp"] for warp in run["warps"] if warp["name"].split()[0] == name)
        turns[name] = [step.cycle for step in ordered if step.kind == "pass" and step.barrier in full and role(step) == name
                       and run["warps"][step.warp]["warp"] == first]
    shown = 4
    chart = Chart(turns["store"][shown - 2])
    looks = ["even", "odd", "read", "third"]
    def lane(name, bars, words):
        chart.lane(name)
        for number, (begin, end) in enumerate(bars):
            chart.bar(begin, end, looks[number % len(looks)], f"{words}{number}")
    lane("load", ranges(0, turns["load"]), "turn ")
    for permit in permits:
        if permit < chart.end:
            chart.down(permit, 1)
    chart.lane("launch control")
    for number, (begin, end) in enumerate(zip(requests, answers)):
        chart.bar(begin, end, looks[(number + 1) % len(looks)], f"unit {number + 1}")
    lane("multiply", ranges(0, turns["multiply"]), "turn ")
    lane("store", ranges(0, turns["store"]), "turn ")
    return chart.finish("When the load role begins a turn, it permits the request for the next; the other roles read the same answers later",
                        "The turns of one block, in the colour of the unit that they compute", [],
                        ["An arrow is a permission: the load role begins a turn, and the next unit may be requested.",
                         "A request also waits for a free stage in the ring of responses: until the last role has read an old one."])


# ---- Slices and bulk groups ----------------------------------------------------------------------------------------------

def draw_slices(run):
    """The slices of the first warp in its two buffers: when it writes them, and when TMA has them."""
    buffers, shown = 2, 4
    stores = [copy for copy in units(run, "TMA") if copy["warp"] == 0][:shown]
    waits = [(wait["begin"], wait["end"]) for wait in run["warps"][0]["waits"] if wait["what"] == "its own copies"]
    first = next(step.cycle for step in steps(run) if step.kind == "pass" and step.warp == 0 and step.phase == 1)   # the sums are there
    chart = Chart(stores[-1]["end"] - first)
    def bar(begin, end, look, words=""):
        chart.bar(begin - first, end - first, look, words)
    written = []   # when each slice was begun: after the store of the one before, and after the wait for its buffer
    chart.lane("the warp")
    for number, store in enumerate(stores):
        before = stores[number - 1]["begin"] if number else first
        written.append(max([before, *(end for _, end in waits if end <= store["begin"])]))
        bar(written[-1], store["begin"], "full", str(number))
    for begin, end in waits:
        if end <= stores[-1]["begin"]:
            bar(begin, end, "rest", "waits")
    for buffer in range(buffers):
        chart.lane(f"buffer {buffer}")
        for number in range(buffer, shown, buffers):
            store, again = stores[number], written[number + buffers] if number + buffers < shown else stores[number]["end"]
            bar(written[number], store["begin"], "full", str(number))
            bar(store["begin"], min(store["end"], again), "copying", f"group {number}")
    return chart.finish("A warp writes slices into two buffers in turn: before it writes to a buffer again, it waits until TMA has read the "
                        "slice that is there", "Two buffers of one warp: a number is a slice, and its bulk group",
                        [("full", "the warp writes it"), ("copying", "its group is under way"), ("rest", "wait_group.read")])
