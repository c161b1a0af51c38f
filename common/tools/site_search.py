"""Makes the list that the page "Search the words" searches, docs/search.js: the sections of all pages, and the library's names.

A section has its words with how often its prose has them, and the terms that it sets in italics, which lessons do where they
explain them. Its kind says what it is for; docs/search.js orders by that and by the words.
"""

import collections
import json
import re

import pages
import site_filter

# A page of the site alone; docs/search.js fills it.
PAGE = """\
# Search the words {#page_search}

Finds names of the library, and words of the lessons and of the other pages. Enter in the box at the top leads here.

\\htmlonly
<p><input id="words" type="search" size="40" aria-label="words" placeholder="persistent, parity ..."> <span id="count"></span></p>
<ol id="found"></ol>
<script src="words.js"></script>
<script src="search.js"></script>
\\endhtmlonly
"""
# What is read as one word; docs/search.js reads a question in the same way. "tcgen05.ld" is one, and its parts are words as well.
WORD = re.compile(r"\w+(?:(?:\.|::)\w+)*")
TERM = re.compile(r"(?<![*\w])\*([^*\n]+)\*(?![*\w])")
# After the heading of a lesson's exercise it explains mistakes, and no longer what is new.
EXERCISE = "Exercise"


def split(text):
    """Returns the words of a text."""
    found = []
    for word in WORD.findall(text.lower()):
        parts = re.findall(r"\w+", word)
        found += [word, *parts] if len(parts) > 1 else [word]
    return found


def kind(page, lessons):
    """Returns what a page is for."""
    name = page.as_posix()
    if page in lessons:
        return "lesson"
    for folder, what in (("docs/bugs/", "gallery"), ("docs/reports/", "report"), ("docs/", "reference")):
        if name.startswith(folder) and name not in pages.FOR_MAINTAINERS:
            return what
    return "reference" if name == pages.MAIN_PAGE else "other"


def sections_of(page, lessons):
    """Yields the sections of a page."""
    text = pages.read(page)
    title = pages.title(text).replace("`", "")
    section = {"page": title, "heading": title, "address": site_filter.address(page), "kind": kind(page, lessons)}
    counts, shown, terms = collections.Counter(), {}, {}

    def ended():
        words = [word if count == 1 else f"{word}={count}" for word, count in counts.items()]
        return {**section, "words": " ".join([*words, *(f"{word}=0" for word in shown if word not in counts)]), "terms": "|".join(terms)}

    for what, _, item in pages.walk(text):
        heading = pages.HEADING.match(item) if what == "prose" else None
        if heading and heading["level"] != "#":
            yield ended()
            plain = pages.LINK.sub(lambda link: link["text"], heading["text"]).replace("`", "")
            anchor = heading["label"] or site_filter.anchor(page, pages.slug(heading["text"]))
            after = section["kind"] == "lesson" and plain == EXERCISE
            section = {**section, "heading": plain, "address": f"{site_filter.address(page)}#{anchor}",
                       "kind": "exercise" if after else section["kind"]}
            counts, shown, terms = collections.Counter(), {}, {}
        elif what == "prose" and not item.startswith("<!--"):
            counts.update(split(pages.LINK.sub(lambda link: link["text"], item)))
            terms.update(dict.fromkeys(term.lower() for term in TERM.findall(item)))
        elif what == "block":
            shown.update(dict.fromkeys(word for line in item.lines for word in split(line)))
    yield ended()


def sections(names):
    """Returns the sections of all pages, the lessons first, and the names of the library, which are {name: address}."""
    lessons = pages.lessons()
    found = [section for page in dict.fromkeys([*lessons, *pages.pages()]) for section in sections_of(page, lessons)]
    return [*found, *({"page": "the library", "heading": name, "address": address, "kind": "name", "words": "", "terms": ""}
                      for name, address in sorted(names.items()))]


def add(site, names):
    """Writes the list into the site."""
    listed = json.dumps(sections(names), ensure_ascii=False, separators=(",", ":"))
    (site / "words.js").write_text(f"const sections = {listed};\n", encoding="utf-8")
