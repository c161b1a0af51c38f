#!/usr/bin/env python3
"""Runs the gallery on a Hopper GPU, alone and under the four tools of compute-sanitizer, and records what they show.

usage: record.py BUILD_FOLDER RESULT.json [BASE[/MISTAKE]...]

Bases that a Hopper GPU can run are compiled for sm_90a with the toolkit's nvcc. Every variant runs five times alone and
once under each tool; a run that does not end is killed, and counts as a hang. Where the right program takes nearly that
long, the machine is too busy, and nothing is recorded. What RESULT.json has of other variants stays. Nothing changes a
setting of the GPU.
"""

import concurrent.futures
import datetime
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # leave no cache folder among the sources
FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
sys.path.insert(0, str(ROOT / "tests/mistakes"))
from form import read_mistakes  # noqa: E402
from making import source_of_all  # noqa: E402

HOPPER_BASES = ("handover", "pair", "registers", "ring", "store", "tiles", "warp", "warpgroups", "warps")
TOOLKIT = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
RUNS, RUN_LIMIT, TOOL_LIMIT = 5, 20, 30  # runs alone; seconds
AT_A_TIME = 8


def compile_base(folder: pathlib.Path, base: str) -> str:
    source = folder / f"{base}.made.cu"
    source.write_text(source_of_all(FOLDER / f"{base}.mistakes"), encoding="utf-8")
    subprocess.run([TOOLKIT / "bin/nvcc", "-std=c++20", "-O1", "-lineinfo", "-cudart", "shared", "--diag-suppress=177",
                    "-gencode", "arch=compute_90a,code=sm_90a", f"-I{ROOT}/common", f"-I{FOLDER}",
                    "-DCCCL_DISABLE_FP16_SUPPORT", source, "-o", folder / base], check=True)
    return base


def run(command: list, limit: int) -> tuple[str, str]:
    """How a command ends ("exit N" or "hang"), and what it prints."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=limit)
        return f"exit {process.returncode}", output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return "hang", process.communicate()[0]


def alone(folder: pathlib.Path, base: str, variant: str) -> list[str]:
    """What the runs have come to: "right result", "wrong result", an error of CUDA, or "hang" (then there is one run)."""
    results: list[str] = []
    while len(results) < RUNS and "hang" not in results:
        end, output = run([folder / base, variant], RUN_LIMIT)
        lines = output.strip().splitlines()
        results.append(end if end == "hang" or not lines else lines[-1])
    return results


def timed(folder: pathlib.Path, base: str) -> float:
    """The seconds that the right program takes while others run."""
    begin = time.monotonic()
    run([folder / base, "right"], 4 * RUN_LIMIT)
    return time.monotonic() - begin


def under(folder: pathlib.Path, tool: str, base: str, variant: str) -> dict:
    """What a tool says: how it ended, the number of errors it counts, and its first messages."""
    end, output = run([TOOLKIT / "bin/compute-sanitizer", "--tool", tool, "--print-limit", "3", folder / base, variant],
                      TOOL_LIMIT)
    said = [line.removeprefix("=========").strip() for line in output.splitlines() if line.startswith("=========")]
    summary = next((line for line in reversed(said) if "SUMMARY" in line), "")
    messages = [line for line in said if re.match(r"(Error|Warning|Invalid|Barrier|Program hit|Misaligned)", line)]
    places = [found[1] for line in said if (found := re.search(rf"\b({base}\.cu:\d+)", line))]
    return {"end": end, "summary": summary, "messages": messages[:4], "places": sorted(set(places))[:6]}


def text_of(record: dict) -> str:
    """The record as JSON with a line for each variant."""
    variants = ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in record["variants"].items())
    return json.dumps(record | {"variants": {}})[:-2] + f"\n{variants}\n}}}}\n"


def main() -> None:
    folder, result = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[3:] or HOPPER_BASES
    bases = list(dict.fromkeys(each.split("/")[0] for each in wanted))
    with concurrent.futures.ThreadPoolExecutor(AT_A_TIME) as pool:
        list(pool.map(lambda base: compile_base(folder, base), bases))
        variants = [(base, name) for base in bases
                    for name in ["right", *(bug.name for bug in read_mistakes(FOLDER / f"{base}.mistakes"))]
                    if base in wanted or f"{base}/{name}" in wanted]
        run([folder / bases[0], "right"], 120)  # the first program on a machine waits for the driver
        # Alone first, so that the tools' load does not change what a race does.
        runs = {at: pool.submit(alone, folder, *at) for at in variants}
        slow = [pool.submit(timed, folder, base) for base in bases]
        found = {f"{base}/{name}": {"alone": runs[base, name].result()} for base, name in variants}
        if max(each.result() for each in slow) > RUN_LIMIT / 2:
            sys.exit("right programs take too long here to tell them from those that hang: nothing was recorded")
        checks = {(at, tool): pool.submit(under, folder, tool, *at) for at in variants for tool in TOOLS}
        for ((base, name), tool), check in checks.items():
            found[f"{base}/{name}"][tool] = check.result()
    _, gpu = run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], 20)
    _, version = run([TOOLKIT / "bin/compute-sanitizer", "--version"], 20)
    before = json.loads(result.read_text(encoding="utf-8"))["variants"] if result.exists() else {}
    record = {"gpu": gpu.strip(), "tool": " ".join(version.split()[-5:]), "date": datetime.date.today().isoformat(),
              "variants": before | found}
    result.write_text(text_of(record), encoding="utf-8")


if __name__ == "__main__":
    main()
