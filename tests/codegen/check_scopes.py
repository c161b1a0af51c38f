#!/usr/bin/env python3
"""Shows what the scope of an arrival in another block, and of a wait, adds to the machine code for sm_100a.

usage: check_scopes.py NVCC SOURCE.cu

The lesson of chapter 11 has these numbers. nvcc has no disassembler, so opcodes are known by number; those that a scope
adds are the fence (MEMBAR and the two that wait for its errors) and the cache control (CCTL).
"""

import collections
import pathlib
import subprocess
import sys
import tempfile

from machine_code import instructions, kernel_code

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOP = 0x118
# What a kernel has in addition to the one that it is compared with.
EXPECTED = {
    ("arrive_release_cluster", "arrive_relaxed_cluster"): 4,
    ("arrive_release_cta", "arrive_relaxed_cluster"): 0,
    ("arrive_without_scope", "arrive_relaxed_cluster"): 0,
    ("wait_acquire_cluster", "wait_acquire_cta"): 1,
}


def main() -> int:
    nvcc, source = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "scopes.cubin"
        done = subprocess.run([nvcc, "-std=c++20", "-O3", "-arch=sm_100a", "-cubin", "-I", ROOT / "common", source, "-o", cubin],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout)
        kernels = {name: collections.Counter(at.opcode for at in instructions(code) if at.opcode != NOP)
                   for name, code in kernel_code(cubin.read_bytes()).items()}
    failed = False
    for (name, base), expected in EXPECTED.items():
        added, lost = kernels[name] - kernels[base], kernels[base] - kernels[name]
        print(f"{name}: {added.total()} more than {base}" + "".join(f", opcode 0x{opcode:03x}" for opcode in added.elements()))
        failed |= added.total() != expected or bool(lost)
    if failed:
        print(f"expected were {list(EXPECTED.values())}, and no instruction less")
    return failed


sys.exit(main())
