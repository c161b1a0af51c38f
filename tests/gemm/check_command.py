#!/usr/bin/env python3
"""Gives the program `gemm` command lines that are wrong, and checks that each ends with one sentence that says what is
legal, and with status 2, before anything is compiled.

usage: check_command.py GEMM
"""

import shlex
import subprocess
import sys

# Arguments, and what the last line of stderr must be.
MISTAKES = {
    "--m 0": "gemm: M = 0 is too small. Legal are 1 to 8388480.",
    "--n -1": "gemm: N = -1 is too small. Legal are 1 to 8388480.",
    "--k 99999999999999999999": "gemm: K = 99999999999999999999 is too large. Legal are 1 to 8388480.",
    "--m 1.5": 'gemm: M = "1.5" is not a whole number. Legal are 1 to 8388480.',
    "--batch 65536": "gemm: --batch = 65536 is too large. Legal are 1 to 65535.",
    "--m 8388480 --n 8388480 --k 8 --tile 128x128 --cluster 1x1":
        "gemm: the result has 4294836225 tiles of 128x128, which an index of 32 bits cannot count. Compute it in parts.",
    "--batch 65535 --m 4000 --n 4000 --k 4000": "Choose smaller sizes.",
    "--batch 2 --m 8388480 --k 8388480": "it must be less than 2^40 bytes.",
    "--type fp7": 'gemm: --type = "fp7" is unknown.',
    "--type bf16xf16": "gemm: A of bf16 and B of f16 cannot be multiplied.",
    "--c-type e5m2": "gemm: a result of e5m2 cannot be stored. Legal are f32, bf16, f16, e4m3, mxfp8, mxfp4 and nvfp4.",
    "--layout nx": 'gemm: --layout = "nx" is unknown.',
    "--type nvfp4 --layout nt":
        "gemm: A and B of nvfp4 must be contiguous along K: so are the blocks that share a scale factor.",
    "--type nvfp4 --k 333": "gemm: K = 333 is odd, and two elements of 4 bits share a byte.",
    "--lda 3": "gemm: --lda, the pitch of A, 3 bf16 elements, is less than the 512 of a line.",
    "--lda 513": "Pad it to 520.",
    "--aux --ldc 513": "gemm: --ldc, the pitch of D, 513 bf16 elements, and its batch stride must be multiples of 8 with a second",
    "--beta 1 --addend-pitch 5": "gemm: --addend-pitch, the pitch of C, 5 bf16 elements, is less than the 512 of a line.",
    "--ldc 9999999999999999": "gemm: --ldc = 9999999999999999 is too large. Legal are 0 to 1099511627775.",
    "--alpha nan": 'gemm: --alpha = "nan" is not a finite number of type float.',
    "--beta 1e99": 'gemm: --beta = "1e99" is not a finite number of type float.',
    "--alpha 1e-50": 'gemm: --alpha = "1e-50" is too small for type float, in which it would be 0.',
    "--scale x": 'gemm: --scale = "x" is not a finite number of type float.',
    "--addend-type e4m3 --beta 1": "gemm: C is of e4m3. Legal are f32, bf16 and f16.",
    "--bias --bias-type tf32": "gemm: --bias-type = tf32. Legal are f32, bf16 and f16.",
    "--activation tanh":
        'gemm: --activation = "tanh" is unknown. Legal are none, relu, gelu, gelu-tanh, silu, gated-silu.',
    "--activation gated-silu --n 511": "gemm: N = 511 is odd, and a gated activation makes one column of two.",
    "--tile 128": 'gemm: --tile = "128" is not two numbers, such as 4x2.',
    "--tile 0x16": "gemm: --tile = 0 is too small.",
    "--split-k 0": "gemm: --split-k = 0 is too small.",
    "--split-k 2 --stream-k": "gemm: --split-k and --stream-k exclude each other",
    "--schedule one-tile --stream-k": "it needs a persistent schedule or launch control.",
    "--swap --no-swap": "gemm: --swap excludes --no-swap; gemm --help lists the options",
    "--swap --activation gated-silu": "gemm: A and B cannot be exchanged with a gated activation",
    "--raster x": 'gemm: --raster = "x" is unknown. Legal are m and n.',
    "--groups 5,,6": 'gemm: --groups = "" is not a whole number.',
    "--groups 5,": 'gemm: --groups = "" is not a whole number.',
    "--groups ''": "gemm: --groups: the value is empty; gemm --help lists the options",
    "--m ''": "gemm: --m: the value is empty; gemm --help lists the options",
    "--c-type=": "gemm: --c-type: 1 required TYPE missing; gemm --help lists the options",
    "--groups 0,0": "gemm: M = 0 is too small. Legal are 1 to 8388480.",
    "--groups 5,6 --m 12": "gemm: the groups have 11 rows together, and M = 12: they must add up to M.",
    "--groups 5,6 --m 5 --masked": "gemm: a masked group has 6 rows, and M = 5: M is the most that one may have.",
    "--groups 5,6 --batch 2": "gemm: a problem has batches or groups, not both.",
    "--groups 5,6 --layout nn": "gemm: a group begins at row 5, which is not a multiple of 8",
    "--masked": "gemm: --masked requires --groups; gemm --help lists the options",
    "--blocks -1": "gemm: --blocks = -1 is too small.",
    "--seed x": 'gemm: --seed = "x" is not a whole number.',
    "--bogus": "gemm: there is no option --bogus; gemm --help lists the options",
    "--bata=3": "gemm: there is no option --bata; did you mean --beta? gemm --help lists the options",
    "512": 'gemm: "512" is not expected; gemm --help lists the options',
    "--m": "gemm: --m: 1 required NUMBER missing; gemm --help lists the options",
    # What no kernel can be compiled for, in the words of the options.
    "--tile 100x128": "gemm: M of --tile 100x128 must be 64 or 128 for one block.",
    "--cta-group 2 --tile 64x128": "gemm: M of --tile 64x128 must be 128 or 256 for a pair of blocks.",
    "--tile 128x8": "gemm: N of --tile 128x8 must be 16, 32, ..., 256.",
    "--cta-group 3": "gemm: --cta-group must be 1 or 2, a block or a pair.",
    "--k-group 9": "gemm: --k-group must be 1 to 8 k-tiles of 128 bytes.",
    "--accumulators 5": "gemm: --accumulators must be 1 to 4.",
    "--accumulators 3 --tile 128x256":
        "gemm: --accumulators * N of --tile 128x256 must be at most 512, the columns of tensor memory.",
    "--type nvfp4 --tile 128x256 --accumulators 2": "Choose fewer accumulators, or a smaller N of --tile.",
    "--k-group 8 --tile 128x256": "gemm: the stages do not fit in shared memory: stages * --k-group *",
    "--cta-group 2 --cluster 1x2": "gemm: M of --cluster 1x2 must be even with --cta-group 2",
    "--cluster 5x4": "gemm: a cluster has 1 to 16 blocks: M of --cluster 5x4 * N of --cluster.",
    "--cluster 4x1 --fallback 3x1": "M of --fallback 3x1 divides M of --cluster 4x1, N of --fallback N of --cluster:",
    "--tile 128x48 --cluster 4x1": "Choose a smaller M of --cluster, or another N of --tile.",
    "--layout nt --cluster 6x1": "8 * M of --cluster 6x1 / --cta-group. Choose a smaller M of --cluster.",
    "--c-type mxfp8 --tile 128x80": "Choose a larger N of --tile.",
}


def main() -> int:
    problems = []
    for arguments, sentence in MISTAKES.items():
        done = subprocess.run([sys.argv[1], *shlex.split(arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode != 2 or sentence not in done.stdout or len(done.stdout.splitlines()) != 1 or \
                "no compiled kernel is as requested" in done.stdout:
            problems.append(f"gemm {arguments}: expected status 2 and `{sentence}`, but got {done.returncode} and\n"
                            f"{done.stdout}")
    print("\n".join(problems) or f"all {len(MISTAKES)} mistakes are refused with the right words")
    return 1 if problems else 0


sys.exit(main())
