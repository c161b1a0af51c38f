#!/usr/bin/env python3
"""Writes what the PTX fuzzer starts from: the PTX that the tests of the emulated GPU contain, each text as a file, and its words.

usage: collect_ptx.py TESTS FOLDER DICTIONARY MORE...    MORE are further files of PTX, whose words count, too
"""

import ast
import pathlib
import re
import sys

LITERAL = re.compile(r'R"(\w*)\((?P<raw>.*?)\)\1"|(?P<plain>"(?:[^"\\\n]|\\.)*")', re.DOTALL)
INSTRUCTION = re.compile(r"^\s*(?:\{|\w+:|@!?%?\w+)?\s*[a-z]\w*(?:[.:]+\w+)+\s+[^;]*;", re.MULTILINE)
WORD = re.compile(r"\.\w+(?:::\w+)*|(?<![\w.%:])[a-z_]\w*(?=[\s.])|%\w+(?:\.\w+)?|0x\w+|[^\s\w]")
# What the texts lack: more directives and modifiers, registers of ptx_fuzzer.cpp, and numbers at the ends of their ranges.
MORE_WORDS = """.callprototype .branchtargets .calltargets .inlined_at .alias .arrive_drop .cs .cv .lu .ls .e5m2 .equ .gtu .leu
    .num .infinite .normal .notanumber .number .m8n8k4 .m8n8k16 .m16n8k4 .m16n8k64 .m16n8k128 .m16n8k256 .m64n16k8 .m64n16k32
    .m64n16k256 .m64n32k16 .m64n32k32 .x16 .x32 _ %rs1 %rq1 18446744073709551615 -9223372036854775808 0x7fffffffffffffff
    4294967295 2147483648""".split()


def texts(source: str) -> list:
    """The string literals, those that follow each other joined as the compiler joins them."""
    found, end = [], None
    for match in LITERAL.finditer(source):
        text = match["raw"] if match["plain"] is None else ast.literal_eval(match["plain"])
        if end is not None and not source[end:match.start()].strip():
            found[-1] += text
        else:
            found.append(text)
        end = match.end()
    return [text for text in found if INSTRUCTION.search(text)]


def main(tests: pathlib.Path, folder: pathlib.Path, dictionary: pathlib.Path, more: list) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for path in sorted(tests.rglob("*_test.cpp")):
        for number, text in enumerate(texts(path.read_text(encoding="utf-8"))):
            found.setdefault(text, f"{path.stem}_{number}.ptx")
    for text, name in found.items():
        (folder / name).write_text(text, encoding="utf-8")
    everything = "\n".join([*found, *(path.read_text(encoding="utf-8") for path in more)])
    words = sorted({*WORD.findall(everything), *MORE_WORDS} - {'"', "\\"})
    dictionary.write_text("".join(f'"{word}"\n' for word in words), encoding="utf-8")
    print(f"{len(found)} texts, {len(words)} words")


if __name__ == "__main__":
    main(*map(pathlib.Path, sys.argv[1:4]), [pathlib.Path(name) for name in sys.argv[4:]])
