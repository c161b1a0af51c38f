#!/usr/bin/env python3
"""Shows what the main loop of the warp that drives the tensor core consists of, in machine code, and that it does nothing else.

usage: check_mma_loop.py NVCC SOURCE.cu INCLUDE_FOLDER...

Compiles SOURCE for sm_100a, and in each of its kernels that has MMAs looks at the innermost loop around them: waits, copies of
scale factors, MMAs, commits and index arithmetic, and how many instructions. nvcc has no disassembler, so opcodes are known by number; where there
is an nvdisasm (beside nvcc or in PATH), it must call them the same.
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from machine_code import INSTRUCTION_BYTES, Instruction, instructions, kernel_code, misnamed

ROOT = pathlib.Path(__file__).resolve().parents[2]
MMA, COMMIT, COPY, BRANCH, SYNCS = 0x1EA, 0x1E9, 0x1E7, 0x147, 0x1A7
WAIT = 0x5A7  # SYNCS.PHASECHK; SYNCS.ARRIVE has another form

# Opcodes of sm_100a, from nvdisasm 13.5 (13.2 does not know 0x097 and 0x1E7). The MMA is UTCHMMA for 16-bit types and
# tf32, UTCQMMA for 8-bit ones, UTCOMMA for 4-bit ones; UTCCP copies scale factors to tensor memory.
NAMES = {
    MMA: "UTC*MMA", COMMIT: "UTCBAR", COPY: "UTCCP", BRANCH: "BRA", SYNCS: "SYNCS",
    0x002: "MOV", 0x005: "CS2R", 0x007: "SEL", 0x00C: "ISETP", 0x010: "IADD3", 0x011: "LEA", 0x012: "LOP3", 0x019: "SHF",
    0x01C: "PLOP3", 0x024: "IMAD", 0x036: "VIADD", 0x048: "VIMNMX",
    0x082: "UMOV", 0x087: "USEL", 0x08C: "UISETP", 0x090: "UIADD3", 0x091: "ULEA", 0x092: "ULOP3", 0x099: "USHF",
    0x097: "UIADD3", 0x09C: "UPLOP3", 0x0A4: "UIMAD", 0x0CA: "R2UR", 0x1C3: "S2UR",
    0x118: "NOP", 0x146: "YIELD",
}
# Instructions of each kernel's loop with nvcc 13.0. A smaller number is good news: record it. A larger one needs a reason.
RECORDED_WITH = "13.0"
RECORDED = {
    "10_warp_specialized_gemm": {"bf16": 49, "f16": 49, "tf32": 49, "e4m3": 49, "e5m2": 49},
    "11_cta_pairs": {"1 x 1": 49, "1 x 2": 51, "2 x 1": 52, "2 x 2": 52, "2 x 1 in pairs": 51, "2 x 2 in pairs": 51,
                     "4 x 2 in pairs": 52},
    "14_block_scaled": {"Mxfp8, N 128": 72, "Mxfp8, N 256": 78, "Mxfp4, N 128": 75, "Mxfp4, N 256": 85,
                        "Nvfp4, N 128": 89, "Nvfp4, N 256": 101, "blockwise": 61},
}
# Copies of scale factors for a k-tile: an atom of 128 rows and 4 scale factors each. N = 256 has two of B for one of A, and
# a row of the k-tile has 4 scale factors of MXFP8, 8 of MXFP4 and 16 of NVFP4.
COPIES = {"Mxfp8, N 128": 2, "Mxfp8, N 256": 3, "Mxfp4, N 128": 4, "Mxfp4, N 256": 6, "Nvfp4, N 128": 8, "Nvfp4, N 256": 12}
SCALED = re.compile(r"multiply_block_scaledINS_5(\w{5})ELi(\d+)E")
SHAPE = re.compile(r"ClusterShapeILi(\d+)ELi(\d+)ELi(\d+)E")
TYPES = {"__nv_bfloat16": "bf16", "__half": "f16", "tf32": "tf32", "__nv_fp8_e4m3": "e4m3", "__nv_fp8_e5m2": "e5m2"}


def main_loop(code: list[Instruction]) -> list[Instruction]:
    """The smallest loop that holds MMAs: from the target of a backward branch to the branch."""
    loops = [code[at.branch_target // INSTRUCTION_BYTES:at.address // INSTRUCTION_BYTES + 1]
             for at in code if at.opcode == BRANCH and 0 <= at.branch_target <= at.address]
    return min((loop for loop in loops if any(at.opcode == MMA for at in loop)), key=len, default=[])


def kernel_name(kernel: str) -> str:
    """The name of the operands' type (block-scaled: and N), or the shape of the cluster, from the kernel's mangled name."""
    if scaled := SCALED.search(kernel):
        return f"{scaled[1]}, N {scaled[2]}"
    if "multiply_blockwise" in kernel:
        return "blockwise"
    if shape := SHAPE.search(kernel):
        return f"{shape[1]} x {shape[2]}" + (" in pairs" if shape[3] == "2" else "")
    return next((name for mangled, name in TYPES.items() if f"{len(mangled)}{mangled}" in kernel), kernel)


def sort(loop: list[Instruction]) -> tuple[dict[str, int], list[str]]:
    """How many instructions of which sort there are, and those that do not belong in the loop."""
    counts, foreign = {"wait": 0, "copy": 0, "MMA": 0, "commit": 0, "index arithmetic": 0, "branch": 0}, []
    for at in loop:
        if at.opcode == MMA:
            counts["MMA"] += 1
        elif at.opcode == COPY:
            counts["copy"] += 1
        elif at.opcode == COMMIT:
            counts["commit"] += 1
        elif at.opcode == BRANCH:
            counts["branch"] += 1
        elif at.opcode_with_form == WAIT:
            counts["wait"] += 1
        elif at.opcode in NAMES and at.opcode != SYNCS:
            counts["index arithmetic"] += 1
        else:
            foreign.append(f"0x{at.address:04x}: {NAMES.get(at.opcode, 'an opcode that is not in the list')} "
                           f"(0x{at.opcode_with_form:03x}, of 0x{at.word:016x})")
    return counts, foreign


def main() -> int:
    nvcc, source, folders = sys.argv[1], sys.argv[2], sys.argv[3:]
    release = re.search(r"release (\d+\.\d+)", subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, text=True,
                                                              check=True).stdout)[1]
    problems, recorded = [], RECORDED[pathlib.Path(source).parents[1].name]
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernels.cubin"
        done = subprocess.run([nvcc, "-std=c++20", "-O3", "-arch=sm_100a", "-cubin", "-I", ROOT / "common",
                               *(argument for include in folders for argument in ("-I", include)), source, "-o", cubin],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout)
        kernels = {kernel_name(name): instructions(code) for name, code in kernel_code(cubin.read_bytes()).items()}
        disassembler = shutil.which("nvdisasm", path=str(pathlib.Path(nvcc).parent)) or shutil.which("nvdisasm")
        if disassembler:
            problems += misnamed(disassembler, cubin, NAMES)

    print(f"sm_100a, nvcc {release}: instructions of the MMA warp's loop over K")
    for name, code in sorted(kernels.items()):
        loop = main_loop(code)
        counts, foreign = sort(loop)
        print(f"  {name}: {len(loop)} = " + " + ".join(f"{count} {sort}" for sort, count in counts.items() if count or sort != "copy"))
        problems += [f"{name}: not a wait, a copy, an MMA, a commit or index arithmetic: {line}" for line in foreign]
        if not all(counts[sort] for sort in ("wait", "MMA", "commit")):
            problems.append(f"{name}: the loop lacks a wait, an MMA or a commit, or was not found")
        if counts["copy"] != COPIES.get(name, 0):
            problems.append(f"{name}: {counts['copy']} copies of scale factors, and a k-tile has {COPIES.get(name, 0)} atoms of them")
        if release == RECORDED_WITH and len(loop) != recorded.get(name):
            problems.append(f"{name}: {len(loop)} instructions, and {recorded.get(name)} are recorded in {__file__}")
    problems += [f"no kernel for {name}" for name in recorded if name not in kernels]
    if not disassembler:
        print("There is no nvdisasm here, so the opcodes' names were not compared with it.")
    print("\n".join(problems))
    return 1 if problems else 0


sys.exit(main())
