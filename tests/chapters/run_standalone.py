#!/usr/bin/env python3
"""Compiles a version of a chapter's kernel, as one file in an empty folder, and runs it on the emulated GPU.

usage: run_standalone.py COMMAND CHAPTER VERSION ARCHITECTURE NVCC LIBRARIES [--compile-only]

ARCHITECTURE is 100a, 90a or 120a; LIBRARIES is the folder of the emulated GPU's libcudart. With --compile-only, the kernel is compiled
as the file says, and not run. The file is made by COMMAND standalone CHAPTER VERSION, and must name the same architecture.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

DEVICES = {"100a": "b200", "90a": "h200", "120a": "rtx5090"}


def main() -> int:
    command, chapter, version, architecture, nvcc, libraries, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / f"{version}.cu"
        subprocess.run([command, "standalone", chapter, version, "-o", source], check=True)
        # Not -arch=sm_100a: nvcc 13.0 then compiles for compute_100, too, which has no tcgen05.
        options_named = ["-gencode", f"arch=compute_{architecture},code=sm_{architecture}", "-std=c++20"]
        named = f"nvcc {' '.join(options_named)} {source.name} && ./a.out [M N K]"
        if named not in source.read_text(encoding="utf-8"):
            print(f"{source.name} does not say how it is compiled: {named}")
            return 1
        if options == ["--compile-only"]:
            return subprocess.run([nvcc, *options_named, "-cubin", source.name], cwd=folder, check=False).returncode
        # As named, except for what the emulated GPU needs: PTX in place of machine code, and its libcudart. nvcc does not link,
        # because it would look for libraries in a folder that a toolkit from NVIDIA's wheels does not have.
        target = f"arch=compute_{architecture},code=compute_{architecture}"
        subprocess.run([nvcc, "-gencode", target, "-std=c++20", "-c", source.name, "-o", "kernel.o"], cwd=folder, check=True)
        subprocess.run(["g++", "kernel.o", "-L" + libraries, "-lcudart"], cwd=folder, check=True)
        settings = {"LD_LIBRARY_PATH": libraries, "STAGECRAFT_CHECKS": "race",
                    "STAGECRAFT_DEVICE": DEVICES[architecture]}
        done = subprocess.run(["./a.out", "300", "200", "136"], cwd=folder, env={**os.environ, **settings},
                              capture_output=True, text=True, check=False)
        print(done.stdout + done.stderr, end="")
        right = done.stdout == "300 x 200 x 136: 60000 of 60000 elements compared with the host's, 0 wrong\n"
        return 0 if right and not done.stderr and done.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
