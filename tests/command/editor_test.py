#!/usr/bin/env python3
"""Tests of the editor's configuration: what its problem matchers find in what the programs print."""

import contextlib
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # leave no cache folder among the sources
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "common" / "tools"))
import pages  # noqa: E402


def tasks() -> list:
    return json.loads((ROOT / ".vscode/tasks.json").read_text(encoding="utf-8"))["tasks"]


def matchers(owner: str) -> list:
    return [matcher for task in tasks() for matcher in task["problemMatcher"] if matcher["owner"] == owner]


def found(matcher: dict, lines: list) -> list:
    """What an editor finds: for each place where all patterns match lines that follow each other, their parts by name."""
    patterns = matcher["pattern"] if isinstance(matcher["pattern"], list) else [matcher["pattern"]]
    problems = []
    for first in range(len(lines) - len(patterns) + 1):
        matches = [re.match(pattern["regexp"], line) for pattern, line in zip(patterns, lines[first:])]
        if all(matches):
            problems.append({name: match[group] for pattern, match in zip(patterns, matches)
                             for name, group in pattern.items() if name != "regexp"})
    return problems


class EditorTest(unittest.TestCase):
    def test_clangd_finds_what_each_file_of_an_exercise_includes(self):
        """As clangd would: the command of the file itself, in the folder that .clangd names, and the folders that the command names."""
        self.assertIn("CompilationDatabase: build\n", (ROOT / ".clangd").read_text(encoding="utf-8"))
        database = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "compile_commands.json"
        commands = {command["file"]: command.get("arguments") for command in json.loads(database.read_text(encoding="utf-8"))}
        files = [file for ending in ("cu", "cuh", "hpp") for file in ROOT.glob(f"chapters/[0-9][0-9]_*/*.{ending}")]
        own_includes = 0
        for file in sorted(files):
            self.assertIn(str(file), commands)
            self.assertEqual(commands[str(file)][1:3], ["-x", "cuda"])
            folders = [pathlib.Path(argument[2:]) for argument in commands[str(file)] if argument.startswith("-I")]
            for form, name in re.findall(r'(?m)^#include ([<"])([\w/]+\.(?:hpp|cuh|inc))[>"]$', file.read_text(encoding="utf-8")):
                candidates = [*([file.parent] if form == '"' else []), *folders]
                self.assertTrue(any((folder / name).exists() for folder in candidates), f"{file} includes {name}")
                own_includes += 1
        self.assertGreater(own_includes, 30)

    def test_every_report_of_the_lessons_that_names_a_line_becomes_a_problem(self):
        reports = 0
        for matcher in matchers("stagecraft"):
            for page in pages.lessons():
                for block in pages.blocks((ROOT / page).read_text(encoding="utf-8")):
                    lines = block.text().split("\n")
                    if block.language != "console":
                        continue
                    expected = [(match[1], after[1]) for line, next_line in zip(lines, lines[1:])
                                if (match := re.match(r"stagecraft: .+ in kernel .+ \((.+)\)$", line))
                                and (after := re.search(r" at [\w.]+:(\d+)[ :]", next_line))]
                    got = [(problem["file"], problem["line"]) for problem in found(matcher, lines)]
                    self.assertEqual(got, expected, f"{page}:{block.first}")
                    reports += len(expected)
        self.assertGreater(reports, 20)

    def test_a_report_has_its_kind_place_and_message(self):
        lines = ["stagecraft: deadlock in kernel sum_rows<2> (chapters/02_ring_of_stages/ring.cu)",
                 "  block (0,0,0) warp 0 [lane 0] mbarrier.try_wait.parity.shared::cta.b64 at ring.cu:61 (mbarrier.hpp:53): waits for empty[0]"]
        for matcher in matchers("stagecraft"):
            self.assertEqual(found(matcher, lines), [{"code": "deadlock", "file": "chapters/02_ring_of_stages/ring.cu", "line": "61",
                                                      "message": "waits for empty[0]"}])

    def test_an_error_of_a_compiler_becomes_a_problem(self):
        nvcc = '../chapters/02_ring_of_stages/ring.cu(57): error: identifier "stat" is undefined'
        host = "../chapters/02_ring_of_stages/pipeline_state.hpp:12:3: error: expected ';' before '}' token"
        tasks_that_build = 2   # test and watch
        self.assertEqual([found(matcher, [nvcc]) for matcher in matchers("nvcc")],
                         tasks_that_build * [[{"file": "../chapters/02_ring_of_stages/ring.cu", "line": "57", "severity": "error", "code": None,
                                               "message": 'identifier "stat" is undefined'}]])
        self.assertEqual([found(matcher, [host]) for matcher in matchers("host compiler")],
                         tasks_that_build * [[{"file": "../chapters/02_ring_of_stages/pipeline_state.hpp", "line": "12", "column": "3",
                                               "severity": "error", "message": "expected ';' before '}' token"}]])

    def test_a_handle_that_is_dropped_becomes_one_problem(self):
        """What the build prints of the wrong answers of lesson 04, as the lesson shows it."""
        page = next(page for page in pages.lessons() if page.parent.name.startswith("04_"))
        lines = [line for block in pages.blocks((ROOT / page).read_text(encoding="utf-8")) for line in block.text().split("\n")
                 if block.language == "console"]
        expected = [line for line in lines if re.match(r"build/wrong/04_.*: error: this \w+Stage ", line)]
        self.assertTrue(expected)
        for matcher in matchers("linear handles"):
            problems = found(matcher, lines)
            self.assertEqual([f"{problem['file']}:{problem['line']}: error: {problem['message']}" for problem in problems], expected)
        for line in expected:
            self.assertEqual([task["label"] for task in tasks() for matcher in task["problemMatcher"] if found(matcher, [line])],
                             ["Stagecraft: test the open chapter", "Stagecraft: watch the open chapter"])

    def test_what_a_wrong_answer_prints_in_a_terminal_becomes_a_problem_at_its_line(self):
        """A wrong answer as it runs here, in a terminal, as an editor's task does."""
        program = pathlib.Path(os.environ["STAGECRAFT_BUILD"]) / "chapters" / "02_ring_of_stages_wrong_one_lane_frees"
        if not program.exists():
            self.skipTest(f"{program.name} is not built")
        ours, theirs = pty.openpty()
        with subprocess.Popen([program], stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env={**os.environ, "STAGECRAFT_CHECKS": "race"}) as process:
            os.close(theirs)
            printed = b""
            with contextlib.suppress(OSError):   # a terminal that nobody holds any more
                while piece := os.read(ours, 1 << 16):
                    printed += piece
        os.close(ours)
        self.assertNotEqual(process.returncode, 0)
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", printed.decode("utf-8", "replace"))   # colours, which an editor removes, too
        lines = [line.rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]
        for matcher in matchers("stagecraft"):
            problems = found(matcher, lines)
            self.assertEqual([problem["code"] for problem in problems], ["deadlock"], text)
            self.assertTrue(problems[0]["file"].endswith("02_ring_of_stages/one_lane_frees/ring.cu"), text)
            source = (ROOT / problems[0]["file"]).read_text(encoding="utf-8").splitlines()
            self.assertIn("wait", source[int(problems[0]["line"]) - 1])
            self.assertIn("waits for empty[0]", problems[0]["message"])

    def test_a_task_has_the_form_that_an_editor_reads(self):
        """As Visual Studio Code describes it: code.visualstudio.com/docs/reference/tasks-appendix."""
        document = json.loads((ROOT / ".vscode/tasks.json").read_text(encoding="utf-8"))
        self.assertEqual(document["version"], "2.0.0")
        inputs = {entry["id"] for entry in document["inputs"]}
        self.assertTrue(all({"id", "type", "description"} <= set(entry) for entry in document["inputs"]))
        self.assertEqual(len({task["label"] for task in tasks()}), len(tasks()))
        for task in tasks():
            self.assertLessEqual(set(task), {"label", "detail", "type", "command", "options", "group", "presentation", "isBackground",
                                             "problemMatcher"}, task["label"])
            for variable in re.findall(r"\$\{([^}]+)\}", json.dumps(task)):
                self.assertTrue(variable in ("workspaceFolder", "fileDirname") or variable.removeprefix("input:") in inputs, variable)
            self.assertEqual("isBackground" in task, any("background" in matcher for matcher in task["problemMatcher"]), task["label"])
            for matcher in task["problemMatcher"]:
                self.assertLessEqual(set(matcher), {"owner", "source", "severity", "fileLocation", "pattern", "background"})
                self.assertIn(matcher.get("severity", "error"), ("error", "warning", "info"))
                self.assertIn(matcher["fileLocation"][0], ("relative", "autoDetect", "absolute"))
                patterns = matcher["pattern"] if isinstance(matcher["pattern"], list) else [matcher["pattern"]]
                parts = {}
                for pattern in patterns:
                    groups = {name: group for name, group in pattern.items() if name != "regexp"}
                    self.assertLessEqual(max(groups.values()), re.compile(pattern["regexp"]).groups, pattern["regexp"])
                    parts.update(groups)
                self.assertLessEqual({"file", "line", "message"}, set(parts))
                self.assertLessEqual(set(parts), {"file", "line", "message", "code", "severity", "column"})

    def test_the_patterns_are_those_of_the_editors_language(self):
        """An editor matches them in JavaScript, this test in Python: both find the same in a report."""
        if shutil.which("node") is None:
            self.skipTest("Node is not installed")
        report = ["stagecraft: deadlock in kernel sum_rows<2> (chapters/02_ring_of_stages/ring.cu)",
                  "  block (0,0,0) warp 0 [lane 0] mbarrier.try_wait.parity.shared::cta.b64 at ring.cu:61 (mbarrier.hpp:53): waits for empty[0]",
                  "  chapters/02_ring_of_stages/ring.cu:37: TODO 2: wait", "../a.hpp:1:2: fatal error: no b.hpp", "a.cu:3: error: this is dropped",
                  '../chapters/02_ring_of_stages/ring.cu(57): error: no "stat"']
        patterns = [pattern["regexp"] for task in tasks() for matcher in task["problemMatcher"]
                    for pattern in (matcher["pattern"] if isinstance(matcher["pattern"], list) else [matcher["pattern"]])]
        script = ("const [patterns, lines] = JSON.parse(process.argv[1]); console.log(JSON.stringify(patterns.map(pattern =>"
                  "lines.map(line => [...(new RegExp(pattern).exec(line) ?? [])].map(part => part ?? null)))))")
        done = subprocess.run(["node", "-e", script, json.dumps([patterns, report])], check=True, text=True, stdout=subprocess.PIPE)
        matches = [[re.match(pattern, line) for line in report] for pattern in patterns]
        self.assertEqual(json.loads(done.stdout), [[[match[0], *match.groups()] if match else [] for match in row] for row in matches])
        self.assertTrue(all(any(row) for row in matches), "a pattern finds nothing in any of the lines")

    def test_the_tasks_call_commands_that_there_are(self):
        usage = (ROOT / "stagecraft").read_text(encoding="utf-8")
        for task in tasks():
            command = re.match(r"\./stagecraft (\w+)", task["command"])[1]
            self.assertRegex(usage, rf"(?m)^  {command}\b")

    def test_a_task_calls_the_command_with_the_chapter_of_the_open_file(self):
        """Each command as an editor hands it to a shell, with a ./stagecraft that only says what it was given."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "stagecraft").write_text('#!/bin/sh\necho "$@"\n', encoding="utf-8")
            (folder / "stagecraft").chmod(0o755)
            values = {"fileDirname": f"{folder}/a folder/chapters/02_ring_of_stages", "input:program": "build/hello 1"}
            said = []
            for task in tasks():
                self.assertEqual((task["type"], task["options"]), ("shell", {"cwd": "${workspaceFolder}"}))
                command = re.sub(r"\$\{([\w:]+)\}", lambda found: values[found[1]], task["command"])
                said.append(subprocess.run(["sh", "-c", command], cwd=folder, check=True, text=True, stdout=subprocess.PIPE).stdout.strip())
            self.assertEqual(said, ["test 02", "watch 02", "timeline 02 --open", "run build/hello 1"])

    def test_a_watch_begins_and_ends_and_its_open_exercises_become_problems(self):
        """./stagecraft watch 00 as it runs here, on the untouched exercise."""
        build = pathlib.Path(os.environ["STAGECRAFT_BUILD"])
        record = build / "tools" / "configure.done"
        if not record.exists():
            self.skipTest("this build folder was configured by hand, not by ./stagecraft")
        if "TODO" not in (ROOT / "chapters/00_first_kernel/first_kernel.cu").read_text(encoding="utf-8"):
            self.skipTest("the exercise of chapter 00 has been done, so nothing is open")
        watch = next(task for task in tasks() if "watch" in task["command"])
        background = next(matcher["background"] for matcher in watch["problemMatcher"] if "background" in matcher)
        (build / "chapters" / "00_first_kernel").unlink(missing_ok=True)   # so that there is something to build
        settings = {"CI": "true" if "-Dwerror=true" in record.read_text(encoding="utf-8") else ""}
        with subprocess.Popen([ROOT / "stagecraft", "watch", "00"], text=True, errors="replace", start_new_session=True,
                              env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            lines = []
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                if re.match(background["endsPattern"], lines[-1]):
                    break
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=60)
        self.assertEqual(len([line for line in lines if re.match(background["beginsPattern"], line)]), 1, "\n".join(lines))
        for matcher in matchers("exercise"):
            problems = found(matcher, lines)
            self.assertTrue(problems, "\n".join(lines))
            for problem in problems:
                source = (ROOT / problem["file"]).read_text(encoding="utf-8").splitlines()
                self.assertIn(problem["message"].partition(":")[0], source[int(problem["line"]) - 1])

    def test_the_container_is_described_and_begins_with_a_command_that_there_is(self):
        text = (ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8")
        container = json.loads(re.sub(r"(?m)^\s*//.*$", "", text))   # the format allows comments
        self.assertLessEqual(set(container), {"name", "image", "postCreateCommand", "customizations"})   # containers.dev/implementors/json_reference
        for extension in container["customizations"]["vscode"]["extensions"]:
            self.assertRegex(extension, r"^[\w-]+\.[\w-]+$")
        self.assertRegex(container["image"], r"^[\w./-]+:[\w.-]+$")
        self.assertRegex(container["postCreateCommand"], r"^\./stagecraft test 00\b")


if __name__ == "__main__":
    unittest.main()
