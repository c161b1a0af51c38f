#!/usr/bin/env python3
"""Draws the complete kernel of the course, once for the first page and once for each lesson with "you are here".

draw_kernel.py            writes docs/figures/kernel.svg and docs/figures/kernel_NN.svg
draw_kernel.py --check    fails when one of these files is not as this program draws it

Every box of the drawing has a name, and HERE says which boxes a lesson is about. check_pages.py checks that words fit their boxes.
"""

import itertools
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIGURES = ROOT / "docs/figures"
WIDTH, HEIGHT = 830, 424

# A box: name, kind, x, y, width, height, lines of text.
ROLES_Y, RINGS_Y = 70, 190
BOXES = [
    ("schedule", "role", 22, ROLES_Y, 116, 54, ["schedule", "warp 2"]),
    ("load", "role", 186, ROLES_Y, 116, 54, ["load", "warp 0"]),
    ("multiply", "role", 356, ROLES_Y, 116, 54, ["multiply", "warp 1"]),
    ("store", "role", 526, ROLES_Y, 116, 54, ["store", "warps 4 to 7"]),
    ("load_c", "role", 690, ROLES_Y, 116, 54, ["load C", "warp 3"]),
    ("work", "memory", 103, RINGS_Y, 116, 54, ["tile numbers", "shared memory"]),
    ("tiles", "memory", 270, RINGS_Y, 116, 54, ["tiles of A, B", "shared memory"]),
    ("sums", "memory", 440, RINGS_Y, 116, 54, ["sums", "tensor memory"]),
    ("slices", "memory", 612, RINGS_Y, 116, 54, ["slices of C, D", "shared memory"]),
    ("work_full", "barrier", 103, 248, 56, 20, ["full"]), ("work_empty", "barrier", 163, 248, 56, 20, ["empty"]),
    ("tiles_full", "barrier", 270, 248, 56, 20, ["full"]), ("tiles_empty", "barrier", 330, 248, 56, 20, ["empty"]),
    ("sums_full", "barrier", 440, 248, 56, 20, ["full"]), ("sums_empty", "barrier", 500, 248, 56, 20, ["empty"]),
    ("slices_full", "barrier", 612, 248, 56, 20, ["full"]), ("slices_empty", "barrier", 672, 248, 56, 20, ["empty"]),
    ("throttle", "barrier", 22, 150, 76, 20, ["throttle"]),
    ("copy_in", "unit", 268, 296, 120, 24, ["TMA"]),
    ("tensor_core", "unit", 438, 296, 120, 24, ["tensor core"]),
    ("copy_out", "unit", 610, 296, 120, 24, ["TMA"]),
    ("launch_control", "unit", 22, 296, 197, 24, ["cluster launch control"]),
    ("neighbour", "place", 10, 388, 810, 26, ["other blocks of the cluster: multicast, and pairs that multiply as one"]),
    ("global", "place", 10, 350, 810, 26, ["global memory: A and B (and C) to read, D to write"]),
]
# An arrow: its path. Data goes along it; the barriers below a ring stop one side or the other.
ARROWS = [
    "M80 124 L140 188", "M182 188 L226 126",                # schedule, tile numbers, load (and every other role)
    "M262 124 L306 188", "M350 188 L396 126",               # load, tiles, multiply
    "M432 124 L476 188", "M520 188 L566 126",               # multiply, sums, store
    "M602 124 L648 188", "M730 124 L694 188",               # store, slices; load C, slices
    "M386 217 H438", "M498 296 V270",                       # the tensor core reads tiles and writes sums
    "M328 350 V322", "M328 296 V270",                       # A and B by TMA
    "M650 350 V322", "M650 296 V270", "M690 270 V294", "M690 320 V348",  # C and D, likewise
    "M160 296 V270",                                        # the hardware's answer: which tile is next
]
ROLES = {"load", "multiply", "store"}
TILES = {"tiles", "tiles_full", "tiles_empty"}
SUMS = {"sums", "sums_full", "sums_empty"}

# Lesson: what it is about in a few words, and which boxes those are.
HERE = {
    "00": ("warps, each with a role", {"schedule", "load", "multiply", "store", "load_c"}),
    "01": ("one barrier, its phases, and the bytes that end them", {"tiles_full"}),
    "02": ("a ring of stages, full and empty", TILES | {"copy_in"}),
    "03": ("the ring as a type, and a throttle", TILES | {"load", "throttle"}),
    "04": ("a stage that a role must release", TILES | {"load", "multiply"}),
    "05": ("a stage that ends with a scope; a copy for two blocks", TILES | {"neighbour"}),
    "06": ("a role in the type; the tensor core arrives", {"load", "multiply", "tiles_full", "tiles_empty", "tensor_core"}),
    "07": ("from global memory to tiles", {"global", "copy_in", "tiles"}),
    "08": ("from tiles to sums, once", {"tiles", "tensor_core", "sums", "sums_full"}),
    "09": ("the ring of tiles, complete", TILES | {"copy_in", "load", "multiply", "tensor_core"}),
    "10": ("three roles and two rings", TILES | SUMS | ROLES | {"copy_in", "tensor_core"}),
    "11": ("blocks that multiply as a pair", {"neighbour", "tensor_core", "copy_in"} | TILES | SUMS),
    "12": ("which tile is next", {"schedule", "work", "work_full", "work_empty", "throttle", "launch_control"}),
    "13": ("the epilogue; then all of it", {"store", "load_c", "slices", "slices_full", "slices_empty", "copy_out", "global"}),
    "14": ("scale factors beside tiles and sums", {"tiles", "tensor_core", "sums", "multiply"}),
    "15": ("what differs on a Hopper", {"multiply", "store", "tensor_core"} | SUMS),
}

STYLE = """
    :root { color-scheme: light dark; }
    text { fill: #222; text-anchor: middle; } .quiet { fill: #555; font-size: 11px; text-anchor: middle; }
    .left { fill: #222; text-anchor: start; } .small { font-size: 12px; text-anchor: middle; }
    rect { fill: none; stroke: #777; stroke-width: 1.2; } .frame { stroke-dasharray: 5 4; }
    .memory { fill: #d8e8f8; stroke: #36c; } .unit { fill: #e4efdc; stroke: #4a7c2c; } .role { fill: #f2f2f2; stroke: #555; }
    .other { fill: none; stroke: #999; } .here { fill: #fbd9a5; stroke: #b35900; stroke-width: 3; }
    path { stroke: #777; fill: none; stroke-width: 1.4; marker-end: url(#head); } #head path { fill: #777; stroke: none; marker-end: none; }
    @media (prefers-color-scheme: dark) {
      text, .left { fill: #ddd; } .quiet { fill: #bbb; } rect { stroke: #999; }
      .memory { fill: #1d3147; stroke: #6af; } .unit { fill: #22331a; stroke: #8c6; } .role { fill: #333; stroke: #aaa; }
      .other { fill: none; stroke: #777; } .here { fill: #5a3a08; stroke: #ffb454; }
      path { stroke: #999; } #head path { fill: #999; }
    }
  """


def box(name, kind, x, y, width, height, lines, here):
    """Returns a box with its words. `here` is None on the first page, else the names of a lesson's boxes."""
    look = kind if here is None else "here" if name in here else "other"
    radius = {"role": 8, "barrier": 10, "unit": 3}.get(kind, 0)
    parts = [f'<rect class="{look}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>']
    middle = x + width / 2
    if len(lines) == 2:
        places = [(lines[0], y + height / 2 - 4, "small"), (lines[1], y + height / 2 + 15, "quiet")]
    else:
        places = [(lines[0], y + height / 2 + 4, "small")]
    parts += [f'<text x="{middle:g}" y="{line_y:g}" class="{style}">{escape(text)}</text>' for text, line_y, style in places]
    return "".join(parts)


def drawing(lesson=None):
    """Returns the drawing as SVG: of the first page, or of a lesson."""
    words, here = HERE[lesson] if lesson else ("", None)
    label = f"You are here, in chapter {lesson}: {words}" if lesson else "The kernel that this course builds"
    title = (f"{label}. The drawing shows five roles of warps, four rings of stages between them, each with full and empty barriers, "
             "and the units that do the work: TMA, tensor core and cluster launch control")
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        'font-family="sans-serif" font-size="13">',
        f"  <title>{escape(title)}</title>",
        f"  <style>{STYLE}</style>",
        '  <defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>',
        f'  <text x="10" y="20" class="left">{escape(label)}</text>',
        f'  <rect class="frame" x="10" y="32" width="810" height="300" rx="10"/>',
        '  <text x="22" y="54" class="left">a block, on one SM: roles above, the rings between them below</text>',
        "  " + "".join(f'<path d="{path}"/>' for path in ARROWS),
        *("  " + "".join(box(*item, here) for item in row) for _, row in itertools.groupby(BOXES, key=lambda item: item[3])),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def main():
    drawings = {"kernel.svg": drawing(), **{f"kernel_{lesson}.svg": drawing(lesson) for lesson in HERE}}
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__)
        return 2
    stale = []
    for name, text in drawings.items():
        path = FIGURES / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
            if not sys.argv[1:]:
                path.write_text(text, encoding="utf-8")
    if sys.argv[1:] and stale:
        print(f"docs/figures/: not as common/tools/draw_kernel.py draws them: {', '.join(stale)}. Run it without --check")
        return 1
    print(f"{len(drawings)} drawings, {len(stale)} {'differ' if sys.argv[1:] else 'written'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
