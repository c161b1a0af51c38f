"""What several calls of ./stagecraft at a time share: the build folder."""

import fcntl
import os
import pathlib

LOCK = 9   # the file that ./stagecraft has locked when it calls a script


def unlock(build: pathlib.Path) -> None:
    """Lets others build again: called when the program that was built has begun."""
    try:
        if os.path.samestat(os.fstat(LOCK), os.stat(build / "tools/lock")):
            fcntl.flock(LOCK, fcntl.LOCK_UN)
    except OSError:   # this was called by hand
        pass


def replace(path: pathlib.Path, text: str) -> None:
    """Writes a file that others read only when it is complete."""
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
