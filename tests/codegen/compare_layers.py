#!/usr/bin/env python3
"""Shows that no layer of the device library costs an instruction or a register more than a ring written by hand.

usage: compare_layers.py SOURCE.cu NVCC ARCHITECTURE...   the architectures as in sm_ARCHITECTURE: 90a 100a

Compiles the kernels of layers.cu or tile_layers.cu and counts the instructions in the machine code itself, so that no
disassembler is needed.
"""

import pathlib
import re
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTRUCTION_BYTES = 16  # since Volta
NOP = 0x7918  # the low half-word of the instruction; ptxas pads the end of a kernel with them
# What each source holds: its layers, its kernels, and what they do.
SOURCES = {
    "layers.cu": ({
        "Ring": "ring by hand",
        "Pipeline": "ProducerConsumerPipeline",
        "Handles": "linear handles",
        "Scopes": "scopes",
        "CallableScopes": "scopes as calls",
        "ExplicitScopes": "explicit scope",
        "Roles": "RolePipeline",
    }, ["copied", "written"], "Rows brought by bulk copies or written by a warp, through rings of 1 to 4 stages."),
    "tile_layers.cu": ({
        "Ring": "ring by hand",
        "Direct": "InputTilePipeline",
        "Handles": "its linear handles",
        "Scopes": "its scopes",
    }, ["read", "multiplied"],
        "Tiles of A and B brought by tensor maps in groups of two, and read by a warp or (sm_100a) multiplied by the "
        "tensor core."),
}


def kernel_code(cubin: bytes) -> dict[str, bytes]:
    """The machine code of each kernel: the .text.NAME sections of a 64-bit ELF file."""
    section_table, = struct.unpack_from("<Q", cubin, 0x28)
    entry_size, count, names_index = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, section_table + i * entry_size) for i in range(count)]
    names_offset = headers[names_index][4]
    code = {}
    for name, _, _, _, offset, size in headers:
        start = names_offset + name
        text = cubin[start:cubin.index(b"\0", start)].decode("ascii")
        if text.startswith(".text."):
            code[text.removeprefix(".text.")] = cubin[offset:offset + size]
    return code


def instruction_count(code: bytes) -> int:
    """Instructions up to the padding."""
    count = len(code) // INSTRUCTION_BYTES
    while count and struct.unpack_from("<H", code, (count - 1) * INSTRUCTION_BYTES)[0] == NOP:
        count -= 1
    return count


def measure(source: str, nvcc: str, architecture: str) -> dict[str, tuple[int, int]]:
    """Instructions and registers of each kernel."""
    with tempfile.TemporaryDirectory() as folder:
        cubin = pathlib.Path(folder) / "kernels.cubin"
        done = subprocess.run(
            [nvcc, "-std=c++20", "-O3", f"-arch=sm_{architecture}", "-Xptxas", "-v", "-I", ROOT / "common", "-cubin", source,
             "-o", cubin], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(done.stdout)
        code = kernel_code(cubin.read_bytes())
    registers = {name: int(number) for name, number in
                 re.findall(r"Compiling entry function '(\w+)'.*?Used (\d+) registers", done.stdout, re.DOTALL)}
    return {name: (instruction_count(text), registers[name]) for name, text in code.items()}


def main() -> int:
    source, nvcc, architectures = sys.argv[1], sys.argv[2], sys.argv[3:]
    measured = {architecture: measure(source, nvcc, architecture) for architecture in architectures}
    layers, kernel_names, what = SOURCES[pathlib.Path(source).name]
    too_large = []
    for architecture, kernels in measured.items():
        columns = [(kernel, stages) for kernel in kernel_names for stages in (1, 2, 3, 4) if f"{kernel}_Ring_{stages}" in kernels]
        print(f"sm_{architecture}: instructions / registers")
        print(f"  {'':24}" + "".join(f"{kernel + ', ' + str(stages):>15}" for kernel, stages in columns))
        for layer, title in layers.items():
            cells = []
            for kernel, stages in columns:
                found, ring = kernels[f"{kernel}_{layer}_{stages}"], kernels[f"{kernel}_Ring_{stages}"]
                is_larger = found[0] > ring[0] or found[1] > ring[1]
                cells.append(f"{found[0]:>7} / {found[1]}{' !' if is_larger else ''}")
                if is_larger:
                    too_large.append(f"sm_{architecture}: {title}, {kernel}, {stages} stages: {found} against {ring}")
            print(f"  {title:24}" + "".join(f"{cell:>15}" for cell in cells))
        print()
    print(what)
    for line in too_large:
        print(f"larger than the ring by hand: {line}")
    return 1 if too_large else 0


sys.exit(main())
