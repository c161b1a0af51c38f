"""A product on Hopper's tensor cores from Python, which needs no package: by ctypes, from a shared library of all of the GEMM.

  g++ -shared -o libstagecraft_hopper.so -Wl,--whole-archive $(pkg-config --libs stagecraft_hopper_c) -Wl,--no-whole-archive
  stagecraft run --device h200 python3 hopper_gemm.py       (python3 hopper_gemm.py on a machine with an H100 or H200)
"""

import ctypes
import struct
from ctypes import Structure, byref, c_char_p, c_int, c_int64, c_size_t, c_void_p

gemm, cuda = ctypes.CDLL("./libstagecraft_hopper.so"), ctypes.CDLL("libcudart.so.13")
BAD_PROBLEM = 1


class Problem(Structure):
    """That of stagecraft/hopper_gemm/c_interface.h; type 0 is bf16."""

    _fields_ = [("type", c_int), *((name, c_void_p) for name in "abc"), *((name, c_int64) for name in "mnk")]


gemm.stagecraft_hopper_message.restype = c_char_p


def check(status: int) -> None:
    if status:
        raise RuntimeError(gemm.stagecraft_hopper_message().decode())


def on_device(content: bytes) -> c_void_p:
    """The address of a copy in device memory."""
    address = c_void_p()
    if cuda.cudaMalloc(byref(address), c_size_t(len(content))) or cuda.cudaMemcpy(address, content, c_size_t(len(content)), 1):
        raise RuntimeError("there is no usable device, or it has no memory left")
    return address


def bf16(values) -> bytes:
    """Numbers of few bits, so that cutting floats off rounds nothing."""
    return b"".join(struct.pack("<f", value)[2:] for value in values)


m, n, k = 70, 50, 60
a = [[(i + 2 * j) % 5 - 2 for j in range(k)] for i in range(m)]
b = [[(3 * i + j) % 3 - 1 for j in range(k)] for i in range(n)]
expected = bf16(sum(x * y for x, y in zip(row, column)) for row in a for column in b)   # up to 120, so bf16 holds them

plan, c = c_void_p(), on_device(bytes(len(expected)))
problem = Problem(a=on_device(bf16(sum(a, []))), b=on_device(bf16(sum(b, []))), c=c, m=m, n=n, k=k)
check(gemm.stagecraft_hopper_create(byref(problem), byref(plan)))
check(gemm.stagecraft_hopper_run(plan, None))
result = ctypes.create_string_buffer(len(expected))
if cuda.cudaMemcpy(result, c, c_size_t(len(expected)), 2):
    raise RuntimeError("the kernel failed")
gemm.stagecraft_hopper_destroy(plan)
if result.raw != expected:
    raise RuntimeError("an element is wrong")
print(f"{m * n} elements are right")

# What is refused comes with a sentence.
problem.k = 0
assert gemm.stagecraft_hopper_create(byref(problem), byref(plan)) == BAD_PROBLEM and not plan
print(gemm.stagecraft_hopper_message().decode())
