#!/usr/bin/env python3
"""Compiles a base of the gallery with all of its bugs: the base, repeated in a namespace for each of them.

usage: compile_bugs.py BASE.cu BASE.bugs PROGRAM DEPFILE NVCC ARGUMENTS...
       compile_bugs.py BASE.cu BASE.bugs SOURCE.cu            writes the source alone

Each copy has its bug's lines in place, and its lines count as those of BASE.cu, so that reports name the line that a
reader of the base sees; a line that a bug adds counts as the one that it stands for or follows.
"""

import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
from bugs import Base, read_bugs  # noqa: E402


def main() -> int:
    base_path, bugs_path, output = (pathlib.Path(name) for name in sys.argv[1:4])
    source = source_of(base_path, bugs_path)
    if len(sys.argv) == 4:
        output.write_text(source, encoding="utf-8")
        return 0
    made = output.with_suffix(".made.cu")
    made.write_text(source, encoding="utf-8")
    # A bug may leave a variable of its base without a use (#177).
    return subprocess.run([*sys.argv[5:], "--diag-suppress=177", made, "-o", output, "-MD", "-MF", sys.argv[4], "-MT", output],
                          check=False).returncode


def source_of(base_path: pathlib.Path, bugs_path: pathlib.Path) -> str:
    """The program with all variants."""
    base = Base(base_path)
    bugs = read_bugs(bugs_path)
    out = [f"// Made by compile_bugs.py from {base_path.name} and {bugs_path.name}.\n", *base.head]
    out += variant("right", str(base_path.resolve()), base.numbered())
    for bug in bugs:
        out += variant(bug.name, str(base_path.resolve()), base.with_bug(bug))
    out.append('#line 1 "variants"\nconstexpr gallery::Variant kVariants[] = {\n')
    out += [f'    {{"{name}", {name}::run}},\n' for name in ["right", *(bug.name for bug in bugs)]]
    out.append("};\n\nint main(int argc, char** argv) { return gallery::run_variant(kVariants, argc, argv); }\n")
    return "".join(out)


def variant(name: str, file: str, lines: list[tuple[int, str]]) -> list[str]:
    """The namespace of a variant. A #line directive stands wherever the numbers do not just count on."""
    out, expected = [f"\nnamespace {name} {{\n"], None
    for number, text in lines:
        if number != expected:
            out.append(f'#line {number} "{file}"\n')
        out.append(text + "\n")
        expected = number + 1
    return out + [f"}}  // namespace {name}\n"]


if __name__ == "__main__":
    sys.exit(main())
