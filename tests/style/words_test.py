#!/usr/bin/env python3
"""What check_words.py finds, and what it leaves alone, in small trees."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parent / "check_words.py"
LIST = """# Style

| out | in | note |
|---|---|---|
| `red one`, `has … red.` unless `big red one` | blue | |
| `left alone` | kept | |

| American | British | note |
|---|---|---|
| `reddiz*` | -ise | |
"""


class WordsTest(unittest.TestCase):
    def found(self, name, text, *not_yet):
        """What is said of a tree with this one file: 'line: phrase'."""
        with tempfile.TemporaryDirectory() as folder:
            for path, content in (("docs/style.md", LIST), (name, text)):
                file = pathlib.Path(folder, path)
                file.parent.mkdir(exist_ok=True)
                file.write_text(content)
            done = subprocess.run([sys.executable, CHECK, folder, *not_yet], capture_output=True, text=True)
            lines = [line for line in done.stdout.split("\n") if line.startswith(name)]
            self.assertEqual(done.returncode, 1 if lines else 0, done.stdout + done.stderr)
            return [line[len(name) + 1:].split('"')[0] + line.split('"')[1] for line in lines]

    def test_a_phrase_in_a_comment_is_named_with_its_line(self):
        self.assertEqual(self.found("a.hpp", "int x;\n/// A red one.\n/* and\n * a Red One */\n"), ["2: red one", "4: Red One"])

    def test_a_phrase_across_two_lines_is_found_where_it_begins(self):
        self.assertEqual(self.found("a.cu", "// It is a red\n// one.\n"), ["1: red  one"])

    def test_code_is_searched_for_names_only(self):
        self.assertEqual(self.found("a.hpp", "int red; one(red one);  // `red one`\n"), [])

    def test_the_words_of_a_name_are_a_phrase(self):
        names = "int red_one;\nvoid TakesARedOne();\nred_one = kRedOne + red_ones + big_red_one;\n"
        self.assertEqual(self.found("a.cu", names), ["1: red one", "2: Red One", "3: Red One"])
        self.assertEqual(self.found("a.py", "x = 'red_one'\ndef red_one(): pass\n"), ["2: red one"])
        self.assertEqual(self.found("big/a_red-one.svg", ""), ["1: red one"])

    def test_names_may_be_american(self):
        self.assertEqual(self.found("a.hpp", "int reddize_all;\n"), [])

    def test_changes_of_a_kernel_are_searched(self):
        mistakes = "== red_one\nA red one.\nin: sum\n- int RedOne;\n+ int one;  // left alone\n"
        self.assertEqual(self.found("a.mistakes", mistakes), ["1: red one", "2: red one", "4: Red One", "5: left alone"])

    def test_adjacent_literals_are_one_text(self):
        self.assertEqual(self.found("a.cpp", 'auto x = "a red "\n         "one";\n'), ["1: red one"])

    def test_a_digit_separator_is_no_quote(self):
        self.assertEqual(self.found("a.cpp", "int x = 1'000;  // the lane's red one\n"), ["1: red one"])

    def test_reports_are_searched_like_comments(self):
        self.assertEqual(self.found("a.cpp", '// left alone\nauto x = "left alone";\n'), ["1: left alone", "2: left alone"])

    def test_python_docstrings_count_as_comments(self):
        # What a comment quotes is left alone.
        self.assertEqual(self.found("a.py", '"""Not "red one"."""\nx = (\n    \'not "red one"\')\n'), ["3: red one"])

    def test_pages_are_searched_outside_of_code(self):
        page = "# A page\n\nA red\none, `red one`.\n\n```\nred one\n```\n\n[a red one](https://example.org)\n"
        self.assertEqual(self.found("a.md", page), ["3: red one"])

    def test_meson_and_shell_are_searched(self):
        self.assertEqual(self.found("meson.build", "test('a red one')  # red one\n"), ["1: red one"])
        self.assertEqual(self.found("run", '#!/bin/sh\nred one\necho "a red one"\n'), ["3: red one"])

    def test_a_full_stop_in_the_list_is_the_end_of_a_clause(self):
        self.assertEqual(self.found("a.hpp", "// It has it red, or has it red here.\n"), ["1: has it red"])

    def test_an_excuse_covers_its_hit(self):
        self.assertEqual(self.found("a.hpp", "// A big red one.\n"), [])

    def test_an_ending_is_open(self):
        self.assertEqual(self.found("a.hpp", "// They reddized it; reddizeAll did.\n"), ["1: reddized"])

    def test_no_sentence_starts_with_of(self):
        self.assertEqual(self.found("a.hpp", "/// Of a block. Of course.\n"), ["1: Of a ..."])

    def test_what_is_exempt_is_not_reported(self):
        self.assertEqual(self.found("old/a.hpp", "// A red one.\n", "old"), [])


if __name__ == "__main__":
    unittest.main()
