#!/usr/bin/env python3
"""Prints how many registers each role of the complete GEMM takes in sm_100a machine code, and checks that none spills.

usage: gemm_roles.py NVCC SOURCE.cu [LIST...|all]

SOURCE is compiled once for each role of each list of configurations, with kernels in which all warps have that role. LIST is
one of kernels/configurations.hpp, such as kFp8, or kSample of SOURCE, the default; `all` stands for all that are shipped, and
takes minutes. A block has 256 threads, so that the registers of a multiprocessor are enough for 255 in each.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
GEMM = ROOT / "common/stagecraft/gemm"
FOUND = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
                   re.DOTALL)
# A member of a configuration in a mangled name: an enumerator (its type may be a substitution), a number or a bool.
MEMBER = re.compile(r"L(?:NS\w*?_\d+[A-Za-z]+E|S\w*?_|i|b)(\d+)E")


def shipped_lists() -> list[str]:
    return re.findall(r"^inline constexpr auto (k\w+)", (GEMM / "kernels/configurations.hpp").read_text(), re.MULTILINE)


def roles() -> list[str]:
    return re.search(r"enum class GemmRole \{(.*?)\}", (GEMM / "roles.hpp").read_text())[1].replace(" ", "").split(",")


def members() -> list[tuple[str, str, str]]:
    """Type, name and default of each member of GemmConfig, in order."""
    text = (GEMM / "config.hpp").read_text()
    return re.findall(r"^  (\w+) (\w+) = ([\w:]+);", re.search(r"^struct GemmConfig \{(.*?)^\};", text, re.DOTALL | re.MULTILINE)[1],
                      re.MULTILINE)


def enumerators(name: str) -> list[str]:
    for header in (GEMM / "config.hpp", ROOT / "common/stagecraft/tile.hpp", GEMM / "activation.hpp"):
        if found := re.search(rf"enum class {name}\b.*?\{{(.*?)\}}", header.read_text(), re.DOTALL):
            return re.findall(r"\w+", re.sub(r"//.*|=[^,]*", "", found[1]))
    sys.exit(f"the enumerators of {name} were not found")


def words_of(kernel: str) -> str:
    """What the configuration in a mangled name has other than the defaults: "tile_m 256, cta_group 2"."""
    values = MEMBER.findall(kernel[kernel.index("GemmConfig"):])
    words = []
    for index, (kind, name, default) in enumerate(members()):
        value = values[index] if index < len(values) else "0"  # zeros at the end are left out
        if kind == "bool":
            value, default = ("", "") if (value == "1") == (default == "true") else (" " if value == "1" else "no", "")
        elif kind != "int":
            value, default = enumerators(kind)[int(value)], default.split("::")[1]
        if value != default:
            words.append(f"{name} {value}".strip())
    return ", ".join(words) or "the defaults"


def resources(nvcc: str, source: pathlib.Path, configs: str, role: str) -> list[tuple[str, int, int]]:
    """The name, the registers and the spilled bytes of each kernel."""
    done = subprocess.run(
        [nvcc, "-std=c++20", "-I", ROOT / "common", "-DCCCL_DISABLE_FP16_SUPPORT", f"-DROLE={role}", f"-DLIST={configs}",
         "-Xptxas", "-v", "-gencode", "arch=compute_100a,code=sm_100a", "-cubin", source, "-o", "/dev/null"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stdout)
    return [(name, int(registers), int(stores) + int(loads)) for name, stores, loads, registers in FOUND.findall(done.stdout)]


def main() -> int:
    nvcc, source, lists = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:] or ["kSample"]
    problems, kernels = [], 0
    print("".join(f"{role:>18}" for role in roles()) + "  registers of each role of")
    for configs in shipped_lists() if lists == ["all"] else lists:
        table: dict[str, list[int]] = {}
        for role in roles():
            for name, registers, spilled in resources(nvcc, source, configs, role):
                table.setdefault(name, []).append(registers)
                if spilled or registers > 255:
                    problems.append(f"{role} of {words_of(name)}: {registers} registers, {spilled} bytes spilled")
        for name, registers in sorted(table.items(), key=lambda row: words_of(row[0])):
            print("".join(f"{count:18}" for count in registers) + f"  {words_of(name)}", flush=True)
            if len(registers) != len(roles()):
                problems.append(f"{words_of(name)}: {len(registers)} of {len(roles())} roles were compiled")
        if len({words_of(name) for name in table}) != len(table):
            problems.append(f"{configs}: two kernels have the same words")
        kernels += len(table)
    print("\n".join(problems) or f"no role of {kernels} kernels spills a register")
    return 1 if problems or not kernels else 0


sys.exit(main())
