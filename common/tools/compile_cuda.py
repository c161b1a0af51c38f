#!/usr/bin/env python3
"""Compiles one CUDA source with nvcc and keeps what ptxas says about its kernels.

usage: compile_cuda.py REPORT NVCC ARGUMENTS...

nvcc prints the resources of every kernel (-Xptxas -v) between its warnings. Here they are parted: the resources go to
REPORT, which the test of spills reads, and only warnings and errors reach the terminal. Where ptxas stops at a function
that is defined nowhere, a handle that was dropped, say, the source line is found and explained.
"""

import re
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import explain_unresolved  # noqa: E402

RESOURCE_LINE = re.compile(r"^ptxas info|^\s+\d+ bytes (stack frame|spill)|^\s*Function properties for ")


def main() -> int:
    report, command = sys.argv[1], sys.argv[2:]
    if "-G" in command:  # which includes the lines of the source, and is refused together with -lineinfo
        command = [argument for argument in command if argument != "-lineinfo"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    lines = done.stdout.splitlines(keepends=True)
    resources = [line for line in lines if RESOURCE_LINE.match(line)]
    with open(report, "w", encoding="utf-8") as file:
        file.writelines(resources)
    sys.stdout.writelines(line for line in lines if not RESOURCE_LINE.match(line))
    if done.returncode != 0:
        sys.stdout.write(explain_unresolved.explain(command, done.stdout))
    return done.returncode


sys.exit(main())
