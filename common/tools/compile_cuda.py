#!/usr/bin/env python3
"""Compiles one CUDA source with nvcc and keeps what ptxas says about its kernels.

usage: compile_cuda.py REPORT NVCC ARGUMENTS...

nvcc prints the resources of every kernel (-Xptxas -v) between its warnings. Here they are parted: the resources go to
REPORT, which the test of spills reads, and only warnings and errors reach the terminal.
"""

import re
import subprocess
import sys

RESOURCE_LINE = re.compile(r"^ptxas info|^\s+\d+ bytes (stack frame|spill)|^\s*Function properties for ")


def main() -> int:
    report, command = sys.argv[1], sys.argv[2:]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    lines = done.stdout.splitlines(keepends=True)
    resources = [line for line in lines if RESOURCE_LINE.match(line)]
    with open(report, "w", encoding="utf-8") as file:
        file.writelines(resources)
    sys.stdout.writelines(line for line in lines if not RESOURCE_LINE.match(line))
    return done.returncode


sys.exit(main())
