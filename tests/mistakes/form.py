"""Reads .mistakes files, whose form README.md describes: right programs, changes that make them wrong, what must be said."""

import dataclasses
import difflib
import pathlib
import re
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
TOOL = "tests/mistakes/mistakes.py"
FORM = "tests/mistakes/README.md explains the form"
SOURCES = (".cu", ".cuh", ".hpp")
SEVERAL = ("expect", "refused")  # keys that may stand several times in a mistake
OF_THE_GALLERY = ("kind", "line", "says", "fix")  # which belong together
KEYS = (*SEVERAL, *OF_THE_GALLERY, "class", "issue", "checks", "explore", "chip", "recorded", "exhaust", "numbers", "host", "kernels",
        "skips", "architecture", "pending")
NEW = ["SAY WHICH MISTAKE THIS IS.", "expect: WHAT THE REPORT MUST CONTAIN"]
MOST_CONTEXT = 6  # lines before and after a change that make it unique, if the function does not

Lines = list[tuple[int, str]]  # with their numbers in the file


class Misfit(Exception):
    """A change that does not apply, or a file of another form."""


@dataclasses.dataclass
class Change:
    """Lines of one file that go, come, or stay to show the place."""

    number: int  # of its first line in the .mistakes file
    file: str    # the name by which the file is included
    inside: str  # the function or class in which it begins; empty: it may be anywhere
    lines: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # with their marks: ' ', '-', '+'

    def old(self) -> list[str]:
        return [text for mark, text in self.lines if mark != "+"]

    def start(self, lines: list[str], owners: list[str]) -> list[int]:
        """Where the change can begin among the lines, which are in the functions `owners`."""
        places = places_of([text.strip() for text in self.old()], lines)
        return [at for at in places if not self.inside or owners[at] == self.inside]

    def new(self, old: Lines) -> Lines:
        """What takes the place of these lines. A new line has the number of the one that it stands for, or else of the line
        above it, and is indented as much more than the old ones as it is here."""
        shift = next((indentation(there) - indentation(here) for here, (_, there) in zip(self.old(), old) if here.strip()), 0)
        left, free, last, new = list(old), [], old[0][0], []
        for mark, text in self.lines:
            if mark == "-":
                free.append(left.pop(0)[0])
            elif mark == " ":
                last = left[0][0]
                new.append(left.pop(0))
            else:
                last = free.pop(0) if free else last
                new.append((last, " " * max(0, indentation(text) + shift) + text.strip() if text.strip() else ""))
        return new


@dataclasses.dataclass
class Mistake:
    """One section of a .mistakes file."""

    path: pathlib.Path
    name: str
    section: list[str] = dataclasses.field(default_factory=list)  # its lines in the file, without that of the name
    what: str = ""
    changes: list[Change] = dataclasses.field(default_factory=list)
    facts: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def short(self) -> str:
        return f"{self.path.stem}/{self.name}"

    @property
    def chapter(self) -> str:
        """The folder of the chapter that it belongs to; empty for another program."""
        return self.path.parent.name if self.path.parent.parent == TESTS / "chapters" else ""

    def values(self, key: str) -> list[str]:
        return self.facts.get(key, [])

    def value(self, key: str, otherwise: str = "") -> str:
        return self.facts[key][0] if key in self.facts else otherwise

    def difference(self) -> str:
        """What it changes, for people."""
        return "\n".join(f"{mark} {text}".rstrip() for change in self.changes for mark, text in change.lines)

    def files(self) -> dict[str, str]:
        """The files that it changes: {name by which it is included: path from the root}."""
        return {change.file: path_of(self.path, change.file) for change in self.changes}

    def apply(self, name: str, right: Lines) -> Lines:
        """The wrong lines of the file `name`, which has the lines `right`."""
        lines = [text.strip() for _, text in right]
        owners = owners_of([text for _, text in right])
        found = []
        for change in self.changes:
            if change.file != name:
                continue
            starts = change.start(lines, owners)
            if len(starts) != 1:
                where = f"{name}{f', in {change.inside}' if change.inside else ''}"
                raise Misfit("\n".join([
                    f"{shown(self.path)}:{change.number}: {self.name} does not apply to {where}, where these lines are "
                    f"{f'{len(starts)} times' if starts else 'not'}:", *("    " + text for text in change.old()),
                    "If the program has changed, take the mistake over to it with", f"  python3 {TOOL} renew {self.short}"]))
            found.append((starts[0], change))
        result, last = list(right), len(right)
        for start, change in sorted(found, key=lambda each: each[0], reverse=True):
            end = start + len(change.old())
            if end > last:
                raise Misfit(f"{shown(self.path)}:{change.number}: {self.name} has two changes of the same lines")
            result[start:end] = change.new(right[start:end])
            last = start
        return result

    def wrong_text(self, name: str, right: str) -> str:
        return "".join(text + "\n" for _, text in self.apply(name, numbered(right)))

    def wrong_texts(self) -> dict[str, str]:
        """The wrong text of each file that it changes, by the name by which the file is included."""
        return {name: self.wrong_text(name, read(path)) for name, path in self.files().items()}

    def record(self, texts: dict[str, tuple[str, str]]) -> None:
        """Puts into the file that it changes this: {name by which a file is included: (right text, wrong text)}."""
        usual = usual_file(self.path)
        change = [line for name in sorted(texts, key=lambda name: name != usual)
                  for line in ([f"file: {name}"] if name != usual else []) + change_lines(*texts[name])]
        section = self.section or NEW
        start = next((at for at, line in enumerate(section) if is_of_change(line)), None)
        if start is None:
            start = next((at for at, line in enumerate(section) if key_of(line)), len(section))
        before, after = ([line for line in part if line and not is_of_change(line)] for part in (section[:start], section[start:]))
        self.section = [*before, *change, *after]
        write_section(self)


# ---- Reading and writing --------------------------------------------------------------------------------------------

def key_of(line: str) -> str:
    key, colon, _ = line.partition(": ")
    return key if colon and key in KEYS else ""


def is_marked(line: str) -> bool:
    """Whether it is a line of a program that goes, comes or stays."""
    return line[:2] in ("- ", "+ ", "  ", "-", "+")


def is_of_change(line: str) -> bool:
    return is_marked(line) or line.startswith(("file: ", "in: "))


def read_file(path: pathlib.Path) -> tuple[str, list[Mistake]]:
    """The file that its mistakes change if they name no other, and the mistakes, in order."""
    usual = path.with_suffix(".cu").name
    mistakes: list[Mistake] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{shown(path)}:{number}"
        if line.startswith("== "):
            if any(mistake.name == line[3:] for mistake in mistakes):
                raise Misfit(f"{where}: there are two mistakes called {line[3:]}")
            mistakes.append(Mistake(path, line[3:]))
            file, inside, marks = usual, "", ""
            continue
        if not mistakes:
            if line.startswith("file: "):
                usual = line.removeprefix("file: ")
            elif line and not line.startswith("#"):
                raise Misfit(f"{where}: before the first `== NAME` there is only `file: NAME` and lines with `#`")
            continue
        mistake = mistakes[-1]
        mistake.section.append(line)
        if is_marked(line) and line.strip():
            # A change ends at any other line, and where lines go after new ones.
            if not marks or (marks[-1] == "+" and line[0] == "-"):
                mistake.changes.append(Change(number, file, inside))
                marks = ""
            marks += line[0]
            mistake.changes[-1].lines.append((line[0], line[2:]))
            continue
        marks = ""
        key, _, value = line.partition(": ")
        if key_of(line):
            if key in mistake.facts and key not in SEVERAL:
                raise Misfit(f"{where}: {mistake.name} has two lines of {key}")
            mistake.facts.setdefault(key, []).append(value)
        elif key == "file":
            file, inside = value, ""
        elif key == "in":
            inside = value
        elif line and not mistake.facts and not mistake.changes:
            mistake.what += f" {line}" if mistake.what else line
        elif line:
            raise Misfit(f"{where}: neither a line of a change nor one of {', '.join(KEYS)}: {line}; {FORM}")
    for mistake in mistakes:
        check(mistake)
    return usual, mistakes


def check(mistake: Mistake) -> None:
    where = f"{shown(mistake.path)}: {mistake.name}"
    if not mistake.what or not mistake.changes:
        raise Misfit(f"{where} lacks its sentence or its change; {FORM}")
    if not any(key in mistake.facts for key in ("expect", "refused", "says")):
        raise Misfit(f"{where} expects nothing: name what must be said")
    if missing := [key for key in OF_THE_GALLERY if "says" in mistake.facts and key not in mistake.facts]:
        raise Misfit(f"{where} lacks {', '.join(missing)}")
    for change in mistake.changes:
        if not change.old():
            raise Misfit(f"{shown(mistake.path)}:{change.number}: a change needs a line that goes, or one that stays")


def usual_file(path: pathlib.Path) -> str:
    """The name of the file that the mistakes of a .mistakes file change if they name no other."""
    return read_file(path)[0] if path.exists() else path.with_suffix(".cu").name


def read_mistakes(path: pathlib.Path) -> list[Mistake]:
    return read_file(path)[1]


def write_section(mistake: Mistake) -> None:
    """Puts the section of a mistake into its file, in the place of the one that had its name, or at the end."""
    text = mistake.path.read_text(encoding="utf-8") if mistake.path.exists() else ""
    head, *sections = re.split(r"^== ", text, flags=re.MULTILINE)
    new = "\n".join([mistake.name, *mistake.section]).rstrip() + "\n"
    at = next((at for at, section in enumerate(sections) if section.partition("\n")[0] == mistake.name), len(sections))
    sections[at:at + 1] = [new]
    parts = [*([head] if head.strip() else []), *(f"== {section}" for section in sections)]
    mistake.path.write_text("\n".join(part.rstrip() + "\n" for part in parts), encoding="utf-8")


def all_files() -> list[pathlib.Path]:
    return sorted(TESTS.rglob("*.mistakes"))


def find(which: str) -> list[Mistake]:
    """What STEM/NAME, STEM or a path of a .mistakes file stands for; a mistake that is not there yet is new."""
    stem, _, name = which.partition("/")
    path = next((path for path in all_files() if path.stem == stem), None)
    if which.endswith(".mistakes"):
        path, name = pathlib.Path(which).resolve(), ""
    if path is None and (folders := list((TESTS / "chapters").glob(f"{stem}_*"))):
        path = folders[0] / f"{stem}.mistakes"
    if path is None or name and not re.fullmatch(r"\w+", name):
        raise Misfit(f"'{which}' is no mistake: give STEM/NAME, as in 02/one_lane_frees, or a .mistakes file")
    there = read_mistakes(path) if path.exists() else []
    return [mistake for mistake in there if mistake.name == name] or [Mistake(path, name)] if name else there


def folders_of(path: pathlib.Path) -> list[str]:
    """Where the right files are that the mistakes of a file change, from the root."""
    folder = path.parent.relative_to(ROOT).as_posix() if ROOT in path.parents else str(path.parent)
    if path.parent.parent == TESTS / "chapters":
        return [f"solutions/{path.parent.name}", f"chapters/{path.parent.name}/given", "common"]
    return [folder, "common"]


def path_of(path: pathlib.Path, name: str) -> str:
    """The path from the root of a right file, by the name by which it is included."""
    paths = [f"{folder}/{name}" for folder in folders_of(path)]
    found = next((each for each in paths if (ROOT / each).is_file()), None)
    if found is None:
        raise Misfit(f"{shown(path)} changes {name}, and there is none in {', '.join(folders_of(path))}: if it was renamed, "
                     "rename it here too")
    return found


def read(path: str) -> str:
    """The text of a file, given by its path from the root."""
    return (ROOT / path).read_text(encoding="utf-8")


def write_file(path: pathlib.Path, text: str) -> None:
    """Writes a file unless it is there; others may read it, or write the same, at this time."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(text)
    pathlib.Path(file.name).replace(path)


def write_texts(texts: dict[str, str], folder: pathlib.Path) -> None:
    """Writes these files, and no other sources, to the folder."""
    for name, text in texts.items():
        write_file(folder / name, text)
    # What was changed once would still be found there.
    for path in folder.rglob("*"):
        if path.suffix in SOURCES and path.relative_to(folder).as_posix() not in texts:
            path.unlink(missing_ok=True)


def shown(path: pathlib.Path) -> str:
    return path.relative_to(ROOT).as_posix() if ROOT in path.parents else str(path)


# ---- Making changes -------------------------------------------------------------------------------------------------

def change_lines(right: str, wrong: str) -> list[str]:
    """The lines of a section for what differs between two texts."""
    old, new = right.splitlines(), wrong.splitlines()
    stripped, owners = [line.strip() for line in old], owners_of(old)
    result: list[str] = []
    inside = ""
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for kind, old_start, old_end, new_start, new_end in joined(matcher.get_opcodes(), old):
        if kind == "equal":
            continue
        marked = marked_lines(old, new, old_start, old_end, new_start, new_end)
        owner, lines = place(marked, stripped, owners, old_start, old_end, old)
        if owner != inside:
            result.append(f"in: {owner}")
            inside = owner
        elif result and (lines[0][0] != "-" or result[-1][0] != "+"):
            result.append("")
        shift = min((indentation(text) for _, text in lines if text.strip()), default=0)
        result += [f"{mark} {text[shift:]}".rstrip() for mark, text in lines]
    return result


def joined(opcodes: list[tuple], old: list[str]) -> list[tuple]:
    """The opcodes with differences joined that have but one line between them."""
    result: list[tuple] = []
    for at, (kind, *ends) in enumerate(opcodes):
        if result and kind != "equal" and result[-1][0] == "equal" and result[-1][2] - result[-1][1] == 1 and len(result) > 1 \
                and old[result[-1][1]].strip():
            result.pop()
            _, old_start, _, new_start, _ = result.pop()
            result.append(("replace", old_start, ends[1], new_start, ends[3]))
        else:
            result.append((kind, *ends))
    return result


def marked_lines(old: list[str], new: list[str], old_start: int, old_end: int, new_start: int,
                 new_end: int) -> list[tuple[str, str]]:
    matcher = difflib.SequenceMatcher(None, old[old_start:old_end], new[new_start:new_end], autojunk=False)
    marked = []
    for kind, first, last, first_new, last_new in matcher.get_opcodes():
        if kind == "equal":
            marked += [(" ", line) for line in old[old_start + first:old_start + last]]
        else:
            marked += [("-", line) for line in old[old_start + first:old_start + last]]
            marked += [("+", line) for line in new[new_start + first_new:new_start + last_new]]
    return marked


def place(marked: list[tuple[str, str]], lines: list[str], owners: list[str], start: int, end: int,
          texts: list[str]) -> tuple[str, list[tuple[str, str]]]:
    """The function to name, and the lines of the change with as few others as show its place."""
    sizes = [(before, after) for before in range(MOST_CONTEXT + 1) for after in range(MOST_CONTEXT + 1)]
    for before, after in sorted(sizes, key=lambda size: (sum(size), abs(size[0] - size[1]), -size[0])):
        first, last = start - before, end + after
        if first < 0 or last > len(lines) or first == last or not all([*lines[first:start], *lines[end:last]]):
            continue  # a change has lines, and an empty one would end it
        found = places_of(lines[first:last], lines)
        around = [*((" ", text) for text in texts[first:start]), *marked, *((" ", text) for text in texts[end:last])]
        if len(found) == 1:
            return "", around
        if owners[first] and sum(owners[at] == owners[first] for at in found) == 1:
            return owners[first], around
    raise Misfit(f"no {MOST_CONTEXT} lines around it show the place of this change: {marked}")


def places_of(part: list[str], lines: list[str]) -> list[int]:
    """Where the part is among the lines."""
    return [at for at in range(len(lines) - len(part) + 1) if lines[at:at + len(part)] == part]


def owners_of(lines: list[str]) -> list[str]:
    """The function or class that each line is in."""
    owners, owner = [], ""
    for number, line in enumerate(lines):
        if re.match(r"(?!template|using|namespace)[A-Za-z_]", line):
            begin = " ".join(each.strip() for each in lines[number:number + 3])
            if match := re.match(r"(?:class|struct) \w+", begin):
                owner = match[0]
            else:
                match = re.search(r"(\w+)\(", re.sub(r"__\w+__ *\([^()]*\)", "", begin))
                owner = match[1] if match else ""
        owners.append(owner)
    return owners


def numbered(text: str) -> Lines:
    return list(enumerate(text.splitlines(), 1))


def indentation(line: str) -> int:
    return len(line) - len(line.lstrip())
