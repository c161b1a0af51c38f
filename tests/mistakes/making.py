"""Compiles mistakes: wrong answers of chapters, and the programs of the gallery.

For a wrong answer, only sources that include what is wrong are compiled. It is wrong in its kernels, so only they are compiled, to
PTX that the solution's program runs (STAGECRAFT_PTX); where it changes what the host does, it says `host: changed`, and is
compiled whole. A program of the gallery is compiled once with all of its mistakes: it is repeated in a namespace for each.
"""

import functools
import os
import pathlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable

from form import ROOT, TESTS, Lines, Misfit, numbered, read_mistakes, write_texts


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


# ---- The gallery ----------------------------------------------------------------------------------------------------

def length_of_head(lines: Lines) -> int:
    """How many lines stand once: the includes, and the comment above."""
    return max(at for at, (_, text) in enumerate(lines, 1) if text.startswith("#include"))


def source_of_all(path: pathlib.Path) -> str:
    """A program with all mistakes of a .mistakes file, and `main`.

    Lines count as those of the right program, so that reports name the line that a reader of it sees; a line that a mistake adds
    counts as the one that it stands for or follows."""
    source = path.with_suffix(".cu")
    right, mistakes = numbered(source.read_text(encoding="utf-8")), read_mistakes(path)
    head = length_of_head(right)
    out = [f"// Made by mistakes.py from {source.name} and {path.name}.\n", *(text + "\n" for _, text in right[:head])]
    out += in_namespace("right", source, right[head:])
    for mistake in mistakes:
        out += in_namespace(mistake.name, source, mistake.apply(source.name, right)[head:])
    out.append('#line 1 "variants"\nconstexpr gallery::Variant kVariants[] = {\n')
    out += [f'    {{"{name}", {name}::run}},\n' for name in ["right", *(mistake.name for mistake in mistakes)]]
    out.append("};\n\nint main(int argc, char** argv) { return gallery::run_variant(kVariants, argc, argv); }\n")
    return "".join(out)


def in_namespace(name: str, source: pathlib.Path, lines: Lines) -> list[str]:
    """The namespace of a variant. A #line directive stands wherever the numbers do not just count on."""
    out, expected = [f"\nnamespace {name} {{\n"], None
    for number, text in lines:
        if number != expected:
            out.append(f'#line {number} "{source.resolve()}"\n')
        out.append(text + "\n")
        expected = number + 1
    return out + [f"}}  // namespace {name}\n"]


def make_program(path: pathlib.Path, output: str, compiler: list[str]) -> None:
    made = pathlib.Path(output).with_suffix(".made.cu")
    made.write_text(source_of_all(path), encoding="utf-8")
    # A mistake may leave a variable of its program without a use (#177).
    subprocess.run([*compiler, "--diag-suppress=177", made, "-o", output, "-MD", "-MF", f"{output}.d", "-MT", output], check=True)
