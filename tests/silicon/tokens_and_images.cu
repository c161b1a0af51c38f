// Everyday kernels that were written when the model had its rules for the kinds of everyday_kernels.cu: modelled, and
// only then measured (docs/timing.md).
#include <cuda_bf16.h>

#include "kernel_timing.hpp"

using namespace silicon;

/// in * mask * 1.25, 16 bytes and 4 bits a thread.
__global__ void __launch_bounds__(256) dropped(const float4* in, const uint8_t* mask, float4* out) {
  const size_t i = size_t{blockIdx.x} * 256 + threadIdx.x;
  const float4 x = in[i];
  const uint8_t bits = mask[i];
  out[i] = {bits & 1 ? 1.25f * x.x : 0, bits & 2 ? 1.25f * x.y : 0, bits & 4 ? 1.25f * x.z : 0,
            bits & 8 ? 1.25f * x.w : 0};
}

/// Tokens x heads x 64 to heads x tokens x 64, a word a thread.
__global__ void __launch_bounds__(256) heads_first(const float* in, float* out, uint32_t tokens, uint32_t heads) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x, d = i % 64, t = i / 64 % tokens, h = i / 64 / tokens;
  out[i] = in[(size_t{t} * heads + h) * 64 + d];
}

/// Running products of each row, a thread each.
__global__ void __launch_bounds__(128) running_products(const float* in, float* out, int columns) {
  const size_t row = size_t{blockIdx.x} * 128 + threadIdx.x;
  float product = 1;
  for (int i = 0; i < columns; ++i) out[row * columns + i] = product *= in[row * columns + i];
}

/// Sum of squares of each row of bf16, a warp each, and the row without it.
__global__ void __launch_bounds__(256) normed(const __nv_bfloat162* in, __nv_bfloat162* out, int pairs) {
  const size_t row = size_t{blockIdx.x} * 8 + threadIdx.x / 32;
  float sum = 0;
  for (int i = lane(); i < pairs; i += 32) {
    const float2 x = __bfloat1622float2(in[row * pairs + i]);
    sum += x.x * x.x + x.y * x.y;
  }
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  const float scale = rsqrtf(sum / (2 * pairs) + 1e-5f);
  for (int i = lane(); i < pairs; i += 32) {
    const float2 x = __bfloat1622float2(in[row * pairs + i]);
    out[row * pairs + i] = __floats2bfloat162_rn(x.x * scale, x.y * scale);
  }
}

/// Logarithm of the sum of exponentials of each row, a warp each, in one pass.
__global__ void __launch_bounds__(256) log_sums(const float* in, float* out, int columns) {
  const size_t row = size_t{blockIdx.x} * 8 + threadIdx.x / 32;
  float most = -INFINITY, sum = 0;
  for (int i = lane(); i < columns; i += 32) {
    const float x = in[row * columns + i], larger = fmaxf(most, x);
    sum = sum * __expf(most - larger) + __expf(x - larger);
    most = larger;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(~0u, most, distance), other_sum = __shfl_xor_sync(~0u, sum, distance);
    const float larger = fmaxf(most, other);
    sum = sum * __expf(most - larger) + other_sum * __expf(other - larger);
    most = larger;
  }
  if (lane() == 0) out[row] = most + __logf(sum);
}

/// The largest of 2 x 2 words.
__global__ void __launch_bounds__(256) pooled(const float2* in, float* out, uint32_t width) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x, x = i % width, y = i / width;
  const float2 a = in[size_t{2 * y} * width + x], b = in[size_t{2 * y + 1} * width + x];
  out[i] = fmaxf(fmaxf(a.x, a.y), fmaxf(b.x, b.y));
}

/// An image twice as wide and high, by means of two and four.
__global__ void __launch_bounds__(256) enlarged(const float* in, float* out, uint32_t width, uint32_t height) {
  const uint32_t x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 8 + threadIdx.x / 32;
  const uint32_t left = x / 2, right = min(left + x % 2, width - 1), top = y / 2, bottom = min(top + y % 2, height - 1);
  out[size_t{y} * 2 * width + x] = 0.25f * (in[top * width + left] + in[top * width + right] +
                                            in[bottom * width + left] + in[bottom * width + right]);
}

/// Rows of a table by number, 16 bytes a thread.
__global__ void __launch_bounds__(256)
    picked(const float4* table, const uint32_t* which, float4* out, uint32_t pieces) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x, row = i / pieces;
  out[i] = table[size_t{which[row] % 65536} * pieces + i % pieces];
}

/// a x + y, a loop over the grid.
__global__ void __launch_bounds__(256) scaled_sum(const float* x, float* y, float a, uint32_t count) {
  for (uint32_t i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256) y[i] += a * x[i];
}

// ---- Times
// -----------------------------------------------------------------------------------------------------------

BENCHMARK(dropout) {
  Operands operands(4 * kMi + kMi / 4, 4 * kMi);
  time("4 Mi words by a mask, 16 bytes a thread", operands.sets, [&](cudaStream_t stream, int set) {
    dropped<<<kMi / 256, 256, 0, stream>>>(operands.from<float4>(set), operands.from<uint8_t>(set) + 16 * kMi,
                                           operands.to<float4>(set));
  });
}
BENCHMARK(heads) {
  Operands operands(8 * kMi, 8 * kMi);
  time("8192 tokens of 16 heads of 64, heads first", operands.sets, [&](cudaStream_t stream, int set) {
    heads_first<<<8 * kMi / 256, 256, 0, stream>>>(operands.from<float>(set), operands.to<float>(set), 8192, 16);
  });
}
BENCHMARK(products) {
  Operands operands(2 * kMi, 2 * kMi);
  time("running products of 8192 rows of 256, a thread each", operands.sets, [&](cudaStream_t stream, int set) {
    running_products<<<64, 128, 0, stream>>>(operands.from<float>(set), operands.to<float>(set), 256);
  });
}
BENCHMARK(norms) {
  Operands operands(8 * kMi, 8 * kMi);
  time("RMS norm of 8192 rows of 2048 bf16, a warp each", operands.sets, [&](cudaStream_t stream, int set) {
    normed<<<1024, 256, 0, stream>>>(operands.from<__nv_bfloat162>(set), operands.to<__nv_bfloat162>(set), 1024);
  });
}
BENCHMARK(log_sums_of_rows) {
  Operands operands(size_t{2048} * 10007, 2048);
  time("log-sums of 2048 rows of 10007, a warp each", operands.sets, [&](cudaStream_t stream, int set) {
    log_sums<<<256, 256, 0, stream>>>(operands.from<float>(set), operands.to<float>(set), 10007);
  });
}
BENCHMARK(pools) {
  Operands operands(16 * kMi, 4 * kMi);
  time("largest of 2 x 2, 4096 x 4096", operands.sets, [&](cudaStream_t stream, int set) {
    pooled<<<4 * kMi / 256, 256, 0, stream>>>(operands.from<float2>(set), operands.to<float>(set), 2048);
  });
}
BENCHMARK(images) {
  Operands operands(4 * kMi, 16 * kMi);
  time("an image of 2048 x 2048 enlarged", operands.sets, [&](cudaStream_t stream, int set) {
    enlarged<<<dim3(128, 512), 256, 0, stream>>>(operands.from<float>(set), operands.to<float>(set), 2048, 2048);
  });
}
BENCHMARK(picked_rows) {
  Operands operands(16 * kMi, 4 * kMi);
  DeviceArray<uint32_t> which(16384);
  which.from_host(numbers(16384));
  time("16384 rows of 256 of a table, 16 bytes a thread", operands.sets, [&](cudaStream_t stream, int set) {
    picked<<<4096, 256, 0, stream>>>(operands.from<float4>(set), which.data(), operands.to<float4>(set), 64);
  });
}
BENCHMARK(scaled_sums) {
  Operands operands(8 * kMi, 8 * kMi);
  time("8 Mi words a x + y, 1056 blocks", operands.sets, [&](cudaStream_t stream, int set) {
    scaled_sum<<<1056, 256, 0, stream>>>(operands.from<float>(set), operands.to<float>(set), 1.5f, 8 * kMi);
  });
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
