#!/usr/bin/env python3
"""Runs the kernels that docs/timing.md compares on the model, and prints measured and modelled times as a table.

    tests/silicon/compare_model.py --runtime build/common/emulator FOLDER RESULTS.jsonl... [--only PART]

FOLDER has the programs, built with PTX, machine code and lines, and with the shared CUDA runtime:

    nvcc -std=c++20 -O3 -lineinfo -cudart shared -gencode "arch=compute_90a,code=[sm_90a,compute_90a]" ...

A result is compared with the program of FOLDER that has its name in single launches (PLAIN_KERNELS_ONCE=1)."""
import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys

PROGRAMS = ["plain_kernels", "parallel_patterns", "layers_and_sorts", "fractals_and_bodies", "rows_and_grids", "prices_and_rays",
            "everyday_kernels", "tokens_and_images", "tables_and_channels", "scores_and_filters"]


def measured_times(files: list[pathlib.Path]) -> dict[str, float]:
    """Returns the microseconds of each kernel in files that `record.sh` wrote; the last file that has it counts."""
    times = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("{") and (constant := json.loads(line)).get("unit") == "us":
                times[constant["name"]] = constant["value"]
    return times


def modelled_times(output: str) -> dict[str, float]:
    """Returns the microseconds of each kernel in what a program printed: the launches between its name
    and the next line of `==`."""
    times, name = {}, None
    for line in output.splitlines():
        if line.startswith("=="):
            name = line[3:] or None
        elif name is not None and (found := re.match(r"modelled: ([0-9.]+) (us|ms|s)\b", line)):
            times[name] = times.get(name, 0) + float(found[1]) * {"us": 1, "ms": 1e3, "s": 1e6}[found[2]]
        elif line.startswith("not modelled"):
            print(f"{name}: {line}", file=sys.stderr)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("results", type=pathlib.Path, nargs="+")
    parser.add_argument("--runtime", type=pathlib.Path, required=True, help="the folder with the emulated libcudart.so.13")
    parser.add_argument("--only", default="", help="a part of the names of benchmarks")
    arguments = parser.parse_args()
    measured = measured_times(arguments.results)
    environment = os.environ | {
        "LD_LIBRARY_PATH": str(arguments.runtime.resolve()),
        "PLAIN_KERNELS_ONCE": "1",
        "STAGECRAFT_CHECKS": "none",
        "STAGECRAFT_DEVICE": "h200",
        "STAGECRAFT_TIMING": "part,used",
    }
    errors = []
    for program in PROGRAMS:
        source = (pathlib.Path(__file__).parent / f"{program}.cu").read_text(encoding="utf-8")
        for benchmark in re.findall(r"(?m)^BENCHMARK\((\w+)\)", source):
            if arguments.only not in f"{program} {benchmark}" or not (arguments.folder / program).exists():
                continue
            done = subprocess.run([arguments.folder / program, "--in-process", benchmark], env=environment, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            for name, modelled in modelled_times(done.stdout).items():
                if name not in measured:
                    print(f"| {name} | | {modelled:.1f} | |", flush=True)
                    continue
                errors.append(math.log(modelled / measured[name]))
                print(f"| {name} | {measured[name]:.1f} | {modelled:.1f} | {math.expm1(errors[-1]):+.0%} |", flush=True)
    if errors:
        mean = math.expm1(sum(abs(error) for error in errors) / len(errors))
        print(f"geometric mean of {len(errors)} errors: {mean:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
