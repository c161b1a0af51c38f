#!/usr/bin/env python3
"""Tests that the table of settings, ./stagecraft run and docs/emulator.md say the same."""

import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
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

    def test_run_refuses_a_value_in_one_line_before_the_program_starts(self):
        for arguments, said in {
                ("--seed", "banana"): "a number from 0 to 18446744073709551615, decimal or with 0x",
                ("--seed=1e3",): "a number from 0 to", ("--explore", "0"): "a number of schedules from 1 to 1000000000",
                ("--device", "h100"): "b200, h200, rtx5090 or spark; did you mean h200?", ("--threads", "0"): "a number from 1 to 1024",
                ("--checks", "rase"): "all, none, or a list of: deadlock, race, global; did you mean race?",
                ("--report=jsn",): "text, json or sarif; did you mean json?"}.items():
            option, _, value = "=".join(arguments).partition("=")
            self.check_refused(arguments, f'{option} is "{value}", but must be {said}')
        self.check_refused(["--timeline", "/no/x.html"], '--timeline is "/no/x.html", which cannot be written: No such file or directory')
        self.check_refused(["--report-file", "/tmp"], '--report-file is "/tmp", which cannot be written: Is a directory')
        self.check_refused(["--ptx", "/"], '--ptx is "/", which cannot be read: Is a directory')
        self.check_refused(["--ptx", "/dev/null:/no.ptx"], '--ptx is "/no.ptx", which cannot be read: No such file or directory')
        self.check_refused([], 'STAGECRAFT_SEED is "-1", but must be a number', STAGECRAFT_SEED="-1")

    def check_refused(self, options, said: str, **variables):
        done = subprocess.run([ROOT / "stagecraft", "run", *options, "/bin/echo", "begun"], check=False, capture_output=True, text=True,
                              env={**os.environ, **variables})
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertTrue(done.stderr.startswith(f"stagecraft: {said}"), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_run_and_the_emulated_gpu_accept_the_same_values(self):
        library = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "common/emulator/libcudart.so.13"
        if not library.exists():
            self.skipTest("this build has no emulated GPU")
        values = ["", "0", "1", "7", "007", "1024", "1025", "-1", "1e3", "0xff", "0x", "18446744073709551615", "18446744073709551616",
                  "3,lanes", "3,", "8G", "8K", "18446744073709551615G", "1:", "0:", "1:w0.1", "1:c2w0.1+3,w1.0", "1:w0.1+0", "1:x",
                  "a.html", "a.png", "text", ",", "a:", ":a", "race,", "race,global", "race,none", "part,cold", "part,on"]
        runtime = ctypes.CDLL(str(library))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        for setting in self.table:
            if setting.file == "read" or not setting.is_option:   # files of PTX are read later
                continue
            for value in {*values, *setting.words, setting.default, setting.alone}:
                process = os.fork()
                if process == 0:
                    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                    os.environ[setting.variable] = value
                    os._exit(runtime.cudaGetDeviceCount(ctypes.byref(ctypes.c_int())) != 0)
                accepted = os.waitpid(process, 0)[1] == 0
                self.assertEqual(not value or not setting.problem(value), accepted, f"{setting.variable}={value}")

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
