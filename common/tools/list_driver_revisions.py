#!/usr/bin/env python3
"""Prints common/emulator/runtime/exports/driver_revisions.inc: which form of a driver's function a version of CUDA means.

cuGetProcAddress("cuMemAdvise", ..., 12000) is cuMemAdvise, and from 12020 on cuMemAdvise_v2. The toolkit says so in
cudaTypedefs.h, by types such as PFN_cuMemAdvise_v12020. Forms without a type there are older than all that have one.
"""

import argparse
import pathlib
import re

# The typedefs of cuCtxCreate tell when a form appeared, but its name meant the second one until CUDA 13 (cuda.h).
EXCEPTIONS = {"cuCtxCreate": [("cuCtxCreate_v2", 3020), ("cuCtxCreate_v4", 13000)],
              "cuGetProcAddress": [("cuGetProcAddress", 11030), ("cuGetProcAddress_v2", 12000)],
              "cuGraphInstantiate": [("cuGraphInstantiate", 10000), ("cuGraphInstantiate_v2", 11000),
                                     ("cuGraphInstantiateWithFlags", 12000)]}


def revisions(typedefs: str, exported: set) -> list:
    versions = {}
    for name, version in re.findall(r"\bPFN_(cu[A-Z]\w*?)_v(\d+)\b", typedefs):
        versions.setdefault(name, set()).add(int(version))
    rows = []
    for name in sorted(versions):
        forms = [name] + [f"{name}_v{number}" for number in range(2, 9)]
        forms = [form for form in forms if form in exported]
        if name in EXCEPTIONS:
            rows += [(name, form, since) for form, since in EXCEPTIONS[name]]
        elif len(forms) > 1 and len(versions[name]) > 1:
            pairs = list(zip(reversed(forms), sorted(versions[name], reverse=True)))
            rows += [(name, form, since) for form, since in reversed(pairs)]
    return rows


def exported_names(exports: pathlib.Path) -> set:
    return set(re.findall(r"^STAGECRAFT_\w+\((\w+)", exports.read_text(encoding="utf-8"), re.MULTILINE))


def text(toolkit: pathlib.Path, exports: pathlib.Path) -> str:
    typedefs = (toolkit / "include" / "cudaTypedefs.h").read_text(encoding="utf-8", errors="replace")
    lines = ["// Made by common/tools/list_driver_revisions.py: a name, the form that it means, and from which CUDA on.",
             "// clang-format off"]
    lines += [f'STAGECRAFT_REVISION("{name}", "{form}", {since})' for name, form, since in
              revisions(typedefs, exported_names(exports))]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("toolkit", type=pathlib.Path, help="the CUDA Toolkit's folder")
    parser.add_argument("exports", type=pathlib.Path, help="driver_exports.inc")
    arguments = parser.parse_args()
    print(text(arguments.toolkit, arguments.exports), end="")
