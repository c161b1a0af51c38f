#!/usr/bin/env python3
"""Counts what `meson test` ran, case by case, says why tests were skipped, and ends with `N passed, N failed`.

usage: count_tests.py TESTLOG   with Meson's testlog.json; the exit status is 1 when something failed or nothing ran

A GoogleTest program counts as its cases, any other test as one. A program that dies in the middle of a case has failed
that case, and one that fails although all its cases passed (a sanitizer's report at exit, say) has failed as one more.
"""

import dataclasses
import json
import pathlib
import re
import sys

CASE = re.compile(r"^\[\s*(RUN|OK|FAILED|SKIPPED)\s*\] ([\w/]+\.[\w/]+)", re.MULTILINE)
SKIP_REASON = re.compile(r"Skipped\n(.*?)\n?\[\s*SKIPPED", re.DOTALL)


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)  # name to reason

    def add_program(self, test: dict) -> None:
        """A test that is one program with one verdict."""
        name, result = test["name"], test["result"]
        if result in ("OK", "EXPECTEDFAIL"):
            self.passed += 1
        elif result == "SKIP":
            lines = (test.get("stdout") or test.get("stderr") or "").strip().splitlines()
            self.skipped[name] = lines[-1] if lines else "it gave no reason"
        else:
            self.failed.append(f"{name} ({result.lower()})")

    def add_cases(self, test: dict, output: str) -> None:
        """A GoogleTest program: one verdict per case."""
        verdicts: dict[str, str] = {}
        for match in CASE.finditer(output):
            # The summary at the end repeats the failed and skipped cases; the first verdict after RUN is the one.
            if match[1] == "RUN" or verdicts.get(match[2]) == "RUN":
                verdicts[match[2]] = match[1]
        output_of = dict(re.findall(r"^\[ RUN      \] (\S+)\n(.*?^\[\s*SKIPPED \])", output, re.MULTILINE | re.DOTALL))
        failed_before = len(self.failed)
        for case, verdict in verdicts.items():
            if verdict == "OK":
                self.passed += 1
            elif verdict == "SKIPPED":
                reason = SKIP_REASON.search(output_of.get(case, ""))
                self.skipped[case] = " ".join(reason[1].split()) if reason and reason[1].strip() else "it gave no reason"
            elif verdict == "RUN":
                self.failed.append(f"{case} (ended the program)")
            else:
                self.failed.append(case)
        if test["result"] not in ("OK", "SKIP") and len(self.failed) == failed_before:
            self.failed.append(f"{test['name']} ({test['result'].lower()}, though each of its cases passed)")


def main() -> int:
    log = pathlib.Path(sys.argv[1])
    count = Count()
    if log.exists():
        for line in log.read_text(encoding="utf-8").splitlines():
            test = json.loads(line)
            output = (test.get("stdout") or "").replace("\r\n", "\n")
            if "\n[----------] Global test environment set-up." in output:
                count.add_cases(test, output)
            else:
                count.add_program(test)

    print()
    for name, reason in count.skipped.items():
        print(f"skipped {name}: {reason}")
    for name in count.failed:
        print(f"failed  {name}")
    summary = f"{count.passed} passed, {len(count.failed)} failed"
    if count.skipped:
        summary += f", {len(count.skipped)} skipped"
    if not count.passed and not count.failed:
        print("no test ran")
        count.failed.append("")
    print(summary)
    return 1 if count.failed else 0


sys.exit(main())
