#!/usr/bin/env python3
"""Compiles a wrong answer.

usage: compile_wrong_answer.py ptx PATCH FOLDER SOURCE,SOURCE... PROGRAM OUTPUT NVCC ARGUMENTS...
       compile_wrong_answer.py object PATCH FOLDER SOURCE SOLUTION_OBJECT OUTPUT NVCC ARGUMENTS...
       compile_wrong_answer.py refused PATCH FOLDER SOURCE,SOURCE... NVCC ARGUMENTS...

The answer's files are written to FOLDER. Only sources that include what is patched are compiled.
`ptx`: a wrong answer is wrong in its kernels, so only they are compiled, to PTX in FOLDER. OUTPUT becomes a script that runs
PROGRAM, which is the solution's, with them (STAGECRAFT_PTX).
`object`: where a patch changes what the host does, it says `host: changed`, and the object OUTPUT is made whole; it is
SOLUTION_OBJECT if the source is not affected.
`refused`: the compiler is to refuse the answer.
The first two write which files were read to OUTPUT.d, for Ninja.
"""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
from answer_patch import CHAPTERS, ROOT, Answer, Misfit, write_answer  # noqa: E402


class Compilation:
    """What is compiled, and how."""

    def __init__(self, patch: str, folder: str, sources: str):
        self.answer, self.folder, self.sources = Answer(pathlib.Path(patch)).read(), folder, sources.split(",")
        write_answer(self.answer, pathlib.Path(folder))
        self.names = [name for name, _ in self.answer.files.values()]
        chapter = self.answer.chapter
        self.folders = [folder, f"{ROOT}/solutions/{chapter}", f"{ROOT}/chapters/{chapter}/given", f"{CHAPTERS}/{chapter}",
                        f"{ROOT}/common"]
        self.read: dict[str, None] = {f"{ROOT}/{changed}": None for changed in self.answer.files}  # in order

    def made(self, source: str) -> str:
        """The wrong answer's source, or the solution's where the patch leaves that as it is."""
        name = pathlib.Path(source).name
        return f"{self.folder}/{name}" if name in self.names else source

    def is_affected(self, source: str) -> bool:
        """Whether the source is compiled to something else than that of the solution. Notes the files that this depends on."""
        files = files_of(self.made(source), self.folders)
        ours = [file for file in files if file.startswith(f"{self.folder}/")]
        self.read |= {file: None for file in files if file not in ours}
        return bool(ours)

    def compile(self, source: str, compiler: list[str], output: str) -> None:
        """Throws CalledProcessError where the compiler refuses it, which has then said why."""
        includes = [f"-I{folder}" for folder in self.folders]
        subprocess.run([*compiler, *includes, self.made(source), "-o", output], check=True)

    def write_dependencies(self, output: str) -> None:
        pathlib.Path(f"{output}.d").write_text(f"{output}: {' '.join(self.read)}\n", encoding="utf-8")


def make_script(made: Compilation, program: str, output: str, compiler: list[str]) -> None:
    files = []
    for source in made.sources:
        if made.is_affected(source):
            files.append(f"{made.folder}/{pathlib.Path(source).stem}.ptx")
            made.compile(source, [*compiler, "-ptx"], files[-1])
    if not files:
        raise Misfit(f"{made.answer.shown} changes nothing that a kernel is compiled from")
    script = pathlib.Path(output)
    script.write_text("#!/bin/sh\n# The solution's program with the kernels of a wrong answer.\n"
                      f"export STAGECRAFT_PTX={shlex.quote(':'.join(files))}\nexec {shlex.quote(program)} \"$@\"\n", encoding="utf-8")
    script.chmod(0o755)
    made.write_dependencies(output)


def make_object(made: Compilation, solution_object: str, output: str, compiler: list[str]) -> None:
    if made.is_affected(made.sources[0]):
        made.compile(made.sources[0], [*compiler, "-c"], output)
    else:
        shutil.copyfile(solution_object, output)
        made.read[solution_object] = None
    made.write_dependencies(output)


def files_of(source: str, folders: list[str]) -> list[str]:
    """A source and the files of the folders that it includes, itself or through others. (nvcc tells them with -MD, for a fifth
    of its time.)"""
    files = [source]
    for file in files:
        for quote, name in re.findall(r'^#include ([<"])([^">]+)[>"]', pathlib.Path(file).read_text(encoding="utf-8"), re.MULTILINE):
            places = [f"{folder}/{name}" for folder in [*([str(pathlib.Path(file).parent)] if quote == '"' else []), *folders]]
            found = next(filter(os.path.isfile, places), None)
            if found and found not in files:
                files.append(found)
    return files


def main() -> None:
    kind, patch, folder, sources, *rest = sys.argv[1:]
    made = Compilation(patch, folder, sources)
    if kind == "ptx":
        make_script(made, rest[0], rest[1], rest[2:])
    elif kind == "object":
        make_object(made, rest[0], rest[1], rest[2:])
    else:
        for source in filter(made.is_affected, made.sources):
            made.compile(source, rest, f"{folder}/{pathlib.Path(source).stem}.refused")


if __name__ == "__main__":
    try:
        main()
    except Misfit as misfit:
        sys.exit(str(misfit))
    except subprocess.CalledProcessError as refused:
        sys.exit(refused.returncode)
