#!/usr/bin/env python3
"""Prints driver_revisions.inc for the build: which form of a driver's function a version of CUDA means.

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

LEAST = 150   # forms; with fewer, the header has another form than this script knows


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


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("typedefs", type=pathlib.Path, help="cudaTypedefs.h")
    parser.add_argument("exports", type=pathlib.Path, help="driver_exports.inc")
    arguments = parser.parse_args()
    found = revisions(arguments.typedefs.read_text(encoding="utf-8", errors="replace"), exported_names(arguments.exports))
    if len(found) < LEAST:
        parser.error(f"only {len(found)} forms were found in {arguments.typedefs}")
    print("// Made by common/tools/list_driver_revisions.py: a name, the form that it means, and from which CUDA on.")
    for name, form, since in found:
        print(f'STAGECRAFT_REVISION("{name}", "{form}", {since})')
