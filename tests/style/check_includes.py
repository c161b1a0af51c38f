#!/usr/bin/env python3
"""Fails when a folder of the emulator includes another that the picture in its README does not show.

usage: check_includes.py SOURCE_ROOT          prints how many files of each folder include which other, and checks it
       check_includes.py SOURCE_ROOT --draw   writes the picture, common/emulator/folders.svg, from the README's list

The list is the block of common/emulator/README.md that begins with ```folders: one folder a line, an arrow, and the
folders that it may include. A folder that includes another in a circle fails as well, and so does one that has grown
too large or that the list does not have.
"""

import collections
import html
import pathlib
import re
import sys

EMULATOR = "common/emulator"
INCLUDE = re.compile(r'^#include "emulator/(.+)/[^/"]+"', re.MULTILINE)
MOST_SOURCES = 25  # .cpp files that a reader can still overlook in one listing
NOT_CODE = {"pch"}


def read_list(readme: str) -> dict[str, list[str]]:
    block = re.search(r"^```folders\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
    if not block:
        return {}
    rows = (re.split(r"\s*->\s*", line.strip(), maxsplit=1) for line in block[1].splitlines() if line.strip())
    return {row[0]: row[1].split() if len(row) > 1 else [] for row in rows}


def read_includes(root: pathlib.Path) -> tuple[dict[tuple[str, str], list[str]], collections.Counter]:
    """The files behind each edge between two folders, and how many .cpp files each folder has."""
    edges, sources = collections.defaultdict(list), collections.Counter()
    for file in sorted(root.rglob("*")):
        folder = file.parent.relative_to(root).as_posix()
        if file.suffix not in {".cpp", ".hpp", ".inc"} or folder in NOT_CODE:
            continue
        sources[folder] += file.suffix == ".cpp"
        for target in sorted(set(INCLUDE.findall(file.read_text(encoding="utf-8"))) - {folder}):
            edges[folder, target].append(file.name)
    return edges, sources


def circle_in(graph: dict[str, list[str]]) -> list[str]:
    """The folders of a circle, the first one again at the end; empty where there is none."""
    done, path = set(), []

    def visit(folder: str) -> list[str]:
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in done:
            return []
        path.append(folder)
        found = next(filter(None, map(visit, graph.get(folder, []))), [])
        path.pop()
        done.add(folder)
        return found

    return next(filter(None, map(visit, graph)), [])


def matrix(edges: dict[tuple[str, str], list[str]], folders: list[str]) -> str:
    width = max(map(len, folders))
    rows = [" " * (width + 4) + " ".join(f"{i:>3}" for i in range(1, len(folders) + 1))]
    for number, folder in enumerate(folders, 1):
        counts = (str(len(edges.get((folder, other), []))) for other in folders)
        rows.append(f"{number:>3} {folder:<{width}}" + " ".join(f"{'' if count == '0' else count:>3}" for count in counts))
    return "\n".join(rows)


def check(root: pathlib.Path) -> list[str]:
    allowed = read_list((root / "README.md").read_text(encoding="utf-8"))
    edges, sources = read_includes(root)
    if not allowed or not edges:
        return [f"{root}/README.md has no list of folders (```folders), or nothing is included"]
    print("files of a row that include a column:")
    print(matrix(edges, list(allowed)))
    problems = [f"{folder}/ is not in the list of {EMULATOR}/README.md: add it, with the folders that it may include"
                for folder in sources if folder not in allowed]
    problems += [f"{folder}/ is in the list of {EMULATOR}/README.md, but holds no source" for folder in allowed
                 if folder not in sources]
    for (folder, target), files in edges.items():
        if folder in allowed and target not in allowed[folder]:
            problems.append(f"{folder}/ may not include {target}/, but {', '.join(files)} does: move what is needed to a "
                            f"folder that both may include, or, if the picture is wrong, correct {EMULATOR}/README.md")
    if circle := circle_in(allowed):
        problems.append("the list has a circle: " + " -> ".join(circle))
    problems += [f"{folder}/ has {count} .cpp files; divide it, {MOST_SOURCES} is what one listing should show"
                 for folder, count in sources.items() if count > MOST_SOURCES]
    picture = root / "folders.svg"
    if not picture.exists() or picture.read_text(encoding="utf-8") != draw(allowed):
        problems.append(f"{EMULATOR}/folders.svg is not what the list says; draw it again: "
                        "python3 tests/style/check_includes.py . --draw")
    return problems


# ---- The picture: top-level folders only, and of their edges those that no longer path implies ----------------------

STYLE = """  <style>
    :root { color-scheme: light dark; }
    .name { fill: #222; text-anchor: middle; } rect { fill: #d8e8f8; stroke: #36c; rx: 5px; }
    .edge { fill: none; stroke: #555; } .tip { fill: #555; }
    @media (prefers-color-scheme: dark) {
      .name { fill: #ddd; } rect { fill: #1d3147; stroke: #6af; } .edge { stroke: #999; } .tip { fill: #999; }
    }
  </style>"""

# Columns of the boxes, chosen so that no arrow runs behind another box. A row follows from the list: below every user.
COLUMNS = {"cublas": 0, "numerics": 0, "scheduling": 2, "state": 2, "ptx": 2, "runtime": 3, "checks": 3, "chip": 4, "trace": 4,
           "timing": 5, "fatbin": 2}


def top_level(allowed: dict[str, list[str]]) -> dict[str, set[str]]:
    graph = collections.defaultdict(set)
    for folder, targets in allowed.items():
        top = folder.split("/")[0]
        graph[top] |= {target.split("/")[0] for target in targets} - {top}
    return graph


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen, pending = set(), [start]
    while pending:
        for target in graph[pending.pop()] - seen:
            seen.add(target)
            pending.append(target)
    return seen


def draw(allowed: dict[str, list[str]]) -> str:
    graph = top_level(allowed)
    parts = collections.defaultdict(list)
    for folder in allowed:
        if "/" in folder:
            parts[folder.split("/")[0]].append(folder.split("/", 1)[1])
    users = {folder: [user for user in graph if folder in graph[user]] for folder in graph}

    def row_of(folder: str) -> int:
        return max((row_of(user) + 1 for user in users[folder]), default=0)

    box_width, box_height, gap_x, gap_y, margin = 150, 34, 26, 44, 16
    rows = {folder: row_of(folder) for folder in graph}
    columns = {folder: COLUMNS.get(folder, 1) for folder in graph}
    width = (max(columns.values()) + 1) * (box_width + gap_x) - gap_x + 2 * margin
    place = {folder: (margin + columns[folder] * (box_width + gap_x), margin + rows[folder] * (box_height + gap_y))
             for folder in graph}
    if over := [folder for folder in place if list(place.values()).count(place[folder]) > 1]:
        raise ValueError(f"{', '.join(over)} would lie over each other: give one of them another column in COLUMNS")
    total = margin * 2 + (max(rows.values()) + 1) * (box_height + gap_y) - gap_y
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {total:.0f}" width="{width:.0f}" '
             f'height="{total:.0f}" role="img" font-family="sans-serif" font-size="14">',
             "  <title>The folders of the emulated GPU; an arrow leads from a folder to one that it includes</title>",
             "  <!-- Drawn by tests/style/check_includes.py from the list in README.md. -->",
             STYLE,
             '  <defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
             '<path class="tip" d="M0 0 L8 4 L0 8 z"/></marker></defs>']
    for folder in graph:
        implied = set().union(*(reachable(graph, target) for target in graph[folder])) if graph[folder] else set()
        for target in sorted(graph[folder] - implied):
            (x1, y1), (x2, y2) = place[folder], place[target]
            lines.append(f'  <path class="edge" d="M{x1 + box_width / 2:.0f} {y1 + box_height:.0f} L{x2 + box_width / 2:.0f} {y2 - 1:.0f}" '
                         'marker-end="url(#tip)"/>')
    for folder, (x, y) in place.items():
        title = f"<title>{html.escape(', '.join(parts[folder]))}</title>" if parts[folder] else ""
        lines.append(f'  <rect x="{x:.0f}" y="{y:.0f}" width="{box_width}" height="{box_height}">{title}</rect>'
                     f'<text class="name" x="{x + box_width / 2:.0f}" y="{y + 22:.0f}">{folder}/</text>')
    return "\n".join(lines + ["</svg>", ""])


def main() -> int:
    root = pathlib.Path(sys.argv[1]) / EMULATOR
    if sys.argv[2:] == ["--draw"]:
        allowed = read_list((root / "README.md").read_text(encoding="utf-8"))
        (root / "folders.svg").write_text(draw(allowed), encoding="utf-8")
        return 0
    problems = check(root)
    print("\n".join(problems) or "no folder includes what it may not")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
