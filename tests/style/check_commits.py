#!/usr/bin/env python3
"""Fails when a commit after BASE has a subject of more than 72 characters, or is a merge: the history is linear.

usage: check_commits.py SOURCE_ROOT BASE

Skipped (77) where that history is not there: in an archive, in a shallow clone, or without git.
"""

import os
import pathlib
import subprocess
import sys

LONGEST = 72  # characters, as docs/style.md says
SKIPPED = 77


def git(root: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, encoding="utf-8", errors="replace",
                          check=False)


def missing_history(root: pathlib.Path, base: str) -> str:
    """Why commits cannot be checked; empty if they can."""
    try:
        top = git(root, "rev-parse", "--show-toplevel")
    except FileNotFoundError:
        return "git is not installed"
    if top.returncode != 0:
        return top.stderr.strip()
    if not os.path.samefile(top.stdout.rstrip("\n"), root):
        return "the sources are part of another repository"
    if git(root, "cat-file", "-e", f"{base}^{{commit}}").returncode != 0:
        return f"the history does not reach back to {base}"
    return ""


def main() -> int:
    root, base = pathlib.Path(sys.argv[1]), sys.argv[2]
    missing = missing_history(root, base)
    if missing:
        print(missing)
        return SKIPPED
    log = git(root, "log", "--format=%h%x09%p%x09%s", f"{base}..HEAD")
    if log.returncode != 0:
        print(log.stderr)
        return 1
    commits = log.stdout.splitlines()
    complaints = []
    for commit in commits:
        name, parents, subject = commit.split("\t", 2)
        if len(parents.split()) > 1:
            complaints.append(f"{name} is a merge; rebase instead: {subject}")
        if len(subject) > LONGEST:
            complaints.append(f"{name}: the subject has {len(subject)} characters, and at most {LONGEST} are allowed: {subject}")
    print("\n".join(complaints) or f"{len(commits)} commits, all as they should be")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
