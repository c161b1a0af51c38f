"""Finds the Markdown pages of this repository and takes them apart, for the site and its checks."""

import functools
import importlib.util
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAIN_PAGE = "README.md"
REFERENCE_PAGE = "docs/README.md"
MAINTAINERS_PAGE = "CONTRIBUTING.md"
# What is for those who change the repository, with everything below it.
FOR_MAINTAINERS = {"common/emulator/README.md", "common/tools/README.md", "docs/figures/README.md", "docs/style.md", "tests/README.md"}

# LINK matches [text](target) and ![text](target); the text may contain code and one level of brackets.
LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]*)(?P<title>\s+\"[^\"]*\")?\)")
HEADING = re.compile(r"^(?P<level>#{1,6}) +(?P<text>.*?)(?: *\{#(?P<label>[\w-]+)\})? *#*$")
FENCE = re.compile(r"^(?P<indent> {0,3})(?P<marks>`{3,}|~{3,}) *(?P<language>[^`]*)$")
SNIPPET = re.compile(r"^\s*[@\\]snippet(?P<options>\{[^}]*\})? +(?P<path>\S+) +(?P<name>\S.*?) *$")
INCLUDE = re.compile(r"^\s*[@\\]include(?:lineno|doc)?(?:\{[^}]*\})? +(?P<path>\S+) *$")
# A note above a fenced block says which part of a file it shows (FILE or FILE#MARKER), which two parts it compares, that its
# code is not compiled, or that its own command or the one named printed it.
SHOWS = re.compile(r"^<!-- snippet: (?P<part>\S.*?) -->$")
COMPARES = re.compile(r"^<!-- diff: (?P<old>\S+) (?P<new>\S+) -->$")
SKETCH = re.compile(r"^<!-- sketch(?:: .+)? -->$")
CHECKED = re.compile(r"^<!-- checked(?:: (?P<command>.+?))? -->$")


def files(ending, root=ROOT):
    """Returns the files with this ending as paths relative to the root, without those of build folders."""
    found = []
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "build", "__pycache__"))]
        found += [(pathlib.Path(folder) / name).relative_to(root) for name in names if name.endswith(ending)]
    return sorted(found)


@functools.cache
def gallery(root=ROOT):
    """Returns the script that writes the pages of the gallery of bugs, or None where there is none."""
    script = root / "tests/bugs/write_pages.py"
    if not script.exists():
        return None
    description = importlib.util.spec_from_file_location("write_pages", script)
    module = importlib.util.module_from_spec(description)
    description.loader.exec_module(module)
    return module


@functools.cache
def written(root=ROOT):
    """Returns the pages that no file has, {page: (the file that a script makes it from, its text)}.

    A reader of the repository is led to that file; on the site, the same link leads to the page.
    """
    return gallery(root).written() if gallery(root) else {}


def read(page, root=ROOT):
    """Returns the text of a page."""
    return written(root)[page][1] if page in written(root) else (root / page).read_text(encoding="utf-8")


def pages(root=ROOT):
    """Returns the pages as paths relative to the root, in the order of the site."""
    found = [*files(".md", root), *written(root)]
    folders = ["docs", "chapters", "solutions", "common", "tests"]

    def order(page):
        folder = page.parts[0] if len(page.parts) > 1 else ""
        rank = folders.index(folder) + 1 if folder in folders else len(folders) + 1 if folder else 0
        return (page.as_posix() != MAIN_PAGE, rank, page.parent.as_posix(), page.name != "README.md", page.name)

    return sorted(found, key=order)


def lessons(root=ROOT):
    """Returns the lessons in the order in which they are read, which is that of their folders' numbers."""
    return [page for page in pages(root) if page.match("chapters/*/README.md")]


def parent(page, all_pages):
    """Returns the page above this one in the sidebar: the README of a folder above it, or the main page.

    READMEs that only describe a folder of the repository are below the page of the reference, and FOR_MAINTAINERS below the page
    for those who change it, so that the sidebar does not mix them with the lessons.
    """
    if page.as_posix() == MAIN_PAGE:
        return None
    if page.as_posix() in FOR_MAINTAINERS and pathlib.Path(MAINTAINERS_PAGE) in all_pages:
        return pathlib.Path(MAINTAINERS_PAGE)
    folder = page.parent if page.name != "README.md" else page.parent.parent
    while folder != pathlib.Path("."):
        if folder / "README.md" in all_pages:
            return folder / "README.md"
        folder = folder.parent
    reference = pathlib.Path(REFERENCE_PAGE)
    below_reference = page.name == "README.md" and page not in (reference, pathlib.Path("chapters/README.md"))
    return reference if below_reference and reference in all_pages else pathlib.Path(MAIN_PAGE)


def slug(heading):
    """Returns the anchor that Git hosts generate for a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.lower())
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def title(text):
    """Returns the first heading of a page, or an empty string."""
    for _, line in prose(text):
        heading = HEADING.match(line)
        if heading:
            return heading["text"]
    return ""


class Block:
    """A fenced block. `lines` are those between its fences; `first` is the 1-based number of the first of them."""

    def __init__(self, language, note, indent, first):
        self.language, self.note, self.indent, self.first, self.lines = language, note, indent, first, []

    def text(self):
        return "\n".join(line[len(self.indent):] if line.startswith(self.indent) else line for line in self.lines)


def walk(text):
    """Yields ('prose', number, line), ('open', number, line), ('block', number, Block), ('close', number, line)."""
    block = marks = None
    note = ""
    for number, line in enumerate(text.split("\n"), 1):
        fence = FENCE.match(line)
        if block is None:
            if fence:
                marks = fence["marks"]
                block = Block(fence["language"].strip(), note, fence["indent"], number + 1)
                yield "open", number, line
            else:
                note = line.strip() if line.strip() else note if note.startswith("<!--") else ""
                yield "prose", number, line
        elif fence and fence["marks"].startswith(marks) and not fence["language"].strip():
            yield "block", block.first, block
            yield "close", number, line
            block, note = None, ""
        else:
            block.lines.append(line)
    if block is not None:
        yield "block", block.first, block


def prose(text):
    """Returns the lines outside fenced blocks, with their numbers."""
    return [(number, line) for kind, number, line in walk(text) if kind == "prose"]


def blocks(text):
    return [item for kind, _, item in walk(text) if kind == "block"]


MARKER = re.compile(r"^\s*//! ?\[(\w[\w .-]*)\]\s*$")


def marked_part(text, name):
    """Returns the lines between two `//! [name]` markers, without other markers and common indentation, or None."""
    inside, lines, closed = False, [], False
    for line in text.split("\n"):
        found = MARKER.match(line)
        if found:
            if found[1] == name:
                closed = closed or inside
                inside = not inside and not closed
            continue
        if inside:
            lines.append(line)
    if not closed:
        return None
    indents = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    common = min(indents, default=0)
    return "\n".join(line[common:].rstrip() for line in lines).strip("\n")
