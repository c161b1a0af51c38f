#!/usr/bin/env python3
"""Tests of check_commits.py, on small repositories that are made here."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(__file__).resolve().parent / "check_commits.py"
# What git is told from outside, say by a hook, must not lead to another repository.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class CommitsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.root = self.folder / "repository"
        self.root.mkdir()
        self.git("init", "--quiet")
        self.commit("An old subject that is much longer than what is allowed for those that come later than it did")
        self.base = self.git("rev-parse", "HEAD")

    def git(self, *arguments):
        command = ["git", "-C", self.root, "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True).stdout.strip()

    def commit(self, subject):
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)

    def check(self, root=None):
        command = [sys.executable, CHECK, root or self.root, self.base]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def test_subjects_of_72_characters_pass_and_those_before_the_base_are_not_read(self):
        self.commit("é" * 72)
        self.assertEqual(self.check(), (0, "1 commits, all as they should be\n"))

    def test_a_subject_of_73_characters_is_named(self):
        self.commit("x" * 73)
        self.commit("Do something short")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn(f"{self.git('rev-parse', '--short', 'HEAD~')}: the subject has 73 characters", output)
        self.assertNotIn("Do something short", output)

    def test_a_subject_that_goes_on_in_the_next_line_is_one_subject(self):
        self.commit("x" * 40 + "\n" + "y" * 40)
        self.assertIn("the subject has 81 characters", self.check()[1])

    def test_a_merge_is_named(self):
        self.git("checkout", "--quiet", "-b", "side")
        self.commit("Change the side")
        self.git("checkout", "--quiet", "-")
        self.commit("Change the main line")
        self.git("merge", "--quiet", "-m", "Bring both together", "side")
        status, output = self.check()
        self.assertEqual(status, 1)
        self.assertIn("is a merge; rebase instead: Bring both together", output)

    def test_a_shallow_clone_is_skipped(self):
        self.commit("x" * 73)
        self.git("clone", "--quiet", "--depth", "1", self.root.as_uri(), self.folder / "shallow")
        self.assertEqual(self.check(self.folder / "shallow"), (77, f"the history does not reach back to {self.base}\n"))

    def test_sources_without_a_history_are_skipped(self):
        self.commit("x" * 73)
        (self.root / "unpacked").mkdir()
        self.assertEqual(self.check(self.root / "unpacked"), (77, "the sources are part of another repository\n"))
        self.assertEqual(self.check(self.folder)[0], 77)


if __name__ == "__main__":
    unittest.main()
