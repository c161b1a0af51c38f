"""A product on the tensor cores from Python, which needs no package: by ctypes, from a shared library of all of the GEMM.

  g++ -shared -o libstagecraft_gemm.so -Wl,--whole-archive $(pkg-config --libs stagecraft_c) -Wl,--no-whole-archive
  stagecraft run python3 gemm.py       (python3 gemm.py on a machine with a B200)
"""

import ctypes
import struct
from ctypes import POINTER, Structure, byref, c_bool, c_char_p, c_float, c_int, c_int64, c_size_t, c_void_p

gemm, cuda = ctypes.CDLL("./libstagecraft_gemm.so"), ctypes.CDLL("libcudart.so.13")
RELU = 1
BAD_PROBLEM = 1


# The structures of stagecraft/gemm/c_interface.h.
class Matrix(Structure):
    _fields_ = [("type", c_int), ("is_transposed", c_bool), ("pitch", c_int64), ("batch_stride", c_int64)]


class Problem(Structure):
    _fields_ = [*((name, c_int64) for name in ("m", "n", "k", "batches")),
                *((name, Matrix) for name in ("a", "b", "d", "c", "second")), ("activation", c_int),
                *((name, c_bool) for name in ("adds_c", "adds_bias", "scales_rows", "scales_columns", "scales_d",
                                              "stores_second", "measures_maximum")),
                ("groups", POINTER(c_int64)), ("group_count", c_int64), ("masked_groups", c_int64)]


class Arguments(Structure):
    _fields_ = [*((name, c_void_p) for name in (
        "a", "b", "d", "a_scale_factors", "b_scale_factors", "d_scale_factors", "c", "second", "bias", "row_scales",
        "column_scales", "absolute_maximum", "masked_rows")),
        *((name, POINTER(c_float)) for name in ("alpha", "beta", "scale"))]


gemm.stagecraft_gemm_message.restype = c_char_p
gemm.stagecraft_gemm_description.restype = c_char_p
gemm.stagecraft_gemm_description.argtypes = gemm.stagecraft_gemm_destroy.argtypes = [c_void_p]
gemm.stagecraft_gemm_run.argtypes = [c_void_p, POINTER(Arguments), c_void_p, c_size_t, c_void_p]


def check(status: int) -> None:
    if status:
        raise RuntimeError(gemm.stagecraft_gemm_message().decode())


def on_device(content: bytes) -> c_void_p:
    """The address of a copy in device memory."""
    address = c_void_p()
    if cuda.cudaMalloc(byref(address), c_size_t(len(content))) or cuda.cudaMemcpy(address, content, c_size_t(len(content)), 1):
        raise RuntimeError("there is no usable device, or it has no memory left")
    return address


def bf16(values) -> bytes:
    """Numbers of few bits, so that cutting floats off rounds nothing."""
    return b"".join(struct.pack("<f", value)[2:] for value in values)


m, n, k = 70, 50, 64
a = [[(i + 2 * j) % 5 - 2 for j in range(k)] for i in range(m)]
b = [[(3 * i + j) % 3 - 1 for j in range(k)] for i in range(n)]

# D = relu(A * B transposed).
plan = c_void_p()
problem = Problem(m=m, n=n, k=k, activation=RELU)   # of bf16, which is type 0
check(gemm.stagecraft_gemm_create(byref(problem), None, byref(plan)))
print(gemm.stagecraft_gemm_description(plan).decode())
result = ctypes.create_string_buffer(2 * m * n)
d = on_device(result.raw)
arguments = Arguments(a=on_device(bf16(sum(a, []))), b=on_device(bf16(sum(b, []))), d=d)
check(gemm.stagecraft_gemm_run(plan, byref(arguments), None, 0, None))
if cuda.cudaMemcpy(result, d, c_size_t(len(result)), 2):
    raise RuntimeError("the kernel failed")
gemm.stagecraft_gemm_destroy(plan)

if result.raw != bf16(max(0, sum(x * y for x, y in zip(row, column))) for row in a for column in b):   # up to 128, so bf16 holds them
    raise RuntimeError("an element is wrong")
print(f"{m * n} elements are right")

# What is refused comes with a sentence.
assert gemm.stagecraft_gemm_create(byref(Problem(m=m, n=n)), None, byref(plan)) == BAD_PROBLEM and not plan
print(gemm.stagecraft_gemm_message().decode())
