#!/usr/bin/env python3
"""Runs a chapter's program and keeps the timeline of a launch, for ./stagecraft timeline and for the site.

timelines.py BUILD CHAPTER [--test TEST] [--open]

A lesson says which runs it shows with lines of their own, each after the drawing of the run, which is what a Git host shows:

    ![This run, drawn](../../docs/figures/runs/02_ring_of_stages_solution.svg)

    <!-- timeline: chapters/02_ring_of_stages_solution Chapter02.Todo2To5RowsGoAroundTheRing 14 -->

PROGRAM in the build folder, TEST, and the number of the launch in that test; `last` is the last one.
"""

import sys

sys.dont_write_bytecode = True  # leave no cache folder among the sources
import guarded  # noqa: E402, before all others: from here on Ctrl-C leaves no trace

import argparse
import errno
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import webbrowser

import build_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARKER = re.compile(r"^<!-- timeline: (?P<program>chapters/(?P<name>\w+)) (?P<test>[\w.*]+) (?P<launch>\d+|last) -->$")
DRAWING = re.compile(r"^!\[[^]]*\]\([\w./]*docs/figures/runs/(?P<name>\w+)\.svg\)$")   # by draw_runs.py
CANNOT_WRITE = re.compile(r"STAGECRAFT_TIMELINE: the timeline cannot be written to .*: (.*)")
RUN = re.compile(r'<script type="application/json" id="run">(.*?)</script>', re.DOTALL)


class NoTimeline(Exception):
    """There is no timeline; the text says why, and what to do."""


def in_text(text):
    """Returns the markers of a lesson, in order, as matches of MARKER."""
    return [match for line in text.split("\n") if (match := MARKER.match(line))]


def read_run(page):
    """Returns the run that a timeline's page holds."""
    return json.loads(RUN.search(page.read_text(encoding="utf-8"))[1])


def record(program, test, folder):
    """Runs a test with a timeline, and returns the pages of its launches in `folder`, in order, and what was printed.

    In place of a test a program without tests has its own arguments, with commas between them.
    """
    arguments = test.split(",") if "," in test else [f"--gtest_filter={test}"]
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith("STAGECRAFT_") or key == "STAGECRAFT_DEVICE"}
    environment.update(STAGECRAFT_CHECKS="race", STAGECRAFT_TIMELINE=str(folder / "run.html"))
    with subprocess.Popen([program, *arguments], env=environment, cwd=ROOT, text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as run:
        build_folder.unlock(program.parents[1])
        output = run.communicate()[0]
    return sorted(folder.glob("run*.html"), key=launch_of), output


def launch_of(page):
    """Returns the number of a launch, from 1 on: run.html is the first, run.2.html the second."""
    return int(page.stem.partition(".")[2] or 1)


def write(build, marker, target):
    """Writes the timeline that a lesson asks for."""
    program = build / marker["program"]
    if not program.exists():
        raise NoTimeline(f"{marker['program']} is not built")
    with tempfile.TemporaryDirectory() as folder:
        pages, output = record(program, marker["test"], pathlib.Path(folder))
        number = len(pages) if marker["launch"] == "last" else int(marker["launch"])
        if not 1 <= number <= len(pages):
            raise NoTimeline(f"{marker['program']}: {marker['test']} has {len(pages)} launches, so there is no launch {number}; "
                             f"it printed:\n{output[-2000:]}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(pages[number - 1], target)


# ---- ./stagecraft timeline ----------------------------------------------------------------------------------------------

def find_chapter(number):
    return next((ROOT / "chapters").glob(f"{number.zfill(2)}_*/"))   # ./stagecraft has found it


def choose(pages, wished):
    """Returns the launch to look at: the first that was reported, else the one that the lesson shows, else the last."""
    reported = [page for page in pages if read_run(page)["report"]]
    if reported:
        return reported[0]
    return next((page for page in pages if launch_of(page) == wished), pages[-1])


def describe(run):
    found = re.match(r"stagecraft: (.*?) in kernel", run["report"])
    hangs = any(wait.get("open") for warp in run["warps"] for wait in warp["waits"])
    parts = [run["kernel"], f"{run['cycles']} cycles", *(["it hangs"] if hangs else []), *([f"reported: {found[1]}"] if found else [])]
    return ", ".join(parts)


def show(build, options):
    chapter = find_chapter(options.chapter)
    markers = in_text((chapter / "README.md").read_text(encoding="utf-8"))
    shown = next((marker for marker in markers if marker["name"] == f"{chapter.name}_solution"), None)
    test = options.test or (shown["test"] if shown else "*")
    wished = int(shown["launch"]) if shown and not options.test and shown["launch"] != "last" else None
    folder = build / "timelines" / chapter.name[:2]
    program = build / "chapters" / chapter.name
    if not program.exists():
        raise NoTimeline(f"{program} is not built: call ./stagecraft timeline {chapter.name[:2]}, or meson compile -C {build}")
    made = folder.with_name(f"{folder.name}.{os.getpid()}")
    made.mkdir(parents=True)
    try:
        pages, output = record(program, f"*{options.test}*" if options.test else test, made)
        if not pages:
            raise NoTimeline(f"no kernel was launched by {test}; ./stagecraft test {chapter.name[:2]} shows the tests. The program "
                             f"printed:\n{output[-2000:]}")
        if problem := CANNOT_WRITE.search(output):
            raise NoTimeline(f"the pages cannot be written to {folder}: {problem[1]}")
        while made.exists():   # only now: what cannot be replaced stays
            shutil.rmtree(folder, ignore_errors=True)
            try:
                made.rename(folder)
            except OSError as error:
                if error.errno != errno.ENOTEMPTY:   # another call was faster
                    raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    pages = [folder / page.name for page in pages]
    page = choose(pages, wished)
    print(f"chapter {chapter.name[:2]}, {test}: {len(pages)} launch{'es' if len(pages) > 1 else ''}, each with a page in {folder}")
    print(f"launch {launch_of(page)} ({describe(read_run(page))}): {page}")
    if options.open and not webbrowser.open(page.as_uri()):
        raise NoTimeline("no browser was found here that could show it; any browser can open that file")
    return 0


def main():
    build = pathlib.Path(sys.argv.pop(1)).resolve()
    parser = argparse.ArgumentParser(prog="./stagecraft timeline", allow_abbrev=False, description="Runs your answer to a chapter, and "
                                     "writes a page for each launch: who ran and who waited when, and the state of every barrier.")
    parser.error = lambda problem: guarded.misuse(f"timeline: {problem}")
    parser.add_argument("chapter", help="a number, such as 03")
    parser.add_argument("--test", help="the test to run, or a part of its name; default: the one that the lesson shows")
    parser.add_argument("--open", action="store_true", help="show the page in a browser")
    try:
        return show(build, parser.parse_args())
    except NoTimeline as missing:
        print(f"stagecraft: {missing}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    guarded.run(main)
