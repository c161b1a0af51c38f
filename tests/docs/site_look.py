"""Tests of how the site looks in a browser: on a phone, in a narrow window, in both themes, and what its search finds first.

They are those of SiteTest in site_test.py, which builds the site.
"""

import json
import pathlib
import re
import time

import pages
import site_filter
from browser import Browser

# The pieces of text of a page whose contrast with what is behind them is below 4.5, which WCAG 2 asks for (1.4.3).
PALE = pathlib.Path(__file__).with_name("contrast.js")


class LookTests:
    # What a reader who looks for a word finds first: the lesson that teaches it, the name itself, or what its report means.
    FIRST = {"TMA store": "page_chapters_13_", "tma store": "page_chapters_13_", "parity": "page_chapters_01_", "persistent": "page_chapters_12_",
             "ProducerConsumerPipeline": "classstagecraft_1_1ProducerConsumerPipeline.html", "deadlock": "page_docs_reports_deadlock.html",
             "cluster": "page_chapters_05_", "swizzle": "page_chapters_07_", "elect_one": "namespacestagecraft.html#",
             "elect_one()": "namespacestagecraft.html#", "commit": "page_chapters_06_", "tcgen05.ld": "page_chapters_08_",
             "multicast": "page_chapters_05_", "expect_bytes": "namespacestagecraft.html#", "ring": "page_chapters_02_",
             "hang": "page_chapters_00_", "epilogue": "page_chapters_13_", "tensor memory": "page_chapters_08_",
             "swizzle-mismatch": "page_docs_reports_swizzle_mismatch.html", "Cluster launch control": "page_chapters_12_",
             "glossary": "page_docs_glossary.html", "GemmPlan::run": "classstagecraft_1_1GemmPlan.html#", "split_k": "structstagecraft_1_1Gemm",
             "why does my kernel hang": "page_chapters_00_"}

    def test_the_best_answer_is_found_first(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        browser.open(self.site / "page_search.html")
        for question, expected in self.FIRST.items():
            found = browser.evaluate(f"findSections(sections, {json.dumps(question)}).map(section => [section.address, section.kind])")
            with self.subTest(question=question, found=found[:3]):
                self.assertTrue(found[0][0].startswith(expected))
                kinds = [kind for _, kind in found]
                lessons = [place for place, kind in enumerate(kinds) if kind == "lesson"]
                if "gallery" in kinds and lessons:
                    self.assertLess(lessons[0], kinds.index("gallery"))
        self.type(browser, "tma STORE")
        self.assertRegex(browser.text("#found li"), r"^Step 3: .+ 13: ")
        self.assertEqual(browser.console, [])

    TYPE = "(() => { const field = document.getElementById('MSearchField'); field.focus(); field.value = %s; field.dispatchEvent(new Event('input')); })()"

    def type(self, browser, words):
        browser.evaluate(self.TYPE % json.dumps(words))
        # The list is loaded, however long that takes, and then shown.
        browser.evaluate("(async () => { for (let i = 0; i < 100 && !document.querySelector('#suggestions a, #found li'); ++i)"
                         " await new Promise(done => setTimeout(done, 100)); await new Promise(done => setTimeout(done, 300)); })()")

    def test_the_search_shows_the_sentence_with_the_word_marked(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        browser.open(self.site / "page_search.html", "&words=parity")
        self.type(browser, "parity")
        for found in browser.evaluate("[...document.querySelectorAll('#found li')].slice(0, 20).map(item =>"
                                      " [item.querySelector('p').innerText, [...item.querySelectorAll('mark')].map(mark => mark.innerText.toLowerCase())])"):
            self.assertIn("parity", found[1])
            self.assertLess(len(found[0]), 300)
        self.type(browser, "pitch")
        self.assertIn("GemmOperand::pitch", browser.text("#found"))   # a member, by a part of its name
        self.type(browser, "mbarrrier")
        self.assertEqual(browser.evaluate("document.querySelectorAll('#found li').length"), 0)
        self.assertEqual(browser.evaluate("[...document.querySelectorAll('#count a')].map(link => link.innerText)"), ["glossary", "lessons"])
        self.type(browser, "parity mbarrrier")
        self.assertIn("The closest", browser.text("#count"))
        self.assertGreater(browser.evaluate("document.querySelectorAll('#found li').length"), 3)
        self.assertEqual(browser.console, [])

    def test_the_box_suggests_lessons_and_names_of_the_library_while_one_types(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        for page, top in (("index.html", ""), ("emulator/annotated.html", "../")):
            for width in (1400, 390):
                browser.open(self.site / page, width=width, height=844)
                self.type(browser, "parity")
                found = browser.evaluate("[...document.querySelectorAll('#suggestions a')].map(link => link.getAttribute('href'))")
                self.assertEqual(len(found), 8)
                self.assertTrue(found[0].startswith(top + "page_chapters_01_"), found)
                self.assertEqual([address for address in found if "stagecraft_1_1emulator" in address], [])
                box = browser.evaluate("(() => { const box = document.getElementById('suggestions').getBoundingClientRect(); return [box.left, box.right]; })()")
                self.assertGreaterEqual(box[0], 0)
                self.assertLessEqual(box[1], width)
                browser.press("Escape")
                self.assertFalse(browser.evaluate("document.getElementById('suggestions').checkVisibility()"))
                self.assertEqual(browser.console, [])

    def test_a_phone_has_the_lessons_behind_a_button(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        lessons = pages.lessons()
        browser.open(self.site / site_filter.address(lessons[2]), width=390, height=844)
        self.assertEqual(browser.evaluate("document.querySelector('.rail').open"), False)
        browser.click(".rail summary")
        entries = browser.evaluate(self.ENTRIES)
        self.assertEqual(entries[:1 + len(lessons)], ["page_chapters.html", *map(site_filter.address, lessons)])
        self.assertEqual(browser.evaluate("document.querySelectorAll('summary, #main-menu, .main-menu-btn').length"
                                          " - document.querySelectorAll('main summary').length"), 1)   # one menu
        self.assertLess(browser.evaluate("document.getElementById('top').offsetHeight"), 64)   # one bar
        self.assertEqual(browser.text(".rail [aria-current]"), pages.title(pages.read(lessons[2])))
        browser.click(f".rail a[href='{site_filter.address(lessons[3])}']")
        title = pages.title(pages.read(lessons[3]))
        shown = ""
        for _ in range(50):   # between two pages there is none
            shown = browser.evaluate("document.querySelector('.headertitle .title')?.innerText")
            if shown == title:
                break
            time.sleep(0.1)
        self.assertEqual(shown, title)

    ENTRIES = ("[...document.querySelectorAll('.rail a')].filter(a => a.checkVisibility() && !a.closest('.sections'))"
               ".map(a => a.getAttribute('href'))")

    def test_all_lessons_are_in_sight_beside_a_page_with_whole_titles(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        lessons = pages.lessons()
        for page in ("index.html", site_filter.address(lessons[10])):
            browser.open(self.site / page, width=1400, height=900)
            self.assertEqual(browser.evaluate(self.ENTRIES)[1:1 + len(lessons)], list(map(site_filter.address, lessons)))
            for link in browser.evaluate("[...document.querySelectorAll('.rail > nav > ul:first-of-type > li > a')].map(a => { const box ="
                                         " a.getBoundingClientRect(); return [box.bottom, a.scrollWidth - a.clientWidth, getComputedStyle(a).textOverflow]; })"):
                self.assertLessEqual(link[0], 900)
                self.assertEqual(link[1:], [0, "clip"])

    def test_no_code_is_cut_in_a_wide_window(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        for page in pages.pages():
            browser.open(self.site / site_filter.address(page), width=1400, height=900)
            self.assertEqual(browser.evaluate("[...document.querySelectorAll('div.fragment')].filter(box => box.scrollWidth > box.clientWidth)"
                                              ".map(box => box.innerText.slice(0, 200))"), [], page.as_posix())

    def test_the_glossary_is_a_list_in_sight(self):
        self.need_chromium()
        browser = Browser()
        self.addCleanup(browser.close)
        for width in (1400, 390):
            browser.open(self.site / "page_docs_glossary.html", width=width)
            words = browser.evaluate("[...document.querySelectorAll('.words a')].map(link => link.innerText.toLowerCase())")
            self.assertGreater(len(words), 80)
            self.assertEqual(words, sorted(words))
            self.assertGreater(browser.evaluate("Math.min(...[...document.querySelectorAll('.glossary dd')].map(entry => entry.offsetWidth))"), 300)
            browser.click(".words a[href='#term-parity']")
            self.assertIn("the phase modulo two", browser.evaluate("document.querySelector(':target').closest('dt').nextElementSibling.innerText"))

    # What is wider than the page.
    OVER = ("(() => { const contents = document.getElementById('doc-content');"
            " return Math.max(contents.scrollWidth - contents.clientWidth, document.documentElement.scrollWidth - innerWidth); })()")

    def of_headers(self) -> list:
        """The pages that Doxygen makes of headers; those of the repository have another test."""
        written = {site_filter.address(page) for page in pages.pages()}
        return [page for page in sorted([*self.site.glob("*.html"), *(self.site / "emulator").glob("*.html")]) if page.name not in written]

    def test_a_phone_shows_every_page_without_an_error_and_without_scrolling_sideways(self):
        self.need_chromium()
        self.need_the_look()
        browser = Browser()
        self.addCleanup(browser.close)
        for number, page in enumerate([*(self.site / site_filter.address(page) for page in pages.pages()), *self.of_headers()[::40]]):
            browser.open(page, width=390, height=844, dark=number % 2 == 0)
            self.assertLessEqual(browser.evaluate(self.OVER), 0, page.name)
            self.assertTrue(browser.evaluate("document.querySelector('.rail summary').checkVisibility()"), page.name)
            self.assertEqual(browser.console, [], page.name)

    def test_what_is_made_of_a_header_fits_a_phone(self):
        """All of these pages have the same scripts, so one is loaded, and gets the contents of one after the other."""
        self.need_chromium()
        self.need_the_look()
        browser = Browser()
        self.addCleanup(browser.close)
        of_headers = self.of_headers()
        self.assertGreater(len(of_headers), 2000)
        contents = re.compile(r'<main id="doc-content">.*</main>', re.DOTALL)
        folder = None
        for page in of_headers:
            if page.parent != folder:
                browser.open(page, width=390, height=844)
                folder = page.parent
            found = contents.search(page.read_text(encoding="utf-8"))
            self.assertIsNotNone(found, page.name)
            width = browser.evaluate(f"document.getElementById('doc-content').outerHTML = {json.dumps(found[0])};"
                                     + self.OVER)
            self.assertLessEqual(width, 0, page.name)
        self.assertEqual(browser.console, [])

    def test_a_narrow_window_beside_the_rail_fits_too(self):
        self.need_chromium()
        self.need_the_look()
        browser = Browser()
        self.addCleanup(browser.close)
        for page in [*(self.site / site_filter.address(page) for page in pages.pages()), *self.of_headers()[::40]]:
            browser.open(page, width=768, height=1024)
            self.assertLessEqual(browser.evaluate(self.OVER), 0, page.name)
            self.assertEqual(browser.evaluate("(() => { const box = document.querySelector('#MSearchBox').getBoundingClientRect(), list ="
                                              " document.querySelector('.rail').getBoundingClientRect(); return box.bottom <= list.top; })()"),
                             True, page.name)

    def test_a_table_that_is_too_wide_shows_that_there_is_more(self):
        """The shadow is in the background, and the cells do not cover it."""
        self.need_chromium()
        self.need_the_look()
        browser = Browser()
        self.addCleanup(browser.close)
        browser.open(self.site / site_filter.address(pathlib.Path("docs/timing.md")), width=390, height=844)
        boxes = browser.evaluate("""[...document.querySelectorAll('.markdownTable tbody, div.fragment, div.image')].filter(box =>
            box.scrollWidth > box.clientWidth).map(box => { const style = getComputedStyle(box); return [style.overflowX,
            style.backgroundAttachment, [...box.querySelectorAll('td, .line')].every(cell =>
                getComputedStyle(cell).backgroundColor === 'rgba(0, 0, 0, 0)')]; })""")
        self.assertGreater(len(boxes), 5)
        for box in boxes:
            self.assertEqual(box, ["auto", "local, local, scroll, scroll, scroll", True])

    def test_all_text_can_be_read_in_both_themes(self):
        self.need_chromium()
        self.need_the_look()
        browser = Browser()
        self.addCleanup(browser.close)
        lessons = pages.lessons()
        shown = [*map(site_filter.address, (pathlib.Path(pages.MAIN_PAGE), lessons[2], lessons[13], pathlib.Path("docs/bugs/product.md"),
                                            pathlib.Path("docs/timing.md"))),
                 "classstagecraft_1_1ProducerConsumerPipeline.html", site_filter.copy_address(pathlib.Path("solutions/02_ring_of_stages/ring.cu")),
                 *(f"timelines/{page.name}" for page in sorted((self.site / "timelines").glob("*.html"))[:2])]
        for page in shown:
            for dark in (False, True):
                browser.open(self.site / page, dark=dark)
                self.assertGreater(browser.evaluate("document.body.innerText.length"), 100, page)
                self.assertEqual(browser.evaluate(PALE.read_text(encoding="utf-8")), [], f"{page}, {'dark' if dark else 'light'}")

    def test_no_tag_is_shown_in_the_rail_or_in_a_windows_title(self):
        self.assertNotRegex((self.site / "index.html").read_text(encoding="utf-8").partition("<main")[0], "&lt;|`")
        for page in self.site.glob("page_*.html"):
            self.assertNotIn("&lt;tt", re.search("<title>.*?</title>", page.read_text(encoding="utf-8"))[0], page.name)
