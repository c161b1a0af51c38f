#!/usr/bin/env python3
"""Fails when a C++ or CUDA source is not as clang-format would write it.

usage: check_format.py SOURCE_ROOT CLANG_FORMAT   CLANG_FORMAT may be empty: then the test is skipped (exit status 77)
"""

import pathlib
import re
import subprocess
import sys

VERSION = "14"  # other versions break lines differently, so only this one decides
FOLDERS = ("chapters", "common", "docs", "solutions", "tests")
ENDINGS = {".c", ".cpp", ".cu", ".cuh", ".h", ".hpp"}


def main() -> int:
    root, tool = pathlib.Path(sys.argv[1]), sys.argv[2]
    if not tool:
        print(f"there is no clang-format {VERSION} here")
        return 77
    found = re.search(r"version (\d+)", subprocess.run([tool, "--version"], capture_output=True, text=True).stdout)
    if not found or found[1] != VERSION:
        print(f"the format is that of clang-format {VERSION}, and {tool} is {found[1] if found else 'of no known version'}")
        return 77
    files = sorted(str(file) for folder in FOLDERS for file in (root / folder).rglob("*") if file.suffix in ENDINGS)
    if not files:
        print("there is no source to check")
        return 1
    done = subprocess.run([tool, "--dry-run", "-Werror", *files], cwd=root, stderr=subprocess.PIPE, text=True)
    for file, line in sorted(set(re.findall(r"^(\S+?):(\d+):\d+: error", done.stderr, re.MULTILINE))):
        print(f"{file}:{line} is not as {tool} -i would write it")
    print(f"{len(files)} files checked")
    return 1 if done.returncode else 0


sys.exit(main())
