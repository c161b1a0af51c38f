#!/usr/bin/env python3
"""Passes when the test of an unsolved exercise fails within seconds and says that this is expected.

usage: run_untouched.py SOURCE_ROOT CHAPTER PROGRAM EXERCISE_FILE...

A learner's half-solved exercise must name the TODOs that are left, and may fail in what is solved; a solved one is skipped.
With CI=true in the environment the exercise must be untouched: fail, say that this is expected, and name TODO 1.
"""

import os
import pathlib
import re
import subprocess
import sys
import textwrap

SECONDS = 30
SKIPPED = 77


def main() -> int:
    root, chapter, program, files = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]
    paths = [f"chapters/{chapter}/{name}" for name in files]
    todos = [f"{path}:{number}: {match[1]}"
             for path in paths
             for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1)
             if (match := re.search(r"(TODO \d+: .*)", line))]
    strict = os.environ.get("CI") == "true"
    if not todos and not strict:
        print(f"chapters/{chapter} has no TODO left: it was solved")
        return SKIPPED
    try:
        done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=SECONDS)
    except subprocess.TimeoutExpired:
        print(f"{program} has not failed after {SECONDS} s")
        return 1
    print(textwrap.indent(done.stdout, "  "))  # so that its cases are not counted as this test's
    if done.returncode == 0:
        print(f"chapters/{chapter} passes though it has TODOs")
        return 1 if strict else SKIPPED
    wanted = [*todos, f"chapters/{chapter}/README.md"]
    if strict:
        wanted += ["This is expected", "TODO 1: "]
    missing = [text for text in wanted if text not in done.stdout]
    for text in missing:
        print(f"the output does not contain: {text}")
    return 1 if missing else 0


sys.exit(main())
