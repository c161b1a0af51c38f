#!/usr/bin/env python3
"""Installs a build to a temporary folder, and calls the commands of docs/installing.md there.

usage: check_installed.py MESON BUILD_FOLDER PREFIX LIBDIR RUNTIME (plain|cmake) PACKAGE...

PREFIX and LIBDIR are what the build was configured with. RUNTIME is `emulator` where the build has the emulated GPU, which is then installed, too; otherwise the folder of NVIDIA's
runtime, with which programs are run on the GPU of this machine. PACKAGEs are what pkg-config calls the libraries that the
build has: blocks of the page that need another one are left out. `cmake` calls the blocks with CMake, `plain` all others.
Each command must succeed, and print the lines below it, or others where the page has `...`. No folder of the repository is
used.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/installing.md"
PREFIX, LIBRARIES = "/opt/stagecraft", "/opt/stagecraft/lib"
SKIPPED = 77
# How commands of the page are called here. The first two of a build are those of the build that is tested.
STAND_INS = """set -e
meson() { [ "$1" = setup ] || command $MESON install -C "$BUILD" --no-rebuild --quiet --destdir "$ROOT"; }
ninja() { :; }
pkg-config() { command pkg-config --define-variable=prefix="$PREFIX" "$@"; }
"""
# What the page does not show: all files are there, the headers cause no warning, and the rest of the command works.
MORE = r"""
test -s "$PREFIX/share/licenses/stagecraft/LICENSE"
for package in $PACKAGES; do
  case $package in stagecraft_hopper) example=hopper_gemm ;; stagecraft_attention) example=attention ;; *) example=gemm ;; esac
  grep -q "\"$(pkg-config --modversion $package)\"" "$PREFIX/include/stagecraft/version.h"
  g++ -Wall -Wextra -Werror -fsyntax-only $example.cpp $(pkg-config --cflags $package)
  [ ! -e $example.c ] || gcc -std=c11 -Wall -Wextra -pedantic -Werror -fsyntax-only $example.c $(pkg-config --cflags ${package}_c)
done
"""
MORE_OF_THE_EMULATOR = r"""
cuda='import ctypes; assert ctypes.CDLL("libcudart.so.13").cudaFree(0) == 0'
stagecraft time python3 -c "$cuda"
stagecraft run --report sarif --report-file log.sarif python3 -c "$cuda"
grep -q '"version": "2.1.0"' log.sarif
stagecraft explain missing-wait >page; grep -q missing-wait page
status=0; stagecraft rnu 2>refusal || status=$?
[ $status -eq 2 ]; grep -q "no command 'rnu'" refusal
"""
# Versions, and a toolkit that CMake does not find: that of the build serves.
MORE_OF_CMAKE = r"""
mkdir any
printf 'cmake_minimum_required(VERSION 3.18)\nproject(any LANGUAGES CXX)\nfind_package(Stagecraft $ENV{VERSION} REQUIRED)\n' >any/CMakeLists.txt
VERSION= cmake -S any -B any/1 -DCMAKE_PREFIX_PATH="$PREFIX" >log
VERSION=0.2 cmake -S any -B any/2 -DCMAKE_PREFIX_PATH="$PREFIX" >log 2>&1 && exit 1
VERSION=1.0 cmake -S any -B any/3 -DCMAKE_PREFIX_PATH="$PREFIX" >log 2>&1 && exit 1
cmake -S . -B again -DCMAKE_PREFIX_PATH="$PREFIX" -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=TRUE >log
cmake --build again >log
"""
ON_A_GPU = """stagecraft() {
  [ "$1" = run ] || { echo stagecraft 0.1; return; }
  shift; [ "$1" != --device ] || shift 2
  "$@"
}
"""


def needs(commands: str) -> str:
    """The package that a block of the page needs; empty for none."""
    for word, package in {"hopper": "stagecraft_hopper", "attention": "stagecraft_attention", "gemm": "stagecraft"}.items():
        if word in commands:
            return package
    return ""


def is_expected(printed: list, expected: list) -> bool:
    """Whether the lines are as on the page, which has `...` for any number of lines."""
    pattern = "".join("(.*\n)*" if line == "..." else re.escape(line + "\n") for line in expected)
    return re.fullmatch(pattern, "".join(line + "\n" for line in printed)) is not None


def steps_of(block: str) -> list:
    """The commands of a block, each with the lines that it prints."""
    steps = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def main() -> int:
    meson, build, prefix, libdir, runtime, kind, *packages = sys.argv[1:]
    if kind == "cmake" and shutil.which("cmake") is None:
        print("CMake is not installed")
        return SKIPPED
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    installing, *others = blocks
    chosen = [block for block in others if ("cmake" in block) == (kind == "cmake") and needs(block) in ("", *packages)]
    with tempfile.TemporaryDirectory() as folder:
        root, work = pathlib.Path(folder) / "root", pathlib.Path(folder) / "work"
        work.mkdir()
        prefix = root / prefix.lstrip("/")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("STAGECRAFT_")}
        environment.update(MESON=meson, BUILD=build, ROOT=str(root), PREFIX=str(prefix), PACKAGES=" ".join(packages), LC_ALL="C.UTF-8")
        environment.pop("LD_LIBRARY_PATH", None)
        if runtime != "emulator":
            environment["LD_LIBRARY_PATH"] = runtime
        script, steps = STAND_INS + (ON_A_GPU if runtime != "emulator" else ""), []
        for block in [installing, *chosen]:
            for command, expected in steps_of(block):
                command = command.replace(LIBRARIES, str(prefix / libdir)).replace(PREFIX, str(prefix))
                script += f"echo '>>> {len(steps)}'\n{command}\n"
                steps.append((command, expected))
        more = MORE_OF_CMAKE if kind == "cmake" else MORE + (MORE_OF_THE_EMULATOR if runtime == "emulator" else "")
        script += "echo '>>> 0'\nset -x\n" + more
        done = subprocess.run(["bash", "-c", script], cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        parts = re.split(r"^>>> \d+\n", done.stdout, flags=re.MULTILINE)[1:]
        for (command, expected), printed in zip([*steps, ("...", [])], parts):
            print(f"$ {command}\n{printed}", end="")
            if expected and not is_expected(printed.splitlines(), expected):
                print("This is not what the page shows.")
                return 1
        if done.returncode != 0:
            print(f"exit status {done.returncode}")
            return 1
    return 0


sys.exit(main())
