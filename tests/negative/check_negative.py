#!/usr/bin/env python3
"""Compiles a program that must not compile, and its fixed twin, and checks what the build says.

usage: check_negative.py SOURCE.cu NVCC   a mistake: must be refused with its words, at its line
       check_negative.py --legal SOURCE.cu NVCC ARCHITECTURE [NVCC ARGUMENTS...]   must be accepted, without a warning
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILE = ROOT / "common/tools/compile_cuda.py"


def compile_source(source: pathlib.Path, nvcc: str, architecture: str, *more: str) -> tuple[bool, str]:
    """Whether the build accepts the source, and what it prints. Only device code is compiled, for speed."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, COMPILE, f"{folder}/report", nvcc, "-std=c++20", "-DCCCL_DISABLE_FP16_SUPPORT", "-I",
             ROOT / "common", f"-arch=sm_{architecture}", "--Werror", "all-warnings", *more, "-cubin", source, "-o", f"{folder}/cubin"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode == 0, done.stdout


def main() -> int:
    if sys.argv[1] == "--legal":
        source, nvcc, architecture, *more = sys.argv[2:]
        accepted, output = compile_source(pathlib.Path(source), nvcc, architecture, *more)
        print(output + ("accepted" if accepted else f"{source} makes no mistake, and yet it is refused"))
        return 0 if accepted else 1

    source, nvcc = pathlib.Path(sys.argv[1]), sys.argv[2]
    lines = source.read_text(encoding="utf-8").splitlines()
    architecture = next((line.split()[-1] for line in lines if line.startswith("// architecture: ")), "100a")
    expected = [line.split("expect: ", 1)[1] for line in lines if line.startswith("// expect: ")]
    marked = [number for number, line in enumerate(lines, 1) if line.endswith("// here")]
    if not expected or not marked:
        print(f"{source} must say what to expect (// expect: WORDS) and where (... // here)")
        return 1

    accepted, output = compile_source(source, nvcc, architecture)
    print(output)
    problems = ["the program with the mistake compiles"] if accepted else []
    problems += [f"the build does not say `{words}`" for words in expected
                 if not re.search(words, " ".join(output.split()))]
    name = re.escape(source.name)
    problems += [f"the build does not name line {line}" for line in marked
                 if not re.search(rf"{name}(\({line}\)|:{line}):? |line {line}( of \S*{name})?\b", output)]
    accepted, output = compile_source(source, nvcc, architecture, "-DFIXED")
    if not accepted:
        problems.append(f"the fixed program does not compile either:\n{output}")
    print("\n".join(problems) or "refused with the right words; accepted when fixed")
    return 1 if problems else 0


sys.exit(main())
