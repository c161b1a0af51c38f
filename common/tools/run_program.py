#!/usr/bin/env python3
"""Runs a program on the emulated GPU, for ./stagecraft run: called as run_program.py BUILD COMMAND [OPTIONS] PROGRAM [ARGUMENTS].

The options are those of settings.py. The process becomes the program's, unless there is a SARIF file to write at its end.
"""

import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import guarded  # noqa: E402, before all others: from here on Ctrl-C leaves no trace

import errno
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess

import build_folder
import settings

ROOT = pathlib.Path(__file__).resolve().parents[2]
HELP_WIDTH, HELP_INDENT = 120, 25
# How to build a program for the emulated GPU; what the runtime advises about -gencode is the same (fatbin/selection.cpp).
BUILD_EXAMPLE = 'nvcc -cudart shared -gencode "arch=compute_100a,code=[sm_100a,compute_100a]"'
EPILOGUE = f"""
PROGRAM was built by CUDA 13 with
  {BUILD_EXAMPLE} ...
(compute_90a for h200, 120a for rtx5090, 121a for spark), or is an interpreter such as python3, whose libraries use the CUDA runtime or the driver; Triton
finds a ptxas that keeps the PTX (TRITON_PTXAS_PATH). docs/bring_your_own_kernel.md has examples. With -rdc=true and
without machine code (sm_100a), nvlink fails: "specified arch exceeds buffer length". An option overrides the environment
variable STAGECRAFT_... of the same name. docs/emulator.md says more about each."""


def fail(text: str, status: int = 2) -> None:
    guarded.say(text)
    sys.exit(status)


# ---- Options --------------------------------------------------------------------------------------------------------

def usage(table: list) -> str:
    import textwrap   # only here: it would delay each run
    lines = ["usage: ./stagecraft run [OPTIONS] PROGRAM [ARGUMENTS]", ""]
    for setting in table:
        text = f"{setting.help}; default: {setting.run_default or setting.default or setting.without}"
        if setting.alone:
            text += f"; without a value: {setting.alone}"
        indent = " " * HELP_INDENT
        described = textwrap.fill(text, HELP_WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False,
                                  break_on_hyphens=False)
        option = f"  {setting.syntax()}"
        lines += [f"{option:<{HELP_INDENT}}{described.lstrip()}"] if len(option) < HELP_INDENT else [option, described]
    return "\n".join([*lines, EPILOGUE])


def read_options(command: str, arguments: list, table: list) -> tuple:
    """Takes the options from the front of `arguments`, and returns the variables that they set, and the rest."""
    known = {f"--{setting.name}": setting for setting in table}
    variables, rest = {}, list(arguments)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        if word in ("--help", "-h"):
            print(usage(table))
            sys.exit(0)
        option, has_value, value = word.partition("=")
        setting = known.get(option)
        if setting is None:
            import difflib
            similar = difflib.get_close_matches(option, known, 1, cutoff=0.7)
            fail(f"{command} has no option {option}" + (f"; did you mean {similar[0]}?" if similar else ";") +
                 " ./stagecraft run --help lists those it has")
        if not has_value:
            if not setting.alone and not rest:
                fail(f"{command} {option} needs a value: {setting.syntax()}; ./stagecraft run --help says which are legal")
            value = setting.alone or rest.pop(0)
        if not value:   # as of a variable of the shell that is not set
            fail(f"{option} is empty; ./stagecraft run --help says which values are legal")
        if setting.joined_by and setting.variable in variables:
            value = variables[setting.variable] + setting.joined_by + value
        variables[setting.variable] = value
    return variables, rest


def check_settings(variables: dict, table: list) -> None:
    """Fails where an option has no legal value, or a variable of the environment that counts."""
    for setting in table:
        option = f"--{setting.name}" if setting.variable in variables else setting.variable
        value = variables.get(setting.variable, os.environ.get(setting.variable))
        if value and (problem := setting.problem(value, run=True)):
            fail(f"{option} {problem}")


# ---- The program ----------------------------------------------------------------------------------------------------

def needed_libraries(program: str) -> list:
    """The libraries that a program asks the loader for."""
    if shutil.which("readelf"):
        shown = subprocess.run(["readelf", "--dynamic", "--wide", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        return re.findall(r"\(NEEDED\).*\[(.*)\]", shown.stdout.decode(errors="replace"))
    # The names of libraries are in the file as text, too.
    return [name.decode() for name in re.findall(rb"lib[a-z]+\.so\.[0-9.]+", pathlib.Path(program).read_bytes())]


def check_program(program: str) -> None:
    """Fails with advice when the program cannot run on the emulated GPU.

    What shows no trace of CUDA may be an interpreter or a launcher, which loads it later, and runs.
    """
    is_file, is_executable = os.path.isfile(program), os.access(program, os.X_OK)
    if program.endswith(".py") and is_file and not is_executable:
        fail(f"{program} is not executable: name its interpreter as well, ./stagecraft run python3 {program}")
    if not is_file or not is_executable:
        fail(f"{program or 'an empty name'} is not an executable file")
    if not os.access(program, os.R_OK):
        return
    with open(program, "rb") as file:
        if file.read(4) != b"\x7fELF":   # a script, say in Python, may load libraries that do
            return
    needed = needed_libraries(program)
    if any(name.startswith("libcudart.so.13") for name in needed):
        return   # the first use of a kernel reports whether the program holds PTX, and what it holds instead
    other = next((name for name in needed if name.startswith("libcudart.so")), None)
    if other:
        fail(f"{program} loads {other}, and the emulated GPU is a libcudart.so.13: build it with CUDA 13:\n  {BUILD_EXAMPLE} ...")
    if any(name.startswith("libcuda.so.1") for name in needed):
        return
    content = pathlib.Path(program).read_bytes()
    sections, size, count = struct.unpack_from("<Q10xHH", content.ljust(64, b"\0"), 40)   # of the header of a 64-bit ELF file
    if sections + size * count > len(content):
        fail(f"{program} is not complete: it has {len(content)} bytes, and its header says at least {sections + size * count}")
    if any(name in content for name in (b"cudaGetDeviceCount", b"__cudaRegisterFatBinary", b"cudart")):
        fail(f"{program} does not load libcudart.so.13: it was linked with the static runtime (nvcc's default), which the "
             "emulated GPU cannot stand in for. Link it again with -cudart shared; with CMake, "
             "-DCMAKE_CUDA_RUNTIME_LIBRARY=Shared does that, unless the project itself names CUDA::cudart_static: write "
             f"CUDA::cudart there:\n  {BUILD_EXAMPLE} ...")


def prepare(build: str, target: str) -> tuple:
    """Brings the emulated GPU up to date, and the target where the build has it: the folder of the toolkit, and the libraries.
    The build folder stays locked until the program begins."""
    received: list[int] = []
    running: list[subprocess.Popen] = []

    def end(number, _):
        received.append(number)
        for each in running:
            each.terminate()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
              if signal.getsignal(number) is not signal.SIG_IGN}
    # A session of its own: Ctrl-C is for this process, which asks the other to end, and waits for that.
    with subprocess.Popen([str(ROOT / "stagecraft"), "prepare-run", target], stdout=subprocess.PIPE, text=True,
                          start_new_session=True, pass_fds=build_folder.open_lock(build)) as preparing:
        running.append(preparing)
        if received:
            preparing.terminate()
        said = preparing.communicate()[0]
    for number, handler in before.items():
        signal.signal(number, handler)
    if received:
        signal.raise_signal(received[0])
    if preparing.returncode != 0:
        sys.exit(preparing.returncode)
    toolkit, *libraries = said.splitlines()
    return toolkit, libraries


# ---- The run --------------------------------------------------------------------------------------------------------

def preloadable(folder: str) -> str:
    """A name of the folder that LD_PRELOAD and LD_LIBRARY_PATH can have: spaces and colons separate names there, and $ begins
    what the loader knows."""
    separates = re.compile(r"[\s:;$]").search
    if not separates(folder):
        return folder
    import hashlib   # only here: it would delay each run
    name = f"stagecraft-{os.getuid()}-{hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]}"
    for place in filter(None, (os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), "/tmp", "/var/tmp")):
        link = f"{place}/{name}"
        try:
            if not separates(link) and not os.path.lexists(link):
                os.symlink(folder, link)
            if not separates(link) and os.readlink(link) == folder and os.lstat(link).st_uid == os.getuid():
                return link
        except OSError:   # another place, then
            pass
    return fail(f"the loader cannot find what is in {folder}, because of a space or another sign in that path, and no link to it "
                "could be made in /tmp", 1)


def environment_of(build: str, variables: dict, table: list, toolkit: str, libraries: list) -> dict:
    environment = {**os.environ, **variables}
    for setting in table:
        if setting.run_default and not environment.get(setting.variable):
            environment[setting.variable] = setting.run_default

    # The path finds libraries that a program asks for as libcublas.so. An old-style RPATH in a program or in one of its
    # libraries overrides the path; libraries that are loaded already override both.
    build = preloadable(build)
    for name, first in {"LD_LIBRARY_PATH": [f"{build}/common/emulator"],
                        "LD_PRELOAD": [f"{build}/{library}" for library in libraries]}.items():
        environment[name] = ":".join([*first, *filter(None, [environment.get(name)])])
    # Triton compiles while the program runs, and calls the ptxas that these variables name.
    ptxas = str(ROOT / "common/tools/ptxas_keeping_ptx")
    for name, value in {"TRITON_PTXAS_PATH": ptxas, "TRITON_PTXAS_BLACKWELL_PATH": ptxas, "STAGECRAFT_TOOLKIT": toolkit}.items():
        environment[name] = environment.get(name) or value
    return environment


def become(command: list, environment: dict) -> None:
    """Replaces this process by the program."""
    try:
        os.execve(command[0], command, environment)
    except OSError as error:
        if error.errno == errno.ENOEXEC:   # a script without #!
            os.execvpe("sh", ["sh", *command], environment)
        fail(f"{command[0]} cannot be run: {error.strerror}", 126)


def run_and_write_sarif(command: list, environment: dict) -> int:
    """Returns the program's exit status. One object is made of the lines of JSON when the program has ended, however it ended."""
    import tempfile

    sarif = environment.get("STAGECRAFT_REPORT_FILE")
    handle, lines = tempfile.mkstemp()
    os.close(handle)
    process = os.fork()
    if process == 0:
        become(command, {**environment, "STAGECRAFT_REPORT": "json", "STAGECRAFT_REPORT_FILE": lines})
    os.closerange(build_folder.LOCK, build_folder.LOCK + 1)   # the other has it, until it has begun

    def hand_on(number, _):
        """The program ends with a report, which belongs into the file. Ctrl-C reaches it, too, and a second signal would be
        one too many: it gets this one if it is still there in half a second."""
        signal.signal(signal.SIGALRM, lambda *_: os.kill(process, number))
        signal.setitimer(signal.ITIMER_REAL, 0.5)

    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, hand_on)
        _, ended = os.waitpid(process, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        status = os.WEXITSTATUS(ended) if os.WIFEXITED(ended) else 128 + os.WTERMSIG(ended)
        # Without a file, to stderr.
        written = subprocess.run([sys.executable, str(ROOT / "common/tools/write_sarif.py"), lines, *filter(None, [sarif])],
                                 stdout=sys.stderr, check=False)
        return status if written.returncode == 0 else 1
    finally:
        os.unlink(lines)


def main() -> None:
    build, name, *arguments = sys.argv[1:]
    table = [setting for setting in settings.settings() if setting.is_option]
    variables, rest = read_options(name, arguments, table)
    if not rest:
        fail(f"{name} needs a program: ./stagecraft {name} [OPTIONS] PROGRAM [ARGUMENTS]")
    check_settings(variables, settings.settings())
    program, *arguments = rest
    if "/" not in program and not os.path.exists(program):
        program = shutil.which(program) or program
    inside = os.path.relpath(os.path.realpath(program), os.path.realpath(build))
    is_built = not f"{inside}/".startswith("../")   # a program of this tree is brought up to date first
    if not is_built:
        check_program(program)
    toolkit, libraries = prepare(build, inside if is_built else "")
    if is_built:
        check_program(program)
    # The program keeps its name: a virtual environment is a symbolic link, and Python looks for it where the link is.
    command = [os.path.abspath(program), *arguments]
    environment = environment_of(build, variables, table, toolkit, libraries)
    if environment.get("STAGECRAFT_REPORT") == "sarif":
        sys.exit(run_and_write_sarif(command, environment))
    become(command, environment)


if __name__ == "__main__":
    guarded.run(main)
