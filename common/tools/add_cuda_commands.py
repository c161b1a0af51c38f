#!/usr/bin/env python3
"""Adds the CUDA sources to the compile_commands.json that Meson writes, which knows C++ only.

usage: add_cuda_commands.py TOOLKIT [SOURCE=ARCHITECTURE...]   run by Meson when it has configured

An IDE reads CUDA with clang, not with nvcc, so these are clang's commands; nothing is built with them. They need
clangd 21 or newer, the first that knows sm_100a, which is what editors fetch on their own.
"""

import json
import os
import pathlib
import sys


def main() -> None:
    root = pathlib.Path(os.environ["MESON_SOURCE_ROOT"])
    build = pathlib.Path(os.environ["MESON_BUILD_ROOT"])
    toolkit, programs = sys.argv[1], sys.argv[2:]
    path = build / "compile_commands.json"
    commands = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    commands = [command for command in commands if not command["file"].endswith(".cu")]
    for source, architecture in sorted(program.rsplit("=", 1) for program in programs):
        commands.append({
            "directory": str(build),
            "file": str(root / source),
            "arguments": [
                "clang++", "-x", "cuda", f"--cuda-path={toolkit}", f"--cuda-gpu-arch=sm_{architecture}",
                # The newest version that every such clang knows; the wheels' toolkit does not tell its own to clang.
                "-Xclang", "-target-sdk-version=12.9", "--no-cuda-version-check", "-nogpulib",
                f"-I{root / 'common'}", "-isystem", f"{toolkit}/include/cccl", "-std=c++20", "-Wall", "-Wextra",
                "-c", str(root / source),
            ],
        })
    path.write_text(json.dumps(commands, indent=2), encoding="utf-8")


main()
