#!/usr/bin/env python3
"""Tests of the editor's configuration: what its problem matchers find in what the programs print."""

import json
import pathlib
import re
import sys
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common" / "tools"))
import pages  # noqa: E402


def tasks() -> list:
    return json.loads((ROOT / ".vscode/tasks.json").read_text(encoding="utf-8"))["tasks"]


def matchers(owner: str) -> list:
    return [matcher for task in tasks() for matcher in task["problemMatcher"] if matcher["owner"] == owner]


def found(matcher: dict, lines: list) -> list:
    """What an editor finds: for each place where all patterns match lines that follow each other, their parts by name."""
    patterns = matcher["pattern"] if isinstance(matcher["pattern"], list) else [matcher["pattern"]]
    problems = []
    for first in range(len(lines) - len(patterns) + 1):
        matches = [re.match(pattern["regexp"], line) for pattern, line in zip(patterns, lines[first:])]
        if all(matches):
            problems.append({name: match[group] for pattern, match in zip(patterns, matches)
                             for name, group in pattern.items() if name != "regexp"})
    return problems


class EditorTest(unittest.TestCase):
    def test_every_report_of_the_lessons_that_names_a_line_becomes_a_problem(self):
        reports = 0
        for matcher in matchers("stagecraft"):
            for page in pages.lessons():
                for block in pages.blocks((ROOT / page).read_text(encoding="utf-8")):
                    lines = block.text().split("\n")
                    if block.language != "console":
                        continue
                    expected = [(match[1], after[1]) for line, next_line in zip(lines, lines[1:])
                                if (match := re.match(r"stagecraft: .+ in kernel .+ \((.+)\)$", line))
                                and (after := re.search(r" at [\w.]+:(\d+)[ :]", next_line))]
                    got = [(problem["file"], problem["line"]) for problem in found(matcher, lines)]
                    self.assertEqual(got, expected, f"{page}:{block.first}")
                    reports += len(expected)
        self.assertGreater(reports, 100)

    def test_a_report_has_its_kind_place_and_message(self):
        lines = ["stagecraft: deadlock in kernel sum_rows<2> (chapters/02_ring_of_stages/ring.cu)",
                 "  block (0,0,0) warp 0 [lane 0] mbarrier.try_wait.parity.shared::cta.b64 at ring.cu:61 (mbarrier.hpp:53): waits for empty[0]"]
        for matcher in matchers("stagecraft"):
            self.assertEqual(found(matcher, lines), [{"code": "deadlock", "file": "chapters/02_ring_of_stages/ring.cu", "line": "61",
                                                      "message": "waits for empty[0]"}])

    def test_an_error_of_nvcc_becomes_a_problem(self):
        line = '../chapters/02_ring_of_stages/ring.cu(57): error: identifier "stat" is undefined'
        for matcher in matchers("nvcc"):
            self.assertEqual(found(matcher, [line]), [{"file": "../chapters/02_ring_of_stages/ring.cu", "line": "57", "severity": "error",
                                                       "code": None, "message": 'identifier "stat" is undefined'}])

    def test_the_tasks_call_commands_that_there_are(self):
        usage = (ROOT / "stagecraft").read_text(encoding="utf-8")
        for task in tasks():
            command = re.match(r"\./stagecraft (\w+)", task["command"])[1]
            self.assertRegex(usage, rf"(?m)^  {command}\b")


if __name__ == "__main__":
    unittest.main()
