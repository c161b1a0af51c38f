#!/usr/bin/env python3
"""Packs and unpacks what a GPU printed: for each conformance program and seed, or in another archive.

usage: recorded.py pack FOLDER [ARCHIVE]      makes the archive of a folder that record.sh has written
       recorded.py unpack FOLDER [ARCHIVE]    writes the files of the archive to a folder, as Meson does when it configures

ARCHIVE is expected/h200.tar.xz if none is named.
"""

import io
import pathlib
import sys
import tarfile

ARCHIVE = pathlib.Path(__file__).resolve().parent / "expected/h200.tar.xz"


def pack(folder: pathlib.Path, archive_path: pathlib.Path) -> None:
    """The same files make the same archive: they are in order, and neither owners nor times are kept."""
    with tarfile.open(archive_path, "w:xz", preset=9) as archive:
        for path in sorted(path for path in folder.iterdir() if path.suffix in (".txt", ".jsonl")):
            entry = tarfile.TarInfo(path.name)
            entry.size = path.stat().st_size
            archive.addfile(entry, io.BytesIO(path.read_bytes()))


def unpack(folder: pathlib.Path, archive_path: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive_path) as archive:
        for entry in archive:
            path, content = folder / pathlib.PurePath(entry.name).name, archive.extractfile(entry).read()
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)


def main() -> int:
    if len(sys.argv) not in (3, 4) or sys.argv[1] not in ("pack", "unpack"):
        print(__doc__)
        return 2
    archive = pathlib.Path(sys.argv[3]) if len(sys.argv) == 4 else ARCHIVE
    (pack if sys.argv[1] == "pack" else unpack)(pathlib.Path(sys.argv[2]), archive)
    return 0


if __name__ == "__main__":
    sys.exit(main())
