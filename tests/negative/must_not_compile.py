#!/usr/bin/env python3
"""Compiles one case of a CUDA source that the library must refuse, and checks what the compiler says.

usage: must_not_compile.py NVCC INCLUDE_FOLDER[:INCLUDE_FOLDER...] SOURCE CASE [MESSAGE]

Without a MESSAGE, the case must compile. With one, it must not, and the errors must hold the MESSAGE.
"""

import subprocess
import sys


def main() -> int:
    nvcc, folders, source, case, *message = sys.argv[1:]
    includes = ["-I" + folder for folder in folders.split(":")]
    # PTX is enough: what the library refuses, it refuses before there is any.
    done = subprocess.run([nvcc, "-std=c++20", *includes, "-arch=compute_100a", "-ptx", "-DCASE_" + case, source,
                           "-o", "/dev/null"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not message:
        if done.returncode != 0:
            print(f"case {case} must compile, but:\n{done.stdout}")
        return done.returncode
    if done.returncode == 0:
        print(f"case {case} compiles; it must fail with: {message[0]}")
        return 1
    said = " ".join(done.stdout.split())
    if message[0] not in said:
        print(f"case {case} fails, but without saying: {message[0]}\n{done.stdout}")
        return 1
    return 0


sys.exit(main())
