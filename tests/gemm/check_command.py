#!/usr/bin/env python3
"""Gives the program `gemm` command lines that are wrong, and checks that each ends with one sentence that says what is
legal, and with status 2.

usage: check_command.py GEMM [--thorough]
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
    "--lda 3": "gemm: the pitch of A, 3 bf16 elements, is less than the 512 of a line.",
    "--lda 513": "Pad it to 520.",
    "--ldc 9999999999999999": "gemm: --ldc = 9999999999999999 is too large. Legal are 0 to 1099511627775.",
    "--alpha nan": 'gemm: --alpha = "nan" is not a finite number of type float.',
    "--beta 1e99": 'gemm: --beta = "1e99" is not a finite number of type float.',
    "--alpha 1e-50": 'gemm: --alpha = "1e-50" is too small for type float, in which it would be 0.',
    "--scale x": 'gemm: --scale = "x" is not a finite number of type float.',
    "--activation tanh":
        'gemm: --activation = "tanh" is unknown. Legal are none, relu, gelu, gelu-tanh, silu, gated-silu.',
    "--activation gated-silu --n 511": "gemm: N = 511 is odd, and a gated activation makes one column of two.",
    "--tile 128": 'gemm: --tile = "128" is not two numbers, such as 4x2.',
    "--tile 0x16": "gemm: --tile = 0 is too small.",
    "--split-k 0": "gemm: --split-k = 0 is too small.",
    "--split-k 2 --stream-k": "gemm: split_k and stream_k exclude each other",
    "--schedule one-tile --stream-k": "it needs a persistent schedule or launch control.",
    "--swap --no-swap": "--swap excludes --no-swap",
    "--swap --activation gated-silu": "gemm: A and B cannot be exchanged with a gated activation",
    "--raster x": 'gemm: --raster = "x" is unknown. Legal are m and n.',
    "--groups 5,,6": 'gemm: --groups = "" is not a whole number.',
    "--groups 0,0": "gemm: M = 0 is too small. Legal are 1 to 8388480.",
    "--groups 5,6 --m 12": "gemm: the groups have 11 rows together, and M = 12: they must add up to M.",
    "--groups 5,6 --m 5 --masked": "gemm: a masked group has 6 rows, and M = 5: M is the most that one may have.",
    "--groups 5,6 --batch 2": "gemm: a problem has batches or groups, not both.",
    "--groups 5,6 --layout nn": "gemm: a group begins at row 5, which is not a multiple of 8",
    "--masked": "--masked requires --groups",
    "--blocks -1": "gemm: --blocks = -1 is too small.",
    "--seed x": 'gemm: --seed = "x" is not a whole number.',
    "--bogus": "The following argument was not expected: --bogus",
}
# What only the compiler refuses, which takes seconds: a tile, and what does not fit.
REFUSED_BY_COMPILER = {
    "--tile 100x128": "gemm: tile_m must be 64 or 128 for one block.",
    "--k-group 8 --tile 128x256": "gemm: the stages do not fit in shared memory",
}
# More of them, for the long form.
ALSO_REFUSED_BY_COMPILER = {
    "--cta-group 2 --tile 64x128": "gemm: tile_m must be 128 or 256 for a pair of blocks.",
    "--cta-group 2 --cluster 1x2": "gemm: cluster_m must be even with cta_group 2",
    "--cluster 5x4": "gemm: a cluster has 1 to 16 blocks.",
    "--accumulators 3 --tile 128x256":
        "gemm: accumulators * tile_n must be at most 512, the columns of tensor memory.",
}


def main() -> int:
    problems = []
    mistakes = ALSO_REFUSED_BY_COMPILER if "--thorough" in sys.argv else MISTAKES | REFUSED_BY_COMPILER
    for arguments, sentence in mistakes.items():
        done = subprocess.run([sys.argv[1], *shlex.split(arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode != 2 or sentence not in done.stdout or len(done.stdout.splitlines()) > 2:
            problems.append(f"gemm {arguments}: expected status 2 and `{sentence}`, but got {done.returncode} and\n"
                            f"{done.stdout}")
    print("\n".join(problems) or f"all {len(mistakes)} mistakes are refused with the right words")
    return 1 if problems else 0


sys.exit(main())
