#!/usr/bin/env python3
"""Runs kernels of Triton and Gluon on the emulated GPU, through the doors that `./stagecraft run` opens.

usage: triton_test.py LIBRARIES TOOLKIT   the folder of the emulated GPU's libraries, that of the CUDA Toolkit
Exits with 77 where the `python3` in PATH has no PyTorch for CUDA 13 or no Triton of version 3.8 or newer.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "common" / "tools"

CAN_RUN = """
import torch, triton
assert torch.version.cuda and torch.version.cuda.startswith("13"), "PyTorch is not for CUDA 13"
assert tuple(map(int, triton.__version__.split(".")[:2])) >= (3, 8), "Triton is older than 3.8"
"""

KERNELS = """
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)


@triton.jit
def double_tile(x, out, rows, columns, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    row, column = tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK
    target.store([row, column], 2 * source.load([row, column]))


@gluon.jit
def copy_tile(source, target):
    tile = gl.allocate_shared_memory(source.dtype, source.block_shape, source.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.expect(full, source.nbytes_per_cta)
    tma.async_load(source, [0, 0], full, tile)
    tma.async_store(target, [0, 0], tile)  # does not wait for the load
    mbarrier.wait(full, phase=0)
    tma.store_wait(0)


x, y = torch.rand(1000, device="cuda"), torch.rand(1000, device="cuda")
out = torch.empty_like(x)
kernel = add[(4,)](x, y, out, 1000, BLOCK=256)
torch.testing.assert_close(out, x + y, rtol=0, atol=0)
assert kernel.n_regs > 0

@torch.library.custom_op("stagecraft_test::add_one", mutates_args=())
def add_one(x: torch.Tensor) -> torch.Tensor:
    assert x.is_cuda
    sum = torch.empty_like(x)
    add[(4,)](x, torch.ones_like(x), sum, 1000, BLOCK=256)  # PyTorch's ones_like is computed on the host
    return sum


torch.testing.assert_close(add_one(x), x + 1, rtol=0, atol=0)

calls = []
times = triton.testing.do_bench(lambda: calls.append(1), quantiles=[0.5, 0.2, 0.8])
assert len(calls) == 1 and len(times) == 3, "a timed configuration runs once"

triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
tiles, doubled = torch.randn(48, 80, device="cuda"), torch.zeros(48, 80, device="cuda")
double_tile[(2, 3)](tiles, doubled, 48, 80, BLOCK=32)
torch.testing.assert_close(doubled, 2 * tiles, rtol=0, atol=0)
print("right", flush=True)

layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float32)
x, y = torch.rand(64, 64, device="cuda"), torch.zeros(64, 64, device="cuda")
copy_tile[(1,)](*(TensorDescriptor.from_tensor(tensor, [64, 64], layout) for tensor in (x, y)))
"""


def main() -> int:
    libraries, toolkit = map(pathlib.Path, sys.argv[1:])
    python = shutil.which("python3")
    can_run = subprocess.run([python, "-c", CAN_RUN], capture_output=True, text=True, check=False)
    if can_run.returncode != 0:
        print("skipped:", can_run.stderr.strip().splitlines()[-1])
        return 77
    names = ("libcudart.so.13", "libcuda.so.1", "libcublasLt.so.13", "libcublas.so.13")
    ptxas = str(TOOLS / "ptxas_keeping_ptx")
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "kernels.py"
        program.write_text(KERNELS, encoding="utf-8")
        environment = {
            **os.environ, "LD_LIBRARY_PATH": str(libraries), "STAGECRAFT_TOOLKIT": str(toolkit),
            "LD_PRELOAD": ":".join(str(libraries / name) for name in names if (libraries / name).exists()),
            "TRITON_PTXAS_PATH": ptxas, "TRITON_PTXAS_BLACKWELL_PATH": ptxas, "TRITON_CACHE_DIR": folder,
            "STAGECRAFT_CHECKS": "race", "STAGECRAFT_FINDINGS": "report", "STAGECRAFT_EXIT_STATUS": "strict",
        }
        done = subprocess.run([python, TOOLS / "torch_on_host.py", program], capture_output=True, text=True, check=False,
                              env=environment)
    print(done.stdout, done.stderr, sep="\n")
    line = 1 + KERNELS.splitlines().index("    tma.async_store(target, [0, 0], tile)  # does not wait for the load")
    findings = [text for text in done.stderr.splitlines() if text.startswith("stagecraft: ")]
    assert done.stdout == "right\n", "a kernel is wrong"
    assert findings == ["stagecraft: race in kernel copy_tile (kernels.py)",
                        "stagecraft: exit status 1, because of what was reported"], findings
    assert f"at kernels.py:{line}: race" in done.stderr, f"the report does not name line {line}"
    assert done.returncode == 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
