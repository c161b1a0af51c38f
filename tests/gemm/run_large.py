#!/usr/bin/env python3
"""Runs the GEMM on large problems, which take minutes: run it by hand, and keep what it prints in large_problems.txt.

usage: run_large.py BUILD_FOLDER
"""

import os
import pathlib
import subprocess
import sys
import time

PROBLEMS = """
--m 2048 --n 2048 --k 2048
--m 2048 --n 2048 --k 2048 --cta-group 2 --tile 256x256
--m 2048 --n 2048 --k 2048 --cta-group 2 --cluster 4x2 --schedule clc
--m 1999 --n 1501 --k 1777 --schedule clc --cluster 1x1 --swizzle 4
--m 1537 --n 2305 --k 1025 --cluster 4x4
--m 1537 --n 2305 --k 1025 --cluster 2x2 --raster n --swizzle 3
--m 3001 --n 999 --k 700 --cluster 1x2
--m 999 --n 3001 --k 700 --tile 128x256
--m 511 --n 513 --k 16384 --split-k 7
--m 1000 --n 1000 --k 8000 --stream-k
--m 1000 --n 1000 --k 8000 --stream-k --schedule clc
--m 1500 --n 1500 --k 2000 --cta-group 2 --split-k 2
--m 1500 --n 1500 --k 2000 --cta-group 2 --stream-k --schedule clc
--m 1500 --n 1500 --k 2000 --cta-group 2 --cluster 4x2 --split-k 3 --schedule clc
--m 2000 --n 1600 --k 1000 --bias --activation gelu --aux --amax
--m 2000 --n 1600 --k 1000 --beta 0.5 --activation silu --row-scales --column-scales
--m 1200 --n 2000 --k 1000 --activation gated-silu --cta-group 2
--m 1200 --n 2000 --k 1000 --beta -2 --activation gelu-tanh --cta-group 2 --amax
--m 1900 --n 1700 --k 1300 --layout nt
--m 1900 --n 1700 --k 1300 --layout nn
--m 1900 --n 1700 --k 1300 --layout tt
--m 1900 --n 1700 --k 1300 --type f16 --cta-group 2
--m 1300 --n 1100 --k 1500 --type tf32 --layout nt
--m 1300 --n 1100 --k 3000 --type e4m3 --layout nt
--m 1300 --n 1100 --k 3000 --type e4m3 --c-type e4m3 --scale 4 --bias --activation relu
--m 1300 --n 1100 --k 3000 --type e5m2 --c-type bf16
--m 1300 --n 1100 --k 3000 --type e4m3xe5m2 --c-type bf16
--m 1300 --n 1100 --k 3000 --type mxfp8 --c-type bf16 --cta-group 2
--m 1300 --n 1100 --k 4000 --type nvfp4 --c-type f32
--m 1300 --n 1100 --k 4000 --type mxfp4 --c-type bf16
--groups 700,1,0,513,300 --n 1100 --k 1000
--groups 700,1,0,513,300 --n 1100 --k 1000 --masked --cta-group 2
--m 24 --n 5000 --k 2000 --swap
--m 600 --n 500 --k 400 --batch 12
--m 1300 --n 1100 --k 3000 --type fp8-blockwise
--m 1300 --n 1100 --k 3000 --type fp8-blockwise --cta-group 2 --schedule clc
--m 1300 --n 1100 --k 3000 --type mxfp8 --c-type mxfp8 --cta-group 2 --activation gated-silu
--m 1300 --n 1100 --k 3000 --type nvfp4 --c-type nvfp4 --scale 0.01
--groups 700,1,0,513,300 --n 1100 --k 1000 --type mxfp8 --bias --activation silu
--groups 700,1,0,513,300 --n 1100 --k 1000 --type nvfp4 --cta-group 2 --activation gated-silu
--groups 700,1,0,513,300 --n 1100 --k 1000 --schedule clc --split-k 2 --beta 0.5
--m 1999 --n 1501 --k 777 --cta-group 2 --cluster 4x2 --fallback 2x1 --schedule clc
--m 1999 --n 1501 --k 777 --tile 128x48 --accumulators 4 --cluster 1x2
--m 1999 --n 1501 --k 777 --type f16 --layout tt --tile 256x96 --cta-group 2 --split-k 2 --schedule clc --bias
--m 40 --n 5000 --k 2000 --bias --activation gelu --beta 1
""".strip().splitlines()


def main() -> int:
    gemm = pathlib.Path(sys.argv[1]) / "gemm"
    failed, start = 0, time.monotonic()
    for problem in PROBLEMS:
        done = subprocess.run([gemm, *problem.split()], capture_output=True, text=True, check=False,
                              env={**os.environ, "STAGECRAFT_CHECKS": "race"})
        failed += done.returncode != 0
        said = done.stdout if done.returncode == 0 else done.stdout + done.stderr
        print(f"{problem}\n  {said.strip()}", flush=True)
    print(f"{len(PROBLEMS)} problems, {failed} failed, {time.monotonic() - start:.0f} s")
    return 1 if failed else 0


sys.exit(main())
