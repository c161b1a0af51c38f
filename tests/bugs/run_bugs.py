#!/usr/bin/env python3
"""Runs the variants of a base on the emulated GPU: the right one must be silent, and each bug must get its report.

usage: run_bugs.py BASE.bugs PROGRAM [VARIANT...]

The first report must be of the `kind`, and the reports together must contain what `says` names and the line of the base
on which the text of `line` stands (`none` where the report is about no line, as that of a refused launch).
"""

import os
import pathlib
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
from bugs import FOLDER, Base, Bug, read_bugs  # noqa: E402

ROOT = FOLDER.parents[1]
SCHEDULES = 20  # in which a right program must be silent
TIME_LIMIT = 60  # seconds; no bug is expected to be named by it


def main() -> int:
    path, program, wanted = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    base = Base(path.with_suffix(".cu"))
    failed = 0
    bugs = read_bugs(path)
    if not wanted or "right" in wanted:
        failed += not is_silent(program, {"STAGECRAFT_CHECKS": "all"}, "")
        failed += not is_silent(program, {"STAGECRAFT_CHECKS": "race,global"}, "")
        # Also in other schedules; those of a program that is wrong in few of them would show here.
        failed += not is_silent(program, {"STAGECRAFT_CHECKS": "all", "STAGECRAFT_EXPLORE": f"{SCHEDULES}"},
                                rf"stagecraft: explored {SCHEDULES} schedules.*: nothing found\n")
    for bug in bugs:
        if wanted and bug.name not in wanted:
            continue
        done = run(program, bug.name, bug.settings())
        output = done.stdout
        problems = differences(bug, base, output)
        if done.returncode < 0:
            problems.insert(0, f"the program crashed with signal {-done.returncode}")
        if problems:
            failed += 1
            print(f"{bug.name}: {'; '.join(problems)}\n{output}")
    print(f"{path.stem}: {failed} of {len(wanted) or len(bugs) + 1} variants failed")
    return failed != 0


def is_silent(program: str, settings: dict[str, str], expected: str) -> bool:
    """Whether the right variant has the right result, and nothing else is said than what this matches."""
    done = run(program, "right", settings)
    if done.returncode == 0 and re.fullmatch(expected, done.stdout.replace("right result\n", "", 1)):
        return True
    print(f"the right variant is not silent and right with {settings}:\n{done.stdout}")
    return False


def run(program: str, variant: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("STAGECRAFT_") or key == "STAGECRAFT_DEVICE"}
    environment |= {"STAGECRAFT_FINDINGS": "report", **settings}
    return subprocess.run([program, variant], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment, timeout=TIME_LIMIT, check=False)


def kind_of(output: str) -> str:
    """The kind of the first report in an output."""
    for line in output.splitlines():
        if found := re.match(r"stagecraft: ([a-z0-9 ]+) in kernel ", line):
            return found[1]
        if re.match(r"stagecraft: cu\w+: ", line):
            return "refused call"
    return "none"


def differences(bug: Bug, base: Base, output: str) -> list[str]:
    """How the reports differ from what the bug expects."""
    problems = []
    if (kind := kind_of(output)) != bug.facts["kind"]:
        problems.append(f"the first report is \"{kind}\", not \"{bug.facts['kind']}\"")
    elif not (ROOT / "docs/reports" / f"{kind.replace(' ', '-')}.md").exists():
        problems.append(f"no page of docs/reports explains \"{kind}\"")
    if bug.facts["says"] not in output:
        problems.append(f"nothing says \"{bug.facts['says']}\"")
    if bug.facts["line"] == "none":  # the report is about no line
        return problems
    expected = base.lines_with(bug, bug.facts["line"])
    named = {int(number) for number in re.findall(rf"\b{base.path.name}:(\d+)", output)}
    if not expected:
        problems.append(f"the program has no line with: {bug.facts['line']}")
    elif not expected & named:
        problems.append(f"no report names line {' or '.join(map(str, sorted(expected)))}: {bug.facts['line']}")
    return problems


if __name__ == "__main__":
    sys.exit(main())
