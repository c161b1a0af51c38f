#!/usr/bin/env python3
"""Packs and unpacks what an H200 printed: a file for each conformance program and seed.

usage: recorded.py pack FOLDER      makes the archive of a folder that record.sh has written
       recorded.py unpack FOLDER    writes the files of the archive to a folder, as Meson does when it configures
"""

import io
import pathlib
import sys
import tarfile

ARCHIVE = pathlib.Path(__file__).resolve().parent / "expected/h200.tar.xz"


def pack(folder: pathlib.Path) -> None:
    """The same files make the same archive: they are in order, and neither owners nor times are kept."""
    with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
        for path in sorted(folder.glob("*.txt")):
            entry = tarfile.TarInfo(path.name)
            entry.size = path.stat().st_size
            archive.addfile(entry, io.BytesIO(path.read_bytes()))


def unpack(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(ARCHIVE) as archive:
        for entry in archive:
            path, content = folder / pathlib.PurePath(entry.name).name, archive.extractfile(entry).read()
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in ("pack", "unpack"):
        print(__doc__)
        return 2
    (pack if sys.argv[1] == "pack" else unpack)(pathlib.Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
