#!/usr/bin/env python3
"""Measures how long a learner and a maintainer wait: in a fresh clone, a line for each wait.

usage: waits.py [gemm] [test] [save] [ci]       default: gemm test save

gemm   from nothing to the verified GEMM
test   from there to the end of all tests
save   from saving an exercise to its verdict, chapter by chapter: the median of three
ci     .ci/run, in a clone of its own

Beside each wait stand the processor time, which varies less, and the goal on an idle machine with two cores. What is
committed is measured, without a compiler cache. Packages are those that the machine has: if some are missing, fetching
them counts.
"""

import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOALS = {"gemm": "1:45, 3.0 min", "test": "10:00, 18.0 min", "ci": "20:00"}
SAVE_GOALS = {"00": "1.2 s", "10": "2.5 s"}  # from this chapter on
ENVIRONMENT = {**os.environ, "CCACHE_DISABLE": "1"}


def measured(command: list[str], folder: pathlib.Path, environment: dict[str, str], may_fail: bool) -> tuple[float, float]:
    """Runs a command; returns the seconds that it took, and those of all its processes."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0 and not may_fail:
        print(done.stdout[-2000:])
        sys.exit(f"{' '.join(command)} failed with status {done.returncode}, so its time says nothing")
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def clone(folder: str, name: str) -> pathlib.Path:
    path = pathlib.Path(folder) / name
    subprocess.run(["git", "clone", "--quiet", ROOT, path], check=True)
    return path


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def show(name: str, wait: str, processor: str, goal: str) -> None:
    print(f"{name:34} {wait:>8}   {processor:>9} of processor time   goal {goal}", flush=True)


def show_command(name: str, label: str, command: list[str], folder: pathlib.Path, environment: dict[str, str]) -> None:
    seconds, processor = measured(command, folder, environment, may_fail=False)
    show(label, minutes(seconds), f"{processor / 60:.1f} min", GOALS[name])


def measure_saves(folder: pathlib.Path) -> None:
    """Each exercise is saved with one more comment, which changes no line that a test names."""
    for chapter in sorted(path for path in (folder / "chapters").iterdir() if path.name[:2].isdigit()):
        number = chapter.name[:2]
        source = sorted(path for path in chapter.iterdir() if "// TODO " in path.read_text(encoding="utf-8", errors="replace")
                        and path.suffix != ".md")[0]
        command = ["./stagecraft", "test", number]
        measured(command, folder, ENVIRONMENT, may_fail=True)  # builds what an edit does not change
        waits, processors = [], []
        for _ in range(3):
            with source.open("a", encoding="utf-8") as file:
                file.write("// saved\n")
            seconds, processor = measured(command, folder, ENVIRONMENT, may_fail=True)
            waits.append(seconds)
            processors.append(processor)
        goal = SAVE_GOALS["10" if number >= "10" else "00"]
        show(f"chapter {number}, saved to verdict", f"{statistics.median(waits):.1f} s",
             f"{statistics.median(processors):.1f} s", goal)


def main() -> int:
    wanted = sys.argv[1:] or ["gemm", "test", "save"]
    if not set(wanted) <= {*GOALS, "save"}:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory() as temporary:
        folder = clone(temporary, "clone")
        if {"gemm", "test", "save"} & set(wanted):
            show_command("gemm", "a verified GEMM, from nothing", ["./stagecraft", "gemm"], folder, ENVIRONMENT)
        if "test" in wanted:
            show_command("test", "all tests after it", ["./stagecraft", "test"], folder, ENVIRONMENT)
        if "save" in wanted:
            measure_saves(folder)
        if "ci" in wanted:
            shutil.rmtree(folder)
            show_command("ci", ".ci/run", ["bash", ".ci/run"], clone(temporary, "ci"), {**ENVIRONMENT, "CI": "true"})
    return 0


if __name__ == "__main__":
    sys.exit(main())
