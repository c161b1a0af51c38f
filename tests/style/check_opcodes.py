#!/usr/bin/env python3
"""Fails when the emulator asks for an opcode by its text, where a trait should be asked for.

usage: check_opcodes.py SOURCE_ROOT

What is known about an instruction is stated where its opcode is registered (common/emulator/state/instruction_traits.hpp).
Only the grammar (ptx/) and the registration itself compare opcodes. Elsewhere the opcode of an instruction may be
assigned and printed in a message, and nothing may search a printed instruction for one.
"""

import pathlib
import re
import sys

EMULATOR = "common/emulator"
MAY_COMPARE = ("ptx/", "translation/registration.cpp", "translation/function_translator.cpp")
FAMILIES = ("instructions/", "engines/", "translation/")  # their modifiers have names that opcodes have, too

COMMENT = re.compile(r"//[^\n]*")
REGISTERED = re.compile(r'(?:set\.add\(|add_both<[^>]*>\(set,)\s*((?:"[^"]+",?\s*|nullptr,?\s*)+)')
LITERAL = r'"([^"\\\n]*)"'
OPCODE_READ = re.compile(r"(?:\.|->)opcode\b(?!\s*=[^=])")
MESSAGE = re.compile(r"\b(?:unsupported|illegal)\(")
COMPARISON = re.compile(rf"(?:[!=]=\s*|\b(?:starts_with|ends_with|find|contains|compare)\(\s*){LITERAL}")
LIST = re.compile(r'\{\s*("[^"\n]*"(?:\s*,\s*"[^"\n]*")+)\s*,?\s*\}')


def registered_opcodes(sources: dict[str, str]) -> set[str]:
    return {name.split(".")[0] for text in sources.values() for names in REGISTERED.findall(text)
            for name in re.findall(r'"([^"]+)"', names)}


def problems_in(name: str, text: str, opcodes: set[str]) -> list[str]:
    if name.startswith(MAY_COMPARE):
        return []
    text = COMMENT.sub("", text)

    def place(at: int) -> str:
        return f"{EMULATOR}/{name}:{text.count(chr(10), 0, at) + 1}"

    problems = [f"{place(found.start())} reads an opcode: ask for a trait" for found in OPCODE_READ.finditer(text)
                if not MESSAGE.search(text[text.rfind("\n", 0, found.start()) + 1:found.start()])]
    is_family = name.startswith(FAMILIES)
    for found in COMPARISON.finditer(text):
        opcode, dot, _ = found[1].partition(".")
        if opcode in opcodes and (dot or not is_family):
            problems.append(f'{place(found.start())} compares text with the opcode "{found[1]}": ask for a trait')
    for found in LIST.finditer(text):
        names = re.findall(r'"([^"]*)"', found[1])
        if not is_family and all(each in opcodes for each in names):
            problems.append(f"{place(found.start())} lists opcodes: let them share a trait")
    return problems


def main() -> int:
    root = pathlib.Path(sys.argv[1]) / EMULATOR
    sources = {file.relative_to(root).as_posix(): file.read_text(encoding="utf-8")
               for file in sorted(root.rglob("*")) if file.suffix in {".cpp", ".hpp"}}
    opcodes = registered_opcodes(sources)
    problems = [problem for name, text in sources.items() for problem in problems_in(name, text, opcodes)]
    if len(opcodes) < 100:
        problems.append(f"only {len(opcodes)} registered opcodes were found: is set.add() still what registers them?")
    print("\n".join(problems) or f"{len(sources)} sources; none asks for one of {len(opcodes)} opcodes by its text")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
