#!/usr/bin/env python3
"""Tests of the commands that say how far a learner has come: progress, hint, watch, reset, and ./stagecraft alone.

Each test has a small repository of its own, with two chapters, the command, and common/tools/learner.py with what it imports."""

import fcntl
import os
import pathlib
import pty
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import meson_tests  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = """\
| | time | you build | you learn |
|---|---|---|---|
| [00](00_first/) | 30 min | a kernel | to read |
| [01](01_second/) | 1 h | a ring | to count |
"""
LESSON = """\
# 00: The first one

<details><summary>Hint for TODO 1 and 2: which?</summary>

The [other](other.md) one.
</details>

<details><summary>Hint for TODO 1: how?</summary>

Slowly.
</details>

<details><summary>Hint for TODO 3</summary>

Last.
</details>

<details><summary>Answers</summary>

Yes.
</details>
"""
EXERCISE = "int main() {\n  // TODO 1: begin.\n  // TODO 2: go on.\n\n\n\n  // TODO 3: end.\n}\n"
# What stands in for a chapter's program: it fails as long as the exercise says so, and lists its tests as GoogleTest does.
PROGRAM = """\
#!/usr/bin/env python3
import json, os, sys
failed = "TODO" in open("EXERCISE").read()
tests = [{"name": "First", "classname": "Chapter00"}, {"name": "Second", "classname": "Chapter00"}]
if failed: tests[1]["failures"] = [{"failure": "no"}]
with open(os.environ["GTEST_OUTPUT"].partition("json:")[2], "w") as file: json.dump({"testsuites": [{"testsuite": tests}]}, file)
print("1 passed, 1 failed" if failed else "2 passed, 0 failed")
sys.exit(failed)
"""
GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
       **{f"GIT_{who}_{what}": "learner@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}


class LearnerTest(unittest.TestCase):
    def setUp(self):
        if not shutil.which("git"):
            self.skipTest("Git is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.origin, self.clone = pathlib.Path(folder.name) / "origin", pathlib.Path(folder.name) / "clone"
        for path, text in {"chapters/README.md": TABLE, "chapters/00_first/README.md": LESSON,
                           "chapters/01_second/README.md": "# 01: The second one\n", "chapters/00_first/first.cu": EXERCISE,
                           "chapters/01_second/second.cu": EXERCISE}.items():
            (self.origin / path).parent.mkdir(parents=True, exist_ok=True)
            (self.origin / path).write_text(text, encoding="utf-8")
        (self.origin / "common/tools").mkdir(parents=True)
        shutil.copy2(ROOT / "stagecraft", self.origin)
        for tool in ("learner.py", "device_edit.py", "build_folder.py", "guarded.py"):
            shutil.copy2(ROOT / "common/tools" / tool, self.origin / "common/tools")
        self.git(self.origin, "init", "--quiet", "--initial-branch=main")
        self.commit(self.origin)
        self.git(self.origin.parent, "clone", "--quiet", self.origin, self.clone)
        self.exercise = self.clone / "chapters/00_first/first.cu"
        self.build = self.clone / "build"

    def run_in(self, folder, *command, check=True, **options) -> subprocess.CompletedProcess:
        environment = {**os.environ, **GIT, "STAGECRAFT_BUILD": str(self.clone / "build")}
        done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False,
                              **options)
        if check:
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def git(self, folder, *arguments, check=True) -> subprocess.CompletedProcess:
        return self.run_in(folder, "git", *arguments, check=check)

    def commit(self, folder):
        self.git(folder, "add", "--all", ":!build")
        self.git(folder, "commit", "--quiet", "--message", "Change it")

    def stagecraft(self, *arguments, **options) -> subprocess.CompletedProcess:
        return self.run_in(self.clone, self.clone / "stagecraft", *arguments, **options)

    def edit(self, text: str):
        self.exercise.write_text(text, encoding="utf-8")

    def run_test(self) -> subprocess.CompletedProcess:
        """What `./stagecraft test 00` does once the program is built."""
        program = self.clone / "program"
        program.write_text(PROGRAM.replace("EXERCISE", str(self.exercise)), encoding="utf-8")
        program.chmod(0o755)
        return self.run_in(self.clone, sys.executable, self.clone / "common/tools/learner.py", self.build, "run-test",
                           "00_first", program, check=False)

    def stand_in_for_builds(self):
        """Lets `stagecraft test` do what run_test() does, without a compiler."""
        self.run_test()
        shutil.rmtree(self.build / "progress")
        command = (self.clone / "stagecraft").read_text(encoding="utf-8")
        (self.clone / "stagecraft").write_text(command.replace("\nset -euo pipefail\n", f"""
if [[ ${{1:-}} == test ]]; then
  echo "test $2" >>{self.clone}/tested
  grep --quiet "}}" {self.exercise} || exit 1   # it does not compile
  exec {sys.executable} {self.clone}/common/tools/learner.py {self.build} run-test 00_first {self.clone}/program
fi
set -euo pipefail
"""), encoding="utf-8")


class PlaceTest(LearnerTest):
    def test_a_fresh_clone_begins_with_the_first_chapter(self):
        shown = self.stagecraft().stdout
        self.assertIn("0 of 2 chapters are done.\nNext: 00, The first one (30 min; you build a kernel)", shown)
        self.assertIn("./stagecraft test 00", shown)
        self.assertIn("./stagecraft help lists the commands", shown)

    def test_an_edited_chapter_is_where_one_is(self):
        self.edit(EXERCISE.replace("  // TODO 1: begin.\n", ""))
        self.assertIn("You are at: 00, The first one (edited since its last test; open: TODO 2, 3)", self.stagecraft().stdout)
        self.run_test()
        self.assertIn("(fails at Chapter00.Second; open: TODO 2, 3)", self.stagecraft().stdout)

    def test_after_a_chapter_comes_the_next(self):
        self.edit("int main() {}\n")
        self.run_test()
        self.assertIn("1 of 2 chapters are done.\nNext: 01, The second one", self.stagecraft().stdout)


class SuccessTest(LearnerTest):
    def test_a_success_says_what_was_learned_and_what_comes_next(self):
        self.edit("int main() {}\n")
        done = self.run_test()
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout, "2 passed, 0 failed\n\nChapter 00 is done. You have learned: to read.\n"
                         "Next is 01, The second one (1 h): a ring. The lesson is chapters/01_second/README.md.\n")

    def test_a_failure_says_nothing_more_and_keeps_its_status(self):
        done = self.run_test()
        self.assertEqual((done.returncode, done.stdout), (1, "1 passed, 1 failed\n"))


    def test_after_a_chapter_comes_the_next_that_is_not_done_or_was_left_out(self):
        sys.path.insert(0, str(ROOT / "common/tools"))
        import learner  # noqa: E402
        course = learner.Course(self.clone, self.build)
        first, second = course.chapters
        self.assertIs(course.after(second), first)
        second.write_record(digest=second.digest(), failed="")
        self.assertIsNone(course.after(first))


class PipeTest(LearnerTest):
    """A reader such as `head` that goes away."""

    def to_nobody(self, *command) -> subprocess.CompletedProcess:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            return subprocess.run(list(map(str, command)), stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=60,
                                  env={**os.environ, **GIT, "STAGECRAFT_BUILD": str(self.build)})
        finally:
            os.close(writer)

    def test_commands_end_without_a_word(self):
        shutil.copytree(ROOT / "docs/reports", self.clone / "docs/reports")
        shutil.copytree(ROOT / "common/emulator/settings", self.clone / "common/emulator/settings")
        for tool in ("explain.py", "pages.py", "timelines.py", "doctor.sh", "find_nvcc", "run_program.py", "settings.py"):
            shutil.copy2(ROOT / "common/tools" / tool, self.clone / "common/tools")
        for command in ([], ["help"], ["progress"], ["hint"], ["explain"], ["explain", "deadlock"], ["progress", "--help"],
                        ["run", "--help"], ["doctor"]):
            done = self.to_nobody(self.clone / "stagecraft", *command)
            self.assertEqual(done.stderr, "", command)
            self.assertIn(done.returncode, (-signal.SIGPIPE, 128 + signal.SIGPIPE), command)

    def test_a_test_that_nobody_reads_has_not_failed(self):
        program = self.clone / "program"
        program.write_text("#!/bin/sh\nwhile echo ok; do :; done\n", encoding="utf-8")
        program.chmod(0o755)
        self.to_nobody(sys.executable, self.clone / "common/tools/learner.py", self.build, "run-test", "00_first", program)
        self.assertEqual(list(self.build.glob("progress/*.json")), [])


class SignalTest(LearnerTest):
    """A program that runs until a signal, and then takes its time to report where it is."""

    PROGRAM = """\
#!/usr/bin/env python3
import signal, sys, time
def report(number, _):
    time.sleep(1)
    print("where it is", flush=True)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
signal.signal(signal.SIGINT, report)
signal.signal(signal.SIGTERM, report)
print("begun", flush=True)
time.sleep(60)
"""

    def interrupt(self, number: int, whole_group: bool):
        program = self.clone / "program"
        program.write_text(self.PROGRAM, encoding="utf-8")
        program.chmod(0o755)
        command = [sys.executable, self.clone / "common/tools/learner.py", self.build, "run-test", "00_first", program]
        test = subprocess.Popen(command, env={**os.environ, **GIT}, stdout=subprocess.PIPE, text=True, start_new_session=True)
        self.assertEqual(test.stdout.readline(), "begun\n")
        if whole_group:
            os.killpg(test.pid, number)
        else:
            test.send_signal(number)
        self.assertEqual(test.communicate(timeout=60)[0], "where it is\n")
        self.assertEqual(test.returncode, 128 + number)
        self.assertEqual(list(self.build.glob("progress/*")), [])

    def test_ctrl_c_lets_the_program_report_where_it_is(self):
        self.interrupt(signal.SIGINT, whole_group=True)

    def test_ctrl_c_while_watching_lets_the_program_report_where_it_is(self):
        self.stand_in_for_builds()
        (self.clone / "program").write_text(self.PROGRAM, encoding="utf-8")
        watching = subprocess.Popen([self.clone / "stagecraft", "watch", "0"], stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, **GIT, "STAGECRAFT_BUILD": str(self.build)}, start_new_session=True)
        self.assertEqual(watching.stdout.readline(), "begun\n")
        os.killpg(watching.pid, signal.SIGINT)
        watching.wait(timeout=60)
        self.assertEqual(watching.stdout.readline(), "where it is\n")   # is there before the shell asks again
        self.assertEqual(watching.stdout.read(), "\n")
        self.assertEqual(watching.returncode, 0)

    def test_a_request_to_end_reaches_the_program(self):
        self.interrupt(signal.SIGTERM, whole_group=False)


class ProgressTest(LearnerTest):
    def test_what_an_editor_leaves_is_no_exercise(self):
        (self.exercise.parent / ".#first.cu").symlink_to("learner@host.1")
        (self.exercise.parent / ".first.cu").write_text("// TODO 9: no.\n", encoding="utf-8")
        self.assertRegex(self.stagecraft("progress").stdout, r"00_first +untouched\n  01_second +untouched\n0 of 2")

    def test_a_deleted_file_is_a_change(self):
        self.stand_in_for_builds()
        (self.exercise.parent / "second.hpp").write_text("", encoding="utf-8")
        self.exercise.unlink()
        self.assertIn("You are at: 00, The first one (edited since its last test", self.stagecraft().stdout)

    def test_without_git_a_chapter_is_untouched_until_it_is_tested(self):
        shutil.rmtree(self.clone / ".git")
        self.assertRegex(self.stagecraft().stdout, "Next: 00")
        self.run_test()
        self.assertRegex(self.stagecraft().stdout, "You are at: 00, The first one .fails at Chapter00.Second")

    def test_it_tests_what_was_edited_and_nothing_else(self):
        self.stand_in_for_builds()
        self.assertRegex(self.stagecraft("progress").stdout, r"00_first +untouched\n  01_second +untouched\n0 of 2")
        self.assertFalse((self.clone / "tested").exists())
        self.edit(EXERCISE + "\n")
        for _ in range(2):   # the second call has the result of the first
            self.assertRegex(self.stagecraft("progress").stdout, r"00_first +fails at Chapter00.Second; open: TODO 1, 2, 3\n")
        self.edit("int main() {}\n")
        self.assertRegex(self.stagecraft("progress").stdout, r"00_first +done\n  01_second +untouched\n1 of 2 chapters are done.")
        self.assertEqual((self.clone / "tested").read_text(encoding="utf-8"), "test 00\ntest 00\n")

    def test_an_answer_that_is_committed_stays_done(self):
        self.edit("int main() {}\n")
        self.run_test()
        self.commit(self.clone)
        self.assertRegex(self.stagecraft("progress").stdout, r"00_first +done\n")

    def test_an_answer_that_does_not_build_is_named(self):
        self.stand_in_for_builds()
        self.edit("int main() {\n")
        self.assertRegex(self.stagecraft("progress").stdout, r"00_first +does not build: ./stagecraft test 00 shows why\n")


class HintTest(LearnerTest):
    def hint(self, *arguments) -> str:
        return self.stagecraft("hint", *arguments).stdout

    def test_hints_for_the_first_todo_come_one_by_one_and_begin_again(self):
        self.assertIn("Chapter 00, TODO 1, hint 1 of 2: Hint for TODO 1 and 2: which?\n\nThe other one.\n", self.hint())
        second = self.hint("0")
        self.assertIn("hint 2 of 2: Hint for TODO 1: how?\n\nSlowly.\n", second)
        self.assertIn("That was the last one.", second)
        self.assertIn("hint 1 of 2", self.hint())

    def test_where_nothing_is_remembered_the_lesson_has_the_other_hints(self):
        self.build.mkdir(exist_ok=True)
        (self.build / "progress").write_text("", encoding="utf-8")   # a file, in which no record can be
        for _ in range(2):
            said = self.hint("00")
            self.assertIn("hint 1 of 2", said)
            self.assertIn("chapters/00_first/README.md has the others", said)
            self.assertNotIn("shows the next one", said)

    def test_another_todo_has_other_hints(self):
        self.hint()
        self.edit(EXERCISE.replace("  // TODO 1: begin.\n  // TODO 2: go on.\n", ""))
        self.assertIn("TODO 3, hint 1 of 1: Hint for TODO 3\n\nLast.\n", self.hint("00"))

    def test_every_todo_of_the_course_has_a_hint(self):
        sys.path.insert(0, str(ROOT / "common/tools"))
        import learner  # noqa: E402
        for folder in sorted(ROOT.glob("chapters/[0-9][0-9]_*")):
            sources = "".join(path.read_text(encoding="utf-8") for path in folder.iterdir() if path.suffix in learner.SOURCES)
            hints = learner.HINT.findall((folder / "README.md").read_text(encoding="utf-8"))
            hinted = set().union(*(learner.numbers_of(title) for title, _ in hints))
            self.assertEqual({int(number) for number in learner.TODO.findall(sources)} - hinted, set(), folder.name)

    def test_wrong_use_is_a_sentence_and_status_2(self):
        for command in (("hint", "0", "1"), ("reset",), ("progress", "0"), ("watch", "--fast"), ("reset", "0", "--quietly")):
            done = self.stagecraft(*command, check=False)
            self.assertEqual(done.returncode, 2, command)
            self.assertNotIn("run-test", done.stderr)   # which is no command of a learner

    def test_a_chapter_has_the_name_of_its_folder_too(self):
        for name in ("0", "00", "00_first", "chapters/00_first/"):
            self.assertEqual(self.stagecraft("reset", name).stdout[:24], "chapters/00_first is as ", name)

    def test_every_command_explains_itself(self):
        for command, word in {"progress": "untouched", "hint": "next hint", "watch": "Ctrl-C", "reset": "--yes"}.items():
            self.assertIn(word, self.stagecraft(command, "--help").stdout)


class WatchTest(LearnerTest):
    def test_it_tests_on_each_save_until_ctrl_c(self):
        self.stand_in_for_builds()
        environment = {**os.environ, **GIT, "STAGECRAFT_BUILD": str(self.build)}
        tested = self.clone / "tested"
        watching = subprocess.Popen([self.clone / "stagecraft", "watch", "0"], env=environment, stdout=subprocess.PIPE, text=True)
        try:
            for count, text in enumerate((EXERCISE, EXERCISE + "\n", "int main() {}\n"), 1):
                self.edit(text)
                end = time.monotonic() + 60
                while not (tested.exists() and tested.read_text(encoding="utf-8").count("\n") == count):
                    self.assertLess(time.monotonic(), end, f"save {count} was not tested")
                    time.sleep(0.05)
                while "watching" not in (line := watching.stdout.readline()):
                    self.assertNotEqual(line, "", "it ended")
        finally:
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=60)
        self.assertEqual(watching.returncode, 0)


    def test_a_key_shows_hints(self):
        self.stand_in_for_builds()
        controller, terminal = pty.openpty()
        watching = subprocess.Popen([self.clone / "stagecraft", "watch", "0"], stdin=terminal, stdout=subprocess.PIPE, text=True,
                                    env={**os.environ, **GIT, "STAGECRAFT_BUILD": str(self.build)}, start_new_session=True,
                                    preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        try:
            while "watching" not in (line := watching.stdout.readline()):
                self.assertNotEqual(line, "", "it ended")
            self.assertIn("h shows a hint", line)
            for number in (1, 2):
                os.write(controller, b"xh")
                while "hint" not in (line := watching.stdout.readline()):
                    self.assertNotEqual(line, "", "it ended")
                self.assertIn(f"hint {number} of 2", line)
                self.assertIn("shows the next one" if number == 1 else "the last one", "".join(
                    watching.stdout.readline() for _ in range(4)))
        finally:
            os.write(controller, b"\x03")
            watching.wait(timeout=60)
            watching.stdout.close()
            modes = termios.tcgetattr(terminal)[3]
            os.close(controller)
            os.close(terminal)
        self.assertTrue(modes & termios.ICANON)   # the terminal is as it was

    def test_without_a_number_it_goes_on_to_the_next_chapter(self):
        self.stand_in_for_builds()
        self.edit("int main() {}\n")
        environment = {**os.environ, **GIT, "STAGECRAFT_BUILD": str(self.build)}
        for number, then in (([], "01_second"), (["0"], "00_first")):
            watching = subprocess.Popen([self.clone / "stagecraft", "watch", *number], env=environment, stdout=subprocess.PIPE,
                                        text=True)
            shown = ""
            while "watching" not in shown:
                shown += (line := watching.stdout.readline())
                self.assertNotEqual(line, "", f"it ended: {shown}")
            watching.send_signal(signal.SIGINT)
            watching.communicate(timeout=60)
            self.assertIn("You have learned: to read.\nNext is 01, The second one (1 h): a ring.", shown)
            self.assertIn(f"watching chapters/{then}: ", shown)
        self.assertEqual((self.clone / "tested").read_text(encoding="utf-8"), "test 00\ntest 00\n")

    def test_it_ends_when_all_chapters_are_done(self):
        self.stand_in_for_builds()
        (self.clone / "chapters/README.md").write_text(TABLE.rsplit("\n", 2)[0] + "\n", encoding="utf-8")
        self.edit("int main() {}\n")
        self.assertTrue(self.stagecraft("watch", timeout=60).stdout.endswith("All chapters are done.\n"))


class ResetTest(LearnerTest):
    def test_it_asks_first_and_no_is_no(self):
        self.edit("mine\n")
        for answer in ("\n", "n\n", ""):
            done = self.stagecraft("reset", "0", input=answer, check=False)
            self.assertEqual((done.returncode, self.exercise.read_text(encoding="utf-8")), (1, "mine\n"))
            self.assertIn("Restore first.cu of chapters/00_first as they came?", done.stdout)
        closed = self.run_in(self.clone, "sh", "-c", "./stagecraft reset 0 <&-", check=False)
        self.assertEqual((closed.returncode, closed.stderr), (1, ""))

    def test_it_restores_and_keeps_the_answer(self):
        for how in ({"input": "y\n"}, {}):
            self.edit("mine\n")
            self.stagecraft("reset", "0", *([] if how else ["--yes"]), **how)
            self.assertEqual(self.exercise.read_text(encoding="utf-8"), EXERCISE)
        kept = list(self.build.glob("answers/00_first-*/first.cu"))
        self.assertGreaterEqual(len(kept), 1)
        self.assertEqual({path.read_text(encoding="utf-8") for path in kept}, {"mine\n"})
        self.assertRegex(self.stagecraft("progress").stdout, r"00_first +untouched")

    def test_it_restores_an_answer_that_was_committed(self):
        self.edit("mine\n")
        self.commit(self.clone)
        self.stagecraft("reset", "0", "--yes")
        self.assertEqual(self.exercise.read_text(encoding="utf-8"), EXERCISE)

    def test_it_restores_an_answer_that_was_pushed_to_a_fork(self):
        fork = self.origin.parent / "fork"
        self.git(self.origin.parent, "init", "--quiet", "--bare", "--initial-branch=main", fork)
        self.git(self.clone, "remote", "rename", "origin", "upstream")
        self.git(self.clone, "remote", "add", "origin", fork)
        self.edit("mine\n")
        self.commit(self.clone)
        self.git(self.clone, "push", "--quiet", "--set-upstream", "origin", "main")
        self.stagecraft("reset", "0", "--yes")
        self.assertEqual(self.exercise.read_text(encoding="utf-8"), EXERCISE)

    def test_it_restores_a_file_that_was_deleted(self):
        self.exercise.unlink()
        self.stagecraft("reset", "0", "--yes")
        self.assertEqual(self.exercise.read_text(encoding="utf-8"), EXERCISE)

    def test_in_a_folder_of_another_repository_it_restores_what_that_one_has(self):
        self.nest()
        self.git(self.clone.parent, "add", "--all", ":!clone/build", ":!origin")
        self.git(self.clone.parent, "commit", "--quiet", "--message", "Take the course in")
        self.edit("mine\n")
        self.assertIn("You are at: 00", self.stagecraft().stdout)
        self.stagecraft("reset", "0", "--yes")
        self.assertEqual(self.exercise.read_text(encoding="utf-8"), EXERCISE)

    def test_an_archive_in_another_repository_is_no_part_of_that_one(self):
        self.nest()
        self.git(self.clone.parent, "commit", "--quiet", "--allow-empty", "--message", "Something else")
        self.assertIn("Next: 00", self.stagecraft().stdout)
        done = self.stagecraft("reset", "0", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("this is not a clone made by Git", done.stderr)

    def nest(self):
        """Makes the clone a folder of another repository."""
        shutil.rmtree(self.clone / ".git")
        self.git(self.clone.parent, "init", "--quiet", "--initial-branch=main")

    def test_what_is_untouched_stays(self):
        self.assertIn("chapters/00_first is as it came", self.stagecraft("reset", "0").stdout)
        self.assertFalse((self.build / "answers").exists())

    def test_outside_of_a_clone_it_says_why_it_cannot(self):
        shutil.rmtree(self.clone / ".git")
        done = self.stagecraft("reset", "0", check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("this is not a clone made by Git", done.stderr)


class PullTest(LearnerTest):
    PULL = ("pull", "--quiet", "--rebase", "--autostash")

    def change_origin(self, old: str, new: str):
        path = self.origin / "chapters/00_first/first.cu"
        path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        self.commit(self.origin)

    def test_a_pull_takes_the_answer_along(self):
        self.edit(EXERCISE.replace("  // TODO 1: begin.\n", "  begin();\n"))
        self.change_origin("TODO 3: end.", "TODO 3: come to an end.")
        self.git(self.clone, *self.PULL)
        text = self.exercise.read_text(encoding="utf-8")
        self.assertIn("  begin();\n", text)
        self.assertIn("TODO 3: come to an end.", text)
        self.assertRegex(self.stagecraft().stdout, "You are at: 00")

    def test_a_pull_that_changes_the_same_line_loses_nothing(self):
        self.edit(EXERCISE.replace("  // TODO 1: begin.\n", "  begin();\n"))
        self.change_origin("TODO 1: begin.", "TODO 1: begin here.")
        self.git(self.clone, *self.PULL, check=False)
        self.assertIn("begin();", self.git(self.clone, "stash", "show", "--patch").stdout)

    def test_a_plain_pull_stops_and_leaves_the_answer(self):
        self.edit("mine\n")
        self.change_origin("TODO 3: end.", "TODO 3: come to an end.")
        done = self.git(self.clone, "pull", "--no-rebase", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(self.exercise.read_text(encoding="utf-8"), "mine\n")


if __name__ == "__main__":
    meson_tests.main()
