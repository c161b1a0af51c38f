#!/usr/bin/env python3
"""Proves the rings of the chapters under --exhaust, and says how each of their wrong answers is named.

usage: proofs_test.py CHAPTERS_FOLDER SMALL_FOLDER PAIR

CHAPTERS_FOLDER has the programs of the chapters, SMALL_FOLDER those of this folder; PAIR is the pair of the gallery.
"""

import os
import pathlib
import re
import resource
import subprocess
import sys
import unittest

PAIR = sys.argv.pop()
SMALL = pathlib.Path(sys.argv.pop())
PROGRAMS = pathlib.Path(sys.argv.pop())
HERE = pathlib.Path(__file__).resolve().parent
sys.dont_write_bytecode = True  # leave no cache folder among the sources
sys.path.insert(0, str(HERE.parent / "mistakes"))
import form  # noqa: E402

# The tests of a chapter that are left to the programs in this folder, which start the same kernels on less.
TOO_LARGE = {
    "02_ring_of_stages": [],
    "03_producer_consumer_pipeline": ["Chapter03.Todo2WorksWhileItWaits",
                                      "Chapter03.Todo3TheQuickWarpIsHeldBackButNotMoreThanNeeded"],
    "04_linear_stage_handles": [],
    "05_scopes": [],
    "06_role_pipeline": ["Chapter06.Todo2TheFirstHalfIsFreedEarly"],
    "09_input_tile_pipeline": ["Chapter09.Todo3AsksWorksAndThenWaitsIfNeeded"],
    "11_cta_pairs": [],
}
PROOF = r"stagecraft: all (\d+) interleavings?(?: of the synchronisation)?(?: of \d+ launches)? explored: nothing found\n"
REPORT = re.compile(r"^stagecraft: ([a-z ]+) in kernel", re.MULTILINE)


def run(*command: str, exhaust: bool = False) -> str:
    """What a program prints under all checks, and with `exhaust` under all interleavings, one at a time."""
    variables = {key: value for key, value in os.environ.items() if not key.startswith("STAGECRAFT_")}
    variables |= {"STAGECRAFT_CHECKS": "race", "STAGECRAFT_FINDINGS": "report", "STAGECRAFT_THREADS": "1"}
    if exhaust:
        variables["STAGECRAFT_EXHAUST"] = "20000"
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=variables,
                          check=False, timeout=300, errors="replace").stdout


def how_it_is_named(mistake: form.Mistake) -> tuple[str, str]:
    """What the section of a wrong answer says: what names it, and the test that is run under --exhaust (empty: none)."""
    if mistake.values("refused"):
        return "compiler", ""
    return "numbers" if mistake.values("numbers") else mistake.value("kind"), mistake.value("exhaust")


class ProofsTest(unittest.TestCase):
    def prove(self, *command: str) -> None:
        output = run(*command, exhaust=True)
        found = re.search(PROOF, output)
        self.assertTrue(found, f"{' '.join(command)} is not proved:\n{output}")
        print(f"  proved {pathlib.Path(command[0]).name}: {found[0].split(': ', 1)[1].strip()}")

    def test_the_rings_of_the_chapters_are_proved(self):
        for chapter, too_large in TOO_LARGE.items():
            with self.subTest(chapter):
                self.prove(str(PROGRAMS / f"{chapter}_solution"), f"--gtest_filter=-{':'.join(too_large)}")

    def test_what_is_too_large_there_is_proved_for_small_sizes(self):
        for chapter in ("02", "03", "06", "09"):
            with self.subTest(chapter):
                self.prove(str(SMALL / f"small_ring_{chapter}"))

    def test_a_pair_of_blocks_with_a_multicast_is_proved(self):
        self.prove(PAIR, "right")

    def test_each_wrong_answer_is_named_as_its_section_says(self):
        count: dict[str, int] = {}
        for chapter in TOO_LARGE:
            for mistake in form.find(chapter[:2]):
                with self.subTest(mistake.short):
                    expected, test = how_it_is_named(mistake)
                    kind, where = self.how_named(chapter, mistake, test)
                    self.assertEqual(kind, expected)
                    count[where] = count.get(where, 0) + 1
        print("  named by " + ", ".join(f"{where}: {number}" for where, number in sorted(count.items())))

    def how_named(self, chapter: str, mistake: form.Mistake, test: str) -> tuple[str, str]:
        """The kind of the first report or what else names it, and where that is."""
        program = PROGRAMS / f"{chapter}_wrong_{mistake.name}"
        if not program.exists():
            return ("compiler", "the compiler") if mistake.values("refused") else ("not built", "")
        output = run(str(program))
        if report := REPORT.search(output):
            self.assertEqual(test, "", "the default schedule shows it without that test")
            return report[1], "a report in the default schedule"
        if test:
            output = run(str(program), f"--gtest_filter={test}", exhaust=True)
            report = REPORT.search(output)
            is_hidden = "found in interleaving" in output
            return report[1] if report else "not named", \
                f"a report in {'another interleaving' if is_hidden else 'the default schedule'}"
        return ("numbers", "the test's numbers") if "FAILED" in output else ("accepted", "")


def tearDownModule():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"  {used.ru_utime + used.ru_stime:.0f} s of processor time")


if __name__ == "__main__":
    unittest.main()
