#!/usr/bin/env python3
"""Prints the page that explains a kind of report of the emulated GPU.

usage: explain.py            lists the reports
       explain.py NAME       prints the page: missing-wait, or "missing wait", as a report says
"""

import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import guarded  # noqa: E402, before all others: from here on Ctrl-C leaves no trace

import difflib
import re

from pages import ROOT  # noqa: E402

PAGES = ROOT / "docs/reports"


def name_of(kind: str) -> str:
    """The name of the page about a kind of report, which may not exist: "missing wait" is in missing-wait."""
    return re.sub(r"[\s_-]+", "-", kind.strip().lower())


def names() -> list[str]:
    """All pages that there are."""
    return sorted(page.stem for page in PAGES.glob("*.md") if page.stem != "README")


def page_text(name: str) -> str:
    """A page as it is printed: its marks for check_pages.py left out, and of links to other pages their text."""
    text = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", re.sub(r"<!--.*?-->\n", "", text))


def summary(name: str) -> str:
    """What the title says about a report."""
    return page_text(name).split("\n", 1)[0].partition(": ")[2]


def main() -> int:
    if len(sys.argv) == 1:
        width = max(map(len, names()))
        print("\n".join(f"{name:{width}}  {summary(name)}" for name in names()))
        return 0
    name = name_of(" ".join(sys.argv[1:]))
    if name not in names():
        close = difflib.get_close_matches(name, names(), n=3)
        print(f'stagecraft: no report is called "{name}"' + (f"; do you mean {' or '.join(close)}?" if close else ";") +
              " ./stagecraft explain lists all", file=sys.stderr)
        return 2
    print(page_text(name), end="")
    return 0


if __name__ == "__main__":
    guarded.run(main)
