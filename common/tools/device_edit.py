"""The short way from saving an exercise to its verdict, for learner.py.

An edit of the bodies of device functions changes kernels and nothing in the host's code. Then only the kernels are compiled,
to PTX, and the program as it was built runs with them (STAGECRAFT_PTX). Whatever else has changed, the program is built.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import typing

import build_folder

TOKEN = re.compile(r"""(?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)|(?P<comment>//[^\n]*|/\*.*?\*/)
                       |"(?:[^"\\\n]|\\.)*"|\d[\w.']*|'(?:[^'\\\n]|\\.)+'|\w+|\S""", re.MULTILINE | re.DOTALL | re.VERBOSE)
# What may make the host's code depend on its line numbers, or the text of a token on its place: a macro, in doubt.
DEPENDS_ON_LINES = re.compile(r"__LINE__|__builtin_|__COUNTER__|\bassert\b|source_location|\b[A-Z][A-Z0-9_]+ ?\(")
SCOPE = re.compile(r"\b(?:namespace|extern|class|struct|union)\b")
FUNCTION_END = re.compile(r"\)(?: (?:const|noexcept|override|final|&))*$")
# Device functions whose bodies the host's code may depend on: by their type, by their value, or as a lambda's captures.
SEEN_BY_HOST = re.compile(r"\b(?:__host__|auto|decltype|constexpr|consteval)\b|\] __(?:device|global)__")
UNRESOLVED = re.compile(r"^\.extern \.func .*?\b(\w+)\s*(?:\(|$)", re.MULTILINE)
OF_THE_DEVICE_LIBRARY = ("vprintf", "__assertfail", "malloc", "free")
EMULATOR = "common/emulator/libcuda.so.1"


def host_part(text: str) -> str:
    """The text without comments, layout and the bodies of functions that run on the device alone: what the host's code is
    made from. In doubt it has more, and at worst all of the text."""
    if re.search(r'R"', text):
        return text
    tokens = [(match[0], match.lastgroup) for match in TOKEN.finditer(text) if match.lastgroup != "comment"]
    kept: list[str] = []
    scopes: list[bool] = []  # of the open braces: whether classes and functions may stand directly inside
    begin = at = 0           # of the declaration, among those that are kept
    while at < len(tokens):
        token, kind = tokens[at]
        if kind == "directive":
            token = f"\n{token.strip()}\n"
        elif token == "{":
            head = re.sub(r"\[ \[.*?\] \]", "", " ".join(kept[begin:]))
            if all(scopes) and is_for_device_alone(head) and (end := end_of_body(tokens, at)):
                kept += "{", "}"
                begin, at = len(kept), end
                continue
            scopes.append(bool(SCOPE.search(re.sub(r"template <.*?>", "", head))) and not FUNCTION_END.search(head))
        elif token == "}":
            if not scopes:
                return text
            scopes.pop()
        kept.append(token)
        if kind == "directive" or token in "{};":
            begin = len(kept)
        at += 1
    part = " ".join(kept)
    return text if scopes or DEPENDS_ON_LINES.search(part) else part


def is_for_device_alone(head: str) -> bool:
    """Whether what is before a brace begins a function that the host's code does not depend on."""
    return bool(re.search(r"\b__(?:device|global)__", head) and FUNCTION_END.search(head) and not SEEN_BY_HOST.search(head))


def end_of_body(tokens: list[tuple[str, str]], at: int) -> int:
    """The place after the brace that closes the one at `at`; 0 where there is none, or the host's code may depend on what is
    before it: on a directive, or on a variable that the host registers."""
    depth = 0
    for place in range(at, len(tokens)):
        token, kind = tokens[place]
        depth += (token == "{") - (token == "}")
        if kind == "directive" or token in ("static", "__constant__", "__managed__"):
            return 0
        if depth == 0:
            return place + 1
    return 0


class Built(typing.NamedTuple):
    """A program as it was built last, and what it takes to compile its kernels again."""
    program: int               # when it was linked, in nanoseconds
    files: dict                # the learner's files: path to text
    commands: dict             # for each source: how it is compiled to PTX
    included: dict             # for each source: what it was made of

    @classmethod
    def read(cls, record: pathlib.Path):
        try:
            return cls(*json.loads(record.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def ninja(build: pathlib.Path) -> list:
    return [os.environ.get("NINJA", "ninja"), "-C", str(build)]


def remember(record: pathlib.Path, build: pathlib.Path, program: pathlib.Path, files: list) -> None:
    """Keeps what the program was built from, for later edits, unless that is known."""
    built = Built.read(record)
    if built and built.program == program.stat().st_mtime_ns or not (build / EMULATOR).exists():
        return
    target = program.relative_to(build).as_posix()
    objects = f"{pathlib.PurePath(target).parent}/lib{program.name}_kernels.a.p/"
    commands, included = {}, {}
    lines = subprocess.run([*ninja(build), "-t", "commands", target], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    for words in (shlex.split(line) for line in lines if objects in line and "/compile_cuda.py " in line):
        source, made = words[words.index("-c") + 1], words[words.index("-o") + 1]
        commands[source] = command_for_ptx(words[2:])
        listed = subprocess.run([*ninja(build), "-t", "deps", made], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        included[source] = [os.path.join(build, line.strip()) for line in listed[1:] if line.strip()]
    built = Built(program.stat().st_mtime_ns, {str(path): path.read_text(encoding="utf-8") for path in files}, commands, included)
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        build_folder.replace(record, json.dumps(built))
    except OSError:   # then the next edit is built
        pass


def command_for_ptx(command: list) -> list:
    """The command of nvcc that makes an object, as one that makes PTX. What is left out comes in pairs."""
    made, words = [], iter(command)
    for word in words:
        if word in ("-Xptxas", "-MF", "-MT", "-o", "-cudart"):
            next(words)
        elif word == "-gencode":
            made.append("-arch=" + re.search(r"arch=(\w+)", next(words))[1])
        elif word not in ("-MD", "-c"):
            made.append(word)
    return [*made, "-ptx"]


def edited_kernels(record: pathlib.Path, program: pathlib.Path, files: list):
    """The PTX that the program as it was built is to run with, as files with colons between them; None where it has to be
    built. Raises CalledProcessError where the compiler refuses the kernels, and has then said why."""
    built = Built.read(record)
    if built is None or not program.exists() or program.stat().st_mtime_ns != built.program:
        return None
    now = {str(path): path.read_text(encoding="utf-8") for path in files}
    changed = {path for path in now if now[path] != built.files.get(path)}
    others = {path for paths in built.included.values() for path in paths} - set(now)
    if not changed or now.keys() != built.files.keys() or any(is_newer(path, built.program) for path in others):
        return None
    if any(host_part(now[path]) != host_part(built.files[path]) for path in changed):
        return None
    emulator = subprocess.run([*ninja(record.parents[1]), "-n", EMULATOR], stdout=subprocess.PIPE, text=True, check=False)
    if "no work to do" not in emulator.stdout:
        return None
    affected = [source for source, paths in built.included.items() if changed & set(paths)]
    outputs = [record.with_name(f"{record.stem}.{number}.ptx") for number in range(len(affected))]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = list(pool.map(lambda source, output: compile_ptx(built.commands[source], output, record.parents[1]), affected, outputs))
    for each in done:
        sys.stderr.write(each.stdout)
        each.check_returncode()
    unknown = {name for output in outputs for name in UNRESOLVED.findall(output.read_text(encoding="utf-8"))}
    if unknown - set(OF_THE_DEVICE_LIBRARY):
        return None   # a handle that is dropped, say, which the build explains
    return ":".join(map(str, outputs))


def compile_ptx(command: list, output: pathlib.Path, build: pathlib.Path) -> subprocess.CompletedProcess:
    part = output.with_suffix(f".{os.getpid()}")   # another call may run with the output
    done = subprocess.run([*command, "-o", part], cwd=build, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", check=False)
    if done.returncode == 0:
        part.replace(output)
    part.unlink(missing_ok=True)
    return done


def is_newer(path: str, than: int) -> bool:
    try:
        return os.stat(path).st_mtime_ns > than
    except OSError:
        return True
