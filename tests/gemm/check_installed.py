#!/usr/bin/env python3
"""Installs the libraries to a temporary folder, builds each one's example against what is there, and runs it.

usage: check_installed.py MESON BUILD_FOLDER RUNTIME_FOLDER (PACKAGE DEVICE EXAMPLE.cpp)...

RUNTIME_FOLDER has the libcudart.so.13 to run with. PACKAGE is what pkg-config calls the library, and DEVICE the chip that it
is for. The examples are built without any folder of the repository.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def run(command, **options):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(part) for part in command)}:\n{done.stdout}")
    return done.stdout


def main() -> int:
    meson, build, runtime, *examples = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        run([*meson.split(), "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root])
        for package, device, example in zip(*[iter(examples)] * 3, strict=True):
            description, = root.rglob(f"{package}.pc")
            prefix = root / run(["pkg-config", "--variable=prefix", description]).strip().lstrip("/")
            flags = run(["pkg-config", f"--define-variable=prefix={prefix}", "--cflags", "--libs", description]).split()
            source = shutil.copy(example, folder)
            program = pathlib.Path(folder) / package
            environment = {**os.environ, "LD_LIBRARY_PATH": runtime, "STAGECRAFT_DEVICE": device}
            run(["g++", "-std=c++20", "-Wall", "-Wextra", source, "-o", program, *flags], cwd=folder)
            output = run([program], env=environment)
            print(output, end="")
            if "elements are 512" not in output:
                sys.exit(f"the example of {package} did not print its result")
            # All of the library in a shared one, as a plug-in or an extension of Python has it.
            shared = pathlib.Path(folder) / f"lib{package}.so"
            run(["g++", "-shared", "-o", shared, "-Wl,--whole-archive", *flags, "-Wl,--no-whole-archive"])
            run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({str(shared)!r})"], env=environment)
    return 0


sys.exit(main())
