#!/usr/bin/env python3
"""Prints how many registers each role of the complete GEMM takes in sm_100a machine code, and checks that none spills.

usage: gemm_roles.py NVCC SOURCE.cu

SOURCE is compiled once for each role, with a kernel for each configuration in which all warps have that role. A block has
256 threads, so that the registers of a multiprocessor are enough for 255 in each.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = ["load", "multiply", "schedule", "load_c", "epilogue"]
KERNELS = ["one block", "pairs, cluster 4x2, launch control", "divided, epilogue, C", "nvfp4"]  # as in SOURCE
FOUND = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
                   re.DOTALL)


def resources(nvcc: str, source: pathlib.Path, role: str) -> list[tuple[str, int, int]]:
    """The name, the registers and the spilled bytes of each kernel."""
    done = subprocess.run(
        [nvcc, "-std=c++20", "-I", ROOT / "common", "-DCCCL_DISABLE_FP16_SUPPORT", f"-DROLE={role}", "-Xptxas", "-v",
         "-gencode", "arch=compute_100a,code=sm_100a", "-cubin", source, "-o", "/dev/null"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout)
    return [(name, int(registers), int(stores) + int(loads)) for name, stores, loads, registers in FOUND.findall(done.stdout)]


def main() -> int:
    nvcc, source = sys.argv[1], pathlib.Path(sys.argv[2])
    table, names, problems = {}, [], []
    for role in ROLES:
        found = resources(nvcc, source, role)
        names = names or sorted(name for name, _, _ in found)
        for name, registers, spilled in found:
            table[name, role] = registers
            if spilled or registers > 255:
                problems.append(f"{role} of {name}: {registers} registers, {spilled} bytes spilled")
    if len(names) != len(KERNELS) or len(table) != len(KERNELS) * len(ROLES):
        sys.exit(f"{len(table)} kernels were compiled, and {len(KERNELS)} configurations have {len(ROLES)} roles each")
    print(f"{'registers of each role':38}" + "".join(f"{role:>10}" for role in ROLES))
    for name in sorted(names, key=lambda name: configuration_of(name)):
        print(f"{KERNELS[configuration_of(name)]:38}" + "".join(f"{table[name, role]:10}" for role in ROLES))
    print("\n".join(problems) or "no role spills a register")
    return 1 if problems else 0


def configuration_of(name: str) -> int:
    """Which of KERNELS a mangled name is: each differs from the others in one member of its configuration."""
    values = re.search(r"GemmConfigE(.*?)EEEEEvNS", name)[1]
    return 3 if "DataTypeE8" in values else 1 if "Li256E" in values else 2 if "GemmEpilogueE1" in values else 0


sys.exit(main())
