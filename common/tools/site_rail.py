"""Gives each page of the site the list of pages: beside it in a wide window, and behind a button in a narrow one. The sections of
the page itself are in that list."""

import html
import re

import pages
import site_filter

LOOK_UP = ["docs/glossary.md", "docs/reports/README.md", "docs/bugs/README.md", "docs/bring_your_own_kernel.md", "docs/installing.md",
           "docs/emulator.md", "docs/timing.md", "docs/playground/README.md", "docs/README.md"]
LIBRARY = [("page_common_stagecraft.html", "Headers, by subject"), ("annotated.html", "Types"), ("namespacestagecraft.html#func-members", "Functions")]
EMULATOR = [("page_common_emulator.html", "How it is built"), ("emulator/annotated.html", "Types"), ("emulator/files.html", "Headers")]
PLACE = re.compile(r'(?<=<div id="top">\n).*?</div><!-- top -->', re.DOTALL)
SECTIONS = re.compile(r'<div class="toc">.*?(<ul>.*?</ul>)\s*</div>', re.DOTALL)


def groups(root=pages.ROOT):
    """Returns (title, entries) of each part of the list; an entry is (address, title)."""
    def entries(chosen):
        return [(site_filter.address(page), pages.title(pages.read(page, root)).replace("`", "")) for page in chosen]

    return [("The lessons", [("page_chapters.html", "How to work through them"), *entries(pages.lessons(root))]),
            ("To look up", entries(map(pages.pathlib.Path, LOOK_UP))),
            ("The device library", LIBRARY),
            ("The emulated GPU", EMULATOR),
            ("The repository", entries([pages.pathlib.Path(pages.MAINTAINERS_PAGE)]))]


def rail(listed, address, sections="", top=""):
    """Returns the list as HTML; the entry of the page itself is marked, and has the page's sections below it. `top` leads from the
    page to the site's first."""
    def item(target, title):
        own = target.partition("#")[0] == address
        current, below = (' aria-current="page"', f'<div class="sections">{sections}</div>') if own else ("", "")
        return f'<li><a href="{top}{target}"{current}>{html.escape(title)}</a>{below}</li>'

    parts = "".join(f"<h2>{html.escape(title)}</h2><ul>{''.join(item(*entry) for entry in entries)}</ul>" for title, entries in listed)
    elsewhere = sections and not any(target.partition("#")[0] == address for _, entries in listed for target, _ in entries)
    own = f'<h2>On this page</h2><div class="sections">{sections}</div>' if elsewhere else ""
    home = f'<a class="home" href="{top}index.html">Stagecraft</a>'
    search = (f'<div class="find"><form id="MSearchBox" role="search" action="{top}page_search.html"><input id="MSearchField" name="words" '
              'type="search" placeholder="Search" aria-label="Search" autocomplete="off"></form></div>')
    return f'{home}{search}<details class="rail"><summary>Menu</summary><nav aria-label="pages">{own}{parts}</nav></details>\n'


def add(site, top=""):
    """Writes the list into all pages of a folder, and around their contents an element of their own."""
    listed = groups()
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        if not PLACE.search(text):
            continue
        sections = SECTIONS.search(text)
        text = SECTIONS.sub("", text, count=1)
        beside = rail(listed, f"{site.name}/{page.name}" if top else page.name, sections[1] if sections else "", top)
        text = PLACE.sub(lambda _: f'{beside}</div>\n<main id="doc-content">', text, count=1)
        begin = re.search(r'<div class="contents">.*?<p[^>]*>(.*?)</p>', text, re.DOTALL)
        words = " ".join(html.unescape(re.sub("<[^>]*>", "", begin[1])).split())[:200] if begin else ""
        if words:
            text = re.sub(r'(<meta name="description" content=")[^"]*', lambda meta: meta[1] + html.escape(words), text, count=1)
        page.write_text(text.replace("</body>", "</main>\n</body>"), encoding="utf-8")
