"""Runs mistakes, and compares what is said with what is expected."""

import re
import subprocess
import textwrap

from form import Mistake, shown

SECONDS = 30  # far above what any of them takes: a mistake that runs into this was not diagnosed
SKIPPED = 77


def find_fault(patterns: list[str], command: list[str]) -> tuple[str, str]:
    """What is wrong with how the answer was refused (empty: nothing), and the output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        return f"no verdict after {SECONDS} s", (late.stdout or b"").decode(errors="replace")
    if done.returncode == 0:
        return "the wrong answer was accepted (does it change code of the host, without `host: changed`?)", done.stdout
    missing = [pattern for pattern in patterns if not re.search(pattern, done.stdout)]
    if missing:
        return "refused, but the output does not contain\n  " + "\n  ".join(missing), done.stdout
    return "", done.stdout


def check_refusal(mistake: Mistake, command: list[str]) -> int:
    """Passes when the command, the test of a wrong answer or its compilation, fails soon and says what is expected."""
    fault, output = find_fault(mistake.values("expect") + mistake.values("refused"), command)
    print(textwrap.indent(output, "  "))  # so that its cases are not counted as this test's
    print(fault or "refused as it should be")
    if pending := mistake.value("pending"):
        print(f"pending: {pending}" if fault else f"the line 'pending:' of {mistake.name} in {shown(mistake.path)} can go")
        if fault:
            return SKIPPED
    return 1 if fault else 0
