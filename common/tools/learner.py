#!/usr/bin/env python3
"""How far a learner has come, for ./stagecraft: called as learner.py BUILD COMMAND [ARGUMENTS].

Nothing runs in the background. After each test, BUILD/progress/ keeps the result beside a digest of the files that were
tested; whether a chapter is untouched, Git knows; hints and what a chapter teaches are in its lesson and in chapters/README.md.
"""

import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import guarded  # noqa: E402, before all others: from here on Ctrl-C leaves no trace

import argparse
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import termios
import time
import tty

import build_folder  # noqa: E402
import device_edit  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = (".cu", ".cuh", ".hpp")
TODO = re.compile(r"// TODO (\d+): ")
ROW = re.compile(r"^\| \[(\d\d)\]\((\w+)/\) \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.MULTILINE)
HINT = re.compile(r"<details><summary>(Hint[^<]*)</summary>\n(.*?)</details>", re.DOTALL)
LOOK_AGAIN = 0.3  # seconds
HINT_KEY = "h"
NEEDS_BUILD = 75  # the status of run-test --edited where it did nothing


class Misuse(Exception):
    """What the learner asked for cannot be done; the text says what can."""


def is_source(path: pathlib.Path) -> bool:
    """Whether a file of this name is the learner's: names that begin with a dot are an editor's."""
    return path.suffix in SOURCES and not path.name.startswith(".")


# ---- Chapters -------------------------------------------------------------------------------------------------------

class Chapter:
    """One chapter: the learner's files, what is known of their last test, and which hints were shown."""

    def __init__(self, root: pathlib.Path, build: pathlib.Path, row: re.Match):
        self.number, self.name, self.time, self.builds, self.teaches = (cell.strip() for cell in row.groups())
        self.root, self.folder = root, root / "chapters" / self.name
        self.lesson = f"chapters/{self.name}/README.md"
        self.answers = build / "answers"
        self.record = build / "progress" / f"{self.name}.json"
        self.unwritten = {}   # of the record: what could not be written, and ends with this process

    def files(self) -> list:
        return sorted(path for path in self.folder.iterdir() if is_source(path) and path.is_file())

    def digest(self) -> str:
        content = hashlib.sha256()
        for path in self.files():
            content.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return content.hexdigest()

    def todos(self) -> list:
        """The numbers of the TODOs that are left."""
        found = {int(number) for path in self.files() for number in TODO.findall(path.read_text(encoding="utf-8"))}
        return sorted(found)

    def title(self) -> str:
        with (self.root / self.lesson).open(encoding="utf-8") as lesson:
            return lesson.readline().strip().lstrip("# ").partition(": ")[2]

    def read_record(self) -> dict:
        try:
            record = json.loads(self.record.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            record = {}
        return {**(record if isinstance(record, dict) else {}), **self.unwritten}

    def write_record(self, **changes) -> None:
        """Where it cannot be written, says so: what the learner asked for is done all the same."""
        record = {**self.read_record(), **changes}
        try:
            self.record.parent.mkdir(parents=True, exist_ok=True)
            build_folder.replace(self.record, json.dumps(record))
            self.unwritten = {}
        except OSError as error:
            if not self.unwritten:
                guarded.say(f"this is not remembered: {guarded.sentence(error)}")
            self.unwritten |= changes

    def result(self):
        """The name of the first test that failed, "" where none did; None where the files have changed since."""
        record = self.read_record()
        return record["failed"] if record.get("digest") == self.digest() and "failed" in record else None


class Course:
    """All chapters, in order, and what Git knows about them."""

    def __init__(self, root: pathlib.Path, build: pathlib.Path):
        self.root, self.build = root, build
        table = (root / "chapters/README.md").read_text(encoding="utf-8")
        self.chapters = [Chapter(root, build, row) for row in ROW.finditer(table)]
        # An archive that was unpacked inside of another repository is no part of that one.
        self.shipped = self.find_shipped() if self.git("ls-files", "chapters/README.md") else None
        self.edited = None if self.shipped is None else set(
            self.git("diff", "--name-only", "--relative", "-z", self.shipped, "--", "chapters").split("\0"))

    def git(self, *arguments: str) -> str:
        """What Git prints; nothing where it fails."""
        try:
            done = subprocess.run(["git", "-C", self.root, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, check=False)
        except FileNotFoundError:
            return ""
        return done.stdout if done.returncode == 0 else ""

    def find_shipped(self):
        """The newest commit that this clone has in common with where it came from, or None outside of a clone.

        A learner who pushes answers to a fork has the original as the remote `upstream`."""
        for origin in ("upstream/HEAD", "upstream/main", "@{upstream}", "origin/HEAD", "HEAD"):
            if commit := self.git("merge-base", "HEAD", origin).strip():
                return commit
        return None

    def edited_files(self, chapter: Chapter) -> list:
        """The exercise's files that are not as they came, also those that were deleted."""
        edited = (self.root / name for name in sorted(self.edited or ()))
        return [path for path in edited if path.parent == chapter.folder and is_source(path)]

    def is_untouched(self, chapter: Chapter) -> bool:
        """Without Git, a chapter counts as untouched until it is tested."""
        return not self.edited_files(chapter) if self.edited is not None else "digest" not in chapter.read_record()

    def state(self, chapter: Chapter) -> str:
        """done, failing, untouched, or unknown: edited since the last test."""
        failed = chapter.result()
        if failed is None or (failed and self.is_untouched(chapter)):
            return "untouched" if self.is_untouched(chapter) else "unknown"
        return "failing" if failed else "done"

    def current(self):
        """The chapter to go on with: the first that was begun and is not done, else the first that is not done."""
        states = [(chapter, self.state(chapter)) for chapter in self.chapters]
        begun = [chapter for chapter, state in states if state in ("failing", "unknown")]
        left = [chapter for chapter, state in states if state != "done"]
        return (begun or left or [None])[0]

    def after(self, chapter: Chapter):
        """The chapter to go on with after this one: the next that is not done, else the first that was left out."""
        left = [other for other in self.chapters if other is not chapter and self.state(other) != "done"]
        return ([other for other in left if other.number > chapter.number] or left or [None])[0]

    def find(self, number: str) -> Chapter:
        for chapter in self.chapters:
            if chapter.number == number.zfill(2):
                return chapter
        raise Misuse(f"chapters/README.md has no chapter {number}")   # the command knows all folders

    def find_or_current(self, number) -> Chapter:
        chapter = self.find(number) if number is not None else self.current()
        if chapter is None:
            raise Misuse("all chapters are done; name one")
        return chapter


def describe_todos(todos: list) -> str:
    return f"open: TODO {', '.join(map(str, todos))}" if todos else "no TODO is left"


# ---- Commands -------------------------------------------------------------------------------------------------------

def show_place(course: Course, _) -> int:
    """./stagecraft alone."""
    done = [chapter for chapter in course.chapters if course.state(chapter) == "done"]
    chapter = course.current()
    print(f"{len(done)} of {len(course.chapters)} chapters are done.")
    if chapter is None:
        print("docs/README.md lists what else there is to read; chapters/README.md says where each lesson leads.")
    else:
        state = course.state(chapter)
        todos = describe_todos(chapter.todos())
        now = {"failing": f"fails at {chapter.result()}; {todos}", "unknown": f"edited since its last test; {todos}",
               "untouched": f"{chapter.time}; you build {chapter.builds}"}[state]
        exercise = [path for path in chapter.files() if TODO.search(path.read_text(encoding="utf-8"))] or chapter.files()
        print(f"{'Next' if state == 'untouched' else 'You are at'}: {chapter.number}, {chapter.title()} ({now})")
        print(f"  read    {chapter.lesson}\n  edit    {'  '.join(str(path.relative_to(course.root)) for path in exercise)}\n"
              f"  test    ./stagecraft test {chapter.number}\n  hint    ./stagecraft hint {chapter.number}")
    print("./stagecraft progress lists all chapters; ./stagecraft help lists the commands.")
    return 0


def list_untested(course: Course, _) -> int:
    """For the command: the chapters that `progress` has to test first."""
    for chapter in course.chapters:
        if course.state(chapter) == "unknown":
            print(chapter.number)
    return 0


def show_progress(course: Course, _) -> int:
    for chapter in course.chapters:
        state = course.state(chapter)
        text = {"failing": f"fails at {chapter.result()}; {describe_todos(chapter.todos())}",
                "unknown": f"does not build: ./stagecraft test {chapter.number} shows why"}.get(state, state)
        print(f"  {chapter.name:<30} {text}")
    done = sum(course.state(chapter) == "done" for chapter in course.chapters)
    current = course.current()
    advice = f" Go on with ./stagecraft test {current.number}." if current else ""
    print(f"{done} of {len(course.chapters)} chapters are done.{advice}")
    return 0


def numbers_of(hint: str) -> set:
    """The TODOs that a hint is for: "Hint for TODO 1 to 3: the order" is for 1, 2 and 3."""
    about = hint.partition(":")[0]
    numbers = [int(number) for number in re.findall(r"\d+", about)]
    return set(range(numbers[0], numbers[-1] + 1)) if " to " in about and numbers else set(numbers)


def show_hint(course: Course, options) -> int:
    return give_hint(course, course.find_or_current(options.chapter))


def give_hint(course: Course, chapter: Chapter) -> int:
    """Prints the next hint for the first TODO of a chapter that is left."""
    todos = chapter.todos()
    hints = HINT.findall((course.root / chapter.lesson).read_text(encoding="utf-8"))
    about = [hint for hint in hints if todos and todos[0] in numbers_of(hint[0])] or hints
    subject = f"TODO {todos[0]}" if todos and about is not hints else "the exercise"
    if not about:
        raise Misuse(f"the lesson of chapter {chapter.number} has no hint")
    shown = chapter.read_record().get("hints", [])
    new = [hint for hint in about if hint[0] not in shown]
    if not new:  # all were shown: begin again
        shown, new = [title for title in shown if title not in [hint[0] for hint in about]], about
    title, text = new[0]
    chapter.write_record(hints=[*shown, title])
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).strip()
    place = about.index(new[0]) + 1
    print(f"Chapter {chapter.number}, {subject}, hint {place} of {len(about)}: {title}\n\n{text}\n")
    if chapter.unwritten and len(about) > 1:   # the next call shows this one again
        print(f"{chapter.lesson} has the others, folded away.")
    elif len(new) > 1:
        print(f"./stagecraft hint {chapter.number} shows the next one.")
    else:
        print(f"That was the last one. \"What goes wrong\" in {chapter.lesson} lists the common mistakes and their reports.")
    return 0


def run_test(course: Course, options) -> int:
    """For the command: runs a chapter's program, keeps the result, and says what comes next when it passes."""
    chapter = next(chapter for chapter in course.chapters if chapter.name == options.name)
    digest = chapter.digest()
    variables = {}
    built, program = chapter.record.with_suffix(".built"), pathlib.Path(options.program)
    if options.edited:
        try:
            kernels = device_edit.edited_kernels(built, program, chapter.files())
        except subprocess.CalledProcessError:
            print("stagecraft: the build failed; the first error above says where", file=sys.stderr)
            return 1
        if kernels is None:
            return NEEDS_BUILD
        variables |= {"STAGECRAFT_PTX": kernels} if kernels else {}
    else:
        device_edit.remember(built, course.build, program, chapter.files())
    signals = []
    # Ctrl-C is for the program, which reports where it is, however long that takes. SIGTERM reaches this process alone.
    signal.signal(signal.SIGINT, lambda number, _: signals.append(number))
    with tempfile.TemporaryDirectory() as folder:
        listing = pathlib.Path(folder) / "tests.json"
        test = subprocess.Popen([program], env={**os.environ, **variables, "GTEST_OUTPUT": f"json:{listing}"})
        build_folder.unlock(course.build)
        signal.signal(signal.SIGTERM, lambda number, _: (signals.append(number), test.send_signal(number)))
        status = test.wait()
        failed = first_failure(listing) if status else ""
    if not signals and status != -signal.SIGPIPE:   # the latter: nobody reads what it prints, which is no failure
        chapter.write_record(digest=digest, failed=failed)
    if status == 0:
        print(f"\nChapter {chapter.number} is done. You have learned: {chapter.teaches}.")
        if following := course.after(chapter):
            print(f"Next is {following.number}, {following.title()} ({following.time}): {following.builds}. "
                  f"The lesson is {following.lesson}.")
        else:
            print("All chapters are done.")
    return status if status >= 0 else 128 - status


def first_failure(listing: pathlib.Path) -> str:
    try:
        suites = json.loads(listing.read_text(encoding="utf-8"))["testsuites"]
    except (OSError, ValueError):
        return "a test that ended the program"
    return next((f"{test['classname']}.{test['name']}" for suite in suites for test in suite["testsuite"] if "failures" in test),
                "a test")


class Keys:
    """What is typed in the terminal, key by key; nothing where the input is no terminal of this process."""

    def __init__(self):
        self.before, self.offer = None, ""
        with contextlib.suppress(AttributeError, OSError):   # closed, or not the terminal that this process is started from
            if os.getpgrp() == os.tcgetpgrp(sys.stdin.fileno()):
                self.before = termios.tcgetattr(sys.stdin)
                tty.setcbreak(sys.stdin)
                self.offer = f"{HINT_KEY} shows a hint, "

    def typed_within(self, seconds: float) -> str:
        """The last key that is typed until then, "" if there is none."""
        if self.before is None or not select.select([sys.stdin], [], [], seconds)[0]:
            if self.before is None:
                time.sleep(seconds)
            return ""
        return os.read(sys.stdin.fileno(), 1024).decode(errors="replace")[-1:]

    def restore(self) -> None:
        if self.before is not None:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, self.before)


def watch(course: Course, options) -> int:
    chapter = course.find_or_current(options.chapter)
    tested = test = None
    keys = Keys()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        while True:
            try:
                digest = chapter.digest()
            except FileNotFoundError:   # an editor is putting another file in its place
                digest = tested
            if digest != tested:
                tested = digest
                test = subprocess.Popen([course.root / "stagecraft", "test", chapter.number])
                test.wait()
                if options.chapter is None and chapter.result() == "":
                    course = Course(course.root, course.build)   # what Git knows has changed since
                    finished, chapter = chapter, course.after(course.find(chapter.number))
                    if chapter is None:
                        return 0
                    # What was begun is tested at once. What was not would only push the success off the screen.
                    tested = chapter.digest() if course.is_untouched(chapter) else None
                    print(f"./stagecraft watch {finished.number} stays at chapter {finished.number}.")
                print(f"\nwatching chapters/{chapter.name}: save a file to test {'again' if tested == digest else 'it'}, "
                      f"{keys.offer}Ctrl-C ends", flush=True)
            if keys.typed_within(LOOK_AGAIN) == HINT_KEY:
                print()
                try:
                    give_hint(course, chapter)
                except Misuse as misuse:
                    guarded.say(str(misuse))
                sys.stdout.flush()
    except KeyboardInterrupt:
        if test:   # Ctrl-C is for the test as well, which reports where it is
            with contextlib.suppress(subprocess.TimeoutExpired):
                test.wait(timeout=1.8)
        print()
        return 0
    finally:
        keys.restore()
        if test and test.poll() is None:
            test.terminate()
            test.wait()


def reset(course: Course, options) -> int:
    chapter = course.find(options.chapter)
    if course.edited is None:
        raise Misuse("this is not a clone made by Git, so the files as they came are not known: unpack the archive again")
    files = course.edited_files(chapter)
    if not files:
        print(f"chapters/{chapter.name} is as it came (commit {course.shipped[:9]})")
        return 0
    names = ", ".join(path.name for path in files)
    kept = chapter.answers / f"{chapter.name}-{datetime.datetime.now():%Y%m%d-%H%M%S.%f}"
    if not options.yes:
        print(f"Restore {names} of chapters/{chapter.name} as they came? Your files are kept in {kept}. [y/N] ", end="", flush=True)
        if (sys.stdin.readline() if sys.stdin else "").strip().lower() not in ("y", "yes"):
            print("nothing is changed")
            return 1
    kept.mkdir(parents=True)
    for path in files:
        if path.exists():
            shutil.copy2(path, kept)
        text = subprocess.run(["git", "-C", course.root, "show", f"{course.shipped}:./{path.relative_to(course.root).as_posix()}"],
                              stdout=subprocess.PIPE, check=False)
        if text.returncode == 0:   # else a file that the learner has added
            path.write_bytes(text.stdout)
    chapter.record.unlink(missing_ok=True)
    print(f"restored {names}; your files are in {kept}")
    return 0


# What each command does; `where`, `untested` and `run-test` are for ./stagecraft alone.
COMMANDS = {
    "where": (show_place, "Says which chapters are done, and what is next."),
    "untested": (list_untested, "Lists the chapters that were edited since their last test."),
    "progress": (show_progress, "Lists the chapters: untouched, failing with the first test that fails, or done. Tests those that "
                                "were edited since their last test."),
    "hint": (show_hint, "Shows the next hint of the lesson for the first TODO that is left. After the last one it begins again."),
    "run-test": (run_test, "Runs the test of a chapter."),
    "watch": (watch, "Tests a chapter whenever one of its files is saved, and shows a hint when h is typed, until Ctrl-C. Without a "
                     "number, goes on to the next one when a chapter is done."),
    "reset": (reset, "Restores the files of an exercise as they came. Asks first, and keeps yours in build/answers/."),
}


def main() -> int:
    build = pathlib.Path(sys.argv.pop(1))
    command = sys.argv.pop(1)
    function, text = COMMANDS[command]
    parser = argparse.ArgumentParser(prog=f"./stagecraft {command}", description=text, allow_abbrev=False)
    parser.error = lambda problem: guarded.misuse(f"{command}: {problem}")
    if command in ("hint", "watch"):
        parser.add_argument("chapter", nargs="?", help="a number, such as 03; default: the chapter that you are at")
    elif command == "reset":
        parser.add_argument("chapter", help="a number, such as 03")
        parser.add_argument("--yes", action="store_true", help="do not ask")
    elif command == "run-test":
        parser.add_argument("name")
        parser.add_argument("program")
        parser.add_argument("--edited", action="store_true", help=f"as it was built, with the kernels as they are now; status "
                            f"{NEEDS_BUILD} where more than kernels has changed")
    options = parser.parse_args()
    try:
        return function(Course(ROOT, build), options)
    except Misuse as misuse:
        return guarded.misuse(str(misuse))


if __name__ == "__main__":
    guarded.run(main)
