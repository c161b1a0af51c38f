"""Ties the library's names and the lessons together: a lesson's first use of a name leads to its description, and the description
says in which lessons the name is used. The names are those of namespace stagecraft, from the tags that Doxygen writes. What Doxygen
itself makes of names in the text of pages is removed: it finds a function where a lesson means a method.
"""

import html
import re
import xml.etree.ElementTree

import pages
import site_filter

NAMESPACE = "stagecraft"
OTHERS = {"gemm"}   # in a lesson, a kernel of its own
# In a lesson's page: what is left alone, and a name as code, with its arguments.
PIECES = re.compile(r"(<a\b.*?</a>|<h[1-6]\b.*?</h[1-6]>|<div class=\"toc\b.*?</div>)", re.DOTALL)
# Doxygen's guess at a name in the text of a page: the function or header of that name. In text, `release()` is a method, and
# `wgmma.hpp` the chapter's own.
GUESS = re.compile(r'<a class="el" href="(?:namespacestagecraft[^"]*|[^"#]*_8hpp\.html)"[^>]*>([^<]*)</a>')
USE = re.compile(r"<code>(?P<name>[A-Za-z_]\w*)(?:&lt;.*?|\(.*?)?</code>")


def read(tags):
    """Returns {name: address} of the types and of the functions of the namespace, and the names of methods."""
    types, functions, methods = {}, {}, set()
    for compound in xml.etree.ElementTree.parse(tags).getroot().findall("compound"):
        outer, _, name = compound.findtext("name").rpartition("::")
        if compound.get("kind") in ("class", "struct", "concept"):
            methods |= {member.findtext("name") for member in compound.findall("member")}
            if outer == NAMESPACE and "<" not in name:
                types[name] = compound.findtext("filename")
        elif compound.get("kind") == "namespace" and compound.findtext("name") == NAMESPACE:
            for member in compound.findall("member"):
                if member.get("kind") in ("function", "enumeration"):
                    functions.setdefault(member.findtext("name"), f"{member.findtext('anchorfile')}#{member.findtext('anchor')}")
    return types, functions, methods


def members(tags):
    """Returns {name: address} of the members of the library's types, as in `Ring::wait`."""
    found = {}
    for compound in xml.etree.ElementTree.parse(tags).getroot().findall("compound"):
        outer, _, name = compound.findtext("name").rpartition("::")
        if compound.get("kind") in ("class", "struct") and outer == NAMESPACE and "<" not in name:
            for member in compound.findall("member"):
                if member.findtext("name").strip("~") != name:
                    found.setdefault(f"{name}::{member.findtext('name')}", f"{member.findtext('anchorfile')}#{member.findtext('anchor')}")
    return found


def addresses_of_headers(tags):
    """Returns {path: address} of the emulator's headers."""
    return {pages.pathlib.Path(file.findtext("path"), file.findtext("name")).relative_to(pages.ROOT): f"emulator/{file.findtext('filename')}"
            for file in xml.etree.ElementTree.parse(tags).getroot().findall("compound[@kind='file']")}


def known_names(types, functions, methods):
    """Returns {name: address} of what a name means that stands alone in a text. A function that shares its name with a method of some
    class is left out: nobody could tell which of the two a lesson means."""
    return {**{name: address for name, address in functions.items() if name not in methods | OTHERS}, **types}


def link_uses(text, known):
    """Returns a page in which the first use of each name leads to its description, and the names that it uses."""
    begin = text.find('<div class="contents">')
    pieces, used = PIECES.split(text[max(begin, 0):]), set()

    def link(use):
        name = use["name"]
        if name not in known or name in used:
            return use[0]
        used.add(name)
        return f'<a class="name" href="{known[name]}">{use[0]}</a>'

    pieces = [piece if PIECES.fullmatch(piece) else USE.sub(link, piece) for piece in pieces]
    return text[:max(begin, 0)] + "".join(pieces), used


def uses_in_code(text, known):
    """Returns how often a lesson, as Markdown, has each name in its code."""
    counts = {}
    for kind, _, item in pages.walk(text):
        code = re.findall(r"`([^`]+)`", item) if kind == "prose" else item.lines if kind == "block" and item.language != "console" else []
        for word in re.findall(r"\w+", " ".join(code)):
            if word in known:
                counts[word] = counts.get(word, 0) + 1
    return counts


def sentence(lessons):
    """Returns where a name is used, as HTML: [(address, title, uses)], first the one that teaches it. That is the first lesson that
    uses it at least half as often as any other."""
    most = max(uses for _, _, uses in lessons)
    main = next(lesson for lesson in lessons if 2 * lesson[2] >= most)
    others = [lesson for lesson in lessons if lesson is not main]
    also = ", ".join(f'<a href="{address}">{html.escape(title.partition(":")[0])}</a>' for address, title, _ in others)
    return (f'<p class="lessons">In the lessons: <a href="{main[0]}">{html.escape(main[1])}</a>{", also " + also if also else ""}.</p>\n')


def describe(site, address, words):
    """Writes the sentence into the description at an address: below the heading of a type, or first in that of a function."""
    file, _, anchor = address.partition("#")
    page = site / file
    text = page.read_text(encoding="utf-8")
    begin = text.find(f'<a id="{anchor}" name="{anchor}"></a>\n<h2 class="memtitle">') if anchor else 0
    place = text.find('<div class="memdoc">' if anchor else '<div class="contents">', max(begin, 0))
    if begin < 0 or place < 0:
        raise ValueError(f"{address} has no description to put the lessons in")
    place = text.index("\n", place) + 1
    page.write_text(text[:place] + words + text[place:], encoding="utf-8")


def add(site, tags):
    """Writes all of it into the site, and returns the types and functions of the library with their addresses."""
    types, functions, methods = read(tags)
    known, lessons = known_names(types, functions, methods), {}
    for written in pages.pages():
        if written.parts[0] in ("common", "tests"):
            continue
        page = site / site_filter.address(written)
        page.write_text(GUESS.sub(r"\1", page.read_text(encoding="utf-8")), encoding="utf-8")
    for lesson in pages.lessons():
        page, markdown = site / site_filter.address(lesson), pages.read(lesson)
        text, _ = link_uses(page.read_text(encoding="utf-8"), known)
        page.write_text(text, encoding="utf-8")
        for name, count in uses_in_code(markdown, known).items():
            lessons.setdefault(name, []).append((page.name, pages.title(markdown).replace("`", ""), count))
    for name, used in sorted(lessons.items()):
        describe(site, known[name], sentence(used))
    return {**functions, **types}
