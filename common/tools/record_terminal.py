#!/usr/bin/env python3
"""Draws a terminal in which a hang is explained, for the first page: a moving SVG without scripts.

record_terminal.py            writes docs/figures/hang.svg
record_terminal.py --check    fails when the file is not as this program draws it

What it shows is a console of a lesson, which check_pages.py compares with what the program prints.
"""

import pathlib
import sys
import textwrap
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True  # leave no cache folder among the sources
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages  # noqa: E402

LESSON = pages.ROOT / "chapters/01_mbarrier_phases/README.md"
FIGURE = pages.ROOT / "docs/figures/hang.svg"
COLUMNS, LINE, SIZE = 92, 19, 12
LEFT, TOP = 16, 52
WIDTH = 2 * LEFT + 710
KEY = ("written: phase 0", "likely cause")   # the lines that one reads first
TYPING, PAUSE, BETWEEN = 0.06, 0.8, 0.25      # seconds: a character, before the report, between its lines

STYLE = """
    :root { color-scheme: light dark; }
    text { fill: #24292f; white-space: pre; } .title { fill: #57606a; font-family: sans-serif; text-anchor: middle; }
    .screen { fill: #f6f8fa; stroke: #d0d7de; } .bar { fill: #eaeef2; } .dot { fill: #c4ccd4; } .mark { fill: #fff1c2; }
    .prompt { fill: #1a7f37; font-weight: 600; } .bad { fill: #cf222e; font-weight: 600; }
    .late { animation: appear 0.01s linear both; } @keyframes appear { from { opacity: 0; } to { opacity: 1; } }
    @media (prefers-reduced-motion: reduce) { .late { animation: none; } }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; } .title { fill: #9da7b1; } .screen { fill: #0d1117; stroke: #30363d; } .bar { fill: #161b22; }
      .dot { fill: #3b434b; } .mark { fill: #41360f; } .prompt { fill: #56d364; } .bad { fill: #ff7b72; }
    }
"""


def console():
    """Returns the lines of the lesson's first console that shows a hang."""
    for block in pages.blocks(LESSON.read_text(encoding="utf-8")):
        if block.language == "console" and "stagecraft: deadlock" in block.text():
            return block.text().split("\n")
    raise SystemExit(f"{LESSON} has no console with a deadlock")


def late(seconds):
    return f'class="late" style="animation-delay: {seconds:.2f}s"'


def draw():
    prompt, *report = console()
    y, at = TOP, 0.4
    parts = ["".join(f'<text x="{LEFT + number * 7.4:.1f}" y="{y}"><tspan class="prompt">{escape(character)}</tspan></text>'
                     if number < 2 else
                     f'<g {late(at + number * TYPING)}><text x="{LEFT + number * 7.4:.1f}" y="{y}">{escape(character)}</text></g>'
                     for number, character in enumerate(prompt))]
    at += len(prompt) * TYPING + PAUSE
    for line in report:
        indent = " " * (len(line) - len(line.lstrip()))
        rows = textwrap.wrap(line, COLUMNS, initial_indent="", subsequent_indent=indent + "    ", break_on_hyphens=False)
        y += LINE
        if any(key in line for key in KEY):
            parts.append(f'<g {late(at + len(report) * BETWEEN)}><rect class="mark" x="{LEFT - 8}" y="{y - LINE + 5}" '
                         f'width="{WIDTH - 2 * LEFT + 16}" height="{LINE * len(rows)}" rx="3"/></g>')
        for row in rows:
            kind = ' class="bad"' if row.startswith("stagecraft:") else ""
            text = row.lstrip()
            x = LEFT + (len(row) - len(text)) * 7.4
            parts.append(f'<g {late(at)}><text x="{x:.1f}" y="{y}"{kind}>{escape(text)}</text></g>')
            y += LINE
        y -= LINE
        at += BETWEEN
    height = y + 20
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" '
            f'font-family="ui-monospace, \'Liberation Mono\', monospace" font-size="{SIZE}">',
            "  <title>A terminal: ./stagecraft test 01 hangs, and the report names the barrier and the likely cause</title>",
            f"  <style>{STYLE}  </style>",
            f'  <rect class="screen" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="8"/>',
            f'  <rect class="bar" x="1" y="1" width="{WIDTH - 2}" height="28" rx="8"/>',
            *(f'  <circle class="dot" cx="{18 + 18 * i}" cy="15" r="5"/>' for i in range(3)),
            f'  <text class="title" x="{WIDTH // 2}" y="19">a hang, explained</text>']
    return "\n".join([*head, *(f"  {part}" for part in parts), "</svg>", ""])


def main():
    if sys.argv[1:] == ["--check"]:
        if FIGURE.exists() and FIGURE.read_text(encoding="utf-8") == draw():
            return 0
        print(f"{FIGURE.relative_to(pages.ROOT)} is not as it is drawn now: call {pathlib.Path(__file__).name}")
        return 1
    FIGURE.write_text(draw(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
