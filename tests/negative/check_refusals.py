#!/usr/bin/env python3
"""Compiles a source of many mistakes, each on a line of its own, and checks that each is refused with its words.

usage: check_refusals.py SOURCE.cu NVCC

A line with a mistake ends with `// refused: WORDS`. All errors must come from such lines, each must be among those of its
line, and without these lines the source must compile.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARK = re.compile(r"// refused: (.*)$")
ERROR = re.compile(r"^\S+\(\d+\): error: ", re.MULTILINE)


def compile_source(text: str, nvcc: str, name: str) -> tuple[bool, str]:
    """Whether the front end accepts the text, and what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / name
        source.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [nvcc, "-std=c++20", "-I", ROOT / "common", "-arch=compute_100a", "-Xcudafe",
             "--error_limit=1000", "-ptx", source, "-o", "/dev/null"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode == 0, done.stdout


def main() -> int:
    source, nvcc = pathlib.Path(sys.argv[1]), sys.argv[2]
    lines = source.read_text(encoding="utf-8").splitlines()
    expected = {number: match[1] for number, line in enumerate(lines, 1) if (match := MARK.search(line))}
    problems = []
    _, output = compile_source("\n".join(lines), nvcc, source.name)
    found = {number: [] for number in expected}
    starts = [match.start() for match in ERROR.finditer(output)] + [len(output)]
    for start, end in zip(starts, starts[1:]):
        error = output[start:end]
        named = re.findall(rf"{re.escape(source.name)}\((\d+)\)|at line (\d+) of \S*{re.escape(source.name)}|"
                           rf"at line (\d+)$", error, re.MULTILINE)
        culprits = {int(number) for numbers in named for number in numbers if number} & expected.keys()
        if not culprits:
            problems.append(f"an error that no marked line makes:\n{error}")
        for number in culprits:
            found[number].append(" ".join(error.split()))
    for number, words in expected.items():
        if not any(words in error for error in found[number]):
            said = "\n".join(found[number]) or "it compiles"
            problems.append(f"{source.name}:{number}: expected `{words}`, but:\n{said}")
    accepted, output = compile_source("\n".join("" if MARK.search(line) else line for line in lines), nvcc, source.name)
    if not accepted:
        problems.append(f"without the marked lines it does not compile either:\n{output}")
    print("\n".join(problems) or f"all {len(expected)} mistakes are refused with the right words")
    return 1 if problems or not expected else 0


sys.exit(main())
