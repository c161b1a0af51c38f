"""Makes the list that docs/search.js looks through, words.js: the sections of all pages, and the library's names with their members.

A section has its prose, the code that it shows, and the terms that it sets in italics, which lessons do where they explain them. Its
kind says what it is for; docs/search.js orders by that and by the words.
"""

import html
import json
import re

import pages
import site_filter

# A page of the site alone; docs/search.js fills it.
PAGE = """\
# Search {#page_search}

Finds lessons, names of the library and their members, and the other pages.

\\htmlonly
<p id="count" role="status"></p>
<ol id="found"></ol>
\\endhtmlonly
"""
TERM = re.compile(r"(?<![*\w])\*([^*\n]+)\*(?![*\w])")
# After the heading of a lesson's exercise it explains mistakes, and no longer what is new.
EXERCISE = "Exercise"
# What Doxygen has to say about a member in one sentence, and about a type.
MEMBER = re.compile(r'<tr class="memdesc:(\w+).*?<td class="mdescRight">(.*?)(?:<a href="[^"]*">More\.\.\.</a>)?<br />', re.DOTALL)
TYPE = re.compile(r'<div class="contents">\s*(?:<p class="lessons">.*?</p>\s*)?<p>(.*?)<a href="[^"]*#details">', re.DOTALL)


def kind(page, lessons):
    """Returns what a page is for."""
    name = page.as_posix()
    if page in lessons:
        return "lesson"
    for folder, what in (("docs/bugs/", "gallery"), ("docs/reports/", "report"), ("docs/", "reference")):
        if name.startswith(folder) and name not in pages.FOR_MAINTAINERS:
            return what
    return "reference" if name == pages.MAIN_PAGE else "other"


def plain(line):
    """Returns a line of Markdown without its marks."""
    text = pages.LINK.sub(lambda link: link["text"], line)
    text = re.sub(r"^\s*(?:[*-]|\d+\.) |^\|[-| ]*\|$|</?\w+>|`|\*", "", text)
    return " ".join(text.replace("|", " ").split())


def sections_of(page, lessons):
    """Yields the sections of a page."""
    markdown = pages.read(page)
    title = pages.title(markdown).replace("`", "")
    section = {"page": title, "heading": title, "address": site_filter.address(page), "kind": kind(page, lessons)}
    text, code, terms, labels = [""], [], {}, {}

    def ended():
        return {**section, "text": "\n".join(filter(None, text)), "code": "\n".join(code), "terms": "|".join(terms)}

    for what, _, item in pages.walk(markdown):
        heading = pages.HEADING.match(item) if what == "prose" else None
        if heading and heading["level"] != "#":
            yield ended()
            after = section["kind"] == "lesson" and plain(heading["text"]) == EXERCISE
            section = {**section, "heading": plain(heading["text"]), "address": f"{site_filter.address(page)}#{site_filter.label_of(page, heading, labels)}",
                       "kind": "exercise" if after else section["kind"]}
            text, code, terms = [""], [], {}
        elif what == "prose" and not heading and not item.startswith("<!--"):
            if not item.strip() or item.startswith(("|", "* ")):
                text.append("")   # a paragraph, a row or an entry begins
            text[-1] += " " * bool(text[-1]) + plain(item)
            terms.update(dict.fromkeys(term.lower() for term in TERM.findall(item)))
        elif what == "block":
            text.append("")
            code += [line.strip() for line in item.lines]
    yield ended()


def descriptions(site):
    """Returns what the reference says about names in one sentence: {address of a type, or anchor of a member: sentence}."""
    found = {}
    for page in site.glob("*.html"):
        if page.name.startswith(("class", "struct", "namespace", "concept")):
            text = page.read_text(encoding="utf-8")
            found |= dict(MEMBER.findall(text))
            found |= {page.name: words for words in TYPE.findall(text)}
    return {key: html.unescape(re.sub("<[^>]*>", "", words)).strip() for key, words in found.items()}


def sections(names, members, described):
    """Returns the sections of all pages, the lessons first, and the names of the library and their members: {name: address}."""
    lessons = pages.lessons()
    found = [section for page in dict.fromkeys([*lessons, *pages.pages()]) for section in sections_of(page, lessons)]
    return [*found, *({"page": "the library", "heading": name, "address": address, "kind": what,
                       "text": described.get(address.partition("#")[2] or address, ""), "code": "", "terms": ""}
                      for what, listed in (("name", names), ("member", members)) for name, address in sorted(listed.items()))]


def add(site, names, members):
    """Writes the list into the site."""
    listed = json.dumps(sections(names, members, descriptions(site)), ensure_ascii=False, separators=(",", ":"))
    (site / "words.js").write_text(f"const sections = {listed};\n", encoding="utf-8")
