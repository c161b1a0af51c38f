#!/usr/bin/env python3
"""Adds the CUDA sources to the compile_commands.json that Meson writes, which knows C++ only.

usage: add_cuda_commands.py TOOLKIT [SOURCE=ARCHITECTURE[,ARGUMENT...]...]   run by Meson when it has configured

ARGUMENT is one of nvcc's. An IDE reads CUDA with clang, not with nvcc, so these are clang's commands; nothing is built with
them. They need clangd 21 or newer, the first that knows sm_100a, which is what editors fetch on their own. Headers of device code
are listed, too: clangd would take them for C++ where a C++ source is nearer.
"""

import json
import os
import pathlib
import sys

HEADERS = (".hpp", ".cuh")


def main() -> None:
    root = pathlib.Path(os.environ["MESON_SOURCE_ROOT"])
    build = pathlib.Path(os.environ["MESON_BUILD_ROOT"])
    toolkit, programs = sys.argv[1], sys.argv[2:]
    path = build / "compile_commands.json"
    commands = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    added = {}  # arguments of each file; the first that are given count

    def add(file: pathlib.Path, architecture: str, more: list) -> None:
        added.setdefault(file, [
            "clang++", "-x", "cuda", f"--cuda-path={toolkit}", f"--cuda-gpu-arch=sm_{architecture}",
            # The newest version that every such clang knows; the wheels' toolkit does not tell its own to clang.
            "-Xclang", "-target-sdk-version=12.9", "--no-cuda-version-check", "-nogpulib",
            "-foffload-implicit-host-device-templates",  # as nvcc: std::declval, in concepts, may be named on the device
            f"-I{root / 'common'}", *more, "-isystem", f"{toolkit}/include/cccl", "-std=c++20", "-Wall", "-Wextra",
            "-c", str(file),
        ])

    for program in programs:
        source, _, settings = program.partition("=")
        architecture, *arguments = settings.split(",")
        more = [argument for argument in arguments if argument.startswith(("-I", "-D"))]
        add(root / source, architecture, more)
        for folder in [(root / source).parent, *(pathlib.Path(argument[2:]) for argument in more if argument.startswith("-I"))]:
            for header in sorted(folder.iterdir()) if root in folder.parents and folder.is_dir() else ():
                if header.suffix in HEADERS:
                    add(header, architecture, more)
    for header in sorted((root / "common" / "stagecraft").rglob("*")):
        if header.suffix in HEADERS:
            add(header, "100a", [])

    commands = [command for command in commands if "arguments" not in command]   # Meson's have a "command"
    commands += [{"directory": str(build), "file": str(file), "arguments": arguments} for file, arguments in sorted(added.items())]
    path.write_text(json.dumps(commands, indent=2), encoding="utf-8")


main()
