#!/usr/bin/env python3
"""Fails when an exercise shows its solution, or when a chapter lacks a part.

usage: check_chapters.py SOURCE_ROOT CHAPTER:FILE,FILE:ANSWER,ANSWER...

For each chapter: the exercise files, and the wrong answers that meson.build lists.
"""

import collections
import pathlib
import re
import sys

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


def check(root: pathlib.Path, chapter: str, files: list[str], answers: list[str]) -> list[str]:
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
    if not added_somewhere:
        problems.append(f"chapters/{chapter}: the solution adds nothing to the exercise")
    if len(answers) < 3:
        problems.append(f"chapter {chapter} has {len(answers)} wrong answers, and needs at least three")
    there = {path.stem for path in (root / "tests/chapters" / chapter / "wrong").glob("*.patch")}
    problems += [f"tests/chapters/{chapter}/wrong/{name} is not listed in its meson.build" for name in there - set(answers)]
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
    for entry in sys.argv[2:]:
        chapter, files, answers = entry.split(":")
        problems += check(root, chapter, files.split(","), answers.split(",") if answers else [])
    print("\n".join(problems) or f"{len(sys.argv) - 2} chapters, nothing to complain about")
    return 1 if problems else 0


sys.exit(main())
