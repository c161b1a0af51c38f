#!/usr/bin/env python3
"""Writes C++ with a weak definition of each function that a header of cuBLAS declares.

Weak: what the stand-in defines takes their place (common/emulator/cublas).
"""

import argparse
import pathlib
import re

FIRST = """// Made by common/tools/make_cublas_stubs.py.
extern "C" int stagecraft_cublas_stub(const char* function, bool* reported) noexcept;
#define STUB(name)                                                   \\
  extern "C" __attribute__((weak, visibility("default"))) int name() { \\
    static bool reported = false;                                    \\
    return stagecraft_cublas_stub(#name, &reported);                 \\
  }
"""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("header", type=pathlib.Path, help="cublas_api.h or cublasLt.h")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--least", type=int, required=True, help="refuse a header with fewer functions")
    arguments = parser.parse_args()
    text = arguments.header.read_text(encoding="utf-8", errors="replace")
    names = sorted(set(re.findall(r"\bcublasStatus_t\s+CUBLASWINAPI\s+(cublas\w+)\(", text)))
    if len(names) < arguments.least:
        parser.error(f"only {len(names)} functions were found in {arguments.header}")
    arguments.output.write_text(FIRST + "".join(f"STUB({name})\n" for name in names), encoding="utf-8")
