#!/usr/bin/env python3
"""Tests that patches of wrong answers apply strictly, and that they are renewed when their solution changes."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import answer_patch  # noqa: E402
import wrong_answers  # noqa: E402

SOLUTION = """\
__global__ void first(int* out) {
  wait(&full, 0);
  *out = 1;
}

__global__ void second(int* out) {
  wait(&full, 0);
  *out = 1;
  arrive(&empty);
}
"""
WRONG = SOLUTION.replace("  arrive(&empty);\n", "")


class PatchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.answer = answer_patch.Answer(pathlib.Path(folder.name) / "01_chapter/wrong/forgets.patch")

    def record(self, wrong: str, solution: str = SOLUTION) -> answer_patch.Answer:
        self.answer.record({"solutions/01_chapter/x.cu": ("x.cu", solution, wrong)})
        return answer_patch.Answer(self.answer.path).read()

    def apply(self, solution: str) -> str:
        return answer_patch.Answer(self.answer.path).read().apply("solutions/01_chapter/x.cu", solution)

    def test_gives_what_was_recorded(self):
        for wrong in (WRONG, SOLUTION.replace("*out = 1", "*out = 2"), "// new\n" + SOLUTION, SOLUTION + "\n// new\n"):
            self.record(wrong)
            self.assertEqual(self.apply(SOLUTION), wrong)

    def test_takes_as_much_context_as_makes_a_hunk_unique(self):
        self.record(SOLUTION.replace("second(int* out) {\n  wait(&full, 0)", "second(int* out) {\n  wait(&full, 1)"))
        self.assertIn("@@ second\n __global__ void second", self.answer.path.read_text())

    def test_refuses_lines_that_are_gone_or_there_twice(self):
        self.record(WRONG)
        with self.assertRaisesRegex(answer_patch.Misfit, r"(?s)hunk 1 of 1 does not apply to .*x\.cu, .* are not:.*renew 01/"):
            self.apply(SOLUTION.replace("empty", "free"))
        with self.assertRaisesRegex(answer_patch.Misfit, "are 2 times:"):
            self.apply(SOLUTION + SOLUTION)

    def test_refuses_hunks_out_of_order(self):
        self.record(WRONG.replace("first(int* out)", "first(int* in)"))
        text = self.answer.path.read_text()
        first, second = text.index("@@ first"), text.index("@@ second")
        self.answer.path.write_text(text[:first] + text[second:] + text[first:second])
        with self.assertRaisesRegex(answer_patch.Misfit, "out of order"):
            self.apply(SOLUTION)

    def test_refuses_a_file_of_another_form(self):
        self.answer.path.parent.mkdir(parents=True)
        for text in ("A mistake.\n", "A mistake.\n\n--- solutions/x.cu\n+++ x.cu\n what?\n"):
            self.answer.path.write_text(text)
            with self.assertRaises(answer_patch.Misfit):
                answer_patch.Answer(self.answer.path).read()


class RenewalTest(unittest.TestCase):
    def renewed(self, now: str, wrong: str = WRONG) -> str:
        merged, clean = wrong_answers.take_over(now, SOLUTION, wrong)
        self.assertTrue(clean, merged)
        return merged

    def test_follows_a_renamed_word_into_what_the_answer_removes_and_adds(self):
        self.assertEqual(self.renewed(SOLUTION.replace("empty", "free")), WRONG.replace("empty", "free"))
        wrong = SOLUTION.replace("  *out = 1;\n  arrive(&empty);", "  arrive(&empty);\n  *out = 1;")
        self.assertEqual(self.renewed(SOLUTION.replace("empty", "free"), wrong), wrong.replace("empty", "free"))

    def test_follows_an_indentation(self):
        now = SOLUTION.replace("  *out = 1;\n  arrive(&empty);", "  if (ready) {\n    *out = 1;\n    arrive(&empty);\n  }")
        self.assertEqual(self.renewed(now), now.replace("    arrive(&empty);\n", ""))

    def test_follows_a_comment_of_a_line_that_the_answer_removes(self):
        now = SOLUTION.replace("arrive(&empty);", "arrive(&empty);  // after the last read")
        self.assertEqual(self.renewed(now), WRONG)

    def test_joins_changes_of_different_words_of_a_line(self):
        now = SOLUTION.replace("arrive(&empty)", "arrive(&empty, count)")
        self.assertEqual(self.renewed(now, SOLUTION.replace("arrive", "leave")), now.replace("arrive", "leave"))

    def test_leaves_a_conflict_where_both_have_changed_the_same_word(self):
        now, wrong = SOLUTION.replace("&empty", "&full"), SOLUTION.replace("&empty", "&other")
        merged, clean = wrong_answers.take_over(now, SOLUTION, wrong)
        self.assertFalse(clean)
        self.assertIn("<<<<<<< the solution now\n  arrive(&full);\n", merged)


if __name__ == "__main__":
    unittest.main()
