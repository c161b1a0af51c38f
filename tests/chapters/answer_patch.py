"""The patch of a wrong answer: the change that makes a solution wrong, in tests/chapters/NN_name/wrong/ANSWER.patch

A patch says which mistake it is, what the report about it must contain, and what it changes:

    The consumer never steps, and asks for the first stage again.

    expect: barrier misuse in kernel sum_rows<1>    a regular expression that the output must contain; at least one
    host: changed                                   only where the patch changes code of the host
    skips: TODO 3                                   only where skipped_todos.py cannot leave out this TODO itself
    pending: REASON                                 only while a check is missing: the test may be skipped

    --- solutions/02_ring_of_stages/ring.cu         what is changed: a solution, or a header of the library in common/
    +++ ring.cu                                     where the wrong answer has it: the name by which it is included
    @@ sum_rows                                     the function, for the reader only
     ...                                            lines as in any unified diff; they must be found exactly once
"""

import difflib
import pathlib
import re
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAPTERS = ROOT / "tests/chapters"
TOOL = "tests/chapters/wrong_answers.py"
FORM = "tests/chapters/answer_patch.py explains the form"
SOURCES = (".cu", ".cuh", ".hpp")
CONTEXT = 2  # lines around a change; more where it takes more to be unique
NEW_HEAD = ["SAY WHICH MISTAKE THIS IS.", "", "expect: WHAT THE REPORT MUST CONTAIN", ""]


class Misfit(Exception):
    """A patch that does not apply, or a file that is no patch."""


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
                raise Misfit(f"{self.shown}:{number}: this line is in no hunk; {FORM}")
        if not any(hunks for _, hunks in self.files.values()):
            raise Misfit(f"{self.shown} changes nothing; {FORM}")
        return self

    def values(self, key: str) -> list[str]:
        """What the lines `key: VALUE` of the head say."""
        return [line.removeprefix(f"{key}:").strip() for line in self.head if line.startswith(f"{key}:")]

    def apply(self, changed: str, text: str) -> str:
        """The wrong answer's text of the file `changed`, which has the given text."""
        lines = text.splitlines()
        _, hunks = self.files[changed]
        starts = []
        for count, hunk in enumerate(hunks, 1):
            starts += (found := places(hunk.old(), lines))
            if len(found) != 1:
                raise Misfit("\n".join([
                    f"{self.shown}:{hunk.number}: hunk {count} of {len(hunks)} does not apply to {changed}, where these lines "
                    f"are {f'{len(found)} times' if found else 'not'}:", *("    " + line for line in hunk.old()),
                    "If the solution has changed, take the change of the wrong answer over to it with",
                    f"  python3 {TOOL} renew {self.short}"]))
        ends = [start + len(hunk.old()) for start, hunk in zip(starts, hunks)]
        if any(end > start for end, start in zip(ends, starts[1:])):
            raise Misfit(f"{self.shown}: the hunks of {changed} overlap, or are out of order")
        for start, end, hunk in reversed(list(zip(starts, ends, hunks))):
            lines[start:end] = hunk.new()
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
    for context in range(CONTEXT, max(len(old), CONTEXT) + 1):
        matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)  # a new one: it shortens what it has found
        hunks = [make_hunk(old, new, opcodes) for opcodes in matcher.get_grouped_opcodes(context)]
        if all(len(places([line[1:] for line in hunk[1:] if line[0] != "+"], old)) == 1 for hunk in hunks):
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


def places(part: list[str], lines: list[str]) -> list[int]:
    """Where the part is among the lines."""
    return [at for at in range(len(lines) - len(part) + 1) if lines[at:at + len(part)] == part]


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

def read(path: str) -> str:
    """The text of a file, given by its path from the root."""
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise Misfit(f"there is no file {path}: if it was renamed, rename it in the patches of wrong answers too") from None


def write_file(path: pathlib.Path, text: str) -> None:
    """Writes a file unless it is there; others may read it, or write the same, at this time."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(text)
    pathlib.Path(file.name).replace(path)


def write_answer(answer: Answer, folder: pathlib.Path) -> None:
    """Writes what the patch changes, and nothing else, to the folder."""
    for changed, (name, _) in answer.files.items():
        write_file(folder / name, answer.apply(changed, read(changed)))
    # What the patch changed once would still be found there.
    names = {folder / name for name, _ in answer.files.values()}
    for path in folder.rglob("*"):
        if path.suffix in SOURCES and path not in names:
            path.unlink(missing_ok=True)
