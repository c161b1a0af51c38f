#!/usr/bin/env python3
"""Tests that the table of settings, ./stagecraft run and docs/emulator.md say the same."""

import pathlib
import re
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import meson_tests  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common" / "tools"))
import settings  # noqa: E402

GRAMMAR = set("or a list of the name file that ends in svg txt".split())


def words_of(legal: str) -> set:
    """The words among the legal values, such as b200 and h200; empty where a value is a number or a name."""
    if "number" in legal or "name of a file in" in legal or "names of files" in legal:
        return set()
    return set(re.findall(r"\w+", legal)) - GRAMMAR


class SettingsTest(unittest.TestCase):
    table = settings.settings()

    def check_words(self, setting: settings.Setting, description: str):
        for word in words_of(setting.must_be):
            self.assertRegex(description, rf"\b{word}\b", setting.name)

    def test_help_describes_each_option_with_its_legal_words(self):
        done = subprocess.run([ROOT / "stagecraft", "run", "--help"], check=True, capture_output=True, text=True)
        options = dict(re.findall(r"(?ms)^  --([a-z-]+)\b(.*?)(?=^  --|^$)", done.stdout))
        self.assertEqual(set(options), {setting.name for setting in self.table if setting.is_option})
        for setting in self.table:
            if setting.is_option:
                self.check_words(setting, options[setting.name])

    def test_the_page_describes_each_variable_with_its_legal_words(self):
        page = (ROOT / "docs" / "emulator.md").read_text(encoding="utf-8")
        rows = dict(re.findall(r"(?m)^\| `(STAGECRAFT_[A-Z_]+)` \|(.*)$", page))
        self.assertIn(f"\n<!-- settings -->\n\n{settings.page_table()}\n\n", page)
        self.assertEqual(set(rows), {setting.variable for setting in self.table})
        for setting in self.table:
            self.check_words(setting, rows[setting.variable])

    def test_a_row_that_is_not_complete_is_an_error(self):
        row = {"values": "on|off", "default": "on", "help": "h", "page": "p"}
        self.assertEqual(settings.Setting("a-b", row).must_be, "on or off")
        self.assertEqual(settings.Setting("a-b", row).variable, "STAGECRAFT_A_B")
        for wrong in ({**row, "dafault": "off"}, {**row, "without": "nothing"}, {**row, "values": "FILE"}, {**row, "page": ""},
                      {**row, "help": ""}):
            self.assertRaises(ValueError, settings.Setting, "a-b", wrong)
        settings.Setting("a-b", {**row, "help": "", "option": "no"})


if __name__ == "__main__":
    sys.exit(meson_tests.main())
