#!/usr/bin/env python3
"""Writes the pages of the gallery, docs/bugs/: what each bug changes, its report, the remedy, and what the chip shows.

usage: write_pages.py           writes them; the reports that they show stay, or are filled in by
                                common/tools/check_pages.py --console build --update docs/bugs/*.md
       write_pages.py --check   fails if a page, apart from the reports that it shows, is not as it would be written
"""

import collections
import json
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
from record import FOLDER, HOPPER_BASES  # noqa: E402
from form import ROOT, TESTS, Mistake, read_mistakes  # noqa: E402

PAGES = ROOT / "docs/bugs"
RESULTS = FOLDER / "results/nvidia-h200-2026-11-23.json"
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
LETTERS = {"H": "a hang", "W": "a wrong result", "P": "it usually passes", "L": "a launch failure"}
CONSOLE = re.compile(r"<!-- checked: (?P<command>[^\n]*) -->\n```console\n(?P<text>.*?)\n```", re.DOTALL)


def main() -> int:
    recorded = json.loads(RESULTS.read_text(encoding="utf-8"))
    bases = {path.stem: read_mistakes(path) for path in sorted(FOLDER.glob("*.mistakes"))}
    pages = {f"{base}.md": page_of(base, bugs, recorded) for base, bugs in bases.items()}
    pages["README.md"] = overview(bases, recorded)
    wrong = []
    for name, text in pages.items():
        path = PAGES / name
        present = path.read_text(encoding="utf-8") if path.exists() else ""
        shown = {found["command"]: found["text"] for found in CONSOLE.finditer(present)}
        text = CONSOLE.sub(lambda found: found[0].replace(found["text"], shown.get(found["command"], found["text"])), text)
        if text != present:
            wrong.append(name)
            if "--check" not in sys.argv:
                PAGES.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
    if "--check" in sys.argv and wrong:
        print(f"tests/bugs/write_pages.py would write these pages of docs/bugs/ otherwise: {', '.join(wrong)}")
        return 1
    return 0


# ---- The page of a base -------------------------------------------------------------------------------------------------

def page_of(name: str, bugs: list[Mistake], recorded: dict) -> str:
    out = [f"# Bugs of `{name}`", "", f"[{name}.cu](../../tests/bugs/{name}.cu) is right. {comment_of(name)}", "",
           "Each of these changes breaks it. [The gallery](README.md) has the bugs of the other programs.", ""]
    out += [f"* [{title(bug.name)}](#{bug.name.replace('_', '-')})" for bug in bugs]
    for bug in bugs:
        variables = f"STAGECRAFT_DEVICE={'h200' if name in ('registers', 'warpgroups') else 'b200'}"
        if bug.value('checks', 'all') != "all":
            variables += f" CHECKS={bug.value('checks', 'all')}"
        if "explore" in bug.facts:
            variables += f" STAGECRAFT_EXPLORE={bug.value('explore')}"
        options = "" if bug.value('checks', 'all') == "all" else f" --checks {bug.value('checks', 'all')}"
        options += f" --explore {bug.value('explore')}" if "explore" in bug.facts else ""
        out += ["", f"## {title(bug.name)}", "", bug.what, "", "```diff", bug.difference(), "```", "",
                f"<!-- checked: {variables} tests/chapters/first_report build/tests/bugs/{name} {bug.name} -->",
                "```console", f"$ ./stagecraft run{options} build/tests/bugs/{name} {bug.name}", "```", "",
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
        parts.append(f"Class {number} of [the table](README.md#by-class).")
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


# ---- The overview -------------------------------------------------------------------------------------------------------

def overview(bases: dict[str, list[Mistake]], recorded: dict) -> str:
    bugs = [bug for list_of in bases.values() for bug in list_of]
    taught = [mistake for path in sorted((TESTS / "chapters").glob("*/*.mistakes")) for mistake in read_mistakes(path)
              if mistake.values("recorded")]
    template = (FOLDER / "overview.md").read_text(encoding="utf-8")
    fields = {"count": str(len(bugs)), "bases": base_table(bases), "classes": class_table(bugs + taught),
              "tools": tool_table(bases, taught, recorded), "gpu": recorded["gpu"], "tool": recorded["tool"].split()[1], "date": recorded["date"]}
    return re.sub(r"\{(\w+)\}", lambda found: fields[found[1]], template)


def link(bug: Mistake) -> str:
    text = bug.name.replace("_", " ")
    if bug.chapter:
        lesson = ROOT / "chapters" / bug.chapter / "README.md"
        is_shown = f"_wrong_{bug.name} " in lesson.read_text(encoding="utf-8")
        page = f"chapters/{bug.chapter}/README.md#what-goes-wrong" if is_shown else bug.path.relative_to(ROOT).as_posix()
        return f"[{text}](../../{page}) (chapter {bug.chapter[:2]})"
    return f"[{text}]({bug.path.stem}.md#{bug.name.replace('_', '-')})"


def base_table(bases: dict[str, list[Mistake]]) -> str:
    rows = ["| program | bugs | what it does right |", "|---|---|---|"]
    for name, bugs in bases.items():
        rows.append(f"| [{name}]({name}.md) | {len(bugs)} | {comment_of(name)} |")
    return "\n".join(rows)


def class_table(bugs: list[Mistake]) -> str:
    by_class = collections.defaultdict(list)
    for bug in bugs:
        for number in bug.value("class").split():
            by_class[int(number)].append(link(bug))
    rows = ["| | class | bugs |", "|---|---|---|"]
    for line in (FOLDER / "classes.txt").read_text(encoding="utf-8").splitlines():
        number, _, text = line.partition(" ")
        text, _, why = text.partition(" -- ")
        rows.append(f"| {number} | {text} | {', '.join(by_class[int(number)]) or why} |")
    return "\n".join(rows)


def tool_table(bases: dict[str, list[Mistake]], taught: list[Mistake], recorded: dict) -> str:
    rows = ["| bug | chip alone | memcheck | racecheck | synccheck | initcheck | here |", "|---|---|---|---|---|---|---|"]
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
    return "\n".join(rows)


def alarm(check: dict) -> str:
    said = verdict(check)
    return said if said == "nothing" else f"false alarm: {said}"


if __name__ == "__main__":
    sys.exit(main())
