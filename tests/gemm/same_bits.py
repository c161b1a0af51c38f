#!/usr/bin/env python3
"""Runs a program with several schedules of the warps, and checks that the bits of its results are the same.

usage: same_bits.py PROGRAM

PROGRAM prints lines that begin with "bits of". The emulated GPU's schedule follows from STAGECRAFT_SEED.
"""

import os
import subprocess
import sys

SEEDS = ["0", "1", "2", "3", "4"]


def bits(program: str, seed: str) -> list[str]:
    done = subprocess.run([program, "--gtest_filter=*SameBits*"], env=os.environ | {"STAGECRAFT_SEED": seed},
                          stdout=subprocess.PIPE, text=True, check=True)
    return [line for line in done.stdout.splitlines() if line.startswith("bits of")]


def main() -> int:
    found = {seed: bits(sys.argv[1], seed) for seed in SEEDS}
    first = found[SEEDS[0]]
    print("\n".join(first))
    others = [f"with seed {seed}: {lines}" for seed, lines in found.items() if lines != first]
    print("\n".join(others) or f"the same with seeds {', '.join(SEEDS)}")
    return 1 if others or not first else 0


sys.exit(main())
