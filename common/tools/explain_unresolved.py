"""Finds the source lines behind ptxas' "Unresolved extern function", and says what they do wrong.

A linear handle's destructor calls a function that is defined nowhere unless the handle was released
(common/stagecraft/linear_handle.hpp), and cuda::ptx does the same for an instruction that the architecture lacks. ptxas
names the function alone, so the program is compiled to PTX once more, whose .loc lines lead to the call.
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile

UNRESOLVED = re.compile(r"Unresolved extern function '(\w+)'")
HANDLE_MESSAGE = re.compile(r"(\w+)_is_(dropped_without|used_after)_release$")
UNSUPPORTED = re.compile(r"__cuda_ptx_(\w+?)_is_(?:not_supported_before|only_supported_on)_(\w+?)_*$")
FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]*)"')
LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)"
                 r"(?:,\s*function_name\s+([$\w]+)(?:\s*\+\s*\d+)?,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?")
FIRST_ARGUMENT = re.compile(r"\s*st\.param\.b32\s+\[param0(?:\+0)?\],\s*(\d+);")
STRING = re.compile(r"\s*(\$L__info_string\d+):")
BYTE = re.compile(r"\s*\.b8\s+(\d+)")
ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "common/stagecraft"

Position = tuple[int, int, int]  # file, line, column


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of an undefined function, as far as the program's own lines lead to it."""
    file: str
    line: int
    acquired_at: int | None  # the line that the call passes as its argument, when that is a constant


class Program:
    """A program's PTX, read for its source lines."""

    def __init__(self, ptx: str):
        self.lines = ptx.splitlines()
        self.files = {int(m[1]): m[2] for line in self.lines if (m := FILE.match(line))}
        self.function_names = self.read_function_names()

    def read_function_names(self) -> dict[str, str]:
        """The mangled names that .loc lines refer to by label; the PTX spells them byte by byte."""
        names: dict[str, bytearray] = {}
        current = None
        for line in self.lines:
            if label := STRING.match(line):
                current = names.setdefault(label[1], bytearray())
            elif current is not None and (byte := BYTE.match(line)):
                if int(byte[1]) == 0:
                    current = None
                else:
                    current.append(int(byte[1]))
        return {label: name.decode("ascii", "replace") for label, name in names.items()}

    def calls(self, function: str) -> list[Call]:
        """Where the function is called, each place once, in the order of the PTX."""
        handle = match[1] if (match := HANDLE_MESSAGE.match(function)) else ""
        found: dict[Call, None] = {}
        callers: dict[Position, tuple[str, Position]] = {}  # inlined position -> function it belongs to, its call
        here: Position = (0, 0, 0)
        argument = None
        for number, line in enumerate(self.lines):
            if location := LOC.match(line):
                here = (int(location[1]), int(location[2]), int(location[3]))
                callers.pop(here, None)
                if location[4]:
                    callers[here] = (location[4], (int(location[5]), int(location[6]), int(location[7])))
            elif "// callseq" in line:
                argument = None
            elif stored := FIRST_ARGUMENT.match(line):
                argument = int(stored[1])
            elif re.match(r"\s*(@\S+\s+)?call(\.uni)?\s", line) and self.callee(number) == function:
                position = self.leave_library(here, callers, handle)
                found[Call(self.files.get(position[0], "?"), position[1], argument)] = None
        return list(found)

    def callee(self, number: int) -> str:
        """The function that the call which starts on this line names: PTX puts it on the same line or on the next."""
        text = " ".join(self.lines[number:number + 3]).split("call", 1)[1]
        text = re.sub(r"^\S*\s*(\([^)]*\)\s*,)?", "", text)
        return text.split(",")[0].split(";")[0].strip()

    def leave_library(self, position: Position, callers: dict, handle: str) -> Position:
        """Follows inlined calls outwards, to the first line that belongs neither to the library nor to the handle."""
        seen = set()
        while position in callers and position not in seen:
            seen.add(position)
            label, outer = callers[position]
            if not self.is_inner(position[0]) and not is_member(self.function_names.get(label, ""), handle):
                break
            position = outer
        return position

    def is_inner(self, file: int) -> bool:
        """Whether the file is the library's or the toolkit's."""
        path = pathlib.Path(os.path.realpath(self.files.get(file, "")))
        return LIBRARY in path.parents or "/cccl/" in str(path) or "/targets/" in str(path)

    def file_of_line(self, line: int, preferred: str) -> str | None:
        """The program's file that has code on this line; None when that is not certain."""
        numbers = {int(f) for text in self.lines if (m := LOC.match(text))
                   for f, at in ((m[1], m[2]), (m[5], m[6])) if f and int(at) == line}
        files = {self.files.get(number, "?") for number in numbers if not self.is_inner(number)}
        return preferred if preferred in files else files.pop() if len(files) == 1 else None


def is_member(mangled: str, handle: str) -> bool:
    """Whether a mangled name is that of a member of the class `handle`, or of one inside it."""
    rest = re.sub(r"^_ZN[rVK]*[RO]?", "", mangled)
    while handle and rest != mangled and (length := re.match(r"\d+", rest)):
        end = length.end() + int(length[0])
        if rest[length.end():end] == handle:
            return True
        rest = rest[end:]
    return False


def ptx_commands(command: list[str], output: str) -> list[list[str]]:
    """The commands that compile the same source to PTX, one for each architecture that `command` names."""
    kept, architectures = [], []
    arguments = iter(command)
    for argument in arguments:
        name, _, value = argument.partition("=")
        if argument in ("-o", "-MF", "-MT", "-Xptxas", "--Werror"):
            next(arguments, None)
        elif name in ("-gencode", "--generate-code", "-arch", "--gpu-architecture", "-code"):
            value = value or next(arguments, "")
            architectures += re.findall(r"(?:compute|sm)_(\w+)", value)[:1] if name != "-code" else []
        elif argument not in ("-c", "-MD", "-MMD", "-dc", "-lineinfo"):
            kept.append(argument)
    return [[*kept, "-w", "-lineinfo", f"-arch=compute_{architecture}", "-ptx", "-o", output]
            for architecture in dict.fromkeys(architectures or ["100a"])]


def shown(file: str) -> str:
    """The path as messages give it: from the project's root, where the file is inside."""
    path = pathlib.Path(os.path.realpath(file))
    return str(path.relative_to(ROOT)) if ROOT in path.parents else file


def lesson(function: str, call: Call, program: Program) -> str:
    """What is wrong at this call, in words."""
    where = f"{shown(call.file)}:{call.line}"
    if message := HANDLE_MESSAGE.match(function):
        handle = message[1]
        acquired = ""
        if call.acquired_at is not None:
            file = program.file_of_line(call.acquired_at, call.file)
            acquired = f" (acquired at {shown(file)}:{call.acquired_at})" if file else f" (acquired on line {call.acquired_at})"
        if message[2] == "dropped_without":
            return (f"{where}: error: this {handle}{acquired} is dropped without release() on some path.\n"
                    f"  On the path through this line the handle goes out of scope, or is overwritten, while it still owes its "
                    f"release. At run\n  time the other role would wait for this stage forever. Write "
                    f"std::move(stage).release() on this path too.\n"
                    f"  If every path releases: a handle cannot be followed through a function that is not inlined; "
                    f"make it __forceinline__.\n")
        return (f"{where}: error: this {handle}{acquired} is used after release(), or after it was moved from, on some "
                f"path.\n  The stage belongs to the other role by then, so that there is nothing left to name, signal or "
                f"release. Do this before the\n  release, or through the handle that it was moved to; a second stage "
                f"needs a second acquire.\n")
    if instruction := UNSUPPORTED.match(function):
        return (f"{where}: error: {instruction[1]} does not exist for this architecture; it needs "
                f"{instruction[2].replace('_SM', ', SM').replace('SM_', 'sm_')}.\n"
                f"  Leave it out there (#if __CUDA_ARCH__ ...), or build this program for that architecture only.\n")
    return f"{where}: error: {function} is called here and defined nowhere.\n"


def explain(command: list[str], compiler_output: str) -> str:
    """The lessons for an nvcc command that stopped with an unresolved function; empty when nothing is known."""
    functions = dict.fromkeys(UNRESOLVED.findall(compiler_output))
    lessons: dict[str, None] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program.ptx"
        for again in ptx_commands(command, str(path)) if functions else []:
            if subprocess.run(again, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
                continue
            program = Program(path.read_text(encoding="utf-8", errors="replace"))
            for function in functions:
                for call in program.calls(function):
                    lessons[lesson(function, call, program)] = None
            if lessons:
                break
    return "".join(lessons)
