#!/usr/bin/env python3
"""Tests of --explore, --exhaust and --schedule from end to end, with the programs hidden_mistakes and waiting_loops.

usage: exploration_test.py HIDDEN_MISTAKES WAITING_LOOPS
"""

import json
import os
import re
import subprocess
import sys
import unittest

LOOPS = sys.argv.pop()
PROGRAM = sys.argv.pop()


def run(*command, **settings) -> subprocess.CompletedProcess:
    variables = {f"STAGECRAFT_{name.upper()}": value for name, value in settings.items()}
    environment = {**os.environ, "STAGECRAFT_CHECKS": "race", "STAGECRAFT_FINDINGS": "report", **variables}
    return subprocess.run(command or [PROGRAM], capture_output=True, text=True, env=environment, check=False, timeout=100)


def schedule_in(text: str) -> str:
    return re.search(r"--schedule (\S+)", text)[1]


class ExplorationTest(unittest.TestCase):
    def test_the_default_schedule_shows_nothing(self):
        done = run()
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "6 3 cudaSuccess\n", ""))

    def test_another_schedule_shows_the_mistake_and_the_program_sees_one_launch(self):
        done = run(explore="60")
        self.assertEqual(done.stdout, "6 3 cudaSuccess\n")
        self.assertEqual(done.stderr.count("stagecraft: deadlock in kernel take_turns<false>"), 1, done.stderr)
        self.assertNotIn("take_turns<true>", done.stderr)
        self.assertRegex(done.stderr, r"\nstagecraft: explored 60 schedules of each of 2 launches: \d+ fail, "
                                      r"and 1 mistake is reported above\n")
        self.assertEqual(done.returncode, 1)

    def test_the_schedule_of_a_report_shows_the_same_and_only_in_its_launch(self):
        found = run(explore="60").stderr
        schedule = schedule_in(found)
        self.assertEqual(schedule.count(","), 0, "more than one switch")
        self.assertTrue(schedule.startswith("2:"))
        replayed = run(schedule=schedule)
        self.assertIn("cudaErrorLaunchTimeout", replayed.stdout)
        report = [line for line in replayed.stderr.splitlines() if not line.startswith("stagecraft: exit")]
        self.assertEqual(report, [line for line in found.splitlines() if line in report])
        self.assertIn("stagecraft: deadlock in kernel take_turns<false>", report[0])

    def test_the_same_is_found_with_any_number_of_threads_and_other_things_with_another_seed(self):
        one, two = run(explore="40", threads="1"), run(explore="40", threads="2")
        self.assertEqual(one.stderr, two.stderr)
        self.assertNotEqual(one.stderr, run(explore="40", seed="3").stderr)

    def test_a_report_can_be_json(self):
        lines = [json.loads(line) for line in run(explore="40", report="json").stderr.splitlines()]
        self.assertEqual([line["kind"] for line in lines], ["deadlock", "exploration"])
        self.assertEqual((lines[1]["launches"], lines[1]["schedules"], lines[1]["mistakes"]), (2, 80, 1))

    def test_findings_that_are_errors_fail_the_launch(self):
        done = run(explore="40", findings="error")
        self.assertIn("cudaErrorLaunchFailure", done.stdout)
        self.assertEqual(done.returncode, 2)

    def test_all_interleavings_prove_the_right_kernel_and_refute_the_wrong_one(self):
        done = run(exhaust="1000")
        self.assertEqual(done.stdout, "6 3 cudaSuccess\n")
        self.assertEqual(done.stderr.count("stagecraft: deadlock in kernel take_turns<false>"), 1, done.stderr)
        self.assertNotIn("take_turns<true>", done.stderr)
        self.assertRegex(done.stderr, r"\nstagecraft: \d+ interleavings of 2 launches explored: 1 mistake, reported above\n")
        self.assertEqual(done.returncode, 1)

    def test_loops_that_wait_are_proved_or_refuted(self):
        for kernel in ("flags", "counter", "locks"):
            with self.subTest(kernel):
                right, wrong = run(LOOPS, kernel, "right", exhaust="20000"), run(LOOPS, kernel, "wrong", exhaust="20000")
                self.assertRegex(right.stderr, r"^stagecraft: all \d+ interleavings of the synchronisation explored: nothing found\n"
                                               r"  not varied: .*strong access.*\n$")
                self.assertEqual(run(LOOPS, kernel, "wrong").stderr, "")
                self.assertRegex(wrong.stderr, r"^stagecraft: endless loop in kernel .*\n")
                self.assertEqual((right.stdout, right.returncode), (wrong.stdout, 0))

    def test_a_schedule_of_something_else_is_noticed(self):
        done = run(schedule="1:w1.900+64,w0.1+64")
        self.assertIn("1 of the 2 switches of the schedule were not reached", done.stderr)
        self.assertEqual(done.stdout, "6 3 cudaSuccess\n")


if __name__ == "__main__":
    unittest.main()
