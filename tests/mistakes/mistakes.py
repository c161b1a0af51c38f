#!/usr/bin/env python3
"""Runs, records and renews mistakes: changes that make a right program wrong, in .mistakes files (README.md has the form).

usage: mistakes.py list [WHICH...]      says what each mistake is
       mistakes.py run WHICH...         builds them and tests what is said about them
       mistakes.py edit WHICH           writes the files of a mistake, old or new, to a folder for you to edit
       mistakes.py record WHICH         makes its change from these files
       mistakes.py renew [WHICH...]     rewrites the changes that no longer apply, because their program has changed

WHICH is STEM/NAME, as in 02/one_lane_frees, or all of a file: its path, or STEM. The build uses

       mistakes.py split FILE OUTPUT...    writes each mistake of a file to a file of its own, which changes only if it does
       mistakes.py ptx WHICH FOLDER SOURCE,SOURCE... PROGRAM OUTPUT NVCC ARGUMENTS...
       mistakes.py object WHICH FOLDER SOURCE SOLUTION_OBJECT OUTPUT NVCC ARGUMENTS...
       mistakes.py refused WHICH FOLDER SOURCE,SOURCE... NVCC ARGUMENTS...
       mistakes.py check WHICH COMMAND...               runs the test of an answer, or compiles it
       mistakes.py program FILE PROGRAM NVCC ARGUMENTS...   makes a program of the gallery, with all mistakes of the file
       mistakes.py check_program FILE PROGRAM [NAME...]     runs its variants: the right one and each mistake, or those named
       mistakes.py right SOURCE NVCC ARCHITECTURE ARGUMENTS...    compiles a program that must be accepted
       mistakes.py refuse WHICH NVCC ARCHITECTURE ARGUMENTS...    compiles the program beside with a mistake that must be refused
       mistakes.py marked SOURCE NVCC ARCHITECTURE ARGUMENTS...   compiles one with many, in the lines that end in `// refused:`
"""

import os
import pathlib
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
from form import ROOT, Misfit, Mistake, all_files, find, read_mistakes, write_file  # noqa: E402
from making import WrongAnswer, make_program  # noqa: E402
from renewal import edit, record, renew  # noqa: E402
from running import check_marked, check_program, check_refusal, check_refused, check_right  # noqa: E402


def one(which: str) -> Mistake:
    found = find(which)
    if len(found) != 1:
        raise Misfit(f"'{which}' is a file of mistakes: name one, as in {found[0].short}" if found else f"{which} has no mistakes")
    return found[0]


def several(which: list[str]) -> list[Mistake]:
    found = [mistake for each in which for mistake in find(each)] if which else \
        [mistake for path in all_files() for mistake in read_mistakes(path)]
    for mistake in found:
        if not mistake.changes:
            raise Misfit(f"there is no {mistake.short}")
    return found


def renew_all(mistakes: list[Mistake]) -> int:
    failed = 0
    for mistake in mistakes:
        try:
            applies, text = renew(mistake)
        except Misfit as misfit:
            applies, text = False, str(misfit)
        failed += not applies
        if text:
            print(text)
    print(f"{len(mistakes)} mistakes, {failed} do not apply")
    return 1 if failed else 0


def run(mistakes: list[Mistake]) -> int:
    """Builds the programs, and runs the tests that have the mistakes: of the gallery, those of whole programs."""
    targets, tests = [], []
    for mistake in mistakes:
        if mistake.chapter:
            targets += [] if mistake.values("refused") else [f"chapters/{mistake.chapter}_wrong_{mistake.name}"]
            tests.append(f"wrong {mistake.short.replace('/', ' ')}")
        elif mistake.values("refused"):
            tests.append(mistake.short.replace("/", " "))
        else:
            targets.append(f"tests/bugs/{mistake.path.stem}")
            tests.append(f"bugs of {mistake.path.stem}")
    tools = os.pathsep.join([str(ROOT / "build/tools/python/bin"), os.environ["PATH"]])
    if targets:
        subprocess.run([shutil.which("ninja", path=tools), "-C", ROOT / "build", *dict.fromkeys(targets)], check=True)
    return subprocess.run([shutil.which("meson", path=tools), "test", "-C", ROOT / "build", "--no-rebuild", "--print-errorlogs",
                           *dict.fromkeys(tests)], check=False).returncode


def split(path: str, outputs: list[str]) -> None:
    for mistake, output in zip(read_mistakes(pathlib.Path(path).resolve()), outputs, strict=True):
        write_file(pathlib.Path(output), "\n".join([f"== {mistake.name}", *mistake.section]) + "\n")


def make(kind: str, which: str, folder: str, sources: str, rest: list[str]) -> None:
    """Compiles a wrong answer of a chapter."""
    mistake = several([which])[0]
    compiler = rest[2:] if kind != "refused" else rest
    wrong = [source for source in sources.split(",") if pathlib.Path(source).name == mistake.value("kernels", pathlib.Path(source).name)]
    answer = WrongAnswer(mistake.chapter, mistake.wrong_texts(), mistake.files(), folder, wrong, compiler)
    if kind == "refused":
        answer.have_refused()
        return
    (answer.make_script if kind == "ptx" else answer.make_object)(*rest[:2])
    answer.write_dependencies(rest[1])


def main() -> int:
    command, *arguments = sys.argv[1:] or ["help"]
    if command == "list":
        print("\n".join(f"{mistake.short}: {mistake.what}" for mistake in several(arguments)))
    elif command in ("edit", "record") and len(arguments) == 1:
        print((edit if command == "edit" else record)(one(arguments[0])))
    elif command == "run" and arguments:
        return run(several(arguments))
    elif command == "renew":
        return renew_all(several(arguments))
    elif command == "split":
        split(arguments[0], arguments[1:])
    elif command in ("ptx", "object", "refused"):
        make(command, *arguments[:3], arguments[3:])
    elif command == "program":
        make_program(pathlib.Path(arguments[0]).resolve(), arguments[1], arguments[2:])
    elif command == "check_program":
        return check_program(pathlib.Path(arguments[0]).resolve(), arguments[1], arguments[2:])
    elif command == "right":
        return check_right(pathlib.Path(arguments[0]).resolve(), arguments[1:])
    elif command == "refuse":
        return check_refused(several(arguments[:1])[0], arguments[1:])
    elif command == "marked":
        return check_marked(pathlib.Path(arguments[0]).resolve(), arguments[1:])
    elif command == "check":
        return check_refusal(several(arguments[:1])[0], arguments[1:])
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Misfit as misfit:
        sys.exit(str(misfit))
    except subprocess.CalledProcessError as refused:
        sys.exit(refused.returncode)
