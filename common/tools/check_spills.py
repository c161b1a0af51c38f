#!/usr/bin/env python3
"""Fails when a kernel of a program spills registers, on any architecture that it was assembled for.

usage: check_spills.py FOLDER                                     with the *.ptxas.txt that compile_cuda.py left there
       check_spills.py --assemble SOURCE... NVCC ARGUMENTS...     assembles the sources, which are .cu files, first
"""

import itertools
import pathlib
import re
import subprocess
import sys

KERNEL = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")


def assembled(command: list[str]) -> dict[str, str]:
    """What ptxas says about the kernels of each source."""
    sources = list(itertools.takewhile(lambda argument: argument.endswith(".cu"), command))
    return {pathlib.Path(source).name: subprocess.run(
        [*command[len(sources):], "-Xptxas", "-v", "-fatbin", "-o", "/dev/null", source],
        check=True, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True).stdout for source in sources}


def main() -> int:
    reports = assembled(sys.argv[2:]) if sys.argv[1] == "--assemble" else {
        path.name: path.read_text(encoding="utf-8") for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.ptxas.txt"))}
    kernels = spilling = 0
    for report, text in reports.items():
        kernel = "a function"
        for line in text.splitlines():
            if match := KERNEL.search(line):
                kernel = f"{match[1]} for {match[2]}"
                kernels += 1
            elif (match := SPILLS.search(line)) and (match[1], match[2]) != ("0", "0"):
                spilling += 1
                print(f"{report}: {kernel} spills: {match[0]}. Fewer live values, or a larger register budget "
                      "through __launch_bounds__, keep them in registers.")
    if not kernels:
        print(f"no kernel was assembled in {sys.argv[1]}: build the program first (meson compile -C build)")
        return 1
    print(f"{kernels} kernels assembled, {spilling} with spills")
    return 1 if spilling else 0


sys.exit(main())
