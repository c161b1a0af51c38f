#!/usr/bin/env python3
"""Tests that each kind of report has a page that explains it, and that each page is about a report.

usage: reports_test.py NAME      the name of one test, as for unittest
"""

import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
sys.path.insert(0, f"{__file__.rsplit('/', 3)[0]}/common/tools")
import explain  # noqa: E402
from pages import ROOT  # noqa: E402

# How sources name a kind: a finding's, a fault's by its enumerator, and constants.
KINDS = re.compile(r'\bkind = "([a-z0-9 ]+)"|case FaultKind::\w+: return "([a-z0-9 ]+)"|\bnew_report\(\s*"([a-z0-9 ]+)"'
                   r'|constexpr [\w:* ]*\bk\w*(?:Misuse|Kind) = "([a-z0-9 ]+)"|\{"kind", "(refused call)"\}')


def kinds_in_code() -> set[str]:
    """The kinds of report that the emulated GPU can make."""
    found = set()
    for source in (ROOT / "common/emulator").rglob("*.[ch]pp"):
        text = source.read_text(encoding="utf-8")
        found |= {next(filter(None, groups)) for groups in KINDS.findall(text)}
    return found


class ReportsTest(unittest.TestCase):
    def test_the_kinds_are_found(self):
        """One of each way to name a kind. tests/mistakes looks for the page of each report that the gallery gets."""
        self.assertLessEqual({"race", "deadlock", "endless loop", "barrier misuse", "tensor memory leak", "refused call"},
                             kinds_in_code())

    def test_each_kind_has_a_page(self):
        missing = {kind for kind in kinds_in_code() if explain.name_of(kind) not in explain.names()}
        self.assertEqual(missing, set(), "write docs/reports/NAME.md about each of these")

    def test_each_page_is_about_a_kind(self):
        self.assertEqual(set(explain.names()) - {explain.name_of(kind) for kind in kinds_in_code()}, set())

    def test_the_list_has_each_page(self):
        text = (ROOT / "docs/reports/README.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| \[([\w-]+)\]\(\1\.md\) \| (.*) \|$", text, re.MULTILINE)
        self.assertEqual(dict(rows), {name: explain.summary(name) for name in explain.names()})

    def test_each_page_says_what_happens_and_what_to_do(self):
        for name in explain.names():
            text = explain.page_text(name)
            self.assertTrue(text.startswith(f"# {name}: "), name)
            for part in ("On the chip", "Usual causes", "What to do"):
                self.assertRegex(text, rf"## {part}\n\n\S", name)

    def test_the_command_prints_a_page_and_the_list(self):
        command = [ROOT / "stagecraft", "explain"]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        self.assertEqual([line.split()[0] for line in listed.splitlines()], explain.names())
        for spelling in (["missing-wait"], ["missing wait"], ["missing", "wait"]):
            page = subprocess.run([*command, *spelling], capture_output=True, text=True, check=True).stdout
            self.assertEqual(page, explain.page_text("missing-wait"))
            self.assertNotIn("<!--", page)

    def test_an_unknown_name_gets_the_nearest(self):
        done = subprocess.run([ROOT / "stagecraft", "explain", "deadlok"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("do you mean deadlock? ./stagecraft explain lists all", done.stderr)
        for name in ("nope", ""):
            done = subprocess.run([ROOT / "stagecraft", "explain", name], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr),
                             (2, f'stagecraft: no report is called "{name}"; ./stagecraft explain lists all\n'))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(f"ReportsTest.{name}" for name in sys.argv[1:])])
