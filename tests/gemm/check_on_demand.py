#!/usr/bin/env python3
"""Checks that the GEMM without shipped kernels chooses, compiles and runs the kernel that the one with them chooses.

usage: check_on_demand.py GEMM_ON_DEMAND GEMM
"""

import re
import subprocess
import sys

PROBLEMS = ["", "--m 9 --n 300 --k 200"]


def output_of(program: str, options: str) -> str:
    done = subprocess.run([program, "--explain", *options.split()], stdout=subprocess.PIPE, text=True, check=True)
    return re.sub(r", [0-9.]+ s$", "", done.stdout, flags=re.MULTILINE)


def main() -> int:
    on_demand, shipped = sys.argv[1:]
    different = [options for options in PROBLEMS if output_of(on_demand, options) != output_of(shipped, options)]
    print("\n".join(f"with '{options}' the two print different things" for options in different) or "the same kernels")
    return 1 if different else 0


sys.exit(main())
