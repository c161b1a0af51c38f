#!/usr/bin/env python3
"""Shows that no layer of the device library costs an instruction or a register more than a ring written by hand.

usage: compare_layers.py SOURCE.cu NVCC ARCHITECTURE...   the architectures as in sm_ARCHITECTURE: 90a 100a

Compiles the kernels of layers.cu or tile_layers.cu and counts the instructions in the machine code itself, so that no
disassembler is needed. Lessons show parts of its tables; with the toolkit that they were made with, those must be right.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

from machine_code import instructions, kernel_code

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLKIT_OF_LESSONS = "13.0"
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
    "schedule_layers.cu": ({
        "Ring": "loop by hand",
        "Turns": "turns of a scheduler",
    }, ["fixed", "taken"], "Units of work by their numbers, and (sm_100a) by cluster launch control with rings of 2 to 4 responses."),
}


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
    return {name: (len(instructions(text)), registers[name]) for name, text in code.items()}


def false_lines_of_lessons(tables: list[list[str]], nvcc: str) -> list[str]:
    """The lines of the lessons' tables that differ from `tables`, each of which begins with its two lines of heads."""
    def words(line: str) -> str:
        return " ".join(line.split())

    version = subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
    if f"release {TOOLKIT_OF_LESSONS}," not in version:
        return []
    measured = {(words(first), words(second)): {words(line) for line in lines} for first, second, *lines in tables}
    found = []
    for page in sorted(ROOT.glob("chapters/*/README.md")):
        lines = page.read_text(encoding="utf-8").splitlines()
        for number in range(len(lines) - 1):
            right = measured.get((words(lines[number]), words(lines[number + 1])))
            shown = number + 2
            while right is not None and lines[shown].startswith("  "):
                if words(lines[shown]) not in right:
                    found.append(f"{page.relative_to(ROOT)}:{shown + 1}: measured otherwise: {lines[shown].strip()}")
                shown += 1
    return found


def main() -> int:
    source, nvcc, architectures = sys.argv[1], sys.argv[2], sys.argv[3:]
    measured = {architecture: measure(source, nvcc, architecture) for architecture in architectures}
    layers, kernel_names, what = SOURCES[pathlib.Path(source).name]
    too_large = []
    tables = []
    for architecture, kernels in measured.items():
        columns = [(kernel, stages) for kernel in kernel_names for stages in (1, 2, 3, 4) if f"{kernel}_Ring_{stages}" in kernels]
        table = [f"sm_{architecture}: instructions / registers",
                 f"  {'':24}" + "".join(f"{kernel + ', ' + str(stages):>15}" for kernel, stages in columns)]
        for layer, title in layers.items():
            cells = []
            for kernel, stages in columns:
                found, ring = kernels[f"{kernel}_{layer}_{stages}"], kernels[f"{kernel}_Ring_{stages}"]
                is_larger = found[0] > ring[0] or found[1] > ring[1]
                cells.append(f"{found[0]:>7} / {found[1]}{' !' if is_larger else ''}")
                if is_larger:
                    too_large.append(f"sm_{architecture}: {title}, {kernel}, {stages} stages: {found} against {ring}")
            table.append(f"  {title:24}" + "".join(f"{cell:>15}" for cell in cells))
        print("\n".join(table) + "\n")
        tables.append(table)
    print(what)
    for line in too_large:
        print(f"larger than the ring by hand: {line}")
    false_lines = false_lines_of_lessons(tables, nvcc)
    for line in false_lines:
        print(line)
    return 1 if too_large or false_lines else 0


sys.exit(main())
