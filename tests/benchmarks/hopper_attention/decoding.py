#!/usr/bin/env python3
"""Decoding on a Hopper beside cuDNN, in one process, by PyTorch's scaled_dot_product_attention.

    python3 tests/benchmarks/hopper_attention/decoding.py        the table of README.md

It needs nvcc and a PyTorch with cuDNN. A row is one query of each sequence against so many keys. Results are compared with a
reference in double first. Times are medians of replays of a graph, in random order, because L2 keeps some of what the replay
before has read.
"""
import ctypes
import math
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parents[3]
ROWS = [(head_dim, sequences, heads, key_heads, keys)
        for head_dim, sequences, heads, key_heads in ((128, 32, 32, 8), (64, 32, 32, 8), (128, 4, 32, 8), (128, 32, 64, 8), (128, 8, 32, 32))
        for keys in (1024, 4096, 16384)]


def build(folder):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / 'decoding.so'
    subprocess.run([os.environ.get('NVCC', 'nvcc'), '-O3', '-std=c++20', '-Xcompiler', '-fPIC', '-shared', '-gencode',
                    'arch=compute_90a,code=sm_90a', '-I', ROOT / 'common', '-o', path, Path(__file__).parent / 'decoding_for_python.cu',
                    ROOT / 'common/stagecraft/hopper_attention/decoding.cu'], check=True)
    library = ctypes.CDLL(str(path))
    library.prepare_measured_decoding.restype = ctypes.c_void_p
    return library


def error_of(q, k, v, out, logsumexp):
    """The largest relative error of a sequence's output, or absolute error of a logarithm."""
    worst = 0.0
    group = q.shape[1] // k.shape[1]
    for query, keys, values, own, own_logarithms in zip(q, k, v, out, logsumexp):
        scores = torch.einsum('hqd,htd->hqt', query.double(), keys.double().repeat_interleave(group, 0)) / math.sqrt(q.shape[3])
        expected = scores.softmax(-1) @ values.double().repeat_interleave(group, 0)
        worst = max(worst, ((own.double() - expected).norm() / expected.norm()).item(),
                    (own_logarithms.double() - scores.logsumexp(-1)[:, 0]).abs().max().item())
    return worst


def recorded(start):
    """A function that replays a graph of it."""
    start()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        start()
    return graph.replay


def microseconds(contenders, repeats=200):
    """Medians, in another order each time."""
    samples = {name: [] for name in contenders}
    for _ in range(repeats):
        for name in random.sample(list(contenders), len(contenders)):
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            first.record()
            contenders[name]()
            last.record()
            last.synchronize()
            samples[name].append(first.elapsed_time(last) * 1000)
    return {name: statistics.median(times[3:]) for name, times in samples.items()}


def main():
    library = build(ROOT / 'build/hopper_attention')
    print(torch.cuda.get_device_name(), 'cuDNN', torch.backends.cudnn.version())
    for head_dim, sequences, heads, key_heads, keys in ROWS:
        q = torch.randn(sequences, heads, 1, head_dim, device='cuda', dtype=torch.bfloat16)
        k, v = (torch.randn(sequences, key_heads, keys, head_dim, device='cuda', dtype=torch.bfloat16) for _ in range(2))
        out, logsumexp = torch.full_like(q, math.nan), torch.full((sequences, heads), math.nan, device='cuda')
        launch = library.prepare_measured_decoding(
            0, head_dim, *(ctypes.c_void_p(tensor.data_ptr()) for tensor in (q, k, v, out, logsumexp)), sequences, heads, key_heads, keys,
            ctypes.c_float(1 / math.sqrt(head_dim)))
        if launch is None:
            sys.exit('the launch could not be prepared')

        def ours():
            library.start_measured_decoding(ctypes.c_void_p(launch), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

        def cudnn():
            return functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        ours()
        torch.cuda.synchronize()
        error = error_of(q, k, v, out, logsumexp)
        if not error < 5e-3:
            sys.exit(f'wrong: {error}')
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            times = microseconds({'ours': recorded(ours), 'cuDNN': recorded(cudnn)})
        rate = {name: 2 * k.nbytes / time / 1e6 for name, time in times.items()}
        print(f'{head_dim:3} {sequences:2} x {heads}/{key_heads} heads {keys:5} keys: error {error:.1e}, '
              f'{times["ours"]:.1f} us {rate["ours"]:.3f} TB/s, cuDNN {times["cuDNN"]:.1f} us {rate["cuDNN"]:.3f} TB/s, '
              f'ratio {rate["ours"] / rate["cuDNN"]:.3f}', flush=True)


if __name__ == '__main__':
    main()
