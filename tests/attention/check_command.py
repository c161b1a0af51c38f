#!/usr/bin/env python3
"""Calls `attention` with wrong options: each must end with status 2 and a message that says what is legal.

usage: check_command.py ATTENTION
"""

import shlex
import subprocess
import sys

MISTAKES = {
    "--type f64": '--type = "f64" is unknown. Legal are bf16, f16 and e4m3.',
    "--queries many": '--queries = "many" is not a whole number. Legal are 0 to ',
    "--keys -3": "--keys = -3 is too small.",
    "--heads 6 --kv-heads 4": "attention: --heads = 6 is not a multiple of --kv-heads = 4",
    "--head-dim 100": "attention: --head-dim = 100 is not a multiple of 8",
    "--head-dim 256": "attention: --head-dim = 256 is too large. Legal are 8 to 192.",
    "--head-dim 192 --value-dim 136": "attention: --value-dim = 136 is too large. Legal are 8 to 128.",
    "--type e4m3 --head-dim 72": "attention: --head-dim = 72 is not a multiple of 16, which in e4m3 are 16 bytes",
    "--window 128": '--window = "128" is not two numbers of keys',
    "--lengths 5": '--lengths = "5" is not queries:keys of each sequence',
    "--page-size 48": "attention: --page-size = 48. Legal are 16, 32, 64 and multiples of 128",
    "--lengths 5:7,": '--lengths = "5:7," is not queries:keys of each sequence',
    "--keys ''": "attention: --keys: the value is empty; attention --help lists the options",
    "--scale -1": "attention: --scale = -1.000000 must be positive and finite",
    "--scale 0": "attention: --scale = 0 makes all logits 0. It must be positive.",
    "--scale 1e-35": "attention: --scale = 1e-35 is too small. Legal are 2^-100 to 2^100",
    "--soft-cap 3e38": "attention: --soft-cap = 3e+38 is too large.",
    "--scale 1e-20 --soft-cap 1e30": "attention: --scale = 1e-20 and --soft-cap = 1e+30 are too far apart",
    "--soft-cap nan": '--soft-cap = "nan" is not a number of type float.',
    "--layout rows": '--layout = "rows" is unknown. Legal are tokens and heads.',
    "--depth 7": "attention: there is no option --depth; attention --help lists the options",
    "--casual": "attention: there is no option --casual; did you mean --causal? attention --help lists the options",
}


def main() -> int:
    problems = []
    for arguments, sentence in MISTAKES.items():
        done = subprocess.run([sys.argv[1], *shlex.split(arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode != 2 or sentence not in done.stdout or len(done.stdout.splitlines()) != 1:
            problems.append(f"attention {arguments}: expected status 2 and `{sentence}`, but got {done.returncode} and\n"
                            f"{done.stdout}")
    print("\n".join(problems) or f"all {len(MISTAKES)} mistakes are refused with the right words")
    return 1 if problems else 0


sys.exit(main())
