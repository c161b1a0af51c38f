#!/usr/bin/env python3
"""Fails when an exercise shows its solution or includes it, or when a chapter lacks a part.

usage: check_chapters.py SOURCE_ROOT CHAPTER:FILE,FILE...

For each chapter: the exercise files.
"""

import collections
import pathlib
import re
import sys

CODE = (".cu", ".cuh", ".cpp", ".hpp", ".in")
INCLUDE = re.compile(r'^\s*#\s*include ["<]([^">]+)[">]', re.MULTILINE)
ONLY_INCLUDES = re.compile(r'^#include ["<](stagecraft/[\w/.]+)[">]$', re.MULTILINE)


def code_lines(text: str) -> list[str]:
    """Lines of code without comments and layout; lines that say next to nothing are left out."""
    text = re.sub(r"//.*", "", text)
    lines = ("".join(line.split()) for line in text.splitlines())
    return [line for line in lines if len(line) > 12 and not line.startswith("#include")]


def solution_text(root: pathlib.Path, path: pathlib.Path) -> str:
    """A solution that only includes a library header has that header as its text."""
    text = path.read_text(encoding="utf-8")
    if not code_lines(text):
        return "".join((root / "common" / header).read_text(encoding="utf-8") for header in ONLY_INCLUDES.findall(text))
    return text


def shown_solution(exercise: str, solution: str) -> list[str]:
    """Lines that the solution adds and that the exercise has in its comments or in code that is switched off."""
    added = collections.Counter(code_lines(solution)) - collections.Counter(code_lines(exercise))
    hidden = "".join("".join(re.findall(r"//(.*)", exercise)).split())
    found = [line for line in added if line in hidden]
    if re.search(r"^\s*#\s*if(def)?\s+(0|SOLUTION)", exercise, re.MULTILINE):
        found.append("#if 0")
    if not added:
        found.append("(the solution adds nothing to the exercise)")
    return found


def includes_of_solutions(root: pathlib.Path, chapter: str, files: list[str]) -> list[str]:
    """Includes of the chapter's files, those that are given too, for which solutions/ alone has a file.

    A given file may include one that the learner writes: the build decides whose it is."""
    folders = [root / "chapters" / chapter, root / "chapters" / chapter / "given", root / "tests/chapters" / chapter,
               root / "tests/chapters", root / "common"]
    problems = []
    for path in sorted((root / "chapters" / chapter).rglob("*")):
        for name in INCLUDE.findall(path.read_text(encoding="utf-8")) if path.suffix in CODE else []:
            leads_there = (root / "solutions").resolve() in (path.parent / name).resolve().parents
            found = any((folder / name).exists() for folder in [path.parent, *folders])
            if leads_there or not found and any((root / "solutions").rglob(pathlib.Path(name).name)):
                problems.append(f"{path.relative_to(root)} includes {name}, which only solutions/ has: what the exercise "
                                f"needs belongs in chapters/{chapter}/given/")
    there = (path for path in sorted((root / "solutions" / chapter).iterdir()) if path.name not in files)
    problems += [f"{path.relative_to(root)} is no file of the exercise: it belongs in chapters/{chapter}/given/" for path in there]
    return problems


def check(root: pathlib.Path, chapter: str, files: list[str]) -> list[str]:
    problems = []
    added_somewhere = False
    for name in files:
        exercise, solution = root / "chapters" / chapter / name, root / "solutions" / chapter / name
        found = shown_solution(exercise.read_text(encoding="utf-8"), solution_text(root, solution))
        if found != ["(the solution adds nothing to the exercise)"]:
            added_somewhere = True
            problems += [f"{exercise.relative_to(root)} shows its solution: {line}" for line in found]
        if "TODO" in solution.read_text(encoding="utf-8"):
            problems.append(f"{solution.relative_to(root)} still has a TODO")
    problems += includes_of_solutions(root, chapter, files)
    if not added_somewhere:
        problems.append(f"chapters/{chapter}: the solution adds nothing to the exercise")
    mistakes = root / "tests/chapters" / chapter / f"{chapter[:2]}.mistakes"
    if len(answers := re.findall(r"^== ", mistakes.read_text(encoding="utf-8"), re.MULTILINE)) < 3:
        problems.append(f"chapter {chapter} has {len(answers)} wrong answers, and needs at least three")
    lesson = root / "chapters" / chapter / "README.md"
    text = lesson.read_text(encoding="utf-8") if lesson.exists() else ""
    for heading in ("What goes wrong", "Questions", "On the chip", "Further reading", "Exercise"):
        if not re.search(rf"^## .*{heading}", text, re.MULTILINE):
            problems.append(f"{lesson.relative_to(root)} has no section '{heading}'")
    if "<details>" not in text:
        problems.append(f"{lesson.relative_to(root)} has no hint")
    return problems


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    problems = []
    entries = [entry.split(":") for entry in sys.argv[2:]]
    overview = (root / "chapters/README.md").read_text(encoding="utf-8")
    for folder in sorted((root / "chapters").glob("[0-9][0-9]_*/")):
        if folder.name not in (chapter for chapter, _ in entries):
            problems.append(f"chapters/{folder.name} has no tests: tests/chapters/meson.build does not enter its folder")
        if f"({folder.name}/)" not in overview:
            problems.append(f"chapters/README.md has no row for {folder.name}")
    for chapter, files in entries:
        problems += check(root, chapter, files.split(","))
    print("\n".join(problems) or f"{len(sys.argv) - 2} chapters, nothing to complain about")
    return 1 if problems else 0


sys.exit(main())
