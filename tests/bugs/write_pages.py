#!/usr/bin/env python3
"""Writes the pages of the gallery, which only the site has: what each bug changes, its report, the remedy, and what the chip shows.

usage: write_pages.py          lists the pages
       write_pages.py PAGE...  prints some: docs/bugs/ring.md

common/tools/pages.py asks for them. The reports are those of reports/, which check_pages.py compares and renews.
"""

import collections
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from record import FOLDER, HOPPER_BASES  # noqa: E402
from form import ROOT, TESTS, Mistake, read_mistakes  # noqa: E402

PAGES = pathlib.Path("docs/bugs")
RESULTS = FOLDER / "results/nvidia-h200-2026-11-23.json"
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
LETTERS = {"H": "a hang", "W": "a wrong result", "P": "it usually passes", "L": "a launch failure"}
CONSOLE = re.compile(r"```console\n\$ [^\n]* (?P<name>\w+)\n(?P<report>.*?)\n```", re.DOTALL)


def written() -> dict[pathlib.Path, tuple[pathlib.Path, str]]:
    """The pages: the file that each is made from, and its text. Paths are relative to the root of the repository."""
    recorded = json.loads(RESULTS.read_text(encoding="utf-8"))
    bases = {path.stem: read_mistakes(path) for path in sorted(FOLDER.glob("*.mistakes"))}
    taught = [mistake for path in sorted((TESTS / "chapters").glob("*/*.mistakes")) for mistake in read_mistakes(path)
              if mistake.values("recorded")]
    made = {f"{base}.md": (FOLDER / f"{base}.mistakes", page_of(base, bugs, recorded)) for base, bugs in bases.items()}
    made["classes.md"] = (FOLDER / "classes.txt", classes([bug for bugs in bases.values() for bug in bugs] + taught))
    made["compute_sanitizer.md"] = (RESULTS, compute_sanitizer(bases, taught, recorded))
    return {PAGES / name: (source.relative_to(ROOT), text) for name, (source, text) in made.items()}


# ---- Reports ------------------------------------------------------------------------------------------------------------

def reports_of(base: str) -> dict[str, str]:
    """The reports that the page of a base shows, of each of its bugs."""
    path = FOLDER / f"reports/{base}.txt"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split(r"^== (\w+)\n", text, flags=re.MULTILINE)[1:]
    return {name: report.rstrip("\n") for name, report in zip(parts[::2], parts[1::2])}


def keep_reports(page: pathlib.Path, text: str) -> None:
    """Records the reports that the text of a page shows."""
    if shown := CONSOLE.findall(text):
        (FOLDER / f"reports/{page.stem}.txt").write_text("".join(f"== {name}\n{report}\n" for name, report in shown), encoding="utf-8")


# ---- The page of a base -------------------------------------------------------------------------------------------------

def page_of(name: str, bugs: list[Mistake], recorded: dict) -> str:
    out = [f"# Bugs of `{name}`", "", f"[{name}.cu](../../tests/bugs/{name}.cu) is right. {comment_of(name)}", "",
           "Each of these changes breaks it. [The gallery](README.md) has the bugs of the other programs.", ""]
    out += [f"* [{title(bug.name)}](#{bug.name.replace('_', '-')})" for bug in bugs]
    reports = reports_of(name)
    if superfluous := reports.keys() - {bug.name for bug in bugs}:
        raise ValueError(f"tests/bugs/reports/{name}.txt has reports of no bug: {', '.join(superfluous)}")
    for bug in bugs:
        variables = f"STAGECRAFT_DEVICE={'h200' if name in ('registers', 'warpgroups') else 'b200'}"
        if bug.value('checks', 'race') != "race":
            variables += f" CHECKS={bug.value('checks', 'race')}"
        if "explore" in bug.facts:
            variables += f" STAGECRAFT_EXPLORE={bug.value('explore')}"
        options = "" if bug.value('checks', 'race') == "race" else f" --checks {bug.value('checks', 'race')}"
        options += f" --explore {bug.value('explore')}" if "explore" in bug.facts else ""
        out += ["", f"## {title(bug.name)}", "", bug.what, "", "```diff", bug.difference(), "```", "",
                f"<!-- checked: {variables} tests/chapters/first_report build/tests/bugs/{name} {bug.name} -->",
                "```console", f"$ ./stagecraft run{options} build/tests/bugs/{name} {bug.name}", reports.get(bug.name, ""), "```", "",
                f"**Fix.** {bug.value('fix')}", "", f"**On the chip.** {chip(bug, recorded)}"]
        if sources := source(bug):
            out += ["", sources]
    return "\n".join(out) + "\n"


def comment_of(base: str) -> str:
    """What stands above the includes of a base."""
    above = (FOLDER / f"{base}.cu").read_text(encoding="utf-8").partition("#include")[0]
    return " ".join(line.strip()[3:] for line in above.splitlines() if line.startswith("//"))


def title(name: str) -> str:
    text = name.replace("_", " ")
    return text[0].upper() + text[1:]


def source(bug: Mistake) -> str:
    """Where the bug comes from."""
    parts = []
    if number := bug.value("class"):
        parts.append(f"Class {number} of [the table](classes.md).")
    if issues := bug.value("issue").split():
        links = [f"[{issue}](https://github.com/{issue.replace('#', '/issues/')})" for issue in issues]
        parts.append(f"Reported in {' and '.join(links)}.")
    return " ".join(parts)


def results(bug: Mistake, recorded: dict) -> dict | None:
    return recorded["variants"].get(bug.value("recorded", bug.short))


def chip(bug: Mistake, recorded: dict) -> str:
    """What the chip shows: as recorded, or as reported where the bug needs another chip."""
    found = results(bug, recorded)
    if found is None:
        letter = bug.value("chip")
        return f"Not run on a chip; public reports: {LETTERS[letter]}." if letter else "Not run on a chip."
    counts = collections.Counter(describe(result) for result in found["alone"])
    runs = ", ".join(f"{text} in {count} of {len(found['alone'])} runs" for text, count in counts.items())
    if found["alone"] == ["hang"]:
        runs = "a hang (it was not repeated)"
    said = {tool: verdict(found[tool]) for tool in TOOLS}
    tools = "; ".join(f"{tool} {text if text == 'hangs' else 'reports ' + text}" for tool, text in said.items() if text != "nothing")
    return f"An H200 shows {runs}. " + (f"Under compute-sanitizer: {tools}." if tools else "compute-sanitizer reports nothing.")


def describe(result: str) -> str:
    return f"`{result.partition(': ')[2]}`" if ": " in result else f"the {result}" if result == "right result" else f"a {result}"


def verdict(check: dict) -> str:
    """What a tool says about a run, in a few words."""
    count = re.search(r"\((\d+) errors?|^ERROR SUMMARY: (\d+) errors? *$", check["summary"])
    errors = int(count[1] or count[2]) if count else len(check["messages"])
    if "errors were not printed" in check["summary"]:
        errors = max(errors, 4)  # three are printed, and there are more
    if errors == 0:
        return "hangs" if check["end"] == "hang" else "nothing"
    if not check["messages"]:
        return "an error of the device"
    message = next((line for line in check["messages"] if line.startswith(("Barrier error", "Misaligned", "Error: Race"))),
                   check["messages"][0])
    if message.startswith("Error: Race"):
        return "a race"
    return "`" + re.sub(r"^Barrier error detected. | due to .*|\.$", "", message) + "`"


# ---- The tables ---------------------------------------------------------------------------------------------------------

def link(bug: Mistake) -> str:
    text = bug.name.replace("_", " ")
    if bug.chapter:
        lesson = ROOT / "chapters" / bug.chapter / "README.md"
        is_shown = f"_wrong_{bug.name} " in lesson.read_text(encoding="utf-8")
        page = f"chapters/{bug.chapter}/README.md#what-goes-wrong" if is_shown else bug.path.relative_to(ROOT).as_posix()
        return f"[{text}](../../{page}) (chapter {bug.chapter[:2]})"
    return f"[{text}]({bug.path.stem}.md#{bug.name.replace('_', '-')})"


def classes(bugs: list[Mistake]) -> str:
    by_class = collections.defaultdict(list)
    for bug in bugs:
        for number in bug.value("class").split():
            by_class[int(number)].append(link(bug))
    rows = ["# The bugs by class", "", "The classes are those of public bug reports, which the page of a bug names. A mistake that a chapter shows is",
            "not in [the gallery](README.md) again.", "", "| | class | bugs |", "|---|---|---|"]
    for line in (FOLDER / "classes.txt").read_text(encoding="utf-8").splitlines():
        number, _, text = line.partition(" ")
        text, _, why = text.partition(" -- ")
        rows.append(f"| {number} | {text} | {', '.join(by_class[int(number)]) or why} |")
    return "\n".join(rows) + "\n"


SANITIZER = """\
# The gallery beside compute-sanitizer

Those programs of [the gallery](README.md) that a Hopper GPU can run, compiled for sm_90a, on one chip ({gpu}) on {date}: five
runs alone, and one under each of the four tools of compute-sanitizer ({tool}). A run that had not ended after 20 seconds (30
under a tool) was ended and counts as a hang; it was not repeated. A tool that hangs has reported nothing by then. What is quoted
is the first of a tool's messages. [record.py](../../tests/bugs/record.py) has recorded it all, in `{file}`. "Here" is the
kind of the first report of the emulated GPU. The last rows of `ring` are the same mistakes in a chapter, which shows them now; the
chip ran them in `ring`.
"""


def compute_sanitizer(bases: dict[str, list[Mistake]], taught: list[Mistake], recorded: dict) -> str:
    rows = [SANITIZER.format(**{**recorded, "tool": recorded["tool"].split()[1], "file": RESULTS.relative_to(ROOT)}),
            "| bug | chip alone | memcheck | racecheck | synccheck | initcheck | here |", "|---|---|---|---|---|---|---|"]
    for base in HOPPER_BASES:
        found = recorded["variants"][f"{base}/right"]
        rows.append(f"| **{base}, right** | right | " + " | ".join(alarm(found[tool]) for tool in TOOLS) + " | nothing |")
        for bug in bases[base] + [bug for bug in taught if bug.value("recorded").startswith(f"{base}/")]:
            found = results(bug, recorded)
            if found is None:
                continue
            counts = collections.Counter(re.sub(r"^\w+: cuda|^\w+: | result$", "", result) for result in found["alone"])
            alone = ", ".join(f"{text} {count}" if len(counts) > 1 else text for text, count in counts.items())
            rows.append(f"| {link(bug)} | {alone} | " + " | ".join(verdict(found[tool]) for tool in TOOLS) +
                        f" | {bug.value('kind')} |")
    return "\n".join(rows) + "\n"


def alarm(check: dict) -> str:
    said = verdict(check)
    return said if said == "nothing" else f"false alarm: {said}"


def main() -> int:
    made = written()
    for page in map(pathlib.Path, sys.argv[1:]):
        print(made[page][1] if page in made else f"there is no page {page}", end="")
    if len(sys.argv) == 1:
        print(*made, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
