#!/usr/bin/env python3
"""What a chapter's test says after a failure, about TODOs that are open and about code that is written.

usage: advice_test.py PROGRAM [UNITTEST_ARGUMENTS...]
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)


def advice(fails: str, *open_todos: int) -> str:
    """What is printed when one test fails, with these TODO comments in the answer."""
    with tempfile.TemporaryDirectory() as folder:
        text = "".join(f"// TODO {number}: do it.\n\n" for number in open_todos)
        (pathlib.Path(folder) / "answer.cu").write_text(text, encoding="utf-8")
        done = subprocess.run([PROGRAM], stdout=subprocess.PIPE, text=True, check=False,
                              env={**os.environ, "ADVICE_ROOT": folder, "ADVICE_FAILS": fails})
    return done.stdout


class Advice(unittest.TestCase):
    def test_a_todo_that_is_open_is_expected_to_fail(self):
        for fails, todos in (("1", [1, 2, 3, 4]), ("2", [3, 4]), ("4", [4])):
            said = advice(fails, *todos)
            self.assertIn("This is expected: the exercise is not solved yet. Still open:\n  answer.cu:1: TODO", said)
            self.assertNotIn("about your code", said)
            self.assertNotIn("delete its comment.", said)

    def test_a_failure_in_what_is_solved_is_not_expected(self):
        said = advice("1", 2, 3, 4)
        self.assertIn("This is about your code for TODO 1. Still open:\n  answer.cu:1: TODO 2: do it.\n", said)
        self.assertNotIn("expected", said)

    def test_a_comment_that_was_left_on_solved_code_is_named(self):
        said = advice("4", 2)
        self.assertIn("This is about your code for TODO 4.", said)
        self.assertIn("The tests of TODO 2 pass. Where you have solved it, delete its comment.\n", said)
        self.assertIn("The tests of TODO 1 pass.", advice("2", 1, 3))

    def test_without_a_todo_it_is_about_the_code(self):
        self.assertIn("No TODO is left, so this is about your code.", advice("4"))

    def test_a_test_that_names_no_todo_may_be_about_any(self):
        self.assertIn("This is expected", advice("none", 4))


unittest.main()
