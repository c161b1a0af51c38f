#!/usr/bin/env python3
"""Writes a version of a chapter's kernel as one file that compiles alone: kernel, launch, and a main that checks.

usage: standalone.py                              lists the chapters and their versions
       standalone.py CHAPTER [VERSION] [-o FILE]  prints the file, or writes it; VERSION may be left out if there is one

A version is a program, chapters/NN_name/given/standalone/VERSION.cu. What it includes from the repository takes the place of the
include, once: from the solution, from what is given in the chapter, from common/. The program's comment comes first.
"""

import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import guarded  # noqa: E402, before all others: from here on Ctrl-C leaves no trace

import argparse
import pathlib
import re

from pages import ROOT  # noqa: E402

INCLUDE = re.compile(r'#include (?:"([^"]+)"|<([^>]+)>)')
CONDITION = re.compile(r"#\s*(if|endif)")
MARKER = re.compile(r"\s*//! \[[^\]]*\]")


def versions(chapter: pathlib.Path) -> list[pathlib.Path]:
    """A chapter's programs, in the order of what their first lines say."""
    return sorted((chapter / "given/standalone").glob("*.cu"), key=lambda path: path.read_text(encoding="utf-8"))


def chapters() -> dict[str, pathlib.Path]:
    """The chapters that have such programs, by number."""
    return {path.name[:2]: path for path in sorted((ROOT / "chapters").iterdir()) if versions(path)}


def listing(number: str, chapter: pathlib.Path) -> str:
    """The versions of a chapter, a line each."""
    width = max(len(path.stem) for path in versions(chapter))
    return "\n".join(f"  {number} {path.stem:{width}}  {first_comment(path)[0][3:]}" for path in versions(chapter))


def first_comment(path: pathlib.Path) -> list[str]:
    """The lines of comment that a file begins with."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return lines[:next(i for i, line in enumerate(lines) if not line.startswith("//"))]


class OneFile:
    """The text of a program with all that it includes from the repository."""

    def __init__(self, program: pathlib.Path):
        chapter = program.parents[2]
        self.folders = [ROOT / "solutions" / chapter.name, chapter / "given", ROOT / "common"]
        self.parts: list[tuple[str, list[str]]] = []  # where each comes from, and its lines
        self.from_elsewhere: set[str] = set()         # includes in <>
        self.seen: set[pathlib.Path] = set()
        self.program = program
        self.take(program)

    def find(self, name: str, includer: pathlib.Path):
        """The file of the repository that an include names; None for one from elsewhere."""
        found = (folder / name for folder in [includer.parent, *self.folders] if (folder / name).is_file())
        return next((path.resolve() for path in found), None)

    def take(self, path: pathlib.Path) -> None:
        """Appends what a file includes, if it is not there yet, and then the rest of the file."""
        self.seen.add(path)
        lines = []
        depth = 0  # of conditions: what they include stays where it is
        for line in path.read_text(encoding="utf-8").splitlines():
            include = INCLUDE.match(line)
            if include and (file := self.find(include[1] or include[2], path)):
                if file.suffix == ".inc":  # a table, which is read in the middle of code, and not only once
                    lines += file.read_text(encoding="utf-8").splitlines()
                elif file not in self.seen:
                    self.take(file)
            elif include and depth == 0:
                self.from_elsewhere.add(line)
            elif line != "#pragma once" and not MARKER.fullmatch(line):
                if condition := CONDITION.match(line):
                    depth += 1 if condition[1] == "if" else -1
                lines.append(line)
            if include and path == self.program:
                lines = []  # its first comment is at the top of the file
        if any(line and not line.startswith("//") for line in lines):
            self.parts.append((str(path.relative_to(ROOT)), lines))

    def text(self) -> str:
        """All of it, with the number of the line at which each part begins."""
        head = [*first_comment(self.program), "//", "// Made by ./stagecraft standalone; Apache License 2.0. What is where:", "//"]
        end_of_head = len(head) + len(self.parts) + 1 + len(self.from_elsewhere)
        contents, body = [], []
        for name, part in self.parts:
            body += ["", f"// ---- {name} ".ljust(119, "-"), ""]
            contents.append(f"// {end_of_head + len(body) - 1:6}  {name}")
            body += re.sub(r"\n{3,}", "\n\n", "\n".join(part).strip("\n")).split("\n")
        return "\n".join([*head, *contents, "", *sorted(self.from_elsewhere), *body, ""])


def main() -> int:
    parser = argparse.ArgumentParser(prog="./stagecraft standalone", allow_abbrev=False, description="Prints a version of a "
                                     "chapter's kernel as one file that compiles alone, with a main that runs and checks it.")
    parser.error = lambda problem: guarded.misuse(f"standalone: {problem}")
    parser.add_argument("chapter", nargs="?", metavar="NN", help="the chapter; without it, all versions are listed")
    parser.add_argument("version", nargs="?", metavar="VERSION", help="the version of its kernel")
    parser.add_argument("-o", dest="file", type=pathlib.Path, metavar="FILE", help="write it to this file")
    arguments = parser.parse_args()
    if arguments.chapter is None:
        if arguments.file is not None:
            parser.error("which kernel is to be written? ./stagecraft standalone lists all")
        print("\n".join(listing(*item) for item in chapters().items()))
        return 0
    chapter = chapters().get(arguments.chapter)
    if not chapter:
        parser.error(f"chapter {arguments.chapter} has no kernel in one file; these have:\n" +
                     "\n".join(listing(*item) for item in chapters().items()))
    if arguments.version is None:
        parser.error(f"which version of chapter {arguments.chapter}?\n{listing(arguments.chapter, chapter)}")
    program = chapter / "given/standalone" / f"{arguments.version}.cu"
    if program not in versions(chapter):
        parser.error(f"chapter {arguments.chapter} has no version {arguments.version}; it has\n" +
                     listing(arguments.chapter, chapter))
    text = OneFile(program).text()
    if arguments.file is None:
        print(text, end="")
        return 0
    try:
        arguments.file.write_text(text, encoding="utf-8")
    except OSError as error:
        parser.error(f"cannot write {arguments.file}: {error.strerror}")
    return 0


if __name__ == "__main__":
    guarded.run(main)
