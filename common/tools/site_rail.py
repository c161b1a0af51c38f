"""Gives each page of the site the list of lessons behind a button, for windows in which Doxygen shows no rail."""

import html

import pages
import site_filter

# After the lessons: what a reader looks things up in.
BELOW = ["docs/glossary.md", "docs/reports/README.md", "docs/bugs/README.md", "docs/README.md"]
PLACE = '<div id="doc-content">'


def entries(root=pages.ROOT):
    """Returns (address, title) of each entry, in order."""
    chosen = [pages.pathlib.Path(pages.MAIN_PAGE), *pages.lessons(root), *map(pages.pathlib.Path, BELOW)]
    found = [(site_filter.address(page), pages.title(pages.read(page, root)).replace("`", "")) for page in chosen]
    return [*found, ("page_search.html", "Search the words")]


def rail(listed, address):
    """Returns the list as HTML; the entry of the page itself is marked."""
    items = "".join(f'<li><a href="{target}"{" aria-current=" + chr(34) + "page" + chr(34) if target == address else ""}>{html.escape(title)}</a></li>'
                    for target, title in listed)
    return f'<details class="rail"><summary>All lessons</summary><nav aria-label="lessons"><ul>{items}</ul></nav></details>\n'


def add(site):
    """Writes the list into all pages of the site."""
    listed = entries()
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        if PLACE in text:
            page.write_text(text.replace(PLACE, PLACE + "\n" + rail(listed, page.name), 1), encoding="utf-8")
