#!/usr/bin/env python3
"""Keeps the wrong answers, each as the change that makes a solution wrong: tests/chapters/NN_name/wrong/ANSWER.patch

usage: wrong_answers.py apply ANSWER FOLDER     writes the answer's files to FOLDER
       wrong_answers.py renew [ANSWER...]       rewrites patches that no longer apply, because their solution changed
       wrong_answers.py edit ANSWER             writes the answer's files to a folder, to be edited; also those of a new one
       wrong_answers.py record ANSWER           makes the patch from the edited files
       wrong_answers.py compile ...             for the build: see compile_answer()

ANSWER is the path of a patch, or NN/NAME. A patch says which mistake it is, what the report about it must contain, and
what it changes:

    The consumer never steps, and asks for the first stage again.

    expect: barrier misuse in kernel sum_rows<1>    a regular expression that the output must contain; at least one
    host: changed                                   only where the patch changes code of the host
    pending: REASON                                 only while a check is missing: the test may be skipped

    --- solutions/02_ring_of_stages/ring.cu         what is changed: a solution, or a header of the library in common/
    +++ ring.cu                                     where the wrong answer has it: the name by which it is included
    @@ sum_rows                                     the function, for the reader
     ...                                            lines as in any unified diff; they must be found exactly once

"""

import difflib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAPTERS = ROOT / "tests/chapters"
SCRIPT = "tests/chapters/wrong_answers.py"
ONLY_INCLUDES = re.compile(r'^#include ["<](stagecraft/[\w/.]+)[">]$', re.MULTILINE)
SOURCES = (".cu", ".cuh", ".hpp")
CONTEXT = 2  # lines around a change; more where it takes more to be unique
NEW_HEAD = ["SAY WHICH MISTAKE THIS IS.", "", "expect: WHAT THE REPORT MUST CONTAIN", ""]


class Misfit(Exception):
    """A patch that does not apply, or a file that is no patch."""


# ---- Patches --------------------------------------------------------------------------------------------------------

class Answer:
    """One patch: `head`, and for each file that it changes, by its path from the root, the new name and the hunks."""

    def __init__(self, path: pathlib.Path):
        self.path = path.resolve()
        self.chapter = self.path.parent.parent.name
        self.name = self.path.stem
        self.head: list[str] = NEW_HEAD
        self.files: dict[str, tuple[str, list[Hunk]]] = {}

    @property
    def short(self) -> str:
        return f"{self.chapter[:2]}/{self.name}"

    @property
    def shown(self) -> str:
        return self.path.relative_to(ROOT).as_posix() if ROOT in self.path.parents else str(self.path)

    def read(self) -> "Answer":
        lines = self.path.read_text(encoding="utf-8").splitlines()
        start = next((at for at, line in enumerate(lines) if line.startswith("--- ")), len(lines))
        self.head = lines[:start]
        hunks = None
        for number, line in enumerate(lines[start:], start + 1):
            if line.startswith("--- "):
                changed, hunks = line[4:].strip(), None
            elif line.startswith("+++ ") and hunks is None:
                hunks = []
                self.files[changed] = (line[4:].strip(), hunks)
            elif line.startswith("@@") and hunks is not None:
                hunks.append(Hunk(number))
            elif hunks and (line == "" or line[0] in " +-"):
                hunks[-1].add(line)
            else:
                raise Misfit(f"{self.shown}:{number}: this line is in no hunk; see {SCRIPT} for the form")
        if not any(hunks for _, hunks in self.files.values()):
            raise Misfit(f"{self.shown} changes nothing; see {SCRIPT} for the form")
        return self

    def values(self, key: str) -> list[str]:
        """What the lines `key: VALUE` of the head say."""
        return [line.removeprefix(f"{key}:").strip() for line in self.head if line.startswith(f"{key}:")]

    def apply(self, changed: str, text: str) -> str:
        """The wrong answer's text of the file `changed`, which has the given text."""
        lines = text.splitlines()
        _, hunks = self.files[changed]
        for count, hunk in enumerate(hunks, 1):
            old = hunk.old()
            places = [at for at in range(len(lines) - len(old) + 1) if lines[at:at + len(old)] == old]
            if len(places) != 1:
                found = f"are there {len(places)} times" if places else "are not there"
                raise Misfit("\n".join([
                    f"{self.shown}:{hunk.number}: hunk {count} of {len(hunks)} does not apply to {changed}, where these "
                    f"lines {found}:", *("    " + line for line in old),
                    f"The solution has changed. To take the change over into the patch:",
                    f"  python3 {SCRIPT} renew {self.short}"]))
            lines[places[0]:places[0] + len(old)] = hunk.new()
        return "\n".join(lines) + "\n"

    def record(self, texts: dict[str, tuple[str, str, str]]) -> None:
        """Makes the patch from what it changes: {path from the root: (new name, text, wrong answer's text)}."""
        lines = [*self.head]
        for changed, (name, text, wrong) in texts.items():
            lines += [f"--- {changed}", f"+++ {name}", *make_hunks(text.splitlines(), wrong.splitlines())]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("\n".join(lines) + "\n", encoding="utf-8")


class Hunk:
    def __init__(self, number: int):
        self.number = number  # of its first line in the patch
        self.lines: list[str] = []

    def add(self, line: str) -> None:
        self.lines.append(line or " ")  # editors remove the space of an empty line

    def old(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] in " -"]

    def new(self) -> list[str]:
        return [line[1:] for line in self.lines if line[0] in " +"]


def make_hunks(old: list[str], new: list[str]) -> list[str]:
    """The hunks from `old` to `new`, each with as much context as makes it unique."""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for context in range(CONTEXT, max(len(old), CONTEXT) + 1):
        hunks = [make_hunk(old, new, opcodes) for opcodes in matcher.get_grouped_opcodes(context)]
        if all(count_of([line[1:] for line in hunk[1:] if line[0] != "+"], old) == 1 for hunk in hunks):
            break
    return [line.rstrip() if line[0] == " " else line for hunk in hunks for line in hunk]


def make_hunk(old: list[str], new: list[str], opcodes: list[tuple]) -> list[str]:
    lines = []
    for kind, old_start, old_end, new_start, new_end in opcodes:
        if kind == "equal":
            lines += [" " + line for line in old[old_start:old_end]]
        else:
            lines += ["-" + line for line in old[old_start:old_end]] + ["+" + line for line in new[new_start:new_end]]
    while lines[0] == " ":
        lines.pop(0)
    while lines[-1] == " ":
        lines.pop()
    first_change = next(old_start for kind, old_start, *_ in opcodes if kind != "equal")
    return [f"@@ {function_of(old, first_change)}".rstrip(), *lines]


def count_of(part: list[str], lines: list[str]) -> int:
    return sum(lines[at:at + len(part)] == part for at in range(len(lines) - len(part) + 1))


def function_of(lines: list[str], at: int) -> str:
    """The function or class that has this line."""
    for number in reversed(range(min(at + 1, len(lines)))):
        if re.match(r"(?!template|using|namespace)[A-Za-z_]", lines[number]):
            begin = " ".join(line.strip() for line in lines[number:number + 3])
            if match := re.match(r"(?:class|struct) \w+", begin):
                return match[0]
            match = re.search(r"(\w+)\(", re.sub(r"__\w+__ *\([^()]*\)", "", begin))
            return match[1] if match else ""
    return ""


# ---- Files ----------------------------------------------------------------------------------------------------------

def find(argument: str) -> Answer:
    if match := re.fullmatch(r"(\d\d)/(\w+)", argument):
        folders = list(CHAPTERS.glob(f"{match[1]}_*"))
        if len(folders) == 1:
            return Answer(folders[0] / "wrong" / f"{match[2]}.patch")
    elif argument.endswith(".patch"):
        return Answer(pathlib.Path(argument))
    raise Misfit(f"'{argument}' is no wrong answer: give NN/NAME, or the path of a patch")


def all_answers() -> list[Answer]:
    return [Answer(path) for path in sorted(CHAPTERS.glob("*/wrong/*.patch"))]


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def solution_files(chapter: str) -> dict[str, str]:
    """What a wrong answer may change: {name by which it is included: path from the root}.

    A solution that only includes a header of the library has that header to change."""
    files = {}
    for path in sorted((ROOT / "solutions" / chapter).iterdir()):
        if path.suffix in SOURCES:
            files[path.name] = path.relative_to(ROOT).as_posix()
            headers = ONLY_INCLUDES.findall(path.read_text(encoding="utf-8")) if path.suffix == ".hpp" else []
            files.update({header: f"common/{header}" for header in headers if path.name in header})
    return files


def write_file(path: pathlib.Path, text: str) -> None:
    """Writes a file unless it is there; others may read it, or write the same, at this time."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(text)
    pathlib.Path(file.name).replace(path)


def write_answer(answer: Answer, folder: pathlib.Path) -> None:
    for changed, (name, _) in answer.files.items():
        write_file(folder / name, answer.apply(changed, read(changed)))


def remove_others(answer: Answer, folder: pathlib.Path) -> None:
    """Removes what the patch changed once, and would still be found there."""
    names = {folder / name for name, _ in answer.files.values()}
    for path in folder.rglob("*"):
        if path.suffix in SOURCES and path not in names:
            path.unlink(missing_ok=True)


# ---- Renewal --------------------------------------------------------------------------------------------------------

def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout if done.returncode == 0 else ""


def text_that_fits(answer: Answer, changed: str) -> str | None:
    """The newest text of the file in Git to which the patch applies."""
    commits = ["HEAD", *git("rev-list", "HEAD", "--", changed).split()]
    texts = (git("show", f"{commit}:{changed}") for commit in commits)
    return next((text for text in texts if fits(answer, changed, text)), None)


def fits(answer: Answer, changed: str, text: str) -> bool:
    try:
        answer.apply(changed, text)
    except Misfit:
        return False
    return True


def merge(new: str, old: str, wrong: str) -> tuple[str, bool]:
    """What `wrong` changes in `old`, changed in `new`; and whether that went without a conflict."""
    with tempfile.TemporaryDirectory() as folder:
        names = ["the solution now", "the solution before", "the wrong answer"]
        files = [pathlib.Path(folder) / name for name in names]
        for file, text in zip(files, [new, old, wrong]):
            file.write_text(text, encoding="utf-8")
        labels = [argument for name in names for argument in ("-L", name)]
        done = subprocess.run(["git", "merge-file", "-p", "--diff3", *labels, *files], stdout=subprocess.PIPE, text=True)
    return done.stdout, done.returncode == 0


def merge_words(new: str, old: str, wrong: str) -> tuple[str, bool]:
    """As merge(), word by word: two changes of one line go together when they change different words of it."""
    def split(text: str) -> str:
        return "\n".join(word.replace("\n", "\0") for word in re.findall(r"\w+|\n *| +|[^\w\s]", text)) + "\n"

    merged, clean = merge(split(new), split(old), split(wrong))
    return merged.replace("\n", "").replace("\0", "\n"), clean


def renew(answer: Answer) -> tuple[bool, str]:
    """Rewrites a patch that does not apply. Returns whether it applies now, and what was done, if anything."""
    if all(fits(answer, changed, read(changed)) for changed in answer.files):
        return True, ""
    texts, conflicts, notes = {}, [], []
    for changed, (name, _) in answer.files.items():
        now = read(changed)
        before = now if fits(answer, changed, now) else text_that_fits(answer, changed)
        if before is None:
            return False, f"{answer.short}: no version of {changed} in Git fits it; edit the patch by hand"
        wrong = answer.apply(changed, before)
        merged, clean = merge(now, before, wrong)
        if not clean:
            by_words, clean = merge_words(now, before, wrong)
            merged = by_words if clean else merged
        texts[changed] = (name, now, merged)
        if not clean:
            conflicts.append(name)
        elif merged == now:
            return False, f"{answer.short}: {changed} is itself as this answer makes it"
        elif gone := words(before) & words(merged) - words(now):
            notes.append(f"uses what {changed} no longer has: {', '.join(sorted(gone))}")
    if conflicts:
        folder = edit_folder(answer)
        for name, _, merged in texts.values():
            write_file(folder / name, merged)
        return False, (f"{answer.short}: the solution has changed where this answer changes it. Resolve the conflicts in\n"
                       + "".join(f"    {folder.relative_to(ROOT)}/{name}\n" for name in conflicts)
                       + f"  then: python3 {SCRIPT} record {answer.short}")
    answer.record(texts)
    return True, "; ".join([f"{answer.short}: renewed", *notes])


def words(text: str) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w+", re.sub(r"//.*", "", text)))


# ---- Editing --------------------------------------------------------------------------------------------------------

def edit_folder(answer: Answer) -> pathlib.Path:
    return ROOT / "build/edited_answers" / answer.chapter / answer.name


def edit(answer: Answer) -> str:
    """Writes all files that the answer may change; those that are left alone change nothing."""
    folder = edit_folder(answer)
    shutil.rmtree(folder, ignore_errors=True)
    for name, path in solution_files(answer.chapter).items():
        write_file(folder / name, read(path))
    if answer.path.exists():
        write_answer(answer.read(), folder)
    return f"edit the files in {folder.relative_to(ROOT)}, then: python3 {SCRIPT} record {answer.short}"


def record(answer: Answer) -> str:
    folder = edit_folder(answer)
    texts = {}
    for name, path in solution_files(answer.chapter).items():
        if (folder / name).exists():
            wrong = (folder / name).read_text(encoding="utf-8")
            if "<<<<<<< " in wrong:
                raise Misfit(f"{folder.relative_to(ROOT)}/{name} still has conflicts")
            if wrong != read(path):
                texts[path] = (name, read(path), wrong)
    if not texts:
        raise Misfit(f"{folder.relative_to(ROOT)} has nothing that differs from the solution; begin with: "
                     f"python3 {SCRIPT} edit {answer.short}")
    if answer.path.exists():
        answer.head = answer.read().head
    answer.record(texts)
    return f"recorded {answer.shown}"


# ---- The build ------------------------------------------------------------------------------------------------------

def compile_answer(patch: str, folder: str, source: str, solution_object: str, output: str, *command: str) -> int:
    """Compiles one source of a wrong answer, whose files are written to `folder`, by the given nvcc command.

    A wrong answer is wrong in its kernels, so only they are compiled: what the host does is the solution's, whose object
    gets the answer's kernels in place of its own. That takes half the time. Where a patch changes what the host does, it
    says `host: changed`, and everything is compiled. Without a solution's object ("-") the command is run as it is.
    The files that were read go to OUTPUT.d."""
    answer = find(patch).read()
    out, object_file = pathlib.Path(folder), pathlib.Path(output)
    write_answer(answer, out)
    remove_others(answer, out)
    names = [name for name, _ in answer.files.values()]
    own = pathlib.Path(source).name in names
    if not own and solution_object != "-" and all(name.endswith(".cu") for name in names):
        shutil.copyfile(solution_object, output)  # another source is wrong, and this one includes nothing that is
        pathlib.Path(output + ".d").write_text(f"{output}: {solution_object}\n", encoding="utf-8")
        return 0
    kernels = object_file.with_suffix(".fatbin")
    whole = answer.values("host") == ["changed"]
    target = ["-c", "-o", output] if whole else ["-fatbin", "-o", str(kernels)]
    dependencies = output + ".d"
    done = subprocess.run([
        *command, f"-I{out}", f"-I{ROOT / 'solutions' / answer.chapter}", f"-I{CHAPTERS / answer.chapter}",
        f"-I{ROOT / 'common'}", str(out / pathlib.Path(source).name) if own else source,
        *(["-o", output] if solution_object == "-" else [*target, "-MD", "-MF", dependencies, "-MT", output])])
    if done.returncode != 0 or solution_object == "-":
        return done.returncode
    # What was written to the folder depends on what the patch changes; Ninja knows of no other way to make it.
    files = pathlib.Path(dependencies).read_text(encoding="utf-8").partition(" : ")[2].replace("\\\n", " ").split()
    files = [file for file in files if not file.startswith(f"{out}/")] + [str(ROOT / changed) for changed in answer.files]
    pathlib.Path(dependencies).write_text(f"{output}: {' '.join(files)}\n", encoding="utf-8")
    if not whole:
        done = subprocess.run(["objcopy", f"--update-section=.nv_fatbin={kernels}", solution_object, output])
        kernels.unlink()
    return done.returncode


def main() -> int:
    command, *arguments = sys.argv[1:] or ["help"]
    if command == "compile":
        return compile_answer(*arguments)
    if command == "renew":
        results = [renew(answer.read()) for answer in (map(find, arguments) if arguments else all_answers())]
        print("\n".join(text for _, text in results if text))
        failed = sum(not applies for applies, _ in results)
        print(f"{len(results)} patches, {failed} of them do not apply")
        return 1 if failed else 0
    if command == "apply" and len(arguments) == 2:
        write_answer(find(arguments[0]).read(), pathlib.Path(arguments[1]))
    elif command in ("edit", "record") and len(arguments) == 1:
        print((edit if command == "edit" else record)(find(arguments[0])))
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Misfit as misfit:
        sys.exit(str(misfit))
