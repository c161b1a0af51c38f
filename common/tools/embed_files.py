#!/usr/bin/env python3
"""Makes a C++ source of the viewer's files, so that the emulated GPU can write a page without finding them.

embed_files.py OUTPUT FILE...   the source defines viewer_file(), which common/emulator/trace/viewer_files.hpp declares
"""

import pathlib
import sys

DELIMITER = "__file__"
PIECE = 8000   # the longest string literal that every compiler must take is 65536 characters; lines stay whole


def literal(text):
    """Returns the text as raw string literals, one after another, which the compiler joins."""
    if f'){DELIMITER}"' in text:
        raise SystemExit(f"embed_files.py: the text contains the end of a literal, ){DELIMITER}\"")
    pieces, piece = [], ""
    for line in text.splitlines(keepends=True):
        if piece and len(piece) + len(line) > PIECE:
            pieces.append(piece)
            piece = ""
        piece += line
    return "\n    ".join(f'R"{DELIMITER}({piece}){DELIMITER}"' for piece in [*pieces, piece])


def main():
    output, *files = map(pathlib.Path, sys.argv[1:])
    cases = "".join(f'  if (name == "{path.name}") {{\n    return {literal(path.read_text(encoding="utf-8"))};\n  }}\n'
                    for path in files)
    output.write_text('#include "emulator/trace/viewer_files.hpp"\n\nnamespace stagecraft::emulator::trace {\n\n'
                      f"std::string_view viewer_file(std::string_view name) {{\n{cases}  return {{}};\n}}\n\n"
                      "}  // namespace stagecraft::emulator::trace\n", encoding="utf-8")


if __name__ == "__main__":
    main()
