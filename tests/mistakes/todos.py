#!/usr/bin/env python3
"""Passes when each TODO of a chapter's exercise, left out, fails the chapter's test; names those that no test notices.

usage: todos.py CHAPTER BUILD NINJA SOURCE,SOURCE... NVCC ARGUMENTS...

What a learner has who did everything but one TODO is the solution with the lines of the exercise at that TODO. It is compiled
as a wrong answer is (making.py) and tested, as many at a time as there are cores. The files are left in BUILD/skipped. A mistake
of the chapter that says `skips: TODO 3` leaves that TODO out, where this cannot. Without CI=true in the environment the exercise
may be half solved, and a fault only skips the test.
"""

import concurrent.futures
import difflib
import os
import pathlib
import re
import shlex
import subprocess
import sys
import threading
import typing

sys.dont_write_bytecode = True  # leave no cache folder among the sources
from form import ROOT, SOURCES, Misfit, find, read  # noqa: E402
from making import WrongAnswer  # noqa: E402

SECONDS = 300  # far above what any step takes
SKIPPED = 77
REFUSED = "STAGECRAFT_PTX: "
TODO = re.compile(r"// TODO (\d+): ")
ONLY_INCLUDES = re.compile(r'#include ["<](stagecraft/[\w/.]+)[">]')
FAILED = re.compile(r"^\[  FAILED  \] (\S+)", re.MULTILINE)


class Place(typing.NamedTuple):
    """One TODO comment of an exercise."""
    number: int
    line: int    # from 1
    before: int  # lines of code before it


# ---- Source code ----------------------------------------------------------------------------------------------------

def code_of(line: str) -> str:
    """A line of code with its indentation, without comments and what only avoids a warning."""
    code = re.sub(r"//.*|\[\[maybe_unused\]\] ?", "", line).rstrip()
    return "" if re.match(r"\s*(\(void\)|#include)", code) else code


def code_lines(text: str) -> list[tuple[int, str]]:
    """The lines of code with their numbers, from 0. A closing brace also has the line that it closes: all look the same."""
    lines, opened = [], []
    for number, line in enumerate(text.splitlines()):
        code = shown = code_of(line)
        for character in code:
            if character == "{":
                opened.append(code)
            elif character == "}" and opened:
                closed = opened.pop()
                shown = f"{code}  // {closed}" if code.lstrip()[0] == "}" else code
        if code:
            lines.append((number, shown))
    return lines


def functions_of(text: str) -> dict[tuple[str, ...], list[tuple[int, int]]]:
    """Where the bodies of functions are in a text, by the names of the classes around them and their own."""
    found: dict[tuple[str, ...], list[tuple[int, int]]] = {}
    blank = re.sub(r'^#[^\n]*|//[^\n]*|"(?:[^"\\\n]|\\.)*"', lambda match: " " * len(match[0]), text, flags=re.MULTILINE)
    scopes, begin = [], 0
    for at, character in enumerate(blank):
        if character == "{":
            head = re.sub(r"\[\[.*?\]\]|__\w+__ *(\([^()]*\))?|template *<[^<>]*>", " ", blank[begin:at], flags=re.DOTALL)
            kind = re.match(r"\s*(?:(?:inline )?namespace|struct|class|enum(?: class)?)\b\s*([\w:]*)", head)
            name = re.search(r"(operator *\(\)|\w+)\s*\(", head)
            scopes.append((kind[1] if kind else name[1] if name else "", at + 1, bool(kind)))
        elif character == "}" and scopes:
            name, start, is_scope = scopes.pop()
            if not is_scope and all(scope[2] for scope in scopes):   # else it is a part of a function
                found.setdefault((*(scope[0] for scope in scopes), name), []).append((start, at))
        if character in "{};":
            begin = at + 1
    return found


# ---- Leaving out one TODO -------------------------------------------------------------------------------------------

def places_of(exercise: str) -> list[Place]:
    """The TODOs of a file. Two comments with the same number and no code between them are one."""
    places: list[Place] = []
    before = 0
    for line, text in enumerate(exercise.splitlines(), 1):
        match = TODO.search(text)
        if match and not (places and (places[-1].number, places[-1].before) == (int(match[1]), before)):
            places.append(Place(int(match[1]), line, before))
        before += bool(code_of(text))
    return places


def without(exercise: str, solution: str, place: Place, reach: int) -> str:
    """The solution with what the exercise has at one TODO; the solution itself where that is the same.

    That is the body of the function whose only TODO it is; outside of functions, the declarations of names that follow it; and
    else each difference between the two texts to which no other TODO is nearer.
    @param reach  how many lines from the TODO such a difference may be."""
    starts = [0, *(match.end() for match in re.finditer("\n", exercise))]
    places = places_of(exercise)
    for name, bodies in functions_of(exercise).items():
        inside = [other for other in places if any(start <= starts[other.line - 1] < end for start, end in bodies)]
        if place in inside:
            same = functions_of(solution).get(name, [])
            if len(inside) > 1 or len(bodies) > 1 or len(same) != 1:
                return without_differences(exercise, solution, place, reach)
            return solution[:same[0][0]] + exercise[bodies[0][0]:bodies[0][1]] + solution[same[0][1]:]
    wrong = without_declarations(exercise, solution, place)
    return wrong if wrong != solution else without_differences(exercise, solution, place, reach)


def without_declarations(exercise: str, solution: str, place: Place) -> str:
    after = "\n".join(exercise.splitlines()[place.line:])
    declarations = re.match(r"(?:\s*//.*\n)*((?:[^\n]* (\w+) = [^;]*;[^\n]*\n)+)", after)
    for name, value in re.findall(r" (\w+) = ([^;]*);", declarations[1] if declarations else ""):
        solution = re.sub(rf"(?<= {name} = )[^;]*(?=;)", value, solution, count=1)
    return solution


def without_differences(exercise: str, solution: str, place: Place, reach: int) -> str:
    old, new = code_lines(exercise), code_lines(solution)
    places = places_of(exercise)
    lines, lines_of_exercise = solution.splitlines(), exercise.splitlines()
    matcher = difflib.SequenceMatcher(None, [code for _, code in old], [code for _, code in new], autojunk=False)
    for kind, old_start, old_end, new_start, new_end in reversed(matcher.get_opcodes()):
        def distance(other: Place) -> tuple[int, int]:   # of two as near, the one that follows: what it uses is declared before
            return max(old_start - other.before, other.before - old_end, 0), -other.before

        if kind != "equal" and min(places, key=distance) == place and distance(place)[0] <= reach:
            first = new[new_start][0] if new_start < len(new) else len(lines)
            last = new[new_end - 1][0] + 1 if new_end > new_start else first
            lines[first:last] = (lines_of_exercise[old[old_start][0]:old[old_end - 1][0] + 1] if old_end > old_start else [])
    return "\n".join(lines) + "\n"


# ---- Testing what is left -------------------------------------------------------------------------------------------

def solved(chapter: str, name: str) -> tuple[str, str]:
    """Where the solution of an exercise's file is, and the name by which it is included: a header of the library's where
    the file only includes that."""
    path = f"solutions/{chapter}/{name}"
    header = ONLY_INCLUDES.fullmatch(re.sub(r"//.*|#pragma once", "", read(path)).strip())
    return (f"common/{header[1]}", header[1]) if header else (path, name)


class Answer(typing.NamedTuple):
    """A solution without something."""
    name: str
    files: dict[str, tuple[str, str]]  # by the name by which each is included: the path of the solution's from the root, the text


class Chapter:
    """What is needed to make programs from a chapter's solution."""

    def __init__(self, name: str, build: pathlib.Path, ninja: str, sources: list[str], exercise: list[str], compiler: list[str]):
        self.name, self.build, self.sources, self.exercise, self.compiler = name, build, sources, exercise, compiler
        self.lock, self.failures = threading.Lock(), {}  # of the solution itself, without and with the host's code
        self.folder, self.program = build / "skipped" / name, build / "chapters" / f"{name}_solution"
        done = subprocess.run([ninja, "-C", build, "-t", "commands", "-s", f"chapters/{name}_solution"], check=True,
                              stdout=subprocess.PIPE, text=True)
        self.link = shlex.split(done.stdout.strip().splitlines()[-1])
        self.kernels = f"chapters/lib{name}_solution_kernels.a"

    def made(self, answer: Answer, sources: list[str]) -> WrongAnswer:
        folder = self.folder / answer.name / "files"
        folder.parent.mkdir(parents=True, exist_ok=True)
        texts, paths = ({name: file[part] for name, file in answer.files.items()} for part in (1, 0))
        return WrongAnswer(self.name, texts, paths, str(folder), sources, self.compiler, lambda command: run(*command))

    def make(self, answer: Answer, sources: list[str], host: bool) -> pathlib.Path:
        """Compiles kernels of an answer, which the solution's program runs; with `host`, the host's code too, and links it."""
        folder, objects = self.folder / answer.name, []
        if not host:
            self.made(answer, sources).make_script(str(self.program), str(folder / "test"))
            return folder / "test"
        for source in sources:
            objects.append(folder / (pathlib.Path(source).name + ".o"))
            self.made(answer, [source]).make_object(str(self.build / f"{self.kernels}.p" / objects[-1].name), str(objects[-1]))
        link = [part for word in self.link for part in (objects if word == self.kernels else [word])]
        link[link.index("-o") + 1] = folder / "test"
        run(*(str(word).replace("$ORIGIN/..", str(self.build)) for word in link), cwd=self.build)
        return folder / "test"

    def first_failure(self, answer: Answer) -> str:
        """The name of a test that fails, or nothing where all pass.

        The sources are tried one by one: after a failure the others need not be compiled. Where the kernels alone make no
        difference, code of the host is compiled as well."""
        for source in filter(self.made(answer, self.sources).is_affected, self.sources):
            if failure := self.failure_of(answer, [source], host=False):
                return failure
        self.check_solution(host=True)
        return self.failure_of(answer, self.sources, host=True)

    def failure_of(self, answer: Answer, sources: list[str], host: bool) -> str:
        # One failure is enough.
        done = run(self.make(answer, sources, host), check=False, env={**os.environ, "GTEST_FAIL_FAST": "1"})
        if not host and REFUSED in done.stdout:
            return ""  # the solution's host does not know these kernels
        if failure := FAILED.search(done.stdout):
            return failure[1].rstrip(",")
        if done.returncode != 0:
            raise NoVerdict(f"the program ended with status {done.returncode}:\n{done.stdout}")
        return ""

    def check_solution(self, host: bool) -> None:
        """Fails when the solution does not pass in the way in which everything here is compiled. Finds that out once."""
        with self.lock:
            if host not in self.failures:
                files = {}
                for name in self.exercise:
                    path, included = solved(self.name, name)
                    files[included] = (path, read(path) + "// compiled again\n")
                answer = Answer("nothing_on_the_host" if host else "nothing", files)
                self.failures[host] = self.failure_of(answer, self.sources, host)
            if self.failures[host]:
                raise NoVerdict(f"the solution itself fails {self.failures[host]}")

    def verdict(self, name: str, place: Place) -> tuple[str, str]:
        """What notices that a TODO is left out, if anything does, and a sentence that says so."""
        try:
            noticed = self.notices(name, place)
            return noticed, f"noticed by {noticed}" if noticed else "NO TEST NOTICES when it is left out"
        except (NoVerdict, Misfit) as fault:
            return "", str(fault)

    def notices(self, name: str, place: Place) -> str:
        """What notices that a TODO is left out; nothing where all tests pass."""
        path, included = solved(self.name, name)
        exercise, solution = read(f"chapters/{self.name}/{name}"), read(path)
        # A header of the library differs from the exercise for other reasons as well.
        wrong = without(exercise, solution, place, reach=0 if path.startswith("common/") else len(exercise))
        for mistake in find(self.name[:2]):
            if f"TODO {place.number}" == mistake.value("skips"):
                return f"the wrong answer {mistake.name}"
        if wrong == solution:
            raise NoVerdict("the exercise has here what the solution has")
        answer = Answer(f"{name.replace('.', '_')}_{place.line}", {included: (path, wrong)})
        try:
            return self.first_failure(answer)
        except NoVerdict as fault:
            if is_about_what_is_left_out(str(fault), solution, wrong):
                return "the compiler"
            raise


class NoVerdict(Exception):
    """What makes it unknown whether a TODO is noticed."""


def run(*command, check: bool = True, **options) -> subprocess.CompletedProcess:
    try:
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=SECONDS, **options)
    except subprocess.TimeoutExpired:
        raise NoVerdict(f"no end after {SECONDS} s: {' '.join(map(str, command))}") from None
    if check and done.returncode != 0:
        raise NoVerdict(f"{pathlib.Path(str(command[0])).name} fails:\n{done.stdout}")
    return done


def is_about_what_is_left_out(message: str, solution: str, wrong: str) -> bool:
    """Whether the compiler's first error is an assertion of the library's, or about a name that only the lines have that are
    left out. Any other error says that this script has put lines together wrongly."""
    error = re.search(r"error: (.*)", message)
    if not error:
        return False
    name = re.match(r'identifier "(\w+)" is undefined', error[1])
    declaration = rf"[\w>&*] +[&*]?{name[1]}\b *[={{]" if name else "$^"
    is_left_out = len(re.findall(declaration, wrong)) < len(re.findall(declaration, solution))
    return error[1].startswith("static assertion failed") or is_left_out


def main() -> int:
    name, build, ninja, sources, *compiler = sys.argv[1:]
    files = [path for path in sorted((ROOT / "chapters" / name).iterdir())
             if path.suffix in SOURCES and not path.name.startswith(".") and path.is_file() and TODO.search(path.read_text(encoding="utf-8"))]
    todos = faults = 0
    try:
        chapter = Chapter(name, pathlib.Path(build).resolve(), ninja, sources.split(","), [path.name for path in files], compiler)
        chapter.check_solution(host=False)
        places = [(path.name, place) for path in files for place in places_of(path.read_text(encoding="utf-8"))]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            verdicts = pool.map(lambda each: chapter.verdict(*each), places)
            for (file, place), (noticed, said) in zip(places, verdicts):
                print(f"chapters/{name}/{file}:{place.line}: TODO {place.number}: {said}", flush=True)
                todos, faults = todos + 1, faults + (not noticed)
    except (NoVerdict, Misfit) as fault:
        print(fault)
        faults += 1
    print(f"{todos} TODOs; {faults} that no test notices, or about which nothing can be said")
    if os.environ.get("CI") != "true" and (faults or not todos):
        print("this exercise may be half solved: only with CI=true is that a fault")
        return SKIPPED
    return 1 if faults or not todos else 0


if __name__ == "__main__":
    sys.exit(main())
