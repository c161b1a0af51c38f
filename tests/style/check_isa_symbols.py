#!/usr/bin/env python3
"""Fails when a library compiled for one x86-64 level defines a symbol that another level's library defines as well.

usage: check_isa_symbols.py LIBRARY...

Such a symbol (an inline function or template that both instantiate) exists once in the program, and the linker may pick
the copy with AVX-512 instructions for a processor that has none.
"""

import collections
import subprocess
import sys


def main() -> int:
    owners = collections.defaultdict(set)
    for library in sys.argv[1:]:
        listing = subprocess.run(["nm", "--demangle", "--defined-only", library], check=True, capture_output=True, text=True)
        for line in listing.stdout.splitlines():
            fields = line.split(maxsplit=2)
            # Capitals and the weak kinds are visible to the linker; lower case stays inside its object file.
            if len(fields) == 3 and (fields[1].isupper() or fields[1] in "vwu"):
                owners[fields[2]].add(library)
    shared = sorted(name for name, libraries in owners.items() if len(libraries) > 1)
    for name in shared:
        print(f"{name} is compiled for several levels: put it into the level's namespace, make it static, or always inline it")
    print(f"{len(owners)} symbols, {len(shared)} shared")
    return 1 if shared else 0


sys.exit(main())
