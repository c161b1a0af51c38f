#!/usr/bin/env python3
"""Passes when a chapter's solution is right on the emulated RTX 5090, except for the cases that need tcgen05, which are skipped.

usage: run_on_desktop.py PROGRAM SKIPPED FOLDER SOURCE,... COMPILER [ARGUMENTS]

PROGRAM was built for other GPUs. Its kernels, in the CUDA sources, are compiled to PTX for sm_120a in FOLDER, and PROGRAM runs with
them. SKIPPED is the number of its cases that need tcgen05.
"""

import os
import pathlib
import re
import subprocess
import sys
import textwrap


def main() -> int:
    program, skipped, folder, sources, *compiler = sys.argv[1:]
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    kernels = []
    for source in sources.split(","):
        kernels.append(f"{folder}/{pathlib.Path(source).stem}.ptx")
        subprocess.run([*compiler, "-arch=compute_120a", "-ptx", source, "-o", kernels[-1]], check=True)
    settings = {"STAGECRAFT_DEVICE": "rtx5090", "STAGECRAFT_PTX": ":".join(kernels)}
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          env={**os.environ, **settings}, check=False)
    print(textwrap.indent(done.stdout, "  "))  # so that its cases are not counted as this test's
    if skipped != "0" and "NVIDIA GeForce RTX 5090 (emulated) has compute capability 12.0: consumer Blackwell" not in done.stdout:
        print("it does not say why cases are skipped")
        return 1
    counts = re.search(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?", done.stdout, re.MULTILINE)
    if not counts or counts[1] == "0" or counts[2] != "0" or (counts[3] or "0") != skipped:
        print(f"it does not say that no case failed and {skipped} were skipped")
        return 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
