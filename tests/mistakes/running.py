"""Runs mistakes, and compares what is said with what is expected."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

from form import ROOT, Lines, Mistake, numbered, read_mistakes, shown

SECONDS = 30  # far above what any of them takes: a mistake that runs into this was not diagnosed
SKIPPED = 77


def find_fault(patterns: list[str], command: list[str]) -> tuple[str, str]:
    """What is wrong with how the answer was refused (empty: nothing), and the output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        return f"no verdict after {SECONDS} s", (late.stdout or b"").decode(errors="replace")
    if done.returncode == 0:
        return "the wrong answer was accepted (does it change code of the host, without `host: changed`?)", done.stdout
    missing = [pattern for pattern in patterns if not re.search(pattern, done.stdout)]
    if missing:
        return "refused, but the output does not contain\n  " + "\n  ".join(missing), done.stdout
    return "", done.stdout


def check_refusal(mistake: Mistake, command: list[str]) -> int:
    """Passes when the command, the test of a wrong answer or its compilation, fails soon and says what is expected."""
    fault, output = find_fault(mistake.values("expect") + mistake.values("refused"), command)
    print(textwrap.indent(output, "  "))  # so that its cases are not counted as this test's
    print(fault or "refused as it should be")
    if pending := mistake.value("pending"):
        print(f"pending: {pending}" if fault else f"the line 'pending:' of {mistake.name} in {shown(mistake.path)} can go")
        if fault:
            return SKIPPED
    return 1 if fault else 0


def wrong_lines(mistake: Mistake) -> Lines:
    """The lines of the program beside, with the mistake."""
    source = mistake.path.with_suffix(".cu")
    return mistake.apply(source.name, numbered(source.read_text(encoding="utf-8")))


# ---- The gallery ----------------------------------------------------------------------------------------------------

SCHEDULES = 20  # in which a right program must be silent
TIME_LIMIT = 60  # seconds; no mistake is expected to be named by it


def check_program(path: pathlib.Path, program: str, wanted: list[str]) -> int:
    """Passes when the right variant of a program of the gallery is silent, and each mistake gets its report."""
    failed = 0
    mistakes = read_mistakes(path)
    if not wanted or "right" in wanted:
        failed += not is_silent(program, {"STAGECRAFT_CHECKS": "race"}, "")
        failed += not is_silent(program, {"STAGECRAFT_CHECKS": "all"}, "")
        # Also in other schedules; those of a program that is wrong in few of them would show here.
        failed += not is_silent(program, {"STAGECRAFT_CHECKS": "race", "STAGECRAFT_EXPLORE": f"{SCHEDULES}"},
                                rf"stagecraft: explored {SCHEDULES} schedules.*: nothing found\n(  not varied: .*\n)?")
    for mistake in mistakes:
        if wanted and mistake.name not in wanted:
            continue
        done = run_variant(program, mistake.name, settings_of(mistake))
        problems = differences(mistake, done.stdout)
        if done.returncode < 0:
            problems.insert(0, f"the program crashed with signal {-done.returncode}")
        if problems:
            failed += 1
            print(f"{mistake.name}: {'; '.join(problems)}\n{done.stdout}")
    print(f"{path.stem}: {failed} of {len(wanted) or len(mistakes) + 1} variants failed")
    return 1 if failed else 0


def settings_of(mistake: Mistake) -> dict[str, str]:
    """The environment variables with which it is named."""
    settings = {"STAGECRAFT_CHECKS": mistake.value("checks", "race")}
    if mistake.values("explore"):
        settings["STAGECRAFT_EXPLORE"] = mistake.value("explore")
    return settings


def is_silent(program: str, settings: dict[str, str], expected: str) -> bool:
    """Whether the right variant has the right result, and nothing else is said than what this matches."""
    done = run_variant(program, "right", settings)
    if done.returncode == 0 and re.fullmatch(expected, done.stdout.replace("right result\n", "", 1)):
        return True
    print(f"the right variant is not silent and right with {settings}:\n{done.stdout}")
    return False


def run_variant(program: str, variant: str, settings: dict[str, str]) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("STAGECRAFT_") or key == "STAGECRAFT_DEVICE"}
    environment |= {"STAGECRAFT_FINDINGS": "report", **settings}
    return subprocess.run([program, variant], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment, timeout=TIME_LIMIT, check=False)


def kind_of(output: str) -> str:
    """The kind of the first report in an output."""
    for line in output.splitlines():
        if found := re.match(r"stagecraft: ([a-z0-9 ]+) in kernel ", line):
            return found[1]
        if re.match(r"stagecraft: cu\w+: ", line):
            return "refused call"
    return "none"


def differences(mistake: Mistake, output: str) -> list[str]:
    """How the reports differ from what is expected."""
    problems = []
    if (kind := kind_of(output)) != mistake.value("kind"):
        problems.append(f"the first report is \"{kind}\", not \"{mistake.value('kind')}\"")
    elif not (ROOT / "docs/reports" / f"{kind.replace(' ', '-')}.md").exists():
        problems.append(f"no page of docs/reports explains \"{kind}\"")
    if mistake.value("says") not in output:
        problems.append(f"nothing says \"{mistake.value('says')}\"")
    line = mistake.value("line")
    if line == "none":  # the report is about no line
        return problems
    source = mistake.path.with_suffix(".cu")
    expected = {number for number, text in wrong_lines(mistake) if line in text}
    named = {int(number) for number in re.findall(rf"\b{source.name}:(\d+)", output)}
    if not expected:
        problems.append(f"the program has no line with: {line}")
    elif not expected & named:
        problems.append(f"no report names line {' or '.join(map(str, sorted(expected)))}: {line}")
    return problems


# ---- Programs that the compiler refuses -----------------------------------------------------------------------------

COMPILE = ROOT / "common/tools/compile_cuda.py"
MARK = re.compile(r"// refused: (.*)$")
ERROR = re.compile(r"^\S+\(\d+\): error: ", re.MULTILINE)


def compile_text(text: str, name: str, arguments: list[str]) -> tuple[bool, str]:
    """Whether the build accepts a source, and what it prints.

    @param arguments  the compiler, the architecture, what to make of the source (-ptx, or -cubin to hear ptxas, too), options"""
    nvcc, architecture, *more = arguments
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / name
        source.write_text(text, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, COMPILE, f"{folder}/report", nvcc, "-std=c++20", "-DCCCL_DISABLE_FP16_SUPPORT", "-I", ROOT / "common",
             f"-arch=sm_{architecture}", *more, source, "-o", f"{folder}/output"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode == 0, done.stdout


def check_right(source: pathlib.Path, arguments: list[str]) -> int:
    """Passes when a program is accepted without a warning."""
    accepted, output = compile_text(source.read_text(encoding="utf-8"), source.name, [*arguments, "--Werror", "all-warnings"])
    print(output + ("accepted" if accepted else f"{source} makes no mistake, and yet it is refused"))
    return 0 if accepted else 1


def check_refused(mistake: Mistake, arguments: list[str]) -> int:
    """Passes when the program beside is refused with the mistake, in the words that are expected, and at the line."""
    name = mistake.path.with_suffix(".cu").name
    wrong = [text for _, text in wrong_lines(mistake)]
    nvcc, architecture, *more = arguments
    architecture = mistake.value("architecture", architecture)
    accepted, output = compile_text("\n".join(wrong) + "\n", name, [nvcc, architecture, *more, "--Werror", "all-warnings"])
    print(output)
    problems = ["the program with the mistake compiles"] if accepted else []
    problems += [f"the build does not say `{words}`" for words in mistake.values("refused")
                 if not re.search(words, " ".join(output.split()))]
    if line := mistake.value("line"):
        found = [number for number, text in enumerate(wrong, 1) if line in text]
        if len(found) != 1:
            problems.append(f"{len(found)} lines of the wrong program have the text `{line}`")
        elif not re.search(rf"{re.escape(name)}(\({found[0]}\)|:{found[0]}):? |line {found[0]}( of \S*{re.escape(name)})?\b", output):
            problems.append(f"the build does not name line {found[0]}: {line}")
    print("\n".join(problems) or "refused with the right words")
    return 1 if problems else 0


def check_marked(source: pathlib.Path, arguments: list[str]) -> int:
    """Passes when each line of a source that ends in `// refused: WORDS` is refused with these words, and no other line."""
    lines = source.read_text(encoding="utf-8").splitlines()
    expected = {number: match[1] for number, line in enumerate(lines, 1) if (match := MARK.search(line))}
    problems = []
    _, output = compile_text("\n".join(lines), source.name, [*arguments, "-Xcudafe", "--error_limit=1000"])
    found: dict[int, list[str]] = {number: [] for number in expected}
    starts = [match.start() for match in ERROR.finditer(output)] + [len(output)]
    for start, end in zip(starts, starts[1:]):
        error = output[start:end]
        named = re.findall(rf"{re.escape(source.name)}\((\d+)\)|at line (\d+) of \S*{re.escape(source.name)}|"
                           rf"at line (\d+)$", error, re.MULTILINE)
        culprits = {int(number) for numbers in named for number in numbers if number} & expected.keys()
        if not culprits:
            problems.append(f"an error that no marked line makes:\n{error}")
        for number in culprits:
            found[number].append(" ".join(error.split()))
    for number, words in expected.items():
        if not any(words in error for error in found[number]):
            said = "\n".join(found[number]) or "it compiles"
            problems.append(f"{source.name}:{number}: expected `{words}`, but:\n{said}")
    accepted, output = compile_text("\n".join("" if MARK.search(line) else line for line in lines), source.name, arguments)
    if not accepted:
        problems.append(f"without the marked lines it does not compile either:\n{output}")
    print("\n".join(problems) or f"all {len(expected)} mistakes are refused with the right words")
    return 1 if problems or not expected else 0
