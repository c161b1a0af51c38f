#!/usr/bin/env python3
"""Builds the site and tests what a reader of it sees.

site_test.py OUTPUT [TEST...]   OUTPUT/html is the site afterwards; exits with 77 where there is no Doxygen
"""

import html
import os
import pathlib
import re
import subprocess
import sys
import unittest

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "common" / "tools"
sys.path.insert(0, str(TOOLS))
import pages  # noqa: E402
import site_filter  # noqa: E402


class SiteTest(unittest.TestCase):
    build: subprocess.CompletedProcess
    site: pathlib.Path

    def html_of(self, page: pathlib.Path) -> str:
        name = "index" if page.as_posix() == pages.MAIN_PAGE else site_filter.identifier(page)
        return (self.site / f"{name}.html").read_text(encoding="utf-8")

    def blocks_of(self, page: pathlib.Path) -> list:
        return pages.blocks((pages.ROOT / page).read_text(encoding="utf-8"))

    def test_it_builds_without_a_warning(self):
        self.assertEqual(self.build.returncode, 0, self.build.stdout)

    def test_every_line_of_code_is_shown_with_its_comments(self):
        lines = 0
        for page in pages.pages():
            text = re.sub(r"<[^>]*>", "", self.html_of(page))
            shown = {line.strip() for line in html.unescape(text).split("\n")}
            for block in self.blocks_of(page):
                missing = [line for line in block.lines if line.strip() not in shown]
                self.assertEqual(missing, [], f"{page.as_posix()}:{block.first}")
                lines += len(block.lines)
        self.assertGreater(lines, 0)

    def test_links_lead_to_files_and_anchors_of_the_site(self):
        texts = {}
        for page in pages.pages():
            for target in re.findall(r'href="(?!https?:|javascript:)([^"]*)"', self.html_of(page)):
                file, _, anchor = html.unescape(target).partition("#")
                path = self.site / file if file else self.site / f"{site_filter.identifier(page)}.html"
                self.assertTrue(path.is_file(), f"{page.as_posix()}: {target}")
                if anchor and path not in texts:
                    texts[path] = path.read_text(encoding="utf-8")
                if anchor:
                    self.assertRegex(texts[path], f'(id|name)="{re.escape(anchor)}"', f"{page.as_posix()}: {target}")

    def test_the_lines_of_a_report_wrap(self):
        style = (self.site / "site.css").read_text(encoding="utf-8")
        self.assertRegex(style, r"(?m)^\.console div\.fragment \.line \{[^}]*white-space: pre-wrap;")
        for page in pages.pages():
            consoles = [block for block in self.blocks_of(page) if block.language == "console"]
            marked = self.html_of(page).count('<div class="console"><div class="fragment">')
            self.assertEqual(marked, len(consoles), page.as_posix())

    def test_each_lesson_leads_to_the_one_before_and_the_one_after(self):
        lessons = pages.lessons()
        self.assertGreater(len(lessons), 1)
        for before, page, after in zip([None, *lessons], lessons, [*lessons[1:], None]):
            links = dict(re.findall(r'<div class="(previous|next)"><a class="el" href="([^"]*)">', self.html_of(page)))
            expected = {"previous": before, "next": after}
            self.assertEqual(links, {side: f"{site_filter.identifier(other)}.html" for side, other in expected.items() if other})

    def test_the_lessons_come_first_in_the_sidebar_and_in_order(self):
        tree = (self.site / "navtreedata.js").read_text(encoding="utf-8")
        top = re.findall(r'^    \[ "[^"]*", "(page_[^"]*)\.html"', tree, re.MULTILINE)
        self.assertEqual(top[0], "page_chapters")
        self.assertEqual([name for name in top if name.startswith(("page_tests", "page_docs_figures"))], [])
        lessons = re.findall(r'^    \[ "[^"]*", "(page_[^"]*)\.html"', (self.site / "page_chapters.js").read_text(encoding="utf-8"),
                             re.MULTILINE)
        self.assertEqual(lessons, [site_filter.identifier(page) for page in pages.lessons()])


if __name__ == "__main__":
    output = pathlib.Path(sys.argv.pop(1))
    SiteTest.site = output / "html"
    SiteTest.build = subprocess.run([sys.executable, str(TOOLS / "build_site.py"), output, "--no-graphs"], check=False, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C.UTF-8"})
    if SiteTest.build.returncode == 77:
        print(SiteTest.build.stdout, end="")
        sys.exit(77)
    unittest.main(verbosity=2)
