#!/usr/bin/env python3
"""Attention on a Hopper beside cuDNN, in one process, by PyTorch's scaled_dot_product_attention.

    python3 tests/benchmarks/hopper_attention/benchmark.py --json FILE      the table of README.md, and raw times
    python3 tests/benchmarks/hopper_attention/benchmark.py --steps          and the steps to the kernel

It needs nvcc and a PyTorch with cuDNN, and builds what it measures in --build. Each kernel is first compared with a
reference in double, and each timed result with cuDNN's; a wrong one makes it fail. A row has 16384 tokens in all.
"""
import argparse
import concurrent.futures
import ctypes
import json
import math
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / 'common/stagecraft/hopper_attention'
TOKENS = 16384
HEADS = {128: 16, 64: 32}


def members(**values):
    """What a configuration replaces of the defaults. (No commas: nvcc takes what follows one in -D for another macro.)"""
    kinds = {bool: 'bool', int: 'int', float: 'float'}
    return ''.join(f'static constexpr {kinds[type(value)]} {name} = {str(value).lower()};' for name, value in values.items())


STEPS = {}  # name: (head_dim, causal, members)
for is_causal in (False, True):
    for dim in (128, 64):
        ours = {'head_dim': dim, 'causal': is_causal}
        for name, changes in {
            'products, then weights': {'overlaps': False, 'tolerated_growth': 0.0},
            'weights during the own product': {'tolerated_growth': 0.0},
            'growth tolerated': {},
            'turns': {'takes_turns': True},
            '176 keys' if dim == 128 else 'four stages': {'key_tile': 176} if dim == 128 else {'takes_turns': True, 'stages': 4},
            **({} if dim == 128 else {'three warpgroups': {'takes_turns': True, 'stages': 4, 'consumers': 3}}),
        }.items():
            STEPS[f'{dim} {"causal" if is_causal else "full"}: {name}'] = (dim, is_causal, members(**ours | changes))


class Kernels:
    """The library's, or one configuration."""

    def __init__(self, path):
        self.library = ctypes.CDLL(str(path))
        self.library.prepare_measured_attention.restype = ctypes.c_void_p

    def prepare(self, q, k, v, out, logsumexp, causal, scale):
        """A function that starts it."""
        address = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (q, k, v, out, logsumexp)]
        launch = self.library.prepare_measured_attention(
            int(q.dtype == torch.float16), q.shape[3], int(causal), *address, q.shape[0], q.shape[1], k.shape[1], q.shape[2],
            k.shape[2], ctypes.c_float(scale))
        if launch is None:
            sys.exit('the launch could not be prepared')
        launch, stream = ctypes.c_void_p(launch), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        return lambda: self.library.start_measured_attention(launch, stream)


def build(folder, steps):
    """Compiles all that is measured, side by side."""
    folder.mkdir(parents=True, exist_ok=True)
    compiler = [os.environ.get('NVCC', 'nvcc'), '-O3', '-std=c++20', '-Xcompiler', '-fPIC', '-lineinfo', '-gencode',
                'arch=compute_90a,code=sm_90a', '-I', ROOT / 'common']
    here = Path(__file__).parent / 'for_python.cu'
    objects = {source: folder / (source.name + '.o')
               for source in (here, FOLDER / 'attention.cpp', FOLDER / 'attention_bf16.cu', FOLDER / 'attention_f16.cu')}
    commands = [compiler + ['-c', source, '-o', target] for source, target in objects.items()]
    paths = {name: folder / f'step_{i}.so' for i, name in enumerate(steps)}
    commands += [compiler + ['-shared', f'-DSTAGECRAFT_ATTENTION_MEMBERS={steps[name][2]}', here, '-o', path]
                 for name, path in paths.items()]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda command: subprocess.run(command, check=True), commands))
    subprocess.run(compiler + ['-shared', *objects.values(), '-o', folder / 'library.so'], check=True)
    return Kernels(folder / 'library.so'), {name: Kernels(path) for name, path in paths.items()}


def reference(q, k, v, causal, scale):
    q, k, v = (tensor.double() for tensor in (q, k, v))
    group = q.shape[1] // k.shape[1]
    logits = q @ k.repeat_interleave(group, 1).transpose(-1, -2) * scale
    if causal:
        queries, keys = logits.shape[-2:]
        own = torch.arange(queries, device='cuda')[:, None] + keys - queries
        logits = logits.masked_fill(torch.arange(keys, device='cuda') > own, -math.inf)
    return torch.softmax(logits, -1).nan_to_num(0) @ v.repeat_interleave(group, 1), torch.logsumexp(logits, -1)


def check(name, kernels, head_dim, causal, dtype):
    """Exits unless a kernel is right on problems with partial tiles, groups of heads, and queries that see nothing."""
    worst = 0
    for sequences, heads, key_heads, queries, keys in ((2, 4, 2, 1000, 1000), (1, 6, 2, 130, 777), (3, 2, 1, 1, 500),
                                                       (1, 2, 2, 700, 300), (1, 132, 132, 513, 385), (1, 2, 1, 4096, 4096)):
        def rows(count, tokens):
            return torch.randn(sequences, count, tokens, head_dim, device='cuda').to(dtype)
        q, k, v = rows(heads, queries), rows(key_heads, keys), rows(key_heads, keys)
        out, logsumexp = torch.empty_like(q), torch.empty(sequences, heads, queries, device='cuda')
        scale = 2 / head_dim ** .5
        start = kernels.prepare(q, k, v, out, logsumexp, causal, scale)
        expected, expected_logsumexp = reference(q, k, v, causal, scale)
        for _ in range(3):
            out.fill_(math.nan)
            logsumexp.fill_(math.nan)
            start()
            torch.cuda.synchronize()
            error = ((out.double() - expected).norm() / expected.norm()).item()
            finite = torch.isfinite(expected_logsumexp)
            close = torch.allclose(logsumexp.double()[finite], expected_logsumexp[finite], atol=1e-3, rtol=0)
            if not (error < 5e-3 and close and torch.equal(torch.isneginf(logsumexp), ~finite)):
                sys.exit(f'{name}, {dtype}: {queries} queries, {keys} keys are wrong: {error}')
            worst = max(worst, error)
    print(f'{name}, head_dim {head_dim}, {"causal" if causal else "full"}, {dtype}: right, relative error {worst:.1e}', flush=True)


def measure(row, contenders, repeats, pause, launch_seconds):
    """Median milliseconds of each contender, and all samples: in another order each time, `pause` seconds apart."""
    samples = {name: [] for name in contenders}
    count = max(1, round(launch_seconds / (row['flop'] / 5.5e14)))
    for _ in range(repeats):
        for name in random.sample(list(contenders), len(contenders)):
            time.sleep(pause)
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            contenders[name]()
            first.record()
            for _ in range(count):
                contenders[name]()
            last.record()
            last.synchronize()
            samples[name].append(first.elapsed_time(last) / count)
    return samples


def run_rows(lengths, library, steps, modes, repeats):
    rows = []
    for head_dim in HEADS:
        for causal in (False, True):
            for length in lengths:
                sequences, heads = TOKENS // length, HEADS[head_dim]
                row = {'head_dim': head_dim, 'causal': causal, 'length': length,
                       'flop': 4 * sequences * heads * length ** 2 * head_dim / (2 if causal else 1)}
                q, k, v = (torch.randn(sequences, heads, length, head_dim, device='cuda', dtype=torch.bfloat16) for _ in range(3))
                outputs = {}

                def ours(name, kernels):
                    outputs[name] = torch.full_like(q, math.nan), torch.empty(sequences, heads, length, device='cuda')
                    return kernels.prepare(q, k, v, *outputs[name], causal, head_dim ** -.5)
                contenders = {'cuDNN': lambda: functional.scaled_dot_product_attention(q, k, v, is_causal=causal),
                              'library': ours('library', library)}
                for name, (dim, is_causal, _) in STEPS.items():
                    if name in steps and (dim, is_causal) == (head_dim, causal):
                        contenders[name] = ours(name, steps[name])
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    cudnn = contenders['cuDNN']().float()
                    for start in contenders.values():
                        start()
                    torch.cuda.synchronize()
                    for name, (out, _) in outputs.items():
                        if not (out.float() - cudnn).norm() / cudnn.norm() < 5e-3:
                            sys.exit(f'{name} and cuDNN differ: {row}')
                    for mode, (pause, seconds) in modes.items():
                        samples = measure(row, contenders, repeats, pause, seconds)
                        tflops = {name: row['flop'] / statistics.median(times) / 1e9 for name, times in samples.items()}
                        row[mode] = {'tflops': tflops, 'milliseconds': samples}
                        print(f'{head_dim:3} {"causal" if causal else "full":6} {length:5} {mode:9}', *(
                            f'{name.split(": ")[-1]} {value:.0f} ({value / tflops["cuDNN"]:.3f})' for name, value in tflops.items()),
                            flush=True)
                rows.append(row)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--steps', action='store_true', help='measure the steps as well, of two lengths')
    parser.add_argument('--lengths', default='1024,2048,4096,8192,16384', help='of a sequence')
    parser.add_argument('--repeats', type=int, default=15)
    parser.add_argument('--json', type=Path)
    parser.add_argument('--build', type=Path, default=ROOT / 'build/hopper_attention')
    options = parser.parse_args()

    library, steps = build(options.build, STEPS if options.steps else {})
    for head_dim in HEADS:
        for causal in (False, True):
            for dtype in (torch.bfloat16, torch.float16):
                check('the library', library, head_dim, causal, dtype)
    for name, kernels in steps.items():
        check(name, kernels, *STEPS[name][:2], torch.bfloat16)

    query = subprocess.run(['nvidia-smi', '--query-gpu=name,driver_version,power.limit,clocks.max.sm', '--format=csv,noheader'],
                           capture_output=True, text=True, check=True).stdout.strip()
    result = {'gpu': query, 'torch': torch.__version__, 'cudnn': torch.backends.cudnn.version(), 'date': time.strftime('%Y-%m-%d')}
    print(result, flush=True)
    modes = {'sustained': (0, 3e-3), 'burst': (.012, 1e-3)}  # seconds of rest before each, and of launches
    result['rows'] = run_rows([int(length) for length in options.lengths.split(',')], library, {}, modes, options.repeats)
    for mode in modes:
        ratios = [row[mode]['tflops']['library'] / row[mode]['tflops']['cuDNN'] for row in result['rows']]
        print(f'{mode}: geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.3f}, lowest {min(ratios):.3f}')
    if steps:
        result['steps'] = run_rows([2048, 16384], library, steps, {'sustained': modes['sustained']}, options.repeats)
    if options.json:
        options.json.write_text(json.dumps(result))


if __name__ == '__main__':
    main()
