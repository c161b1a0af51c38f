#!/usr/bin/env python3
"""Compares what the replacements of libcudart and libcuda export with what the toolkit's headers declare."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys

# Headers that only declare what a program needs other libraries' headers for (OpenGL, EGL, VDPAU) are not among them.
RUNTIME_HEADERS = ["cuda_runtime_api.h"]
DRIVER_HEADERS = ["cuda.h"]
# Device code calls these; none is of the host's library.
DEVICE_ONLY = re.compile(r"^cuda(CGGet|CGSync|Device(SynchronizeDeprecationAvoidance|LaunchConsumption)|"
                         r"GetParameterBuffer|LaunchDevice|LaunchDeviceV2|GraphSetConditional|GraphKernelNodeSet|"
                         r"GraphKernelNodeUpdates|GetCurrentGraphExec|TriggerProgrammatic|GridDependencySynchronize)")


def declared(toolkit: pathlib.Path, headers: list, prefix: str) -> set:
    """The functions that the headers declare, under the names that a program links, with both default streams."""
    names = set()
    for definitions in ([], ["-DCUDA_API_PER_THREAD_DEFAULT_STREAM"]):
        source = "".join(f"#include <{header}>\n" for header in headers)
        done = subprocess.run(["c++", "-E", "-P", "-x", "c++", f"-I{toolkit}/include", *definitions, "-"], input=source,
                              capture_output=True, text=True, check=True)
        names |= set(re.findall(rf"\b({prefix}[A-Z]\w*)\s*\([^;{{}}]*\)\s*;", done.stdout))
    return {name for name in names if not DEVICE_ONLY.match(name)}


def exported(library: pathlib.Path) -> set:
    done = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("toolkit", type=pathlib.Path)
    parser.add_argument("cudart", type=pathlib.Path)
    parser.add_argument("driver", type=pathlib.Path)
    arguments = parser.parse_args()
    for tool in ("nm", "c++"):
        if shutil.which(tool) is None:
            print(f"no {tool} here")
            return 77
    failures = 0
    for library, headers, prefix, least in ((arguments.cudart, RUNTIME_HEADERS, "cuda", 300),
                                            (arguments.driver, DRIVER_HEADERS, "cu", 400)):
        wanted = declared(arguments.toolkit, headers, prefix)
        missing = sorted(wanted - exported(library))
        print(f"{library.name}: {len(wanted)} functions declared in {', '.join(headers)}, {len(missing)} missing")
        if missing or len(wanted) < least:
            failures += 1
            print("  common/tools/list_exports.py must find them:", " ".join(missing) or f"nothing, but fewer than {least} were found")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
