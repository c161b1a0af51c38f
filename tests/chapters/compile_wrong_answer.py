#!/usr/bin/env python3
"""Compiles one source of a wrong answer.

usage: compile_wrong_answer.py PATCH FOLDER SOURCE SOLUTION_OBJECT OBJECT NVCC ARGUMENTS...

The answer's files are written to FOLDER. A wrong answer is wrong in its kernels, so only they are compiled: what the host
does is the solution's, whose object gets the answer's kernels in place of its own. That takes half the time. Where a
patch changes what the host does, it says `host: changed`, and everything is compiled. The files that were read go to OBJECT.d,
for Ninja. With "-" for SOLUTION_OBJECT, the compiler is to refuse the answer: SOURCE names all sources, with commas between
them, and those that include what is patched are compiled until one is refused.
"""

import pathlib
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
from answer_patch import CHAPTERS, ROOT, Answer, Misfit, write_answer  # noqa: E402


def main() -> int:
    patch, folder, source, solution_object, output = sys.argv[1:6]
    answer = Answer(pathlib.Path(patch)).read()
    write_answer(answer, pathlib.Path(folder))
    names = [name for name, _ in answer.files.values()]
    folders = [f"{ROOT}/solutions/{answer.chapter}", f"{ROOT}/chapters/{answer.chapter}/given", f"{CHAPTERS}/{answer.chapter}",
               f"{ROOT}/common"]
    compiler = [*sys.argv[6:], f"-I{folder}", *(f"-I{other}" for other in folders)]

    def is_patched(path: str) -> bool:
        return pathlib.Path(path).name in names

    def made(path: str) -> str:
        return f"{folder}/{pathlib.Path(path).name}" if is_patched(path) else path

    if solution_object == "-":
        for path in source.split(","):
            if is_patched(path) or includes_any(path, names, folders):
                if status := subprocess.run([*compiler, made(path), "-o", output]).returncode:
                    return status
        return 0
    command = [*compiler, made(source)]
    if not is_patched(source) and not includes_any(source, names, folders):
        shutil.copyfile(solution_object, output)  # this source includes nothing that is patched
        write_dependencies(output, [solution_object])
        return 0

    listed = f"{output}.nvcc.d"
    command += ["-MD", "-MF", listed, "-MT", "object"]
    if answer.values("host") == ["changed"]:
        done = subprocess.run([*command, "-c", "-o", output])
    else:
        kernels = f"{output}.fatbin"
        done = subprocess.run([*command, "-fatbin", "-o", kernels])
        if done.returncode == 0:
            done = subprocess.run(["objcopy", f"--update-section=.nv_fatbin={kernels}", solution_object, output])
    if done.returncode == 0:
        included = pathlib.Path(listed).read_text(encoding="utf-8").partition(" : ")[2].replace("\\\n", " ").split()
        # The patched files are made here, from these:
        patched = [f"{ROOT}/{changed}" for changed in answer.files]
        write_dependencies(output, patched + [file for file in included if not file.startswith(f"{folder}/")])
    return done.returncode


def includes_any(source: str, names: list[str], folders: list[str]) -> bool:
    """Whether a source includes one of the files, or includes something that does."""
    reached, left = set(), [pathlib.Path(source)]
    while left:
        file = left.pop()
        for name in re.findall(r'^#include [<"]([^>"]+)[>"]', file.read_text(encoding="utf-8"), re.MULTILINE):
            places = [place for place in (pathlib.Path(folder) / name for folder in [file.parent, *folders]) if place.is_file()]
            if name in names:
                return True
            if places and places[0] not in reached:
                reached.add(places[0])
                left.append(places[0])
    return False


def write_dependencies(output: str, files: list[str]) -> None:
    pathlib.Path(f"{output}.d").write_text(f"{output}: {' '.join(files)}\n", encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Misfit as misfit:
        sys.exit(str(misfit))
