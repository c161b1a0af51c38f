"""Rewrites pages and headers as Doxygen needs them, line by line, so that its warnings name the right line.

Lessons are written for readers of the repository, so their links lead to files. On the site they lead to pages. A linked file
that is not a page gets one, or is copied into the site; `copied_files()` lists those for site_source.py.
"""

import os
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import pages as markdown  # noqa: E402
import timelines  # noqa: E402

CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
LANGUAGES = {"cuda": ".cpp", "cpp": ".cpp", "c++": ".cpp", "cu": ".cpp", "c": ".c", "python": ".py", "sh": ".unparsed"}

# The sources that the site shows as pages (site_source.py), and which comments and strings they have.
SOURCES = {**dict.fromkeys((".c", ".cu", ".cuh", ".cpp", ".h", ".hpp", ".inc", ".js"), "c"), ".py": "python"}

# What a page has in place of a run whose program is not built.
NO_RUN = "(This run is shown after `meson compile -C build` and `./stagecraft docs`.)"

# Doxygen leaves the stars of a bold text that begins with code.
BOLD_CODE = re.compile(r"\*\*(`[^`]+`(?:[^*`]|`[^`]*`)*?)\*\*")


def identifier(page):
    """Returns the name of a page, from which Doxygen derives the name of its HTML file."""
    if page.as_posix() == markdown.MAIN_PAGE:
        return "mainpage"
    words = [*page.parts[:-1], *([] if page.name == "README.md" else [page.stem])]
    return "_".join(["page", *(re.sub(r"\W", "_", word) for word in words or ["start"])])


def address(page):
    """Returns the name of a page's HTML file."""
    return "index.html" if page.as_posix() == markdown.MAIN_PAGE else f"{identifier(page)}.html"


def anchor(page, heading):
    return f"{identifier(page)}_{re.sub(r'[^a-z0-9]+', '_', heading)}"


def label_of(page, heading, used):
    """Returns the anchor of a heading, and notes it: the second of "C++" and "C" gets a number, as on Git hosts."""
    label = heading["label"] or anchor(page, markdown.slug(heading["text"]))
    used[label] = used.get(label, -1) + 1
    return f"{label}_{used[label]}" if used[label] else label


def file_anchor(path):
    """Returns the anchor of the site's page on a header; file names alone are ambiguous."""
    return "file_" + re.sub(r"\W", "_", path.as_posix())


def copy_address(path):
    """Returns where the site has a file that pages link to and that is not a page: a page that shows it, or a copy."""
    return f"files/{path.as_posix()}.{'html' if path.suffix in SOURCES else 'txt'}"


def is_emulator(path):
    """Returns whether a header is one of the emulator's, whose reference is a part of the site of its own."""
    return path.parts[:2] == ("common", "emulator")


# Where that part has each header: {path: address}. build_site.py fills it in.
emulator_addresses = {}


def has_own_page(path, root):
    """Returns whether the reference has a page on this source file: see documented_header."""
    if path.parts[:1] != ("common",) or path.suffix != ".hpp" or not (root / path).exists():
        return False
    return file_anchor(path) in documented_header(path, (root / path).read_text(encoding="utf-8"))


def resolve(page, target, root):
    """Returns where a link of a page leads: (path relative to the root, anchor), or (None, target) outside the repository."""
    if re.match(r"[a-z][a-z+.-]*:", target):
        return None, target
    file, _, fragment = target.partition("#")
    path = root / page if not file else root / page.parent / file
    path = pathlib.Path(os.path.normpath(path))
    if path.is_dir() and (path / "README.md").exists():
        path = path / "README.md"
    if path != root and root not in path.parents:
        return None, target
    return path.relative_to(root), fragment


def timeline(marker):
    """Returns what the site shows in place of a lesson's marker: the page of a run, in a frame."""
    name = marker["name"]
    return (f'\\htmlonly[block]<div class="timeline"><iframe src="timelines/{name}.html" title="The run of {name}" loading="lazy">'
            f'</iframe><a href="timelines/{name}.html" target="_blank">In a window of its own</a></div>'
            '<script src="timelines.js"></script>\\endhtmlonly')


class Page:
    """A page as the site shows it. `runs` are the names of the programs whose timelines the site has."""

    def __init__(self, page, root, runs=frozenset()):
        self.page, self.root, self.runs = page, root, runs
        in_order = markdown.pages(root)
        self.all_pages = set(in_order)
        self.made_from = {source: page for page, (source, _) in markdown.written(root).items()}
        self.children = [child for child in in_order if markdown.parent(child, self.all_pages) == page]
        self.copied = set()

    def link(self, match):
        text, target = match["text"], match["target"]
        path, fragment = resolve(self.page, target, self.root)
        if path is None:
            return match[0]
        path = self.made_from.get(path, path)
        if match["image"]:
            return f"![{text}]({path.name})"
        plain = text.replace("`", "").replace('"', "'").replace("\n", " ")
        if path in self.all_pages:
            if fragment:
                return f'@ref {anchor(path, fragment)} "{plain}"'
            if path in self.children:
                self.children.remove(path)
                return f'@subpage {identifier(path)} "{plain}"'
            if path.as_posix() == markdown.MAIN_PAGE:
                return f"[{text}](index.html)"
            return f'@ref {identifier(path)} "{plain}"'
        if path in emulator_addresses:
            return f"[{text}]({emulator_addresses[path]})"
        if has_own_page(path, self.root):
            return f'@ref {file_anchor(path)} "{plain}"'
        if (self.root / path).is_file():
            self.copied.add(path)
            return f"[{text}]({copy_address(path)})"
        return f"{text}"

    def rewrite_prose(self, text):
        """Rewrites links outside of code spans, and the HTML that Doxygen 1.9.4 does not know."""
        text = BOLD_CODE.sub(r"<b>\1</b>", text)
        parts, last, owed = [], 0, ""
        spans = [(found.start(), found.end()) for found in CODE.finditer(text)]

        def pay(words):
            nonlocal owed
            place = re.search(r" |\n\n", words) if owed else None
            if place:
                words, owed = words[:place.start()] + owed + words[place.start():], ""
            return words

        for found in markdown.LINK.finditer(text):
            if any(start < found.start() < end for start, end in spans):
                continue
            before, link, last = pay(text[last:found.start()]), self.link(found), found.end()
            # A reference must be on one line; the line breaks of its text move to a space, so that lines keep their numbers.
            breaks = "\n" * (found[0].count("\n") - link.count("\n"))
            if breaks and before.endswith(" "):
                before = before[:-1] + breaks
            else:
                owed += breaks
            parts += [before, link]
        text = "".join([*parts, pay(text[last:]), owed])
        return re.sub(r"</?(?:details|summary)(?: open)?>", r"\\htmlonly\g<0>\\endhtmlonly", text)

    def snippet(self, line):
        """Resolves the file named by @snippet or @include, which may be relative to the page."""
        found = markdown.SNIPPET.match(line) or markdown.INCLUDE.match(line)
        if not found or (self.root / found["path"]).exists():
            return line
        path = os.path.relpath(os.path.normpath(self.root / self.page.parent / found["path"]), self.root)
        return line[:found.start("path")] + path + line[found.end("path"):]

    def render(self, text):
        out, paragraph, first, labels = [], [], True, {}

        # Pages with several sections have a list of them, on the empty line after the title.
        headings = [line for _, line in markdown.prose(text) if line.startswith("## ")]
        wants_contents = len(headings) > 2

        def flush():
            if paragraph:
                out.append(self.rewrite_prose("\n".join(paragraph)))
                paragraph.clear()

        for kind, _, item in markdown.walk(text):
            if kind == "prose":
                heading = markdown.HEADING.match(item)
                if heading:
                    flush()
                    label = (heading["label"] or identifier(self.page)) if first else label_of(self.page, heading, labels)
                    words = markdown.LINK.sub(lambda link: link["text"], heading["text"])
                    if first:   # Doxygen writes the tags of code into the sidebar and the window's title
                        words = words.replace("`", "")
                    first = False
                    out.append(f"{heading['level']} {words} {{#{label}}}")
                elif wants_contents and not first and not item.strip():
                    wants_contents = False
                    flush()
                    out.append("\\tableofcontents{HTML:2}")
                elif (marker := timelines.MARKER.match(item)) is not None:
                    flush()
                    out.append(timeline(marker) if marker["name"] in self.runs else NO_RUN)
                elif (drawing := timelines.DRAWING.match(item)) is not None and drawing["name"] in self.runs:
                    paragraph.append("")   # its page follows
                else:
                    paragraph.append(self.snippet(item))
                continue
            flush()
            if kind == "open":
                fence = markdown.FENCE.match(item)
                language = fence["language"].strip()
                if language in ("console", "diff"):  # A fence must begin its line, so a <div> can only precede @code.
                    close = "@endcode</div>"
                    out.append(f'<div class="{language}">@code{{.unparsed}}')
                else:
                    close = None
                    out.append(f"{fence['indent']}{fence['marks']}{{{LANGUAGES.get(language, '.unparsed')}}}")
            elif kind == "block":
                out.extend(item.lines)
            else:
                out.append(close or item)
        flush()
        if self.children:  # pages to which no sentence links
            out.append("\nBelow this page: " + ", ".join(self.reference(child, "subpage") for child in self.children) + ".\n")
        return "\n".join([*out, *self.neighbours()])

    def reference(self, page, command="ref"):
        """Returns a link to another page, with its title as the text."""
        title = markdown.title(self.read(page)) or page.as_posix()
        return f'@{command} {identifier(page)} "{title.replace("`", "")}"'

    def neighbours(self):
        """Returns the links to the lessons before and after this one, which are put at its end."""
        lessons = markdown.lessons(self.root)
        if self.page not in lessons:
            return []
        place = lessons.index(self.page)
        sides = {"previous": lessons[:place][-1:], "next": lessons[place + 1:][:1]}
        return ['\n<div class="neighbours">',
                *(f'<div class="{side}">{self.reference(page)}</div>' for side, found in sides.items() for page in found), "</div>"]

    def read(self, page):
        return markdown.read(page, self.root)


def copied_files(root=markdown.ROOT):
    """Returns the files that pages link to and that are not pages themselves."""
    found = set()
    for path in markdown.pages(root):
        page = Page(path, root)
        page.render(page.read(path))
        found |= page.copied
    return found


def documented_header(path, text):
    """Returns a header's text in which its leading comment is Doxygen's description of the file.

    The line of `#pragma once` is used for the command that says so. The markers of parts that lessons show are removed, because
    they are not descriptions, and so are includes of lists.
    """
    def superfluous(line):
        return markdown.MARKER.match(line) or re.match(r'#include ".*\.inc"', line)

    lines = ["" if superfluous(line) else line for line in text.split("\n")]
    for number, line in enumerate(lines):
        if line.startswith("//"):
            lines[number] = "///" + line[2:] if not line.startswith("///") else line
        else:
            if number > 0 and line == "#pragma once":
                lines[number] = f"/// @anchor {file_anchor(path)} @file"
            break
    return "\n".join(lines)


def filtered(path, root=markdown.ROOT, runs=frozenset()):
    """Returns the text that Doxygen sees of a page or header, whose path is relative to the root."""
    if path.suffix == ".md":
        return Page(path, root, runs).render(markdown.read(path, root))
    return documented_header(path, (root / path).read_text(encoding="utf-8"))
