#!/usr/bin/env python3
"""Tests the viewer of timelines in a headless Chromium, with the runs of a right and of a wrong answer.

viewer_test.py BUILD [TEST...]   exits with 77 where there is no Chromium, or the programs of chapter 02 are not built
"""

import json
import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "common" / "tools"))
import timelines  # noqa: E402
from browser import Browser, find_chromium  # noqa: E402

RIGHT, WRONG = "02_ring_of_stages_solution", "02_ring_of_stages_wrong_one_lane_frees"


def barrier(name: str) -> str:
    """The row of the table that shows a barrier's state, as JavaScript."""
    return (f"[...document.querySelectorAll('.barriers tbody tr')].find(row => row.cells[0].innerText === {json.dumps(name)})"
            ".innerText.split('\\t')")


class ViewerTest(unittest.TestCase):
    build: pathlib.Path

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        for name, test in ((RIGHT, "Chapter02.Todo2To5ARowGoesThroughTheRing"), (WRONG, "Chapter02.Todo2To5ARowGoesThroughTheRing")):
            marker = timelines.MARKER.match(f"<!-- timeline: chapters/{name} {test} last -->")
            timelines.write(cls.build, marker, cls.folder / f"{name}.html")
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        self.browser.console.clear()

    def tearDown(self):
        self.assertEqual(self.browser.console, [])

    def open(self, name: str, address: str = "", **more) -> None:
        self.browser.open(self.folder / f"{name}.html", address, **more)

    def event(self) -> int:
        return int(self.browser.text("#now .count").split()[1])

    def step_to(self, words: str) -> None:
        """Steps forward with the key until the sentence of an event contains the words."""
        for _ in range(200):
            if words in self.browser.text("#now .sentence"):
                return
            before = self.event()
            self.browser.press("ArrowRight")
            self.assertEqual(self.event(), before + 1, f"no event says: {words}")

    def labels(self) -> list:
        return self.browser.evaluate("[...document.querySelectorAll('svg .label')].map(label => label.textContent)")

    def test_a_run_has_lanes_by_role_units_stages_and_barriers(self):
        self.open(RIGHT)
        self.assertEqual(self.browser.text("h1"), "sum_rows<2>")
        labels = self.labels()
        for lane in ("produce (warp 0)", "consume (warp 1)", "TMA", "stage 0", "full[0]", "empty[0]"):
            self.assertIn(lane, labels)
        self.assertNotIn("hangs", self.browser.text("header"))

    def test_it_says_which_clock_it_shows(self):
        self.open(RIGHT)
        self.assertIn("cycles of virtual time, which is not the chip's", self.browser.text("#summary"))
        self.assertIn("Time is virtual, also with --timing", self.browser.evaluate("document.getElementById('help').textContent"))

    def test_a_click_beside_the_drawing_changes_nothing(self):
        self.open(RIGHT, "#event=5")
        x, y = self.browser.middle("svg .label")
        for kind in ("mousePressed", "mouseReleased"):
            self.browser.mouse(kind, x, y, button="left", clickCount=1)
        self.assertEqual(self.event(), 6)

    def test_steps_show_the_state_of_barriers_and_stages(self):
        self.open(RIGHT, "#event=0")
        self.assertEqual(self.event(), 1)
        self.step_to("announces 1024 bytes at full[0]")
        self.assertEqual(self.browser.evaluate(barrier("full[0]"))[:4], ["full[0]", "0", "1 of 1", "1024"])
        self.assertIn("stage 0: filling", self.browser.text("#state"))
        self.step_to("ends phase 0 of full[0]")
        self.assertEqual(self.browser.evaluate(barrier("full[0]"))[:4], ["full[0]", "1", "1 of 1", "0"])
        self.assertIn("stage 0: full", self.browser.text("#state"))
        self.step_to("ends phase 0 of empty[0]")
        self.assertEqual(self.browser.evaluate(barrier("empty[0]"))[:3], ["empty[0]", "1", "32 of 32"])
        self.assertIn("stage 0: free", self.browser.text("#state"))
        self.browser.press("ArrowLeft")
        self.assertIn("consume (warp 1) arrives at empty[0]: 32 arrivals, 0 still pending", self.browser.text("#now .sentence"))
        self.assertEqual(self.browser.evaluate(barrier("empty[0]"))[:3], ["empty[0]", "0", "0 of 32"])
        self.browser.click("#first")
        self.assertEqual(self.event(), 1)

    def test_who_waits_is_in_the_table(self):
        self.open(RIGHT, "#event=0")
        self.step_to("waits for full[0] to end phase 0")
        self.assertEqual(self.browser.evaluate(barrier("full[0]"))[-1], "consume (warp 1)")

    def test_a_click_on_a_wait_names_who_ended_it(self):
        self.open(RIGHT)
        self.assertFalse(self.browser.evaluate("Boolean(document.querySelector('.arrow'))"))
        row = self.labels().index("consume (warp 1)")
        self.browser.click(f"rect.wait[data-row='{row}']")
        self.assertIn("consume (warp 1) waits for full[0] to end phase 0", self.browser.text("#now .sentence"))
        self.assertRegex(self.browser.text(".ender"), r"^Ended by cp\.async\.bulk, issued by produce \(warp 0\) at ring\.cu:\d+")
        self.assertIn("copy_bulk", self.browser.text(".ender + .code"))
        self.assertTrue(self.browser.evaluate("Boolean(document.querySelector('.arrow'))"))
        self.browser.click("rect.wait[data-row='0']")
        self.assertRegex(self.browser.text(".ender"), r"^Ended by consume \(warp 1\) at ring\.cu:\d+")
        self.browser.press("Escape")
        self.assertFalse(self.browser.evaluate("Boolean(document.querySelector('.arrow'))"))

    def test_the_keyboard_goes_from_wait_to_wait(self):
        self.open(RIGHT, "#event=0")
        self.browser.press("n")
        first = self.browser.text("#now")
        self.assertIn("A wait: cycle", first)
        self.browser.press("n")
        self.assertNotEqual(self.browser.text("#now"), first)
        self.browser.press("p")
        self.assertEqual(self.browser.text("#now"), first)

    def test_it_zooms_and_moves(self):
        self.open(RIGHT)
        view = "[viewer.lanes.from, viewer.lanes.to]"
        begin, end = self.browser.evaluate(view)
        self.browser.press("+")
        zoomed = self.browser.evaluate(view)
        self.assertAlmostEqual(zoomed[1] - zoomed[0], (end - begin) / 2)
        self.browser.press("ArrowRight", shift=True)
        self.assertGreater(self.browser.evaluate(view)[0], zoomed[0])
        x, y = self.browser.middle("rect.copy")
        self.browser.mouse("mouseWheel", x, y, deltaX=0, deltaY=-200, modifiers=2)
        closer = self.browser.evaluate(view)
        self.assertLess(closer[1] - closer[0], zoomed[1] - zoomed[0])
        self.browser.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.browser.mouse("mouseMoved", x + 60, y, button="left", buttons=1)
        self.browser.mouse("mouseReleased", x + 60, y, button="left", clickCount=1)
        self.assertLess(self.browser.evaluate(view)[0], closer[0])
        self.browser.click("#fit")
        self.assertEqual(self.browser.evaluate(view), [begin, end])

    def test_the_pointer_shows_phase_place_and_stage(self):
        self.open(RIGHT)
        row = self.labels().index("consume (warp 1)")
        self.browser.mouse("mouseMoved", *self.browser.middle(f"rect.wait[data-row='{row}']"))
        tip = self.browser.text("#tip")
        self.assertRegex(tip, r"waits for full\[0\] to end phase 0\ncycle \d+ to \d+\nwait\(.*\);\nring\.cu:\d+")
        self.assertIn('"full" of stage 0', tip)
        self.browser.mouse("mouseMoved", *self.browser.middle("rect.copy"))
        self.assertRegex(self.browser.text("#tip"), r"cp\.async\.bulk.*\n1024 bytes to tile\+0x0\nissued by produce")

    def test_copies_are_named_for_their_tiles_and_the_legend_is_in_sight(self):
        self.open(RIGHT)
        self.assertIn("tile, stage 0", self.browser.evaluate("[...document.querySelectorAll('svg .inside')].map(text => text.textContent)"))
        self.assertTrue(self.browser.evaluate("document.querySelector('.legend').checkVisibility()"))
        for code, expected in (("copy_tile(stage.tile().b, b_map, n, k);", "B, stage 0"), ("stage.load_a(problem.a, row, k);", "A, stage 0"),
                               ("copy_shared_tile(a, problem.a, m, k);", "A, stage 0"), ("fill(x);", "dynamic_shared_memory, stage 0")):
            name = self.browser.evaluate("(() => { const {model} = viewer, copy = model.tracks[0].operations[0]; model.places.push({at: '', code: "
                                         f"{json.dumps(code)}}}); return model.nameOf({{...copy, target: 'dynamic_shared_memory+0x10000', place: model.places.length - 1}}); }})()")
            self.assertEqual(name, expected)
        self.assertEqual(self.browser.evaluate("viewer.model.nameOf({what: 'x', target: 'table+0x0', place: -1})"), "table")

    def test_a_role_does_not_run_into_the_sentence(self):
        self.open(RIGHT)
        self.assertEqual(self.browser.evaluate("viewer.model.warps[0].name = 'warp 0, copies', viewer.story.warp(0)"), "warp 0 (copies)")

    def test_a_run_that_a_race_stopped_is_not_said_to_hang(self):
        self.open(WRONG)
        self.browser.evaluate("viewer.model.report = 'stagecraft: race in kernel sum_rows<2>'; viewer.describeRun()")
        self.assertIn("It was stopped while one warp waited.", self.browser.text("header"))
        self.assertNotIn("hangs", self.browser.text("header"))

    def test_a_run_that_hangs_shows_the_wait_to_the_end_and_the_report(self):
        self.open(WRONG)
        self.assertIn("It hangs: one warp waits to the end.", self.browser.text("header"))
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('rect.open').length"), 1)
        self.assertIn("produce (warp 0) waits for empty[0] to end phase 0, to the end of the run", self.browser.text("#now .sentence"))
        self.assertEqual(self.browser.text(".ender"), "Nothing has ended this wait. empty[0] is still in phase 0: 31 of 32 arrivals pending.")
        self.assertTrue(self.browser.text("#report pre").startswith("stagecraft: deadlock in kernel sum_rows<2>"))
        self.assertEqual(self.browser.evaluate(barrier("empty[0]"))[-1], "produce (warp 0)")

    def test_it_has_two_themes_and_room_on_a_phone(self):
        paper = "getComputedStyle(document.body).backgroundColor"
        self.open(RIGHT, dark=True)
        dark = self.browser.evaluate(paper)
        self.open(RIGHT, dark=False, width=390, height=844)
        light = self.browser.evaluate(paper)
        self.assertNotEqual(dark, light)
        self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), 390)
        self.browser.press("t")
        self.assertEqual(self.browser.evaluate(paper), dark)
        self.browser.evaluate("window.postMessage({theme: 'light'}, '*'), new Promise(done => setTimeout(done, 50))")
        self.assertEqual(self.browser.evaluate(paper), light)


if __name__ == "__main__":
    ViewerTest.build = pathlib.Path(sys.argv.pop(1))
    missing = [name for name in (RIGHT, WRONG) if not (ViewerTest.build / "chapters" / name).exists()]
    if find_chromium() is None or missing:
        print("Chromium is not installed" if find_chromium() is None else f"not built: {', '.join(missing)}")
        sys.exit(77)
    unittest.main(verbosity=2)
