"""Reads the gallery: the bases and their bugs. README.md describes the form of a .bugs file."""

import dataclasses
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent
HOPPER_BASES = ("handover", "pair", "registers", "ring", "store", "tiles", "warp", "warpgroups", "warps")
KEYS = ("class", "issue", "kind", "line", "says", "fix", "chip", "checks", "explore")


class Misfit(Exception):
    """A bug that cannot be read, or that does not fit its base."""


@dataclasses.dataclass
class Bug:
    """One entry of a .bugs file."""

    name: str
    base: str
    what: str = ""
    hunks: list[list[tuple[str, str]]] = dataclasses.field(default_factory=list)  # lines with their marks: ' ', '-', '+'
    facts: dict[str, str] = dataclasses.field(default_factory=dict)

    def checks(self) -> str:
        """The checks that name it, as STAGECRAFT_CHECKS lists them."""
        return self.facts.get("checks", "all")

    def settings(self) -> dict[str, str]:
        """The environment variables with which it is named."""
        settings = {"STAGECRAFT_CHECKS": self.checks()}
        if "explore" in self.facts:
            settings["STAGECRAFT_EXPLORE"] = self.facts["explore"]
        return settings

    def difference(self) -> str:
        """What the bug changes, for people."""
        return "\n".join(f"{mark} {text}" for hunk in self.hunks for mark, text in hunk)


def read_bugs(path: pathlib.Path) -> list[Bug]:
    """The bugs of a base, in the order of the file."""
    bugs: list[Bug] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{path.name}:{number}"
        if line.startswith("== "):
            if any(bug.name == line[3:] for bug in bugs):
                raise Misfit(f"{where}: there are two bugs called {line[3:]}")
            bugs.append(Bug(line[3:], path.stem))
            marks = ""
            continue
        if not line.strip():
            marks = ""
            continue
        if not bugs:
            raise Misfit(f"{where}: a file begins with `== NAME`")
        bug = bugs[-1]
        if line[:2] in ("- ", "+ ", "  "):
            # A hunk ends at a blank line or one of text, and where lines go after new ones.
            if not marks or (marks[-1] == "+" and line[0] == "-"):
                bug.hunks.append([])
            marks += line[0]
            bug.hunks[-1].append((line[0], line[2:]))
            continue
        marks = ""
        key, colon, value = line.partition(": ")
        if colon and key in KEYS:
            if key in bug.facts:
                raise Misfit(f"{where}: {bug.name} has two lines of {key}")
            bug.facts[key] = value
        elif not bug.what:
            bug.what = line
        else:
            raise Misfit(f"{where}: neither a line of the change nor one of {', '.join(KEYS)}: {line}")
    for bug in bugs:
        missing = [key for key in ("kind", "line", "says", "fix") if key not in bug.facts]
        if missing or not bug.what or not bug.hunks:
            raise Misfit(f"{path.name}: {bug.name} lacks {', '.join(missing) or 'its sentence or its change'}")
    return bugs


class Base:
    """A right program: what stands once (its includes, and the comment above), and what is repeated for each bug."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines()
        last_include = max(i for i, line in enumerate(lines) if line.startswith("#include"))
        self.head = [line + "\n" for line in lines[: last_include + 1]]
        self.first = last_include + 2  # the number of the first line that is repeated
        self.lines = lines[last_include + 1 :]

    def numbered(self) -> list[tuple[int, str]]:
        """The lines that are repeated, with their numbers in the file."""
        return [(self.first + i, line) for i, line in enumerate(self.lines)]

    def with_bug(self, bug: Bug) -> list[tuple[int, str]]:
        """The same with the bug's change. A new line has the number of the old one that it stands for, or else of the
        line above it."""
        result = self.numbered()
        for hunk in bug.hunks:
            old = [text.strip() for mark, text in hunk if mark != "+"]
            places = [i for i in range(len(result)) if [line.strip() for _, line in result[i : i + len(old)]] == old]
            if len(places) != 1:
                raise Misfit(f"{bug.base}: {bug.name}: these lines occur {len(places)} times: {' / '.join(old)}")
            start = places[0]
            replaced = result[start : start + len(old)]
            indent = re.match(" *", replaced[0][1]).group()
            left, free, last, new = list(replaced), [], replaced[0][0], []
            for mark, text in hunk:
                if mark == "-":
                    free.append(left.pop(0)[0])
                elif mark == " ":
                    last = left[0][0]
                    new.append(left.pop(0))
                else:
                    last = free.pop(0) if free else last
                    new.append((last, indent + text.strip()))
            result[start : start + len(old)] = new
        return result

    def lines_with(self, bug: Bug, text: str) -> set[int]:
        """The numbers of the lines of the bug's program that contain a text."""
        return {number for number, line in self.with_bug(bug) if text in line}
