#!/usr/bin/env python3
"""Passes when a wrong answer is refused, soon, and for the right reason.

usage: run_wrong_answer.py PATCH COMMAND...   COMMAND runs the chapter's test on the answer, or compiles the answer

COMMAND must fail within seconds, and its output contain each regular expression that PATCH expects; see answer_patch.py.
"""

import pathlib
import re
import subprocess
import sys
import textwrap

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import answer_patch  # noqa: E402

SECONDS = 30  # far above what any of them takes: a wrong answer that runs into this was not diagnosed
SKIPPED = 77


def find_fault(patterns: list[str], command: list[str]) -> tuple[str, str]:
    """What is wrong with how the answer was refused (empty: nothing), and the output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        return f"no verdict after {SECONDS} s", (late.stdout or b"").decode(errors="replace")
    if done.returncode == 0:
        return "the wrong answer was accepted (does its patch change code of the host, without `host: changed`?)", done.stdout
    missing = [pattern for pattern in patterns if not re.search(pattern, done.stdout)]
    if missing:
        return "refused, but the output does not contain\n  " + "\n  ".join(missing), done.stdout
    return "", done.stdout


def main() -> int:
    answer = answer_patch.Answer(pathlib.Path(sys.argv[1])).read()
    patterns, pending = answer.values("expect"), " ".join(answer.values("pending"))
    if not patterns:
        print(f"{sys.argv[1]} expects nothing: name what the report must contain")
        return 1
    fault, output = find_fault(patterns, sys.argv[2:])
    print(textwrap.indent(output, "  "))  # so that its cases are not counted as this test's
    print(fault or "refused as it should be")
    if fault and pending:
        print(f"pending: {pending}")
        return SKIPPED
    if pending and not fault:
        print(f"the line 'pending:' in {sys.argv[1]} can go")
    return 1 if fault else 0


sys.exit(main())
