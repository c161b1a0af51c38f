#!/usr/bin/env python3
"""Prints cudart_exports.inc or driver_exports.inc for the build: each function that a library must export, and how it gets it.

The names are those of the toolkit's headers; those that end in _ptds or _ptsz are for programs with a default stream per
thread. What a source of the emulated GPU defines is implemented, and the rest are stubs. README.md of
common/emulator/runtime/exports explains the macros.
"""

import argparse
import pathlib
import re

DECLARED = re.compile(r"\bCUDA(?:RT)?API\s+(_*cu\w+)\s*\(")
NEWEST_FORM = re.compile(r"^\s*#\s*define\s+cu\w+\s+(cu[A-Z]\w+)\s*$", re.MULTILINE)
PER_THREAD_FORM = re.compile(r"__CUDA(?:RT)?_API_(PTDS|PTSZ)\((cu\w+)\)")
DEFINED = re.compile(r"^(?:extern \"C\" )?(?:\[\[[^\]]*\]\] )?\w[\w: ]*[ *&]+(_*cu(?:da)?[A-Z]\w*)\([^;{]*\{"
                     r"|^STAGECRAFT_THROUGH\((\w+),", re.MULTILINE)
# The headers of CUDA 13.0 name these, and its libraries do not have them.
NOT_EXPORTED = {"__cudaRegisterSurface", "__cudaRegisterTexture", "cudaWGLGetDevice", "cuGetProcAddress_v2_ptsz"}
# Older forms that are the same function.
SAME = {"cuDeviceGetUuid": "cuDeviceGetUuid_v2", "cuEventElapsedTime": "cuEventElapsedTime_v2"}


def declared(header: str) -> set:
    names = set(DECLARED.findall(header)) | set(NEWEST_FORM.findall(header))
    for suffix, name in PER_THREAD_FORM.findall(header):
        names |= {name, f"{name}_{suffix.lower()}"}
    return names


def row(name: str, implemented: set) -> str:
    target = re.sub(r"_pt[ds][sz]$", "", name)
    if name in implemented:
        return f"DEFINED({name})"
    if target == name and name not in SAME:
        return f"STUB({name})"
    return f"{'PER_THREAD' if target in implemented else 'ALIAS'}({name}, {SAME.get(name, target)})"


def texts(paths: list) -> list:
    return [path.read_text(encoding="utf-8", errors="replace") for path in paths]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("include", type=pathlib.Path, help="the toolkit's folder of headers")
    parser.add_argument("--headers", nargs="+", required=True, help="those to read; one that a toolkit lacks is left out")
    parser.add_argument("--sources", nargs="+", type=pathlib.Path, required=True, help="what may define the functions")
    parser.add_argument("--also", nargs="+", default=[], help="functions that no such header declares")
    parser.add_argument("--least", type=int, required=True, help="refuse headers with fewer functions")
    arguments = parser.parse_args()
    headers = [path for path in (arguments.include / name for name in arguments.headers) if path.is_file()]
    names = set().union(*map(declared, texts(headers)))
    if len(names) < arguments.least:
        parser.error(f"only {len(names)} functions were found in {', '.join(map(str, headers))}")
    implemented = {match[1] or match[2] for text in texts(arguments.sources) for match in DEFINED.finditer(text)}
    print("// Made by common/tools/list_exports.py.")
    for name in sorted((names - NOT_EXPORTED) | set(arguments.also) | implemented):
        print(f"STAGECRAFT_{row(name, implemented)}")
