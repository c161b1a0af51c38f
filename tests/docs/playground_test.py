#!/usr/bin/env python3
"""Tests the playground: each question in Node, and the page in a headless Chromium.

playground_test.py FOLDER [TEST...]   FOLDER is the built page; exits with 77 where it was not built
"""

import functools
import http.server
import json
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
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common" / "tools"))
import build_playground  # noqa: E402
import pages  # noqa: E402
import site_filter  # noqa: E402
import site_playground  # noqa: E402
from browser import Browser, find_chromium  # noqa: E402


class QuestionTest(unittest.TestCase):
    folder: pathlib.Path

    @classmethod
    def setUpClass(cls):
        node = shutil.which("node")
        if node is None:
            raise unittest.SkipTest("Node is not installed, so no question was run outside of a browser")
        done = subprocess.run([node, pathlib.Path(__file__).with_name("run_questions.js"), cls.folder], capture_output=True,
                              text=True, check=False, timeout=600)
        cls.assertEqual(cls(), done.returncode, 0, done.stderr)
        cls.runs = [json.loads(line) for line in done.stdout.splitlines()]

    def results(self, name):
        """The results of a run that each of the kernels has."""
        found = [run["result"] for run in self.runs if run["name"] == name]
        self.assertEqual(len(found), len(build_playground.KERNELS), name)
        return found

    def test_each_question_has_the_outcome_that_its_answer_explains(self):
        asked = [run for run in self.runs if "outcome" in run]
        self.assertEqual({run["kernel"] for run in asked}, set(build_playground.KERNELS))
        for run in asked:
            with self.subTest(kernel=run["kernel"], question=run["name"]):
                result, outcome = run["result"], run["outcome"]
                text = result["output"] + "\n" + result["report"]
                self.assertEqual(re.findall(r"(?m)^stagecraft: (.+?) in kernel ", result["report"]), outcome["reports"], text)
                following = re.findall(r"(?m)^  \d+ more reports? follows? from this one: (.+)$", result["report"])
                self.assertEqual([re.sub(" at .*", "", each) for line in following for each in line.split(", ")],
                                 outcome.get("follow", []), text)
                results = "right" if re.match(r"All \d+ results are right\.$", result["output"]) else \
                    "wrong" if "results are wrong" in result["output"] else "none"
                self.assertEqual(results, outcome["results"], text)
                self.assertEqual(result["status"] == 0, results == "right", text)

    def test_a_report_names_lines_of_the_shown_kernel_and_no_folder_of_this_machine(self):
        self.assertGreater(len(self.runs), 10)
        for run in self.runs:
            for number in re.findall(rf"\b{run['kernel']}\.cu:(\d+)", run["result"]["report"]):
                self.assertLessEqual(int(number), len((self.folder / f"{run['kernel']}.cu").read_text().splitlines()))
            self.assertNotIn(str(ROOT), run["result"]["report"])
            self.assertNotIn(str(ROOT), (self.folder / f"{run['kernel']}.ptx").read_text(encoding="utf-8"))

    def test_a_setting_that_the_kernel_does_not_have_is_refused(self):
        for result in self.results("a setting that is not known"):
            self.assertEqual(result["status"], 1)
            self.assertEqual(result["output"], "this kernel has no setting 'stage'")

    def test_the_page_shows_the_defaults_of_the_kernels(self):
        """Settings that are left out change nothing: the values in kernels.js are those of settings.hpp."""
        for left_out, given in zip(self.results("the defaults of the kernel"), self.results("the text")):
            self.assertEqual(left_out, given)
            self.assertEqual(left_out["output"][:3], "All")

    def test_a_timeline_is_a_page_with_the_roles_of_the_kernel(self):
        runs = [run for run in self.runs if run["name"] == "As it should be"]
        self.assertEqual(len(runs), len(build_playground.KERNELS))
        for run in runs:
            self.assertTrue(run["result"]["timeline"].startswith("<!DOCTYPE html>"))
            role = {"ring": "add (warp 1)", "barrier": "read (warp 1)", "product": "multiply (warp 5)"}[run["kernel"]]
            self.assertIn(f'"{role}"', run["result"]["timeline"])
        for result in self.results("the text"):
            self.assertIn("stagecraft: timeline of kernel", result["timeline"])


class LinkTest(unittest.TestCase):
    folder: pathlib.Path

    def test_each_kernel_names_the_page_of_its_lesson(self):
        named = re.findall(r'page: "([^"]*)"', (ROOT / "docs/playground/kernels.js").read_text(encoding="utf-8"))
        lessons = {f"{site_filter.identifier(page)}.html" for page in pages.lessons()}
        self.assertGreaterEqual(len(named), len(build_playground.KERNELS))
        self.assertLessEqual(set(named), lessons)

    def test_the_site_has_the_page_and_links_to_it(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder)
            (site / "index.html").write_text("<p>first</p><h1>Why</h1>", encoding="utf-8")
            names = [f"{site_filter.identifier(page)}.html" for page in pages.lessons()]
            for name in names:
                (site / name).write_text('<p>text</p><div class="neighbours"></div>', encoding="utf-8")
            site_playground.add(self.folder, site)
            linked = [name for name in ["index.html", *names] if 'href="playground/index.html#' in (site / name).read_text()]
            self.assertEqual(linked, ["index.html", *names[1:4], *names[8:10]])
            self.assertIn('<a href="../index.html">', (site / "playground/index.html").read_text(encoding="utf-8"))
            self.assertTrue((site / "playground/playground.wasm").is_file())

    def test_a_site_without_the_page_has_no_link(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder)
            site_playground.add(site / "not built", site)
            self.assertEqual(list(site.iterdir()), [])


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class PageTest(unittest.TestCase):
    folder: pathlib.Path

    @classmethod
    def setUpClass(cls):
        if find_chromium() is None:
            raise unittest.SkipTest("Chromium is not installed, so the page was not opened")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietHandler, directory=cls.folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        cls.addClassCleanup(server.shutdown)
        cls.address = f"http://127.0.0.1:{server.server_port}/index.html"
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.console.clear()

    def tearDown(self):
        self.assertEqual(self.browser.console, [])

    def wait_for(self, condition, seconds=60):
        end = time.monotonic() + seconds
        while not self.browser.evaluate(condition):
            self.assertLess(time.monotonic(), end, f"{condition}: {self.browser.text('body')}")
            time.sleep(0.1)

    def open_and_run(self, address, **more):
        self.browser.open(self.address, address, **more)
        self.wait_for("document.querySelectorAll('#questions button').length > 0")
        self.wait_for("!document.getElementById('results').hidden")

    def test_a_question_runs_and_its_report_leads_to_the_line(self):
        self.browser.open(self.address, "#ring")
        self.wait_for("document.querySelectorAll('#source .line').length > 10")
        self.browser.evaluate("[...document.querySelectorAll('#questions button')].find(b => b.textContent === 'Who goes first?').click()")
        self.assertIn("begin with parity 0", self.browser.text("#question"))
        self.assertEqual(self.browser.text("#fields .changed span"), "the producer's first parity")
        self.browser.click("#run")
        self.wait_for("!document.getElementById('results').hidden")
        self.assertEqual(self.browser.text("#verdict"), "Found: deadlock")
        self.assertIn("likely cause: nobody has ever arrived at empty[0] or full[0]", self.browser.text("#report"))
        self.assertFalse(self.browser.evaluate("document.getElementById('answer').open"))
        link = self.browser.text("#report a")
        self.browser.click("#report a")
        self.assertIn("wait(&empty[stage], parity)", self.browser.text("#source .chosen"))
        self.assertEqual(self.browser.evaluate("document.querySelector('#source .chosen').id"), "line-" + link.split(":")[1])

    def test_the_timeline_is_the_viewer_with_the_roles_of_the_warps(self):
        self.open_and_run("#ring/0")
        self.assertEqual(self.browser.text("#verdict"), "Right, and nothing to report")
        self.wait_for("document.getElementById('frame').contentDocument.querySelector('#lanes svg') !== null")
        lanes = self.browser.evaluate("document.getElementById('frame').contentDocument.querySelector('#lanes').textContent")
        self.assertIn("copy", lanes)
        self.assertIn("add", lanes)

    def test_the_timeline_shows_the_tensor_core_and_its_roles(self):
        self.open_and_run("#product/0")
        self.assertEqual(self.browser.text("#verdict"), "Right, and nothing to report")
        self.wait_for("document.getElementById('frame').contentDocument.querySelector('#lanes svg') !== null")
        lanes = self.browser.evaluate("document.getElementById('frame').contentDocument.querySelector('#lanes').textContent")
        for name in ("copy", "multiply", "store", "tensor core"):
            self.assertIn(name, lanes)

    def test_a_missing_commit_hangs_and_the_line_of_the_wait_is_marked(self):
        self.open_and_run("#product/1")
        self.assertEqual(self.browser.text("#verdict"), "Found: deadlock")
        self.assertIn("nobody has ever arrived at done", self.browser.text("#report"))
        marked = self.browser.evaluate("[...document.querySelectorAll('#source .named')].map(line => line.textContent)")
        self.assertTrue(any("wait(&done, settings.done_parity);" in line for line in marked), marked)

    def test_what_happened_is_in_sight(self):
        for width, height in ((1400, 900), (390, 844)):
            self.browser.open(self.address, "#ring", width=width, height=height)
            self.wait_for("document.querySelectorAll('#source .line').length > 10")
            self.browser.evaluate("document.querySelectorAll('#questions button')[1].click()")
            self.browser.click("#run")
            self.wait_for("!document.getElementById('results').hidden")
            box = self.browser.evaluate("(() => { const box = document.getElementById('verdict').getBoundingClientRect(); return [box.top, box.bottom]; })()")
            self.assertGreater(box[0], -1)
            self.assertLess(box[1], height + 1)

    def test_the_kernel_beside_the_controls_does_not_cover_the_timeline(self):
        self.open_and_run("#ring/1", width=1280, height=900)
        self.browser.evaluate("document.getElementById('drawn').scrollIntoView({block: 'center'})")
        below = "document.getElementById('drawn').getBoundingClientRect().top - document.getElementById('source').getBoundingClientRect().bottom"
        self.assertGreaterEqual(self.browser.evaluate(below), 0)

    def test_a_tile_that_is_not_awaited_leads_to_the_product_that_reads_it(self):
        self.open_and_run("#product/8", height=400)
        self.assertIn("has never waited for full[0]", self.browser.text("#report"))
        shown = self.browser.evaluate("""(() => { const source = document.getElementById('source');
            const line = [...source.querySelectorAll('.named')].find(line => line.textContent.includes('multiply_tiles('));
            return line !== undefined && line.offsetTop - source.scrollTop; })()""")
        self.wait_for("document.getElementById('frame').contentDocument?.querySelector('#summary .hang') != null")
        self.assertIn("It was stopped while", self.browser.evaluate("document.getElementById('frame').contentDocument.querySelector('#summary').textContent"))
        self.assertEqual(shown, 60)   # pixels from the top: what the report's cause names, not the copy above it
        cause = "[...document.querySelectorAll('#report a')].map(link => link.textContent)"
        number = 1 + next(i for i, line in enumerate((self.folder / "product.cu").read_text().splitlines()) if "multiply_tiles(" in line)
        self.assertIn(f"product.cu:{number}", self.browser.evaluate(cause))

    def test_every_control_can_be_changed_and_its_run_is_shown(self):
        for kernel in build_playground.KERNELS:
            self.browser.open(self.address, f"#{kernel}")
            self.wait_for("document.querySelectorAll('#source .line').length > 10")
            names = self.browser.evaluate("[...document.querySelectorAll('#fields input, #fields select')].map(field => field.id)")
            self.assertEqual(names[-3:], ["seed", "checks", "form"])
            for name in names:
                with self.subTest(kernel=kernel, control=name):
                    self.browser.evaluate("[...document.querySelectorAll('#questions button')][0].click()")
                    self.browser.evaluate(f"""(() => {{ const field = document.getElementById('{name}');
                        if (field.options) field.selectedIndex = (field.selectedIndex + 1) % field.options.length;
                        else field.stepUp(field.value === field.max ? -1 : 1);
                        field.dispatchEvent(new Event('input')); document.getElementById('controls').requestSubmit(); }})()""")
                    if name.startswith("setting-"):
                        self.assertTrue(self.browser.evaluate(f"document.getElementById('{name}').parentElement.classList.contains('changed')"))
                    self.wait_for("document.getElementById('state').textContent.endsWith(' ms')")
                    status, report = self.browser.text("#verdict"), self.browser.evaluate("document.getElementById('report').textContent")
                    self.assertRegex(status, "^(Right, and nothing|Wrong, and nothing|Found: |The results are right, and yet: )")
                    self.assertEqual("nothing" in status, report == "", report)
                    text = self.browser.evaluate("document.getElementById('timeline').textContent")
                    if self.browser.evaluate("document.getElementById('form').value") == "txt":
                        self.assertIn(f"timeline of kernel {kernel}", text)
                    else:
                        self.wait_for("document.getElementById('frame').contentDocument?.querySelector('#lanes svg') != null")

    def test_a_changed_number_changes_the_run(self):
        self.open_and_run("#barrier/0")
        self.browser.evaluate("document.getElementById('setting-count').value = 33; document.getElementById('form').value = 'txt'")
        self.browser.evaluate("document.getElementById('controls').requestSubmit()")
        self.wait_for("document.getElementById('verdict').textContent.startsWith('Found')")
        self.assertIn("for 33 arrivals per phase, and 32 came", self.browser.text("#report"))
        self.assertIn("timeline of kernel barrier", self.browser.text("#timeline"))
        self.assertTrue(self.browser.evaluate("document.getElementById('answer').hidden"))   # it answers another question

    def test_a_verdict_says_nothing_was_reported_only_if_so(self):
        self.browser.open(self.address, "#ring")
        for status, report, words in ((0, "", "Right, and nothing to report"), (1, "", "Wrong, and nothing was reported"),
                                      (1, "stagecraft: cudaMalloc: ...", "The program stopped; see the report"),
                                      (2, "The emulated GPU stopped: ...", "The run failed")):
            result = json.dumps({"status": status, "report": report})
            self.assertEqual(self.browser.evaluate(f"verdict({result}, reportKinds({json.dumps(report)}))"), words)

    def test_a_file_that_was_missing_is_asked_for_again(self):
        self.browser.open(self.address, "#ring")
        self.wait_for("document.querySelectorAll('#source .line').length > 10")
        self.browser.evaluate("window.realFetch = fetch; window.fetch = async () => new Response('', {status: 503});"
                              "document.getElementById('controls').requestSubmit()")
        self.wait_for("document.getElementById('state').textContent.includes('the server answers 503')")
        self.browser.evaluate("window.fetch = realFetch; document.getElementById('controls').requestSubmit()")
        self.wait_for("!document.getElementById('results').hidden")
        self.assertEqual(self.browser.text("#verdict"), "Right, and nothing to report")

    def test_another_seed_has_no_answer(self):
        self.open_and_run("#barrier/0")
        self.assertFalse(self.browser.evaluate("document.getElementById('answer').hidden"))
        self.browser.evaluate("document.getElementById('seed').value = 1; document.getElementById('controls').requestSubmit()")
        self.wait_for("document.getElementById('state').textContent.endsWith('ms') && document.getElementById('answer').hidden")

    def test_a_run_can_be_stopped(self):
        self.browser.open(self.address, "#ring")
        self.wait_for("document.querySelectorAll('#source .line').length > 10")
        self.browser.evaluate("document.getElementById('setting-rows').value = 64; document.getElementById('controls').requestSubmit();"
                              "document.getElementById('controls').requestSubmit()")
        self.assertEqual(self.browser.text("#run"), "Run")
        self.assertTrue(self.browser.evaluate("document.getElementById('results').hidden && worker === null"))

    def test_a_phone_shows_the_page_without_scrolling_sideways_in_both_themes(self):
        for dark in (False, True):
            self.open_and_run("#barrier/1", width=390, height=844, dark=dark)
            self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 390)
            theme = "dark-mode" if dark else "light-mode"
            self.assertEqual(self.browser.evaluate("document.documentElement.className"), theme)


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv.pop(1)).resolve()
    if not (folder / "playground.js").exists():   # what the linker writes last
        print("the playground was not built (./stagecraft playground), so it was not tested")
        sys.exit(77)
    QuestionTest.folder = LinkTest.folder = PageTest.folder = folder
    unittest.main(verbosity=2)
