"""What several calls of ./stagecraft at a time share: the build folder."""

import fcntl
import os
import pathlib

LOCK = 209   # the file that ./stagecraft has locked when it calls a script


def open_lock(build: str) -> tuple:
    """Opens the file for ./stagecraft to lock, which this process then keeps locked until it becomes a program or closes it.
    Returns it for `pass_fds`; nothing where there is none yet."""
    try:
        file = os.open(f"{build}/tools/lock", os.O_RDONLY)
    except OSError:
        return ()
    os.dup2(file, LOCK, inheritable=False)
    if file != LOCK:
        os.close(file)
    return (LOCK,)


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
