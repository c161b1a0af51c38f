#!/usr/bin/env python3
"""Passes when a test of kernels that a Hopper cannot run skips every case on the emulated H200, and says what is needed.

usage: run_on_hopper.py PROGRAM
"""

import os
import re
import subprocess
import sys
import textwrap

done = subprocess.run([sys.argv[1]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                      env={**os.environ, "STAGECRAFT_DEVICE": "h200"}, timeout=30, check=False)
print(textwrap.indent(done.stdout, "  "))  # so that its cases are not counted as this test's
wanted = [r"NVIDIA H200 \(emulated\) has compute capability 9\.0", "Run it on the emulated (B200|RTX 5090)", "\n0 passed, 0 failed, "]
missing = [text for text in wanted if not re.search(text, done.stdout)]
for text in missing:
    print(f"the output does not contain: {text.strip()}")
if done.returncode != 0:
    print(f"it ended with status {done.returncode}, though nothing was tested")
sys.exit(1 if missing or done.returncode != 0 else 0)
