#!/usr/bin/env python3
"""Builds the site and tests what a reader of it sees.

site_test.py OUTPUT BUILD [TEST...]   OUTPUT/html is the site afterwards, with the timelines of the programs that are built in
BUILD; exits with 77 where there is no Doxygen
"""

import contextlib
import functools
import html
import http.server
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
TOOLS = pathlib.Path(__file__).resolve().parents[2] / "common" / "tools"
sys.path.insert(0, str(TOOLS))
import build_site  # noqa: E402
import pages  # noqa: E402
import site_filter  # noqa: E402
import site_look  # noqa: E402
import timelines  # noqa: E402
from browser import Browser, find_chromium  # noqa: E402


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):   # pylint: disable=arguments-differ
        """Says nothing about requests."""


class SiteTest(site_look.LookTests, unittest.TestCase):
    build: subprocess.CompletedProcess
    site: pathlib.Path

    def html_of(self, page: pathlib.Path) -> str:
        name = "index" if page.as_posix() == pages.MAIN_PAGE else site_filter.identifier(page)
        return (self.site / f"{name}.html").read_text(encoding="utf-8")

    def blocks_of(self, page: pathlib.Path) -> list:
        return pages.blocks(pages.read(page))

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

    def test_links_and_pictures_lead_to_files_and_anchors_of_the_site(self):
        files = {path.relative_to(self.site).as_posix() for path in self.site.rglob("*") if path.is_file()}
        texts = {path.relative_to(self.site).as_posix(): path.read_text(encoding="utf-8")
                 for folder in (self.site, self.site / "emulator") for path in folder.glob("*.html")}
        anchors = {name: set(re.findall(r' (?:id|name)="([^"]*)"', text)) for name, text in texts.items()}
        wrong, links = [], 0
        for name, text in texts.items():
            for target in re.findall(r' (?:href|src|data)="(?!https?:|javascript:|data:)([^"]*)"', text):
                file, _, anchor = html.unescape(target).partition("#")
                file = os.path.normpath(os.path.join(os.path.dirname(name), file.partition("?")[0])) if file else name
                if file not in files or (anchor and file in anchors and anchor not in anchors[file]):
                    wrong.append(f"{name}: {target}")
                links += 1
        self.assertEqual(wrong, [])
        self.assertGreater(links, 100_000)

    def need_the_look(self):
        if build_site.look_folder() is None:
            self.skipTest("doxygen-awesome-css is not installed, or has no extensions")

    def test_each_page_has_the_extensions_of_the_look(self):
        self.need_the_look()
        for page in pages.pages():
            text = self.html_of(page)
            for file, name in build_site.EXTENSIONS.items():
                self.assertIn(f'<script src="{file}"></script>', text)
                self.assertIn(f"{name}.init();", text)
                self.assertTrue((self.site / file).is_file(), file)

    def test_a_page_with_several_sections_lists_them(self):
        for page in pages.lessons():
            contents = re.search(r'aria-current="page">[^<]*</a><div class="sections">.*?</div>', self.html_of(page), re.DOTALL)
            self.assertIsNotNone(contents, page.as_posix())
            self.assertNotIn('class="toc"', self.html_of(page))
            text = (pages.ROOT / page).read_text(encoding="utf-8")
            headings = [line for _, line in pages.prose(text) if line.startswith("## ")]
            for heading in headings:
                anchor = site_filter.anchor(page, pages.slug(pages.HEADING.match(heading)["text"]))
                self.assertIn(f'href="#{anchor}"', contents[0], page.as_posix())

    def test_what_a_difference_adds_and_removes_is_marked(self):
        differences = 0
        for page in pages.pages():
            lines = [line for block in self.blocks_of(page) if block.language == "diff" for line in block.lines]
            text = self.html_of(page)
            for sign, kind in build_site.KINDS.items():
                self.assertEqual(text.count(f'<div class="line {kind}">'), sum(line.startswith(sign) for line in lines), page.as_posix())
            differences += len(lines)
        self.assertGreater(differences, 0)

    def sections(self) -> list:
        return json.loads((self.site / "words.js").read_text(encoding="utf-8").removeprefix("const sections = ").rstrip(";\n"))

    def test_the_words_of_every_section_are_listed_with_its_address(self):
        sections = self.sections()
        names = {section["heading"]: section for section in sections if section["page"] == "the library"}
        self.assertEqual(names["ProducerConsumerPipeline"]["address"], "classstagecraft_1_1ProducerConsumerPipeline.html")
        for name in ("ProducerConsumerPipeline", "ProducerConsumerPipeline::wait_consumer", "GemmProblem::fusion"):
            self.assertNotEqual(names[name]["text"], "", name)
        self.assertEqual(sections[0]["page"], pages.title((pages.ROOT / pages.lessons()[0]).read_text(encoding="utf-8")))
        for section in sections:
            file, _, anchor = section["address"].partition("#")
            self.assertRegex((self.site / file).read_text(encoding="utf-8"), f'(id|name)="{re.escape(anchor)}"' if anchor else "html")
        for word in ("ProducerConsumerPipeline", "persistent", "parity"):
            self.assertTrue(any(word in section["text"] for section in sections), word)

    def in_chromium(self, address: str) -> tuple:
        """What a page is after its scripts ran, and what they said on the console."""
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        if chromium is None:
            self.skipTest("Chromium is not installed, so no script of the site was run")
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run([chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
                                   "--enable-logging=stderr", "--virtual-time-budget=5000", "--dump-dom",
                                   f"file://{self.site.resolve()}/{address}"], capture_output=True, text=True, timeout=120)
        return done.stdout, [line for line in done.stderr.split("\n") if ":CONSOLE" in line]

    def test_a_browser_finds_words_and_reports_no_error(self):
        for word, expected in (("ProducerConsumerPipeline", "page_chapters_03_"), ("persistent", "page_chapters_12_"),
                               ("parity", "page_chapters_01_")):
            shown, console = self.in_chromium(f"page_search.html?words={word}")
            found = re.search(r'<ol id="found">.*?</ol>', shown, re.DOTALL)[0]
            self.assertIn(f'href="{expected}', found)
            self.assertRegex(shown, r'<p id="count" role="status">\d+ section')
            self.assertEqual(console, [])

    def test_a_browser_shows_a_lesson_without_an_error(self):
        shown, console = self.in_chromium(f"{site_filter.identifier(pages.lessons()[1])}.html")
        self.assertEqual(console, [])
        if build_site.look_folder() is not None:
            for part in ("<doxygen-awesome-dark-mode-toggle", "<doxygen-awesome-fragment-copy-button"):
                self.assertIn(part, shown)

    def recorded(self) -> list:
        found = sorted((self.site / "timelines").glob("*.html"))
        if not found:
            self.skipTest("no program of a chapter is built, so the lessons have no timelines")
        return found

    def test_a_program_that_is_older_than_its_lesson_costs_one_timeline(self):
        """A program without the launch, as one that was built before the lesson changed; with --strict it is an error."""
        marker = next(marker for page in pages.lessons() for marker in timelines.in_text(pages.read(page)))
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / marker["program"]
            program.parent.mkdir()
            program.symlink_to("/bin/true")
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(build_site.record_timelines(pathlib.Path(folder), pathlib.Path(folder) / "pages", False), set())
            self.assertIn(f"the timeline of {marker['name']} is left out", said.getvalue())
            with self.assertRaises(timelines.NoTimeline):
                build_site.record_timelines(pathlib.Path(folder), pathlib.Path(folder) / "pages", True)

    def need_chromium(self):
        if find_chromium() is None:
            self.skipTest("Chromium is not installed, so no script of the site was run")

    def test_each_lesson_from_01_on_shows_a_right_and_a_wrong_run(self):
        for page in pages.lessons():
            markers = timelines.in_text((pages.ROOT / page).read_text(encoding="utf-8"))
            chapter = page.parent.name
            if chapter.startswith("00"):
                continue
            names = [marker["name"] for marker in markers]
            self.assertEqual(names[:1], [f"{chapter}_solution"], page.as_posix())
            self.assertEqual(len(names), 2, page.as_posix())
            mistakes = (pages.ROOT / "tests/chapters" / chapter / f"{chapter[:2]}.mistakes").read_text(encoding="utf-8")
            self.assertIn("\n== " + names[1].removeprefix(f"{chapter}_wrong_") + "\n", mistakes)

    def test_the_run_of_a_wrong_answer_is_reported_and_that_of_a_solution_is_not(self):
        for page in self.recorded():
            self.assertLess(page.stat().st_size, 300_000, page.name)
            run = timelines.read_run(page)
            self.assertEqual("_wrong_" in page.name, run["report"] != "", page.name)
            self.assertTrue(run["warps"] and run["barriers"], page.name)

    def test_every_run_is_shown_in_a_browser_without_an_error(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        for page in self.recorded():
            browser.open(page, width=900, height=640)
            self.assertNotEqual(browser.text("#now .sentence"), "", page.name)
            browser.press("n")
            browser.press("ArrowLeft")
            self.assertEqual(browser.console, [], page.name)
            lesson = self.lesson_of(page.stem)
            self.assertEqual(browser.text(".way a"), pages.title(pages.read(lesson)).replace("`", ""))
            self.assertTrue(browser.evaluate("document.querySelector('.way a').href").endswith(f"/html/{site_filter.address(lesson)}"))

    def lesson_of(self, name: str) -> pathlib.Path:
        """The lesson that shows a run."""
        return next(page for page in pages.lessons() if page.parent.name == name.partition("_solution")[0].partition("_wrong_")[0])

    def test_the_runs_of_a_lesson_follow_its_theme_and_are_seen_whole(self):
        self.need_chromium()
        self.need_the_look()
        lesson = self.lesson_of(self.recorded()[0].stem)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=self.site))
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = Browser()
        self.addCleanup(browser.close)
        browser.open(f"http://127.0.0.1:{server.server_port}/{site_filter.identifier(lesson)}.html")
        browser.evaluate("document.querySelector('.timeline').scrollIntoView()")
        theme = "document.querySelector('.timeline iframe').contentDocument?.documentElement?.dataset.theme"
        for expected in ("light", "dark"):
            for _ in range(50):   # the frame is loaded when it is near
                if browser.evaluate(theme) == expected:
                    break
                time.sleep(0.1)
            self.assertEqual(browser.evaluate(theme), expected)
            browser.evaluate("document.querySelector('doxygen-awesome-dark-mode-toggle').click()")
        left = browser.evaluate("(() => { const frame = document.querySelector('.timeline iframe'), page = frame.contentDocument, lanes = page.getElementById('lanes');"
                                " return [lanes.scrollHeight - lanes.clientHeight, frame.clientHeight - page.body.offsetHeight]; })()")
        self.assertEqual(left[0], 0)   # nothing is out of sight in the drawing
        self.assertIn(left[1], range(0, 30))   # and the frame is full

    def test_a_word_shows_its_definition_where_a_lesson_first_uses_it(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        lesson = self.site / site_filter.address(pages.lessons()[2])
        term = ".term[aria-describedby=term-ring]"
        shown = f"getComputedStyle(document.querySelector('{term} .definition')).display"
        for width in (1200, 390):
            browser.open(lesson, width=width, height=800)
            self.assertGreater(browser.evaluate("document.querySelectorAll('.term').length"), 5)
            self.assertEqual(browser.evaluate(shown), "none")
            browser.click(term)   # a tap on a phone; the pointer is over it, too
            self.assertEqual(browser.evaluate(shown), "block")
            self.assertEqual(browser.text(f"{term} .definition"), "ring: stages used in turn, and their barriers All words")
            box = browser.evaluate(f"(() => {{ const box = document.querySelector('{term} .definition').getBoundingClientRect();"
                                   "return [box.left, box.right]; })()")
            self.assertGreaterEqual(box[0], 0)
            self.assertLessEqual(box[1], width)
            browser.press("Escape")
            self.assertEqual(browser.evaluate(shown), "none")
            browser.mouse("mouseMoved", 1, 1)
            browser.evaluate(f"document.querySelector('{term}').blur(); document.querySelector('{term}').focus()")
            self.assertEqual(browser.evaluate(shown), "block")
            self.assertEqual(browser.console, [])

    def test_a_solution_is_a_page_with_its_lines_in_both_themes(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        path = pages.pathlib.Path("solutions/02_ring_of_stages/ring.cu")
        lines = (pages.ROOT / path).read_text(encoding="utf-8").splitlines()
        for dark in (False, True):
            browser.open(self.site / site_filter.copy_address(path), "#L12", width=390, height=844, dark=dark)
            self.assertEqual(browser.evaluate("document.documentElement.className"), "dark-mode" if dark else "light-mode")
            self.assertEqual(browser.evaluate("[...document.querySelectorAll('.line')].map(line => line.textContent.trimEnd())"), lines)
            self.assertEqual(browser.evaluate("document.querySelector('.line:target').textContent.trimEnd()"), lines[11])
            self.assertLessEqual(browser.evaluate("document.documentElement.scrollWidth"), 390)
            self.assertEqual(browser.console, [])

    def test_a_type_and_its_lessons_lead_to_each_other(self):
        lesson, described = self.html_of(pages.lessons()[3]), "classstagecraft_1_1ProducerConsumerPipeline.html"
        self.assertIn(f'<a class="name" href="{described}"><code>ProducerConsumerPipeline', lesson)
        self.assertIn(f'<p class="lessons">In the lessons: <a href="{site_filter.address(pages.lessons()[3])}">',
                      (self.site / described).read_text(encoding="utf-8"))

    def test_no_star_of_bold_text_is_left(self):
        for page in pages.pages():
            self.assertNotIn("**<code>", self.html_of(page), page.as_posix())

    def test_no_page_takes_a_method_for_a_function_of_the_emulator(self):
        for page in pages.pages():
            if page.parts[0] not in ("common", "tests"):
                self.assertNotIn('href="namespacestagecraft_1_1emulator', self.html_of(page), page.as_posix())

    def test_enter_in_the_box_at_the_top_finds_words(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        browser.open(self.site / site_filter.address(pages.lessons()[0]), width=1200)
        browser.evaluate("document.getElementById('MSearchField').focus(); document.getElementById('MSearchField').value = 'mbarrier parity'")
        browser.press("Enter")
        found = "[...document.querySelectorAll('#found a')].map(link => link.getAttribute('href'))"
        for _ in range(100):   # between two pages there is none
            if browser.evaluate(found):
                break
            time.sleep(0.1)
        self.assertTrue(any(address.startswith("page_chapters_01_") for address in browser.evaluate(found)))
        self.assertEqual(browser.console, [])

    def test_the_lines_of_a_report_wrap(self):
        style = (self.site / "site.css").read_text(encoding="utf-8")
        self.assertRegex(style, r"(?m)^\.console div\.fragment \.line \{[^}]*white-space: pre-wrap;")
        for page in pages.pages():
            consoles = [block for block in self.blocks_of(page) if block.language == "console"]
            marked = self.html_of(page).count('<div class="console"><div class="fragment">')
            self.assertEqual(marked, len(consoles), page.as_posix())
        lesson = self.html_of(pages.lessons()[13])
        self.assertRegex(lesson, r'<div class="line columns">  warp 1, multiplies  +\.')
        self.assertRegex(lesson, r'<div class="line columns">  warp 2, copies, reads tensor memory  \.')
        self.assertRegex(lesson, r'<div class="line">stagecraft: timeline of kernel')
        self.assertRegex(lesson, r'<div class="line">  block \(0,0,0\) warp')

    def test_each_lesson_leads_to_the_one_before_and_the_one_after(self):
        lessons = pages.lessons()
        self.assertGreater(len(lessons), 1)
        for before, page, after in zip([None, *lessons], lessons, [*lessons[1:], None]):
            links = dict(re.findall(r'<div class="(previous|next)"><a class="el" href="([^"]*)">', self.html_of(page)))
            expected = {"previous": before, "next": after}
            self.assertEqual(links, {side: f"{site_filter.identifier(other)}.html" for side, other in expected.items() if other})

    def test_the_lessons_come_first_in_the_rail_and_in_order(self):
        rail = re.search(r'<details class="rail">.*?</details>', self.html_of(pathlib.Path(pages.REFERENCE_PAGE)), re.DOTALL)[0]
        entries = re.findall(r'<a href="(page_chapters[^"]*|page_docs[^"]*)"', rail)
        lessons = [site_filter.address(page) for page in pages.lessons()]
        self.assertEqual(entries[:len(lessons) + 1], ["page_chapters.html", *lessons])
        self.assertEqual([address for address in re.findall('href="(page_[^"]*)"', rail) if address.startswith(("page_tests", "page_docs_figures"))], [])
        for name in pages.FOR_MAINTAINERS:
            self.assertIn(site_filter.address(pathlib.Path(name)), self.html_of(pathlib.Path(pages.MAINTAINERS_PAGE)))

    def test_no_page_names_its_maker_or_lacks_what_a_browser_asks_for(self):
        descriptions = set()
        for page in [*self.site.glob("*.html"), *(self.site / "emulator").glob("*.html")]:
            text = page.read_text(encoding="utf-8")
            self.assertNotIn("doxygen.svg", text, page.name)
            self.assertNotIn("Generated by", text, page.name)
            self.assertIn('<html lang="en">', text, page.name)
            icon = re.search(r'<link rel="icon" href="([^"]*)">', text)[1]
            self.assertTrue((page.parent / icon).is_file(), page.name)
            descriptions.add(re.search(r'<meta name="description" content="([^"]+)">', text)[1])
        self.assertGreater(len(descriptions), 500)   # each page has its own, where it has a text

    def test_a_structure_is_a_table(self):
        shown = (self.site / "structstagecraft_1_1GemmProblem.html").read_text(encoding="utf-8")
        self.assertIn('<div class="title">Struct GemmProblem</div>', shown)
        fields = re.search(r'<table class="doxtable fields">.*?</table>', shown, re.DOTALL)[0]
        row = r'<tr id="(\w+)"><td><code>batches</code></td><td><code>int64_t</code></td><td><code>1</code></td><td><p>products of this size *</p></td></tr>'
        self.assertRegex(fields, row)
        self.assertNotIn("More...", fields)
        self.assertNotIn("Member Data Documentation", shown)
        address = next(section["address"] for section in self.sections() if section["heading"] == "GemmProblem::batches")
        self.assertTrue(address.endswith("#" + re.search(row, fields)[1]))

    def test_the_list_of_types_is_open(self):
        types = (self.site / "annotated.html").read_text(encoding="utf-8")
        self.assertIn('<div class="title">Types</div>', types)
        self.assertRegex(types, r'<tr id="row_0_1_"')
        self.assertNotIn('style="display:none;"', types)

    def test_the_reference_of_the_emulator_is_apart_and_all_headers_of_the_library_are_links(self):
        library = self.html_of(pathlib.Path("common/stagecraft/README.md"))
        self.assertGreater(len(re.findall(r'<code><a class="el" href="[^"]*"[^>]*>\w+\.hpp</a></code>', library)), 40)
        self.assertNotRegex(library, r"<td[^>]*>(?:<code>.*?</code>, )*<code>\w+\.hpp</code>")
        self.assertEqual(list(self.site.glob("*stagecraft_1_1emulator*.html")), [])
        self.assertNotIn("emulator", (self.site / "annotated.html").read_text(encoding="utf-8").partition('<main')[2])
        self.assertIn("grid_8hpp.html", (self.site / "emulator" / "files.html").read_text(encoding="utf-8"))
        self.assertIn('href="emulator/', self.html_of(pathlib.Path("docs/emulator.md")).partition("<main")[2])


if __name__ == "__main__":
    output, programs = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
    SiteTest.site = output / "html"
    SiteTest.build = subprocess.run([sys.executable, str(TOOLS / "build_site.py"), output, "--no-graphs", "--strict", "--programs", programs], check=False, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "LC_ALL": "C.UTF-8"})
    if SiteTest.build.returncode == 77:
        print(SiteTest.build.stdout, end="")
        sys.exit(77)
    unittest.main(verbosity=2)
