"""Adds the playground to the site, with links to it, when it has been built."""

import re
import shutil

import pages
import site_filter

# The kernel that each lesson leads to: those whose mistakes the playground has as settings.
LESSONS = {"01": "barrier", "02": "ring", "03": "ring", "08": "product", "09": "product"}
FIRST_PAGE = "Break a kernel in the playground: it runs in the page, and nothing has to be installed"
LESSON = "Change the numbers of such a kernel in the playground, and see what happens"


def link(kernel, text):
    return f'<p class="playground"><a href="playground/index.html#{kernel}">{text}</a></p>\n'


def put_before(page, pattern, text):
    """Writes `text` before the first place in the page that matches."""
    html = page.read_text(encoding="utf-8")
    changed, count = re.subn(pattern, lambda place: text + place[0], html, count=1)
    if count != 1:
        raise ValueError(f"{page.name} has no place for its link to the playground: {pattern}")
    page.write_text(changed, encoding="utf-8")


def add(built, site):
    """Copies the page from folder `built` into the site and links it. Does nothing where it has not been built."""
    if not (built / "playground.js").exists():   # what the linker writes last
        return
    shutil.copytree(built, site / "playground")
    page = site / "playground" / "index.html"
    page.write_text(page.read_text(encoding="utf-8").replace("<!-- link to the site -->", '<a href="../index.html">Stagecraft</a>'),
                    encoding="utf-8")
    put_before(site / "index.html", r"<h1\b", link("barrier", FIRST_PAGE))
    for lesson in pages.lessons():
        kernel = LESSONS.get(lesson.parent.name[:2])
        if kernel:
            put_before(site / f"{site_filter.identifier(lesson)}.html", r'<div class="neighbours">', link(kernel, LESSON))
