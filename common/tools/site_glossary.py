"""Shows what a word means where a lesson first uses it: each lesson's page gets the definitions of the glossary. The glossary's own
page gets lists in place of its wide tables, and all words in the order of the alphabet.

The definitions are the rows of the tables of docs/glossary.md whose columns begin with "here" and "the idea". A word in italics in
the first column is a term; what is in parentheses there is not, and neither is a word with two definitions.
"""

import html
import re

import pages
import site_filter

GLOSSARY = pages.pathlib.Path("docs/glossary.md")
HEAD = re.compile(r"^\| here \| the idea \|")
ITALICS = re.compile(r"\*([^*]+)\*")
# Lessons use these words in their everyday sense, too: only in italics are they surely the term.
EVERYDAY = {"kind", "line", "box", "unit", "turn", "major", "group", "leader", "pair", "rank", "reader", "scope", "commit", "atom",
            "role", "raster", "throttle", "payload"}
# Elements in which nothing is looked for; a word in a heading would be in the contents of the page, too.
SKIPPED = {"a", "code", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "script", "style", "svg", "object", "iframe", "summary", "title"}
SKIPPED_DIVISIONS = re.compile(r'class="(?:fragment|toc|neighbours|timeline|title|image)\b')
TAG = re.compile(r"(<!--.*?-->|<[^>]*>)", re.DOTALL)


def definitions(text):
    """Returns the terms of a glossary with their definitions, as Markdown: all names of their row, and the idea."""
    found, twice, inside = {}, set(), False
    for _, line in pages.prose(text):
        if HEAD.match(line):
            inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside:
            term, idea = (cell.strip() for cell in line.split("|")[1:3])
            names = ITALICS.findall(re.sub(r"\([^)]*\)", "", term))
            for name in names if idea else ():
                if name in found:
                    twice.add(name)
                found[name] = f"**{', '.join(names)}**: {idea}"
    return {name: idea for name, idea in found.items() if name not in twice}


def as_html(markdown):
    """Returns a definition as HTML: code, italics, and links as their text."""
    text = html.escape(pages.LINK.sub(lambda link: link["text"], markdown), quote=False)
    text = re.sub(r"\*\*([^*]+)\*\*", r"<b>\1</b>", re.sub(r"`([^`]*)`", r"<code>\1</code>", text))
    return ITALICS.sub(r"<em>\1</em>", text)


def pattern(term):
    """Returns what finds a term in running text: also its plural, and at the beginning of a sentence."""
    letters = re.escape(term)
    if term == term.lower():
        letters = f"[{term[0].upper()}{term[0]}]{re.escape(term[1:])}"
    return re.compile(rf"(?<![\w-]){letters}(?:e?s)?(?![\w-])")


def tooltip(word, term, idea):
    name = "term-" + re.sub(r"\W", "-", term)
    address = site_filter.address(GLOSSARY)
    return (f'<span class="term" tabindex="0" aria-describedby="{name}">{word}<span class="definition" role="tooltip" id="{name}">'
            f'{as_html(idea)} <a href="{address}#{name}" tabindex="-1">All words</a></span></span>')


def explain(text, terms):
    """Returns a page with a definition at the first use of each term."""
    begin = text.find('<div class="contents">')
    if begin < 0:
        return text
    pieces = TAG.split(text[begin:])
    left = {term: pattern(term) for term in sorted(terms, key=len, reverse=True)}   # "proxy fence" before a shorter one in it
    skipped, depth, italics = None, 0, False
    for place, piece in enumerate(pieces):
        if piece.startswith("<"):
            tag = re.match(r"</?(\w+)", piece)
            name = tag[1].lower() if tag else ""
            if name == "em":
                italics = not piece.startswith("</")
            if skipped is None and (name in SKIPPED or name == "div" and SKIPPED_DIVISIONS.search(piece)) and not piece.startswith("</"):
                skipped, depth = name, 1
            elif skipped is not None and name == skipped and not piece.endswith("/>"):
                depth += -1 if piece.startswith("</") else 1
                if depth == 0:
                    skipped = None
        elif skipped is None and piece.strip():
            pieces[place] = explain_words(piece, terms, left, italics)
    return text[:begin] + "".join(pieces)


def explain_words(words, terms, left, italics):
    """Replaces first uses in a piece of text, and removes their terms from `left`."""
    uses, taken = [], []
    for term, search in left.items():
        if term in EVERYDAY and not italics:
            continue
        for use in search.finditer(words):
            if all(use.end() <= begin or use.start() >= end for begin, end in taken):
                taken.append(use.span())
                uses.append((use.start(), use.end(), term))
                break
    for begin, end, term in sorted(uses, reverse=True):
        words = words[:begin] + tooltip(words[begin:end], term, terms[term]) + words[end:]
        del left[term]
    return words


def as_list(table, words):
    """Returns a table of the glossary's page as a list of definitions; adds (word, anchor) of each to `words`."""
    heads, *rows = ([" ".join(cell.split()) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)]
                    for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL))
    if "the idea" not in heads:
        return table
    place, entries = heads.index("the idea"), []
    for row in rows:
        shown = re.findall(r"<(em|code)>(.*?)</\1>", re.sub(r" \([^()]*\)", "", row[0]))
        names = [name for _, name in shown] or [row[0]]
        anchors = ["term-" + re.sub(r"\W", "-", html.unescape(name)) for name in names]
        anchors = [anchor if anchor not in dict(words).values() else f"{anchor}-{len(words)}" for anchor in anchors]
        words += zip(names, anchors)
        marks = "".join(f'<a id="{anchor}" name="{anchor}"></a>' for anchor in dict.fromkeys(anchors))
        elsewhere = "; ".join(f"<b>{head}</b>: {cell}" for column, (head, cell) in enumerate(zip(heads, row)) if column not in (0, place) and cell)
        entries.append(f"<dt>{marks}{row[0]}</dt><dd>{row[place]}{f'<div>{elsewhere}</div>' if elsewhere else ''}</dd>\n")
    return f'<dl class="glossary">{"".join(entries)}</dl>\n'


def rewrite(text):
    """Returns the glossary's page with lists, and before them all words."""
    words = []
    text = re.sub(r'<table class="markdownTable">.*?</table>', lambda table: as_list(table[0], words), text, flags=re.DOTALL)
    links = ", ".join(f'<a href="#{anchor}">{word}</a>' for word, anchor in sorted(words, key=lambda word: word[0].lower()))
    return text.replace("<h1>", f'<p class="words">{links}</p>\n<h1>', 1)


def add(site):
    """Writes the definitions into the pages of the lessons, and the glossary's own page."""
    terms = definitions(pages.read(GLOSSARY))
    page = site / site_filter.address(GLOSSARY)
    page.write_text(rewrite(page.read_text(encoding="utf-8")), encoding="utf-8")
    for lesson in pages.lessons():
        page = site / site_filter.address(lesson)
        page.write_text(explain(page.read_text(encoding="utf-8"), terms), encoding="utf-8")
