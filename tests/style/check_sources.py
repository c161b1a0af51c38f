#!/usr/bin/env python3
"""Fails when a source is in no meson.build: a forgotten test does not run, and nothing else notices.

usage: check_sources.py SOURCE_ROOT

A source counts as listed when a meson.build of its folder, or of one above, names it, with or without its ending. What a
chapter gives is listed in chapters/meson.build or chapters/programs/meson.build, with its path.
"""

import pathlib
import re
import sys

FOLDERS = ("chapters", "common", "solutions", "tests")
ENDINGS = {".cpp", ".cu"}
WITHOUT_MESON = ("tests/silicon",)  # built by its own script, on a machine with a GPU


def names_in(listing: pathlib.Path) -> set[str]:
    """The last parts of all quoted strings."""
    return {text.rsplit("/", 1)[-1] for text in re.findall(r"'([^'\n]*)'", listing.read_text(encoding="utf-8"))}


def is_listed(source: pathlib.Path, names: set[str]) -> bool:
    if {source.name, source.stem} & names:
        return True
    # fuzz/meson.build puts names together: 'ptx' + '_fuzzer.cpp'
    return any(source.name == first + end for end in names if end.startswith("_") for first in names)


def main() -> int:
    root = pathlib.Path(sys.argv[1])
    listed = {listing.parent: names_in(listing) for listing in root.rglob("meson.build")
              if listing.relative_to(root).parts[0] in (*FOLDERS, "meson.build")}
    sources = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*"))
               if file.suffix in ENDINGS and not file.relative_to(root).as_posix().startswith(WITHOUT_MESON)]
    missing = []
    programs = (root / "chapters/programs/meson.build").read_text(encoding="utf-8").replace("'../", "'")
    programs += (root / "chapters/meson.build").read_text(encoding="utf-8")
    for source in sources:
        if source.parent.name == "given":
            if f"'{source.relative_to(root / 'chapters').as_posix()}'" not in programs:
                missing.append(source.relative_to(root).as_posix())
            continue
        # A chapter's files are listed by its test, in a folder beside.
        chapter = root / "tests/chapters" / source.parent.name
        folders = [chapter, root / "tests/chapters", *source.parents]
        if not any(is_listed(source, listed.get(folder, set())) for folder in folders):
            missing.append(source.relative_to(root).as_posix())
    print("\n".join(f"{source} is in no meson.build" for source in missing) or f"{len(sources)} sources, all listed")
    return 1 if missing or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
