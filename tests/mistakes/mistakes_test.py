#!/usr/bin/env python3
"""Tests that mistakes apply strictly, and that they are renewed when their program changes."""

import pathlib
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import form  # noqa: E402
import renewal  # noqa: E402

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


class FormTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "x.mistakes"

    def record(self, wrong: str, right: str = SOLUTION, name: str = "forgets") -> form.Mistake:
        there = form.read_mistakes(self.path) if self.path.exists() else []
        mistake = next((each for each in there if each.name == name), form.Mistake(self.path, name))
        mistake.record({"x.cu": (right, wrong)})
        return self.read(name)

    def read(self, name: str = "forgets") -> form.Mistake:
        return next(mistake for mistake in form.read_mistakes(self.path) if mistake.name == name)

    def write(self, *lines: str) -> None:
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def apply(self, *change: str, right: str = SOLUTION) -> str:
        self.write("== forgets", "A mistake.", *change, "expect: race")
        return self.read().wrong_text("x.cu", right)

    def test_gives_what_was_recorded(self):
        for wrong in (WRONG, SOLUTION.replace("*out = 1", "*out = 2"), "// new\n" + SOLUTION, SOLUTION + "\n// new\n",
                      SOLUTION.replace("  *out = 1;\n", "  if (out) {\n    *out = 1;\n  }\n"), SOLUTION.replace("\n\n", "\n")):
            self.assertEqual(self.record(wrong).wrong_text("x.cu", SOLUTION), wrong)

    def test_names_the_function_where_the_lines_are_not_unique(self):
        self.record(SOLUTION.replace("second(int* out) {\n  wait(&full, 0)", "second(int* out) {\n  wait(&full, 1)"))
        self.assertIn("in: second\n- wait(&full, 0);\n+ wait(&full, 1);\n", self.path.read_text())

    def test_keeps_what_else_a_section_says_and_the_other_sections(self):
        self.record(WRONG)
        self.record(SOLUTION.replace("*out = 1", "*out = 2"), name="doubles")
        self.path.write_text(self.path.read_text().replace("SAY WHICH MISTAKE THIS IS.", "It leaves.\nhost: changed"))
        mistake = self.record(SOLUTION.replace("arrive", "leave"))
        self.assertEqual((mistake.what, mistake.value("host"), len(mistake.values("expect"))), ("It leaves.", "changed", 1))
        self.assertEqual(mistake.wrong_text("x.cu", SOLUTION), SOLUTION.replace("arrive", "leave"))
        self.assertEqual([each.name for each in form.read_mistakes(self.path)], ["forgets", "doubles"])

    def test_records_changes_of_several_files(self):
        mistake = form.Mistake(self.path, "forgets")
        mistake.record({"y.hpp": (SOLUTION, WRONG), "x.cu": (WRONG, SOLUTION)})
        self.assertEqual([self.read().wrong_text(*file) for file in (("y.hpp", SOLUTION), ("x.cu", WRONG))], [WRONG, SOLUTION])

    def test_finds_lines_whatever_their_indentation_and_indents_new_ones_alike(self):
        self.assertIn("second(int* out) {\n  wait(&full, 0);\n  *out = 1;\n  if (out) {\n    leave();\n  }\n}",
                      self.apply("- arrive(&empty);", "+ if (out) {", "+   leave();", "+ }"))

    def test_a_new_line_has_the_number_of_that_which_it_stands_for_or_follows(self):
        self.write("== forgets", "A mistake.", "- arrive(&empty);", "+ leave();", "+ leave();", "expect: race")
        self.assertEqual(self.read().apply("x.cu", form.numbered(SOLUTION))[8:], [(9, "  leave();"), (9, "  leave();"), (10, "}")])

    def test_changes_may_come_in_any_order(self):
        self.assertEqual(self.apply("- arrive(&empty);", "", "in: first", "- wait(&full, 0);"),
                         WRONG.replace("  wait(&full, 0);\n", "", 1))

    def test_refuses_lines_that_are_gone_or_there_twice(self):
        self.record(WRONG)
        with self.assertRaisesRegex(form.Misfit, r"(?s)x\.mistakes:3: forgets does not apply to x\.cu, .* are not:.*renew x/forgets"):
            self.read().wrong_text("x.cu", SOLUTION.replace("empty", "free"))
        with self.assertRaisesRegex(form.Misfit, "are 2 times:"):
            self.read().wrong_text("x.cu", SOLUTION + SOLUTION)
        with self.assertRaisesRegex(form.Misfit, "in first, where these lines are not:"):
            self.apply("in: first", "- arrive(&empty);")

    def test_refuses_two_changes_of_one_line(self):
        with self.assertRaisesRegex(form.Misfit, "two changes of the same lines"):
            self.apply("- arrive(&empty);", "", "- arrive(&empty);")

    def test_refuses_a_file_of_another_form(self):
        for lines in (["A mistake."], ["== x", "A mistake.", "expect: race"], ["== x", "A mistake.", "- a"],
                      ["== x", "- a", "expect: race"], ["== x", "A mistake.", "- a", "expects: race"], ["== x", "A mistake.", "+ a", "expect: race"],
                      ["== x", "A mistake.", "- a", "kind: race", "kind: race"],
                      ["== x", "A mistake.", "- a", "expect: race", "== x", "A mistake.", "- a", "expect: race"]):
            self.write(*lines)
            with self.assertRaises(form.Misfit, msg=lines):
                form.read_mistakes(self.path)

    def test_the_mistakes_of_the_repository_apply(self):
        for path in form.all_files():
            for mistake in form.read_mistakes(path):
                for name, text in mistake.wrong_texts().items():
                    self.assertNotEqual(text, form.read(mistake.files()[name]), mistake.short)


class RenewalTest(unittest.TestCase):
    def renewed(self, now: str, wrong: str = WRONG) -> str:
        merged, clean = renewal.take_over(now, SOLUTION, wrong)
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
        merged, clean = renewal.take_over(now, SOLUTION, wrong)
        self.assertFalse(clean)
        self.assertIn("<<<<<<< the program now\n  arrive(&full);\n", merged)


if __name__ == "__main__":
    unittest.main()
