#!/usr/bin/env python3
"""Shows what an epilogue that writes D through TileWriter is in machine code for sm_100a, for each type of D.

usage: check_writer.py NVCC SOURCE.cu

A warp writes a slice at a time: 128 bytes of each of its rows. It loads them from tensor memory 32 columns at a time,
stores them to shared memory 16 bytes at a time, and fences once, before one lane asks TMA. Nothing is in local
memory. nvcc has no disassembler, so opcodes are known by number; where there is an nvdisasm (beside nvcc or in PATH), it must
call them the same.
"""

import collections
import pathlib
import shutil
import subprocess
import sys
import tempfile

from machine_code import instructions, kernel_code, misnamed

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Opcodes of sm_100a, from nvdisasm 13.5.
NAMES = {0x183: "LDL", 0x187: "STL", 0x188: "STS", 0x192: "MEMBAR", 0x1B5: "UTMASTG", 0x1B7: "UTMACMDFLUSH", 0x1C6: "FENCE",
         0x1EE: "LDTM"}
STS, STS_SIZES = 0x188, {4: "4 bytes", 5: "8 bytes", 6: "16 bytes"}  # bits 73 to 75
SLICE_BYTES = 128
ELEMENT_BYTES = {"f32": 4, "bf16": 2, "f16": 2, "e4m3": 1}


def expected(element_bytes: int) -> dict[str, int]:
    """What there is for a slice: the loop over slices holds the code of one."""
    return {"LDTM": SLICE_BYTES // element_bytes // 32, "STS of 16 bytes": SLICE_BYTES // 16,
            "MEMBAR": 1, "FENCE": 1,  # fence.proxy.async is both
            "UTMASTG": 1, "UTMACMDFLUSH": 1}  # the store, and its group


def main() -> int:
    nvcc, source = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "writers.cubin"
        done = subprocess.run([nvcc, "-std=c++20", "-O3", "-arch=sm_100a", "-cubin", "-DCCCL_DISABLE_FP16_SUPPORT",
                               "-I", ROOT / "common", source, "-o", cubin],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout)
        kernels = {name: instructions(code) for name, code in kernel_code(cubin.read_bytes()).items()}
        disassembler = shutil.which("nvdisasm", path=str(pathlib.Path(nvcc).parent)) or shutil.which("nvdisasm")
        problems = misnamed(disassembler, cubin, NAMES) if disassembler else []
    for name, element_bytes in ELEMENT_BYTES.items():
        found = collections.Counter(
            f"STS of {STS_SIZES.get(at.high >> 9 & 7, 'fewer bytes')}" if at.opcode == STS else NAMES[at.opcode]
            for at in kernels[name] if at.opcode in NAMES)
        print(f"{name}: " + ", ".join(f"{count} {what}" for what, count in found.items()))
        if dict(found) != expected(element_bytes):
            problems.append(f"{name}: expected are {expected(element_bytes)}, and no local memory (LDL, STL)")
    print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
