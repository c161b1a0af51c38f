#!/usr/bin/env python3
"""Counts what `meson test` ran, case by case, says why tests were skipped, and ends with `N passed, N failed`.

usage: count_tests.py TESTLOG   with Meson's testlog.json; the exit status is 1 when something failed or nothing ran

A GoogleTest program counts as its cases, any other test as one. A program that dies in the middle of a case has failed
that case, and one that fails although all its cases passed (a sanitizer's report at exit, say) has failed as one more.
"""

import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import guarded  # noqa: E402, before all others: from here on Ctrl-C leaves no trace

import dataclasses
import json
import pathlib
import re

END = re.compile(r"^\[\s*(OK|FAILED|SKIPPED)\s*\]", re.MULTILINE)
SKIP_REASON = re.compile(r": Skipped\n(.*\S)", re.DOTALL)


def plain_name(test: dict) -> str:
    """The name as meson.build gives it; the log puts project and suite before it."""
    return test["name"].split(" / ", 1)[-1]


@dataclasses.dataclass
class Count:
    passed: int = 0
    failed: list[str] = dataclasses.field(default_factory=list)
    skipped: dict[str, str] = dataclasses.field(default_factory=dict)  # name to reason

    def add_program(self, test: dict) -> None:
        """A test that is one program with one verdict."""
        name, result = plain_name(test), test["result"]
        if result in ("OK", "EXPECTEDFAIL"):
            self.passed += 1
        elif result == "SKIP":
            lines = (test.get("stdout") or test.get("stderr") or "").strip().splitlines()
            self.skipped[name] = lines[-1] if lines else "it gave no reason"
        else:
            self.failed.append(f"{name} ({result.lower()})")

    def add_cases(self, test: dict, output: str) -> None:
        """A GoogleTest program: one verdict per case."""
        failed_before = len(self.failed)
        for text in output.split("[ RUN      ] ")[1:]:
            case = text.split(maxsplit=1)[0]
            end = END.search(text)
            if not end:
                self.failed.append(f"{case} (ended the program)")
            elif end[1] == "OK":
                self.passed += 1
            elif end[1] == "SKIPPED":
                reason = SKIP_REASON.search(text[:end.start()])
                self.skipped[case] = (
                    " ".join(reason[1].split()) if reason else
                    "a test before it failed" if len(self.failed) > failed_before else "it gave no reason")
            else:
                self.failed.append(case)
        if test["result"] not in ("OK", "SKIP") and len(self.failed) == failed_before:
            self.failed.append(f"{plain_name(test)} ({test['result'].lower()}, though each of its cases passed)")


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
    if not count.passed and not count.failed:
        print("no test ran")
        count.failed.append("")
    print(summary)
    return 1 if count.failed else 0


guarded.run(main)
