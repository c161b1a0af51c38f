#!/usr/bin/env python3
"""Tests of ./stagecraft and of the scripts in common/tools, each as a program: what it prints and how it exits."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock
import urllib.request

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import meson_tests  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "common" / "tools"


def run(*command, **variables) -> subprocess.CompletedProcess:
    environment = {**os.environ, **variables}
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, check=False)


def stagecraft(*arguments, **variables) -> subprocess.CompletedProcess:
    return run(ROOT / "stagecraft", *arguments, **variables)


def write_script(path: pathlib.Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]), encoding="utf-8")
    path.chmod(0o755)


class TemporaryFolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class CommandTest(TemporaryFolderTest):
    def skip_unless_set_up_by_the_command(self):
        """Calling the command on a folder that was configured by hand would set it up again, in the middle of a test."""
        record = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "tools" / "configure.done"
        if not record.exists():
            self.skipTest("this build folder was configured by hand, not by ./stagecraft")
        # The same settings as then, whatever the environment says now.
        self.settings = {"CI": "true" if "-Dwerror=true" in record.read_text(encoding="utf-8") else ""}

    def test_help_names_every_command(self):
        done = stagecraft("help")
        self.assertEqual(done.returncode, 0)
        for command in ("gemm", "attention", "test", "sanitize", "bench", "tune", "docs", "doctor", "run", "time", "explain", "help", "progress", "hint",
                        "watch", "reset", "timeline", "playground", "standalone"):
            self.assertRegex(done.stdout, rf"(?m)^  {command}\b")

    def test_without_a_gpu_a_benchmark_says_what_can_be_done(self):
        write_script(self.folder / "nvidia-smi", "exit 9")
        for command in ("bench", "tune"):
            done = stagecraft(command, "--shapes", "256x256x64", PATH=f"{self.folder}:{os.environ['PATH']}")
            self.assertEqual(done.returncode, 1)
            self.assertIn("there is no NVIDIA GPU here", done.stderr)
            self.assertIn(f"./stagecraft {command} --emulated", done.stderr)

    def test_a_benchmark_names_a_gpu_that_it_has_no_kernel_for(self):
        write_script(self.folder / "nvidia-smi", "echo 12.0")
        done = stagecraft("bench", PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("the GPU has compute capability 12.0", done.stderr)

    def test_only_a_hopper_is_tuned(self):
        write_script(self.folder / "nvidia-smi", "echo 10.0")
        done = stagecraft("tune", "--shapes", "256x256x64", PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 1)
        self.assertIn("this GPU is no Hopper", done.stderr)

    def test_an_unknown_command_shows_the_known_ones(self):
        done = stagecraft("bake")
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no command 'bake'", done.stderr)
        self.assertIn("usage: ./stagecraft [COMMAND]", done.stderr)

    def test_a_mistyped_command_is_corrected_in_one_line(self):
        for mistyped, meant in {"tset": "test", "gem": "gemm", "bnech": "bench", "explian": "explain", "timelien": "timeline",
                                "play-ground": "playground", "Doctor": "doctor", "hlep": "help"}.items():
            done = stagecraft(mistyped, "03")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"stagecraft: there is no command '{mistyped}'; did you mean {meant}? ./stagecraft help lists all\n")

    def test_a_mistyped_option_is_corrected_before_anything_is_made(self):
        nowhere = self.folder / "build"
        lists = {"bench": "bench --help", "tune": "tune --help"}
        for words, meant in {"test --thorogh": "--thorough", "timeline 00 --opne": "--open", "reset 03 --ys": "--yes",
                             "docs --srve": "--serve", "playground --server=1": "--serve", "hint --all": "", "watch 03 --x": "",
                             "progress -v": "", "explain --lst": "", "standalone 10 one_warp --out": "", "doctor --x": "",
                             "bench --emulated --bogus": "", "bench --emulated --shape": "--shapes", "tune --json": ""}.items():
            done = stagecraft(*words.split(), STAGECRAFT_BUILD=nowhere)
            command, *_, option = words.partition("=")[0].split()
            advice = f"did you mean {meant}? " if meant else ""
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"stagecraft: {command} has no option {option}; {advice}"
                             f"./stagecraft {lists.get(command, 'help')} lists those it has\n")
        for words in ("bench --emulated=1", "test --thorough=1", "timeline 00 --open=1", "reset 03 --yes=1", "docs --serve=1", "hint --help=1"):
            done = stagecraft(*words.split(), STAGECRAFT_BUILD=nowhere)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f'stagecraft: {words.split()[-1][:-2]} takes no value, but was given "1"\n')
        self.assertFalse(nowhere.exists())

    def test_what_is_missing_or_too_much_is_one_sentence(self):
        for words, said in {"reset": "reset: the following arguments are required: chapter", "hint 03 04": "hint: unrecogni.ed arguments: 04",
                            "timeline": "timeline: the following arguments are required: chapter",
                            "timeline 00 01": "timeline takes one chapter, but was given: 00 01",
                            "run --device= true": "--device is empty; ./stagecraft run --help says which values are legal",
                            "time --limit-cycles= true": "--limit-cycles is empty; ./stagecraft run --help says .*",
                            "standalone -o x": "standalone: which kernel is to be written\\? ./stagecraft standalone lists all"}.items():
            done = stagecraft(*words.split(), STAGECRAFT_BUILD=self.folder / "build")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, rf"\Astagecraft: {said}\n\Z")

    def test_each_command_explains_itself_when_asked(self):
        for command in ("test", "docs", "playground", "explain", "doctor", "sanitize", "hint", "timeline", "standalone"):
            done = stagecraft(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("usage: ./stagecraft", done.stdout)

    def test_a_command_that_does_not_exist_is_never_suggested(self):
        done = stagecraft("mesno")   # the usage also shows a command of Meson
        self.assertIn("usage: ./stagecraft [COMMAND]", done.stderr)

    def test_sanitize_refuses_arguments(self):
        done = stagecraft("sanitize", "03")
        self.assertEqual(done.returncode, 2)
        self.assertIn("sanitize takes no arguments, but was given: 03", done.stderr)

    def test_docs_refuses_other_arguments(self):
        done = stagecraft("docs", "--port", "80")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "stagecraft: docs has no option --port; ./stagecraft help lists those it has\n")
        self.assertIn("docs takes --serve or nothing, but was given: 80", stagecraft("docs", "80").stderr)

    def test_docs_end_with_the_path_and_are_served(self):
        tools = self.folder / "common" / "tools"
        tools.mkdir(parents=True)
        shutil.copy2(ROOT / "stagecraft", self.folder)
        # What stands in for the script that builds the site: the command is tested here, the site in tests/docs/.
        (tools / "build_site.py").write_text("import pathlib, sys\nsite = pathlib.Path(sys.argv[1]) / 'html'\n"
                                             "site.mkdir(parents=True, exist_ok=True)\n"
                                             "(site / 'index.html').write_text('the first page')\n"
                                             "print(f'the site: {site}/index.html', flush=True)\n", encoding="utf-8")
        for tool in ("doxygen", "dot"):
            write_script(self.folder / "bin" / tool, "exit 0")
        environment = {**os.environ, "STAGECRAFT_BUILD": str(self.folder / "build"), "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
        (self.folder / "build/tools").mkdir(parents=True)
        write_script(self.folder / "bin" / "apt-get", "exit 1")   # the look may be missing here
        done = subprocess.run([self.folder / "stagecraft", "docs"], env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.endswith(f"the site: {self.folder}/build/docs/html/index.html\n"), done.stdout)
        with subprocess.Popen([self.folder / "stagecraft", "docs", "--serve"], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as server:
            try:
                line = next(line for line in server.stdout if "http://" in line)
                address = line.partition("(")[2].partition(")")[0]
                with urllib.request.urlopen(address, timeout=30) as page:
                    self.assertEqual(page.read(), b"the first page")
            finally:
                server.terminate()

    def test_the_playground_refuses_other_arguments(self):
        done = stagecraft("playground", "--port", "80")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, "stagecraft: playground has no option --port; ./stagecraft help lists those it has\n")
        self.assertIn("playground takes --serve or nothing, but was given: 80", stagecraft("playground", "80").stderr)

    def test_without_emscripten_the_playground_says_what_to_install(self):
        for tool in ("bash", "dirname", "readlink"):
            (self.folder / tool).symlink_to(shutil.which(tool))
        done = stagecraft("playground", PATH=str(self.folder))
        self.assertEqual(done.returncode, 1)
        self.assertIn("em++ is missing", done.stderr)
        self.assertIn("apt-get install --yes emscripten", done.stderr)

    def test_a_chapter_that_is_not_there_is_refused_in_the_same_words_everywhere(self):
        last = max(folder.name for folder in ROOT.glob("chapters/[0-9][0-9]_*"))[:2]
        for command in ("test", "timeline", "hint", "watch", "reset"):
            for wrong, said in {"99": f"there is no chapter 99; there are 00 to {last}",
                                "rings": "'rings' is not a chapter: a chapter is a number, such as 03, or the name of its folder"}.items():
                done = stagecraft(command, wrong)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, rf"\Astagecraft: {said}\n\Z")

    def test_standalone_lists_the_versions_of_each_chapter(self):
        done = stagecraft("standalone")
        self.assertEqual(done.returncode, 0)
        for version in ("10 one_warp", "10 two_accumulators", "13 complete", "15 ping_pong"):
            self.assertIn(version, done.stdout)

    def test_standalone_names_the_versions_when_there_is_none_of_that_name(self):
        for arguments, reason in ((["10"], "which version of chapter 10?"), (["10", "three_warps"], "no version three_warps"),
                                  (["09", "one_warp"], "chapter 09 has no kernel in one file")):
            done = stagecraft("standalone", *arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(reason, done.stderr)
            self.assertIn("10 one_warp", done.stderr)

    def test_a_standalone_file_has_each_part_once_and_where_it_says(self):
        file = self.folder / "kernel.cu"
        self.assertEqual(stagecraft("standalone", "10", "one_warp", "-o", file).returncode, 0)
        lines = file.read_text(encoding="utf-8").splitlines()
        parts = [(int(line.split()[1]), line.split()[2]) for line in lines if re.fullmatch(r"// +\d+  \S+", line)]
        self.assertEqual(parts[-2][1], "chapters/10_warp_specialized_gemm/given/one_warp.cuh")
        for number, name in parts:
            self.assertTrue(lines[number - 1].startswith(f"// ---- {name} -"), (number, name, lines[number - 1]))
        self.assertEqual(len({name for _, name in parts}), sum(re.match(r"// ---- \w+/", line) is not None for line in lines))
        self.assertFalse([line for line in lines if re.match(r'#include "|#pragma once|\s*//!', line)])

    def test_standalone_says_why_a_file_cannot_be_written(self):
        done = stagecraft("standalone", "10", "one_warp", "-o", self.folder)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"cannot write {self.folder}", done.stderr)

    def test_a_timeline_needs_a_chapter(self):
        self.assertEqual(stagecraft("timeline").returncode, 2)
        # Behind an option, too, and not what belongs to the option.
        self.assertIn("there is no chapter 99", stagecraft("timeline", "--open", "99").stderr)
        self.assertIn("there is no chapter 98", stagecraft("timeline", "--test", "99", "98").stderr)

    def test_run_keeps_the_virtual_environment_of_an_interpreter(self):
        self.skip_unless_set_up_by_the_command()
        environment = self.folder / "environment"
        self.assertEqual(run(sys.executable, "-m", "venv", "--without-pip", environment).returncode, 0)
        done = stagecraft("run", environment / "bin" / "python3", "-c", "import sys; print(sys.prefix)", **self.settings)
        self.assertEqual(done.stdout, f"{environment}\n", done.stderr)
        script = self.folder / "script"
        script.write_text(f"#!{environment}/bin/python3\nimport sys; print(sys.prefix)\n", encoding="utf-8")
        script.chmod(0o755)
        done = stagecraft("run", script, **self.settings)
        self.assertEqual(done.stdout, f"{environment}\n", done.stderr)

    def test_run_gives_an_interpreter_the_emulated_gpu(self):
        self.skip_unless_set_up_by_the_command()
        program = """if True:
            import ctypes
            count, state = ctypes.c_int(), (ctypes.c_uint(), ctypes.c_int())
            print(ctypes.CDLL("libcudart.so.13").cudaGetDeviceCount(ctypes.byref(count)), count.value)
            print(ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState(0, *map(ctypes.byref, state)))"""
        done = stagecraft("run", sys.executable, "-c", program, **self.settings)
        self.assertEqual(done.stdout, "0 1\n0\n", done.stderr)

    def test_run_gives_a_library_the_emulated_cublas_by_any_name(self):
        self.skip_unless_set_up_by_the_command()
        build = pathlib.Path(os.environ["STAGECRAFT_BUILD"])
        if not (build / "common/emulator/libcublas.so.13").exists():
            self.skipTest("the toolkit has no cuBLAS")
        program = """if True:
            import ctypes, os, pathlib
            for name in ("libcublas.so", "libcublas.so.13", "libcublasLt.so", "libcublasLt.so.13"):
                assert ctypes.CDLL(name, os.RTLD_LOCAL).cublasLtMatmul, name
            maps = pathlib.Path("/proc/self/maps").read_text()
            print(*sorted({line.split()[-1] for line in maps.splitlines() if "cublas" in line}))"""
        done = stagecraft("run", sys.executable, "-c", program, **self.settings)
        expected = [str(build / f"common/emulator/lib{name}.so.13") for name in ("cublas", "cublasLt")]
        self.assertEqual(done.stdout.split(), expected, done.stderr)

    def test_run_finds_the_emulated_gpu_in_any_path(self):
        self.skip_unless_set_up_by_the_command()
        program = "import ctypes; print(ctypes.CDLL('libcudart.so.13').cudaGetDeviceCount(ctypes.byref(ctypes.c_int())))"
        for name in ("sp ace", "ünï ☃", "dollar$LIB;"):
            build = self.folder / name / "build"
            build.parent.mkdir()
            build.symlink_to(os.environ["STAGECRAFT_BUILD"])
            for _ in range(2):   # the second time, the link is there
                done = stagecraft("run", sys.executable, "-c", program, **self.settings, STAGECRAFT_BUILD=str(build), TMPDIR=str(self.folder),
                                  XDG_RUNTIME_DIR="")
                self.assertEqual((done.stdout, done.stderr), ("0\n", ""))
        done = stagecraft("run", "/bin/true", STAGECRAFT_BUILD=str(self.folder / "a:b"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^stagecraft: the path of the build folder, .*/a:b, has a colon[^\n]*STAGECRAFT_BUILD\n$")

    def test_run_refuses_a_link_of_somebody_else(self):
        sys.path.insert(0, str(TOOLS))
        import run_program  # noqa: E402
        place = {"XDG_RUNTIME_DIR": str(self.folder), "TMPDIR": ""}
        with unittest.mock.patch.dict(os.environ, place):
            link = pathlib.Path(run_program.preloadable("/sp ace"))
            self.assertEqual((link.parent, os.readlink(link)), (self.folder, "/sp ace"))
            link.unlink()
            link.symlink_to("/another")
            other = pathlib.Path(run_program.preloadable("/sp ace"))
        self.assertEqual(os.readlink(other), "/sp ace")
        self.assertNotEqual(other.parent, self.folder)
        other.unlink()

    def test_run_names_the_interpreter_that_a_script_lacks(self):
        script = self.folder / "script.py"
        script.write_text("", encoding="utf-8")
        done = stagecraft("run", script)
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"./stagecraft run python3 {script}", done.stderr)

    def test_run_names_a_ptxas_for_triton_unless_the_user_does(self):
        self.skip_unless_set_up_by_the_command()
        program = self.folder / "program"
        write_script(program, "echo $TRITON_PTXAS_PATH $TRITON_PTXAS_BLACKWELL_PATH")
        done = stagecraft("run", program, TRITON_PTXAS_PATH="/mine", **self.settings)
        self.assertEqual(done.stdout, f"/mine {TOOLS}/ptxas_keeping_ptx\n", done.stderr)

    def test_run_tells_a_program_with_the_static_runtime(self):
        program = self.folder / "program"
        program.write_bytes(pathlib.Path("/bin/sh").read_bytes() + b"\0__cudaRegisterFatBinary\0")
        program.chmod(0o755)
        done = stagecraft("run", "--device", "h200", program)
        self.assertEqual(done.returncode, 2)
        self.assertIn("was linked with the static runtime", done.stderr)
        self.assertIn("Link it again with -cudart shared", done.stderr)

    def test_run_tells_a_program_that_was_cut(self):
        program = self.folder / "program"
        program.write_bytes(pathlib.Path("/bin/sh").read_bytes()[:20000] + b"\0__cudaRegisterFatBinary\0")
        program.chmod(0o755)
        done = stagecraft("run", program)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "^stagecraft: .*/program is not complete: it has 20025 bytes, and its header says at least \\d{5,}\n$")

    def test_run_explains_its_options(self):
        done = stagecraft("run", "--help")
        self.assertEqual(done.returncode, 0)
        for option in ("device", "checks", "seed", "report", "report-file", "findings", "exit-status"):
            self.assertRegex(done.stdout, rf"(?m)^  --{option}\b")
        self.assertIn("run has no option --depth", stagecraft("run", "--depth", "1", "/bin/sh").stderr)
        self.assertIn("run has no option --chekcs; did you mean --checks?", stagecraft("run", "--chekcs=all", "/bin/sh").stderr)
        self.assertIn("run --seed needs a value: --seed NUMBER", stagecraft("run", "--seed").stderr)
        self.assertIn("run needs a program", stagecraft("run", "--timing", "--exhaust").stderr)   # these need none

    def test_run_hands_its_options_to_the_program(self):
        self.skip_unless_set_up_by_the_command()
        names = ("DEVICE", "CHECKS", "SEED", "REPORT", "FINDINGS", "EXIT_STATUS")
        program = self.folder / "program"
        write_script(program, "echo " + " ".join(f"$STAGECRAFT_{name}" for name in names) + ' "$@"')
        done = stagecraft("run", "--device", "h200", "--checks=race", "--seed", "7", "--report", "json", "--findings", "error",
                          "--exit-status=program", program, "--seed", "8", **self.settings)
        self.assertEqual(done.stdout, "h200 race 7 json error program --seed 8\n", done.stderr)
        done = stagecraft("run", program, **self.settings, STAGECRAFT_DEVICE="h200")
        self.assertEqual(done.stdout, "h200 race report\n", done.stderr)
        write_script(program, "echo $STAGECRAFT_PTX $STAGECRAFT_TIMING $STAGECRAFT_EXHAUST")
        one, two, three = (str(self.folder / name) for name in ("a.ptx", "b.ptx", "c.ptx"))
        for file in (one, two, three):
            pathlib.Path(file).touch()
        done = stagecraft("run", "--ptx", f"{one}:{two}", "--timing", "--exhaust", f"--ptx={three}", "--", program, **self.settings)
        self.assertEqual(done.stdout, f"{one}:{two}:{three} on 100000\n", done.stderr)

    def test_run_leaves_signals_to_the_program(self):
        self.skip_unless_set_up_by_the_command()
        program = self.folder / "program"
        write_script(program, "grep SigIgn /proc/$$/status", "kill -TERM $$")
        alone = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False)  # who starts the tests may ignore some
        for options in ([], ["--report=sarif", "--report-file", self.folder / "log.sarif"]):
            done = stagecraft("run", *options, program, **self.settings)
            self.assertEqual(done.stdout, alone.stdout)
            self.assertIn(done.returncode, (-signal.SIGTERM, 128 + signal.SIGTERM))

    def test_run_needs_a_program(self):
        self.assertIn("run needs a program: ./stagecraft run", stagecraft("run").stderr)
        self.assertIn("time needs a program: ./stagecraft time", stagecraft("time").stderr)
        self.assertIn("no/such/program is not an executable file", stagecraft("run", "no/such/program").stderr)

    def test_run_builds_a_program_of_this_tree_first(self):
        self.skip_unless_set_up_by_the_command()
        program = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "hello"
        program.unlink(missing_ok=True)
        done = stagecraft("run", program, **self.settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("warp 0 of block 0 has threads 0 to 31", done.stdout)

    def test_a_timeline_builds_the_answer_first(self):
        self.skip_unless_set_up_by_the_command()
        build = pathlib.Path(os.environ["STAGECRAFT_BUILD"])
        program = build / "chapters" / "00_first_kernel"
        program.unlink(missing_ok=True)
        done = stagecraft("timeline", "--test", "Chapter00.Todo1", "00", **self.settings)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(program.exists())
        page = pathlib.Path(re.search(r"(?m)^launch \d+ \(.*\): (.*)$", done.stdout)[1])
        self.assertEqual(page.parent, build.resolve() / "timelines" / "00")
        self.assertGreater(page.stat().st_mtime, program.stat().st_mtime)
        self.assertIn('<script type="application/json" id="run">', page.read_text(encoding="utf-8"))

    def test_time_says_how_long_each_launch_takes(self):
        self.skip_unless_set_up_by_the_command()
        program = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "hello"
        plain = stagecraft("run", program, **self.settings)
        for done in (stagecraft("time", program, **self.settings), stagecraft("run", "--timing", program, **self.settings)):
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stdout, plain.stdout)
            self.assertRegex(done.stderr, r"(?m)^modelled: [0-9.]+ us, [0-9]+ GB/s at 1.85 GHz$")
        self.assertNotIn("modelled", stagecraft("run", "--timing=off", program, **self.settings).stderr)

    def test_time_with_a_cold_l2_is_that_of_a_first_launch(self):
        self.skip_unless_set_up_by_the_command()
        program = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "hello"
        kept, cold = stagecraft("time", program, **self.settings), stagecraft("time", "--timing=cold", program, **self.settings)
        def without_rates(text):  # a launch on its own takes 0.04 us less than one of a stream, and so its rates differ
            return re.sub(r"[0-9.e+-]+ of ", "of ", text)
        self.assertEqual((cold.returncode, without_rates(cold.stderr)), (0, without_rates(kept.stderr)))
        refused = stagecraft("time", "--timing=warm", program, **self.settings)
        self.assertIn("must be on, off, or a list of: part, cold", refused.stdout + refused.stderr)

    def test_time_of_a_part_runs_a_small_launch_whole(self):
        self.skip_unless_set_up_by_the_command()
        program = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "hello"
        whole, part = stagecraft("time", program, **self.settings), stagecraft("time", "--timing=part", program, **self.settings)
        self.assertEqual((part.returncode, part.stdout, part.stderr), (0, whole.stdout, whole.stderr))

    def test_run_reports_a_race_and_lets_the_program_go_on(self):
        self.skip_unless_set_up_by_the_command()
        program = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "chapters" / "05_scopes_wrong_reads_after_the_scope"
        done = stagecraft("run", program, **self.settings)
        self.assertIn("stagecraft: race in kernel sum_positive_rows", done.stderr)
        self.assertIn("2 passed, 0 failed", done.stdout)
        self.assertEqual(done.returncode, 1)
        done = stagecraft("run", program, **self.settings, STAGECRAFT_FINDINGS="error")
        self.assertRegex(done.stdout, "[12] failed")

    def test_run_writes_a_sarif_file_when_the_program_has_ended(self):
        self.skip_unless_set_up_by_the_command()
        program = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "chapters" / "05_scopes_wrong_reads_after_the_scope"
        file = self.folder / "reports.sarif"
        done = stagecraft("run", "--report", "sarif", "--report-file", file, program, **self.settings)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("2 passed, 0 failed", done.stdout)
        results = json.loads(file.read_text(encoding="utf-8"))["runs"][0]["results"]
        self.assertEqual({result["ruleId"] for result in results}, {"race"})
        # Without a file, to stderr. A program without reports gives a log without results.
        done = stagecraft("run", "--report=sarif", "/bin/true", **self.settings)
        self.assertEqual(json.loads(done.stderr)["runs"][0]["results"], [])
        self.assertEqual(done.returncode, 0)

    def test_run_shows_the_reports_that_a_sarif_file_does_not_take(self):
        self.skip_unless_set_up_by_the_command()
        program = self.folder / "program"
        write_script(program, f"echo '{json.dumps({'kind': 'race', 'message': 'seen'})}' >$STAGECRAFT_REPORT_FILE")
        done = stagecraft("run", "--report=sarif", "--report-file=/dev/full", program, **self.settings)
        self.assertEqual(done.returncode, 1)
        said, _, log = done.stderr.partition("\n")
        self.assertEqual(said, "stagecraft: the reports follow here, because /dev/full cannot be written: No space left on device")
        self.assertEqual(json.loads(log)["runs"][0]["results"][0]["message"]["text"], "seen")

    def test_run_takes_a_path_with_an_equals_sign(self):
        self.skip_unless_set_up_by_the_command()
        program = self.folder / "a=b" / "c=d"
        write_script(program, 'echo "ran with $STAGECRAFT_CHECKS"')
        for options in ([], ["--report=sarif", "--report-file", self.folder / "log.sarif"]):
            done = stagecraft("run", *options, program, **self.settings)
            self.assertEqual((done.returncode, done.stdout), (0, "ran with race\n"), done.stderr)

    def test_run_writes_a_sarif_file_when_it_is_interrupted(self):
        self.skip_unless_set_up_by_the_command()
        file, program = self.folder / "reports.sarif", self.folder / "endless"
        report = json.dumps({"kind": "race", "message": "as before"})
        write_script(program, f"echo '{report}' >$STAGECRAFT_REPORT_FILE", 'printf "{" >>$STAGECRAFT_REPORT_FILE', "echo ready", "exec sleep 60")
        for number, send in ((signal.SIGINT, os.killpg), (signal.SIGINT, os.kill), (signal.SIGTERM, os.kill)):   # the first as a terminal
            self.check_interrupted_sarif(file, program, number, send)

    def check_interrupted_sarif(self, file: pathlib.Path, program: pathlib.Path, number: int, send):
        file.unlink(missing_ok=True)
        with subprocess.Popen([ROOT / "stagecraft", "run", "--report=sarif", "--report-file", file, program], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, start_new_session=True,
                              env={**os.environ, **self.settings, "TMPDIR": str(self.folder)},
                              preexec_fn=lambda: signal.signal(number, signal.SIG_DFL)) as running:
            self.assertEqual(running.stdout.readline(), "ready\n")
            send(running.pid, number)
            running.communicate(timeout=20)
        self.assertEqual(running.returncode, 128 + number)
        results = json.loads(file.read_text(encoding="utf-8"))["runs"][0]["results"]
        self.assertEqual([result["ruleId"] for result in results], ["race"])
        self.assertEqual({path.name for path in self.folder.iterdir()}, {"endless", "reports.sarif"})

    def test_run_lets_a_program_succeed_that_does_what_the_chip_tolerates(self):
        self.skip_unless_set_up_by_the_command()
        program = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "chapters" / "08_tensor_memory_wrong_no_fence_after_the_wait"
        done = stagecraft("run", program, **self.settings)
        self.assertIn("stagecraft: missing tcgen05 fence in kernel multiply_tile", done.stderr)
        self.assertIn("not promised by PTX, though the chip seems to tolerate it", done.stderr)
        self.assertEqual(done.returncode, 0, done.stdout)
        done = stagecraft("run", "--findings", "error", program, **self.settings)
        self.assertEqual(done.returncode, 1)

    def test_a_chapter_says_what_was_found_and_little_else(self):
        self.skip_unless_set_up_by_the_command()
        done = stagecraft("test", "0", **self.settings)
        self.assertRegex(done.stdout, r"\n\d passed, \d failed(, \d skipped)?\n(\nChapter 00 is done|$)")
        self.assertNotIn("SKIPPED", done.stdout)
        self.assertLess(len(done.stdout.splitlines()), 25)

    def test_a_second_call_adds_less_than_a_second(self):
        self.skip_unless_set_up_by_the_command()
        stagecraft("gemm", "--help", **self.settings)
        start = time.monotonic()
        done = stagecraft("gemm", "--help", **self.settings)
        elapsed = time.monotonic() - start
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertLess(elapsed, 1.0)

    def test_what_cannot_be_printed_is_no_success(self):
        self.skip_unless_set_up_by_the_command()
        for command in (["gemm", "--help"], ["run", "--help"], ["explain"], ["help"], ["doctor"], ["standalone"], ["progress"], []):
            with open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([ROOT / "stagecraft", *command], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                      env={**os.environ, **self.settings})
            self.assertEqual(done.returncode, 1, command)
            self.assertRegex(done.stderr, r"(^|\n)(stagecraft|gemm): [^\n]*No space left on device\n$", command)

    def test_an_output_that_is_closed_is_no_success(self):
        for command in ("help", "doctor"):
            done = subprocess.run(["bash", "-c", 'exec "$0" "$1" >&-', ROOT / "stagecraft", command], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (1, "stagecraft: the output cannot be written: Bad file descriptor\n"))

    def test_gemm_refuses_a_pitch_that_is_no_multiple_of_8(self):
        self.skip_unless_set_up_by_the_command()
        done = stagecraft("gemm", "--k", "7", "--lda", "7", **self.settings)
        self.assertEqual(done.returncode, 2)
        self.assertIn("multiple of 8", done.stderr)

    def test_gemm_refuses_an_unknown_type(self):
        self.skip_unless_set_up_by_the_command()
        done = stagecraft("gemm", "--type", "f64", **self.settings)
        self.assertEqual(done.returncode, 2)
        self.assertIn('--type = "f64" is unknown. Legal are bf16, f16, tf32, e4m3 and e5m2, e4m3xe5m2 ', done.stderr)

    def test_gemm_refuses_an_unknown_option(self):
        self.skip_unless_set_up_by_the_command()
        done = stagecraft("gemm", "--depth", "7", **self.settings)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--depth", done.stderr)


class TimingTest(TemporaryFolderTest):
    def run_chapter(self, program: str, timing: str):
        """A run of a program of chapter 05, and the objects that it reported: findings, and what launches take."""
        build = pathlib.Path(os.environ["STAGECRAFT_BUILD"])
        path = build / "chapters" / program
        if not (build / "common/emulator/libcudart.so.13").exists() or not path.exists():
            self.skipTest(f"{program} was not built for the emulated GPU")
        report = self.folder / f"{program}.{timing}"
        done = run(path, "--gtest_print_time=0", STAGECRAFT_TIMING=timing, STAGECRAFT_CHECKS="race", STAGECRAFT_REPORT="json",
                   STAGECRAFT_REPORT_FILE=str(report))
        lines = report.read_text(encoding="utf-8").splitlines() if report.exists() else []
        return done, lines

    def check_same_with_timing(self, program: str, launches: int, findings: int, status: int):
        plain, plain_lines = self.run_chapter(program, "off")
        timed, timed_lines = self.run_chapter(program, "on")
        of_launches = [line for line in timed_lines if json.loads(line)["kind"] == "timing"]
        self.assertGreaterEqual(len(of_launches), launches)
        self.assertEqual([line for line in timed_lines if line not in of_launches], plain_lines)
        self.assertEqual(len(plain_lines), findings)
        self.assertEqual(timed.stdout, plain.stdout)
        self.assertEqual(timed.stderr, plain.stderr)
        self.assertEqual((timed.returncode, plain.returncode), (status, status))

    def test_a_right_program_does_the_same_when_it_is_timed(self):
        self.check_same_with_timing("05_scopes_solution", launches=8, findings=0, status=0)

    def test_a_wrong_program_is_told_the_same_when_it_is_timed(self):
        self.check_same_with_timing("05_scopes_wrong_reads_after_the_scope", launches=2, findings=1, status=1)


class TimelineTest(TemporaryFolderTest):
    options: tuple = ()
    variables: dict = {}
    said = ""

    def show(self, *pages: dict) -> subprocess.CompletedProcess:
        """./stagecraft timeline 02, with a program that only writes the pages of these runs."""
        def page(run: dict) -> str:
            return f'<script type="application/json" id="run">{json.dumps(run)}</script>'

        writes = [f"printf '%s' '{page(run)}' >\"${{STAGECRAFT_TIMELINE%.html}}{'' if number == 0 else f'.{number + 1}'}.html\""
                  for number, run in enumerate(pages)]
        write_script(self.folder / "chapters" / "02_ring_of_stages", 'echo "called with $*"', self.said, *writes)
        return run(sys.executable, TOOLS / "timelines.py", self.folder, "2", *self.options, **self.variables)

    def test_the_launch_that_was_reported_is_shown(self):
        right = {"kernel": "walk", "cycles": 42, "report": "", "warps": []}
        wrong = {"kernel": "ring", "cycles": 99, "report": "stagecraft: deadlock in kernel ring", "warps": [{"waits": [{"open": True}]}]}
        done = self.show(right, wrong, right)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 launches, each with a page in ", done.stdout)
        self.assertTrue(done.stdout.endswith("launch 2 (ring, 99 cycles, it hangs, reported: deadlock): "
                                             f"{self.folder.resolve()}/timelines/02/run.2.html\n"), done.stdout)

    def test_the_launch_of_the_lesson_is_shown_where_nothing_was_reported(self):
        right = {"kernel": "ring", "cycles": 42, "report": "", "warps": []}
        self.assertIn("launch 14 (ring, 42 cycles)", self.show(*[right] * 15).stdout)
        self.assertIn("launch 3 (ring, 42 cycles)", self.show(*[right] * 3).stdout)   # the last, where there are fewer

    def test_other_settings_of_the_environment_do_not_reach_the_program(self):
        right = {"kernel": "ring", "cycles": 42, "report": "", "warps": []}
        self.variables = {"STAGECRAFT_TIMING": "on", "STAGECRAFT_DEVICE": "h200"}
        self.said = 'env | grep ^STAGECRAFT | sort >"$(dirname "$STAGECRAFT_TIMELINE")/variables"'
        self.assertEqual(self.show(right).returncode, 0)
        folder = self.folder.resolve() / "timelines" / "02"
        *others, file = (folder / "variables").read_text(encoding="utf-8").splitlines()
        self.assertEqual(others, ["STAGECRAFT_CHECKS=race", "STAGECRAFT_DEVICE=h200"])
        self.assertRegex(file, rf"^STAGECRAFT_TIMELINE={folder}\.\d+/run\.html$")   # until it is complete

    def test_pages_that_cannot_be_replaced_stay(self):
        right = {"kernel": "ring", "cycles": 42, "report": "", "warps": []}
        page = self.folder / "timelines/02/run.html"
        self.show(right)
        before = page.read_text(encoding="utf-8")
        self.said = 'echo "stagecraft: STAGECRAFT_TIMELINE: the timeline cannot be written to x.html: No space left on device"'
        done = self.show({**right, "cycles": 43})
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"stagecraft: the pages cannot be written to {page.parent.resolve()}: No space left on device\n")
        self.assertEqual(page.read_text(encoding="utf-8"), before)
        self.assertEqual([path.name for path in page.parent.parent.iterdir()], ["02"])

    def test_a_machine_without_a_browser_says_so(self):
        right = {"kernel": "ring", "cycles": 42, "report": "", "warps": []}
        self.options = ("--open",)
        bin_folder = self.folder / "bin"
        bin_folder.mkdir()
        self.variables = {"PATH": str(bin_folder), "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": ""}
        done = self.show(right)
        self.assertIn("launch 1 (ring, 42 cycles)", done.stdout)
        self.assertIn("no browser was found here", done.stderr)
        self.assertEqual(done.returncode, 1)

    def test_a_program_that_launches_nothing_is_an_error_with_what_it_printed(self):
        done = self.show()
        self.assertEqual(done.returncode, 1)
        self.assertIn("no kernel was launched by Chapter02.", done.stderr)
        self.assertIn("called with --gtest_filter=Chapter02.", done.stderr)

    def test_a_program_that_is_not_built_is_an_error(self):
        done = run(sys.executable, TOOLS / "timelines.py", self.folder, "03")
        self.assertEqual(done.returncode, 1)
        self.assertIn("03_producer_consumer_pipeline is not built", done.stderr)


class DoctorTest(TemporaryFolderTest):
    def doctor(self, *gpus: str) -> str:
        lines = [f"echo '{gpu}'" for gpu in gpus] or ["exit 9"]
        write_script(self.folder / "nvidia-smi", *lines)
        done = stagecraft("doctor", PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_says_that_there_is_no_gpu(self):
        report = self.doctor()
        self.assertRegex(report, r"GPU +none")
        self.assertRegex(report, r"emulator +everything")
        self.assertRegex(report, r"chip +nothing")

    def test_knows_hopper(self):
        report = self.doctor("NVIDIA H200, 9.0, 580.65.06")
        self.assertIn("NVIDIA H200, driver 580.65.06", report)
        self.assertIn("Hopper (sm_90)", report)
        self.assertIn("tcgen05 and tensor memory need the emulator", report)
        self.assertIn("-Dgpu_backend=gpu", report)

    def test_knows_data_centre_blackwell(self):
        report = self.doctor("NVIDIA B200, 10.0, 580.65.06", "NVIDIA B300, 10.3, 580.65.06")
        self.assertIn("Blackwell data centre (sm_100): every program runs on it", report)
        self.assertIn("-Dgpu_architectures=103a", report)

    def test_says_what_consumer_blackwell_runs_and_what_the_emulated_b200_does(self):
        report = self.doctor("NVIDIA GeForce RTX 5090, 12.0, 580.65.06")
        self.assertIn("consumer Blackwell (sm_120): chapters 00 to 07, 09 and 12 in part, and 19 run on it", report)
        self.assertIn("need tcgen05 and tensor memory, which it does not have, and run on the emulated B200", report)
        self.assertRegex(report, r"chip +see above: .*-Dgpu_backend=gpu -Dgpu_architectures=120a")
        self.assertRegex(report, r"the same on the emulated one: meson setup \S+ -Dgpu_architectures=120a")

    def test_knows_the_dgx_spark(self):
        report = self.doctor("NVIDIA GB10, 12.1, 580.95.05")
        self.assertIn("consumer Blackwell (sm_121)", report)
        self.assertIn("-Dgpu_backend=gpu -Dgpu_architectures=121a", report)

    def test_says_that_thor_has_tcgen05_but_no_programs(self):
        report = self.doctor("NVIDIA Thor, 11.0, 580.65.06")
        self.assertIn("Jetson Thor (sm_110): has tcgen05, but the programs are not built for it", report)
        self.assertRegex(report, r"chip +nothing")

    def test_refuses_arguments(self):
        done = stagecraft("doctor", "--fast")
        self.assertIn("doctor has no option --fast;", done.stderr)
        self.assertIn("doctor takes no arguments, but was given: fast", stagecraft("doctor", "fast").stderr)
        self.assertEqual(done.returncode, 2)


class FindNvccTest(TemporaryFolderTest):
    def write_nvcc(self, version: str) -> pathlib.Path:
        home = self.folder / f"cuda-{version}"
        write_script(home / "bin" / "nvcc", f"echo 'Cuda compilation tools, release {version}, V{version}.99'")
        return home

    def test_passes_over_an_old_toolkit_and_says_why(self):
        old, new = self.write_nvcc("12.8"), self.write_nvcc("12.9")
        done = run(TOOLS / "find_nvcc", old)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{old}/bin/nvcc: version 12.8 is older than 12.9", done.stderr)
        done = run(TOOLS / "find_nvcc", CUDA_HOME=str(old), PATH=f"{new}/bin:{os.environ['PATH']}")
        self.assertEqual(pathlib.Path(done.stdout.strip()), new.resolve())

    def test_takes_a_new_enough_toolkit(self):
        for version in ("12.9", "13.0", "14.1"):
            home = self.write_nvcc(version)
            self.assertEqual(pathlib.Path(run(TOOLS / "find_nvcc", home).stdout.strip()), home.resolve())

    def test_says_that_a_folder_has_no_nvcc(self):
        done = run(TOOLS / "find_nvcc", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("bin/nvcc: not there, or not executable", done.stderr)


PTXAS_LINES = """ptxas info    : Compiling entry function '{kernel}' for 'sm_100a'
ptxas info    : Function properties for {kernel}
    {frame} bytes stack frame, {frame} bytes spill stores, {frame} bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""


class CompileCudaTest(TemporaryFolderTest):
    def test_parts_resources_from_warnings(self):
        nvcc, report = self.folder / "nvcc", self.folder / "report"
        resources = PTXAS_LINES.format(kernel="add", frame=0)
        write_script(nvcc, f"cat >&2 <<'END'\na.cu(1): warning: one\n{resources}a.cu(2): error: two\nEND", "exit 3")
        done = run(TOOLS / "compile_cuda.py", report, nvcc)
        self.assertEqual(done.returncode, 3)
        self.assertEqual(done.stdout, "a.cu(1): warning: one\na.cu(2): error: two\n")
        self.assertEqual(report.read_text(encoding="utf-8"), resources)


class PtxasTest(TemporaryFolderTest):
    def test_puts_the_ptx_beside_the_machine_code(self):
        source, output = self.folder / "kernel.ptx", self.folder / "kernel.cubin"
        source.write_text(".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry empty() { ret; }\n",
                          encoding="utf-8")
        done = run(TOOLS / "ptxas_keeping_ptx", "-lineinfo", "-v", "--opt-level", "1", "--gpu-name=sm_100a", source, "-o",
                   output)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Compiling entry function 'empty' for 'sm_100a'", done.stderr)
        self.assertEqual(output.read_bytes()[:4], bytes.fromhex("50ed55ba"))   # a container of fat binaries
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["kernel.cubin", "kernel.ptx"])
        load = """if True:
            import ctypes, pathlib, sys
            driver, any = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p
            image = pathlib.Path(sys.argv[1]).read_bytes()
            context, module, function, registers = any(), any(), any(), ctypes.c_int()
            assert driver.cuInit(0) == 0
            assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
            assert driver.cuCtxSetCurrent(context) == 0
            assert driver.cuModuleLoadData(ctypes.byref(module), image) == 0
            assert driver.cuModuleGetFunction(ctypes.byref(function), module, b"empty") == 0
            assert driver.cuFuncGetAttribute(ctypes.byref(registers), 4, function) == 0   # CU_FUNC_ATTRIBUTE_NUM_REGS
            assert driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
            print(registers.value)"""
        emulator = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "common" / "emulator"
        done = run(sys.executable, "-c", load, output, LD_LIBRARY_PATH=str(emulator))
        self.assertGreater(int(done.stdout or 0), 0, done.stderr)

    def test_passes_on_what_ptxas_refuses(self):
        source = self.folder / "kernel.ptx"
        source.write_text(".version 9.0\n.target sm_100a\n.address_size 64\n.entry bad() { add; }\n", encoding="utf-8")
        done = run(TOOLS / "ptxas_keeping_ptx", "--gpu-name=sm_100a", source, "-o", self.folder / "kernel.cubin")
        self.assertEqual(done.returncode, 255)
        self.assertIn("ptxas fatal", done.stderr)

    def test_tells_its_version_and_that_it_is_another_ptxas(self):
        done = run(TOOLS / "ptxas_keeping_ptx", "--version")
        self.assertRegex(done.stdout, r"release \d+\.\d+")   # what Triton looks for
        self.assertIn("Stagecraft: keeps the PTX", done.stdout)


class SpillsTest(TemporaryFolderTest):
    def test_names_the_kernel_that_spills(self):
        report = PTXAS_LINES.format(kernel="fits", frame=0) + PTXAS_LINES.format(kernel="spills", frame=8)
        (self.folder / "a.ptxas.txt").write_text(report, encoding="utf-8")
        done = run(TOOLS / "check_spills.py", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a.ptxas.txt: spills for sm_100a spills: 8 bytes spill stores, 8 bytes spill loads.", done.stdout)
        self.assertNotIn("fits for", done.stdout)

    def test_fails_when_nothing_was_assembled(self):
        done = run(TOOLS / "check_spills.py", self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no kernel was assembled", done.stdout)


def gtest_output(*lines: str) -> str:
    return "\n".join(["[==========] Running 9 tests.", "[----------] Global test environment set-up.", *lines, ""])


class CountTest(TemporaryFolderTest):
    def count(self, *tests: dict) -> subprocess.CompletedProcess:
        log = self.folder / "testlog.json"
        log.write_text("".join(json.dumps(test) + "\n" for test in tests), encoding="utf-8")
        return run(TOOLS / "count_tests.py", log)

    def test_counts_cases_and_programs(self):
        cases = gtest_output("[ RUN      ] A.Passes", "[       OK ] A.Passes (0 ms)",
                             "[ RUN      ] A.Skips", "a.cpp:3: Skipped", "no GPU here", "[  SKIPPED ] A.Skips (0 ms)",
                             "[ RUN      ] All/A.Passes/0", "[       OK ] All/A.Passes/0 (0 ms)",
                             "[  PASSED  ] 2 tests.", "[  SKIPPED ] 1 test, listed below:", "[  SKIPPED ] A.Skips")
        done = self.count({"name": "cases", "result": "OK", "stdout": cases},
                          {"name": "program", "result": "OK", "stdout": "fine"},
                          {"name": "absent", "result": "SKIP", "stdout": "no such tool\n"})
        self.assertEqual(done.returncode, 0)
        self.assertIn("skipped A.Skips: no GPU here\n", done.stdout)
        self.assertIn("skipped absent: no such tool\n", done.stdout)
        self.assertTrue(done.stdout.endswith("\n3 passed, 0 failed\n"), done.stdout)

    def test_the_cases_of_a_program_inside_a_test_are_not_counted(self):
        cases = gtest_output("[ RUN      ] A.Fails", "[  FAILED  ] A.Fails (0 ms)")
        done = self.count({"name": "refused", "result": "OK", "stdout": textwrap.indent(cases, "  ") + "as it should"})
        self.assertEqual(done.returncode, 0)
        self.assertTrue(done.stdout.endswith("\n1 passed, 0 failed\n"), done.stdout)

    def test_a_crash_fails_the_case_that_was_running(self):
        cases = gtest_output("[ RUN      ] A.Passes", "[       OK ] A.Passes (0 ms)", "[ RUN      ] A.Crashes")
        done = self.count({"name": "cases", "result": "FAIL", "stdout": cases})
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed  A.Crashes (ended the program)\n", done.stdout)
        self.assertTrue(done.stdout.endswith("\n1 passed, 1 failed\n"), done.stdout)

    def test_a_failure_after_the_last_case_counts(self):
        cases = gtest_output("[ RUN      ] A.Passes", "[       OK ] A.Passes (0 ms)")
        done = self.count({"name": "cases", "result": "TIMEOUT", "stdout": cases})
        self.assertEqual(done.returncode, 1)
        self.assertTrue(done.stdout.endswith("\n1 passed, 1 failed\n"), done.stdout)

    def test_an_empty_log_fails(self):
        done = self.count()
        self.assertEqual(done.returncode, 1)
        self.assertIn("no test ran", done.stdout)


if __name__ == "__main__":
    meson_tests.main()
