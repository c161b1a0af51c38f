"""Compiles wrong answers of chapters.

Only sources that include what is wrong are compiled. A wrong answer is wrong in its kernels, so only they are compiled, to PTX
that the solution's program runs (STAGECRAFT_PTX); where it changes what the host does, it says `host: changed`, and is compiled
whole.
"""

import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable

from form import ROOT, TESTS, Misfit, write_texts


class WrongAnswer:
    """The files of a wrong answer in a folder, and how they are compiled.

    @param texts  the wrong text of each file, by the name by which it is included
    @param paths  the paths of the right files from the root, by the same names
    @param run  runs a command of the compiler, and throws where that fails"""

    def __init__(self, chapter: str, texts: dict[str, str], paths: dict[str, str], folder: str, sources: list[str],
                 compiler: list[str], run: Callable[[list[str]], object] = functools.partial(subprocess.run, check=True)):
        self.texts, self.folder, self.sources, self.compiler, self.run = texts, folder, sources, compiler, run
        write_texts(texts, pathlib.Path(folder))
        self.folders = [folder, f"{ROOT}/solutions/{chapter}", f"{ROOT}/chapters/{chapter}/given", f"{TESTS}/chapters/{chapter}",
                        f"{ROOT}/common"]
        self.read: dict[str, None] = {f"{ROOT}/{path}": None for path in paths.values()}  # in order

    def made(self, source: str) -> str:
        """The wrong answer's source, or the solution's where that stays as it is."""
        name = pathlib.Path(source).name
        return f"{self.folder}/{name}" if name in self.texts else source

    def is_affected(self, source: str) -> bool:
        """Whether the source is compiled to something else than that of the solution. Notes the files that this depends on."""
        files = files_of(self.made(source), self.folders)
        ours = [file for file in files if file.startswith(f"{self.folder}/")]
        self.read |= {file: None for file in files if file not in ours}
        return bool(ours)

    def compile(self, source: str, *arguments: str) -> None:
        includes = [f"-I{folder}" for folder in self.folders]
        self.run([*self.compiler, *includes, self.made(source), *arguments])

    def make_script(self, program: str, output: str) -> None:
        """Makes PTX of the kernels, and a script that runs with them the program, which is the solution's."""
        files = []
        for source in self.sources:
            if self.is_affected(source):
                files.append(f"{self.folder}/{pathlib.Path(source).stem}.ptx")
                self.compile(source, "-ptx", "-o", files[-1])
        if not files:
            raise Misfit(f"{self.folder} has nothing that a kernel is compiled from")
        script = pathlib.Path(output)
        script.write_text("#!/bin/sh\n# The solution's program with the kernels of a wrong answer.\n"
                          f"export STAGECRAFT_PTX={shlex.quote(':'.join(files))}\nexec {shlex.quote(program)} \"$@\"\n", encoding="utf-8")
        script.chmod(0o755)

    def make_object(self, solution_object: str, output: str) -> None:
        """Makes the object of the one source whole; a copy of the solution's if it is not affected."""
        if self.is_affected(self.sources[0]):
            self.compile(self.sources[0], "-c", "-o", output)
        else:
            shutil.copyfile(solution_object, output)
            self.read[solution_object] = None

    def have_refused(self) -> None:
        """Lets the compiler say what it has against it."""
        for source in filter(self.is_affected, self.sources):
            self.compile(source, "-o", f"{self.folder}/{pathlib.Path(source).stem}.refused")

    def write_dependencies(self, output: str) -> None:
        """Tells Ninja which files were read."""
        pathlib.Path(f"{output}.d").write_text(f"{output}: {' '.join(self.read)}\n", encoding="utf-8")


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
