#!/usr/bin/env python3
"""Tests of ./stagecraft where it is not alone, not free to write, or interrupted: it says so in a sentence, and no trace of Python.

Each test has a copy of the command, and imitations of what it sets up: Ninja, Meson, nvcc and the programs that are built."""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import meson_tests  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAPTER = "00_first_kernel"
# With a file `work` in the build folder there is something to do, as many seconds as it says.
NINJA = """\
#!/bin/bash
cd "$2"
[[ -f work ]] || { echo "ninja: no work to do."; exit; }
[[ $3 == -n ]] && { echo "[0/1] something"; exit; }
trap 'echo removed >>log; exit 2' TERM
echo "begin" >>log
sleep "$(<work)" & wait $!
rm work
echo "end" >>log
"""
PROGRAM = '#!/bin/sh\necho "the program $*"\n'
# Makes the virtual environment, as slowly as the variable says.
PYTHON = """\
#!/bin/bash
[[ $1 == -m && $2 == venv ]] || exec PYTHON3 "$@"
[[ -z ${FAILS:-} ]] || { echo "Error: ensurepip returned non-zero exit status 1." >&2; exit 1; }
mkdir -p "$3/bin"
sleep "${SLOW:-0}"
cp TOOLS/ninja "$3/bin"
printf '#!/bin/sh\\n' >"$3/bin/python"
printf '#!/bin/sh\\n[ "$1" = setup ] || exit 0\\ntouch "$3/build.ninja"\\n' >"$3/bin/meson"
chmod +x "$3"/bin/*
"""


def expect_signals() -> None:
    """Before a process becomes a program: what starts the tests may ignore some."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def obey_modes() -> None:
    """The same, and takes from a process of root that modes of files do not count for it."""
    expect_signals()
    if os.getuid() == 0 and ctypes.CDLL(None).prctl(24, 1) != 0:   # PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
        raise OSError("the host does not let root give up a capability")


class SituationTest(unittest.TestCase):
    name = "clone"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        os.chmod(folder.name, 0o755)
        self.root, tools = pathlib.Path(folder.name) / self.name, pathlib.Path(folder.name) / "tools"
        self.build = self.root / "build"
        for path in ("stagecraft", "common/tools", "common/emulator/settings", "chapters/README.md", f"chapters/{CHAPTER}"):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (ROOT / path).is_dir() else shutil.copy2)(ROOT / path, self.root / path)
        course = self.root / "chapters/README.md"
        lines = course.read_text(encoding="utf-8").split("\n")
        course.write_text("\n".join(line for line in lines if not line.startswith("| [") or CHAPTER in line), encoding="utf-8")
        for name, text in {"ninja": NINJA, "g++": "#!/bin/sh\n", "pkg-config": "#!/bin/sh\n",
                           "python3": PYTHON.replace("PYTHON3", sys.executable).replace("TOOLS", str(tools))}.items():
            self.write(tools / name, text)
        self.write(self.root / "toolkit/bin/nvcc", "#!/bin/sh\n")
        self.write(self.root / "common/tools/find_nvcc", f"#!/bin/sh\necho {self.root}/toolkit\n")
        self.environment = {**{name: value for name, value in os.environ.items() if not name.startswith("STAGECRAFT_")},
                            "PATH": f"{tools}:{os.environ['PATH']}"}

    @staticmethod
    def write(path: pathlib.Path, text: str):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def set_up(self):
        """Leaves everything built: the program gemm, the test of a chapter, and the libraries."""
        self.assertEqual(self.call("prepare-run").returncode, 0)
        for name in ("gemm", "gemm_on_demand", f"chapters/{CHAPTER}"):
            self.write(self.build / name, PROGRAM)
        libraries = self.build / "common/emulator"
        libraries.mkdir(parents=True)
        loaded = pathlib.Path("/proc/self/maps").read_text(encoding="utf-8")
        for name in ("libcudart.so.13", "libcuda.so.1"):   # one that can be preloaded
            (libraries / name).symlink_to(re.search(r"/.*/libc[.-].*", loaded)[0])
        (self.build / "build.ninja").write_text(f"build chapters/{CHAPTER}: cpp_LINKER\n", encoding="utf-8")

    def start(self, *arguments, **options) -> subprocess.Popen:
        return subprocess.Popen([str(word) for word in (self.root / "stagecraft", *arguments)], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **{"env": self.environment, "start_new_session": True,
                                                           "preexec_fn": expect_signals, **options})

    def end(self, process: subprocess.Popen) -> subprocess.CompletedProcess:
        out, err = process.communicate(timeout=60)
        self.assertNotIn("Traceback", out + err)
        self.assertNotRegex(err, r"line \d+: ")   # what the shell says about a mistake in a script
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def call(self, *arguments, **options) -> subprocess.CompletedProcess:
        return self.end(self.start(*arguments, **options))

    def work(self, seconds: float):
        (self.build / "work").write_text(str(seconds), encoding="utf-8")

    def log(self) -> list:
        log = self.build / "log"
        return log.read_text(encoding="utf-8").split() if log.exists() else []

    def wait_for(self, condition):
        end = time.monotonic() + 30
        while not condition():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.02)


class BesideTest(SituationTest):
    def test_one_builds_and_the_other_says_that_it_waits(self):
        self.set_up()
        self.work(2)
        first = self.start("gemm")
        self.wait_for(self.log)
        second = self.end(self.start("gemm", "--m", "1"))
        self.assertEqual(second.stderr, f"stagecraft: waiting for another ./stagecraft, which uses {self.build}\n")
        self.assertEqual(second.stdout, "the program --m 1\n")
        self.assertEqual(self.end(first).returncode, 0)
        self.assertEqual(self.log(), ["begin", "end"])

    def test_a_program_that_runs_keeps_nobody_from_building(self):
        self.set_up()
        for options in ((), ("--report=sarif", "--report-file=/dev/null")):
            running = self.start("run", *options, "/bin/sh", "-c", "echo begun; ls /proc/self/fd; exec sleep 30")
            self.assertEqual(running.stdout.readline(), "begun\n")
            self.assertEqual([running.stdout.readline() for _ in range(4)], ["0\n", "1\n", "2\n", "3\n"])   # the last is of ls
            self.check_that_others_build(running)
        begun = self.build / "begun"
        self.write(self.build / "chapters" / CHAPTER, f"#!/bin/sh\ntouch {begun}\nexec sleep 30\n")
        for command in ("test", "timeline"):
            running = self.start(command, "00")
            self.wait_for(begun.exists)
            begun.unlink()
            self.check_that_others_build(running)

    def check_that_others_build(self, running: subprocess.Popen):
        self.work(0)
        self.assertNotIn("waiting", self.call("gemm").stderr)
        os.killpg(running.pid, signal.SIGTERM)
        self.end(running)

    def test_both_set_up_a_fresh_clone(self):
        self.environment["SLOW"] = "1"
        both = [self.start("prepare-run") for _ in range(2)]
        said = "".join(self.end(each).stderr for each in both)
        self.assertEqual([each.returncode for each in both], [0, 0], said)
        self.assertEqual(said.count("fetching meson"), 1, said)
        self.assertEqual(said.count("configuring"), 1, said)


class ReadOnlyTest(SituationTest):
    """Everything is built, and belongs to somebody else."""

    def setUp(self):
        super().setUp()
        self.set_up()
        self.write(self.build / "chapters/00_first_kernel", "#!/bin/sh\necho 1 passed, 0 failed\n")
        for folder, _, _ in os.walk(self.root):
            os.chmod(folder, 0o555)

    def tearDown(self):
        for folder, _, _ in os.walk(self.root):
            os.chmod(folder, 0o755)

    def read_only(self, *arguments) -> subprocess.CompletedProcess:
        return self.end(self.start_read_only(*arguments))

    def start_read_only(self, *arguments) -> subprocess.Popen:
        return self.start(*arguments, preexec_fn=obey_modes)

    def test_what_needs_no_writing_works(self):
        for command, said in {("gemm", "--m", "1"): "the program --m 1\n", ("run", "/bin/echo", "ran"): "ran\n",
                              ("time", "/bin/echo", "ran"): "ran\n"}.items():
            done = self.read_only(*command)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, said, ""), command)

    def test_what_is_not_remembered_is_shown_all_the_same(self):
        kept = f"stagecraft: this is not remembered: {self.build}/progress: Permission denied\n"
        for command, said in {("test", "00"): "1 passed, 0 failed", ("hint", "00"): "Chapter 00, TODO 1, hint 1 of"}.items():
            done = self.read_only(*command)
            self.assertEqual((done.returncode, done.stderr), (0, kept), command)
            self.assertIn(said, done.stdout)
        watching = self.start_read_only("watch", "00")
        while "watching" not in (line := watching.stdout.readline()):
            self.assertNotEqual(line, "")
        os.killpg(watching.pid, signal.SIGINT)
        done = self.end(watching)
        self.assertEqual((done.returncode, done.stderr), (0, kept))

    def test_what_must_write_says_where_it_cannot(self):
        for command in (("timeline", "00"), ("docs",), ("test",)):
            done = self.read_only(*command)
            self.assertNotEqual(done.returncode, 0, command)
            self.assertRegex(done.stderr.splitlines()[-1], f"^stagecraft: .*{self.build}", command)

    def test_what_is_not_built_says_that_it_cannot_be(self):
        os.chmod(self.build, 0o755)
        self.work(0)
        os.chmod(self.build, 0o555)
        for command in (("gemm",), ("run", "/bin/echo"), ("test", "00"), ("timeline", "00")):
            done = self.read_only(*command)
            self.assertEqual((done.returncode, done.stdout), (1, ""), command)
            self.assertEqual(done.stderr, f"stagecraft: there is something to make, but {self.build} cannot be written; "
                             "STAGECRAFT_BUILD can name another folder\n")


class VanishedTest(SituationTest):
    def test_what_is_built_needs_no_nvcc(self):
        self.set_up()
        shutil.rmtree(self.root / "toolkit")
        self.write(self.root / "common/tools/find_nvcc", "#!/bin/sh\nexit 1\n")
        done = self.call("run", "/bin/echo", "ran")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ran\n", ""))
        self.work(0)
        self.assertIn("fetching NVIDIA's, about 100 MB", self.call("gemm").stderr)


class FullDiskTest(SituationTest):
    def test_a_step_that_fails_says_how_little_is_left(self):
        self.write(self.root.parent / "tools/df", "#!/bin/sh\nprintf 'header\\ndisk 1000000 997000 3000 99%% /\\n'\n")
        self.environment["FAILS"] = "1"
        done = self.call("gemm")
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stderr.endswith(f"Python could not make a virtual environment in {self.build}/tools/python\nstagecraft: "
                                             f"the disk of {self.build} has 2 MB left, and a build needs up to 2 GB: is it full?\n"), done.stderr)


class ClosedTest(SituationTest):
    def close(self, *numbers):
        def closed():
            expect_signals()
            for number in numbers:
                os.close(number)
        return closed

    def test_output_that_goes_nowhere_is_a_failure(self):
        self.set_up()
        for command in (("hint", "00"), ("progress",), ("run", "--help"), ("timeline", "--help"), ("standalone",)):
            done = self.call(*command, preexec_fn=self.close(1))
            self.assertEqual((done.returncode, done.stderr),
                             (1, "stagecraft: what is written cannot be written: Bad file descriptor\n"), command)
            self.assertEqual(self.call(*command, preexec_fn=self.close(0, 1, 2)).returncode, 1, command)
            done = self.call(*command, preexec_fn=self.close(2))
            self.assertEqual(done.returncode, 0, command)
            self.assertNotEqual(done.stdout, "")

    def test_a_program_runs_without_output(self):
        self.set_up()
        begun = self.build / "begun"
        for numbers in ((1,), (2,), (0, 1, 2)):
            self.assertEqual(self.call("run", "/bin/touch", begun, preexec_fn=self.close(*numbers)).returncode, 0)
            begun.unlink()


class SignalTest(SituationTest):
    """A signal ends the command and all that it has started within two seconds, also where it reaches only one of them."""

    def check(self, process: subprocess.Popen, number: int, whole_group: bool, said: str):
        begin = time.monotonic()
        (os.killpg if whole_group else os.kill)(process.pid, number)
        done = self.end(process)
        self.assertLess(time.monotonic() - begin, 2)
        self.assertIn(done.returncode, (-number, 128 + number))
        self.assertTrue(done.stderr.endswith(said), done.stderr)
        self.assertEqual(self.processes(), [])
        return done

    def processes(self) -> list:
        """What is running of the folder's programs, or in it."""
        found = []
        for line in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.root.parent).encode() in line.read_bytes():
                    found.append(line.read_bytes())
            except OSError:   # it has ended
                pass
        return found

    def test_while_it_builds(self):
        self.set_up()
        for number, whole_group in ((signal.SIGINT, True), (signal.SIGTERM, False), (signal.SIGHUP, True)):
            for command in (("gemm",), ("timeline", "00"), ("test", "00"), ("run", "/bin/true")):
                self.work(20)
                (self.build / "log").unlink(missing_ok=True)
                process = self.start(*command)
                self.wait_for(self.log)
                done = self.check(process, number, whole_group, "stagecraft: interrupted; the next call goes on from here\n")
                self.assertNotIn("the build failed", done.stderr)
                self.assertEqual(self.log(), ["begin", "removed"])

    def test_while_it_fetches(self):
        self.environment["SLOW"] = "20"
        for number, whole_group in ((signal.SIGINT, True), (signal.SIGTERM, False)):
            process = self.start("run", "/bin/true")
            self.wait_for((self.build / "tools/python/bin").exists)
            self.check(process, number, whole_group, "stagecraft: interrupted; the next call goes on from here\n")
            self.assertFalse((self.build / "tools/python.done").exists())
            shutil.rmtree(self.build)
        self.environment["SLOW"] = "0"
        self.assertEqual(self.call("prepare-run").returncode, 0)

    def test_while_the_gemm_compiles_a_kernel(self):
        self.set_up()
        begun = self.build / "begun"
        self.write(self.build / "gemm", f"#!/bin/sh\n{self.root}/toolkit/bin/nvcc\n")
        self.write(self.root / "toolkit/bin/nvcc", f"#!/bin/sh\ntouch {begun}\nsleep 30\n")
        for number, whole_group in ((signal.SIGINT, True), (signal.SIGTERM, False)):
            process = self.start("gemm")
            self.wait_for(begun.exists)
            begun.unlink()
            self.check(process, number, whole_group, "")

    def test_while_a_command_of_its_own_ends_well(self):
        """Without a trap bash goes on then, as if there had been no signal."""
        self.set_up()
        looking = self.build / "looking"
        self.write(self.root.parent / "tools/flock", f"#!/bin/bash\ntrap exit INT\ntouch {looking}\nsleep 20\n")
        process = self.start("gemm")
        self.wait_for(looking.exists)
        done = self.check(process, signal.SIGINT, True, "")
        self.assertEqual(done.stdout, "")

    def test_while_python_starts(self):
        self.set_up()
        for command in (("hint", "00"), ("progress",), ("run", "/bin/true")):
            for milliseconds in range(0, 60, 3):
                process = self.start(*command)
                time.sleep(milliseconds / 1000)
                os.killpg(process.pid, signal.SIGINT)
                self.assertIn(self.end(process).returncode, (-signal.SIGINT, 0))

    def test_while_it_waits_for_another(self):
        self.set_up()
        self.work(20)
        first = self.start("gemm")
        self.wait_for(self.log)
        second = self.start("gemm")
        self.assertIn("waiting for another", second.stderr.readline())
        second.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(second).returncode, -signal.SIGTERM)
        self.check(first, signal.SIGINT, True, "goes on from here\n")


if __name__ == "__main__":
    meson_tests.main()
