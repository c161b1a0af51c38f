// Everyday kernels that were written after tokens_and_images.cu had been measured: modelled, and only then measured
// (docs/timing.md).
#include <cuda_bf16.h>

#include "kernel_timing.hpp"

using namespace silicon;

__device__ float sum_of_block(float value) {
  __shared__ float of_warp[8];
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0u, value, distance);
  if (lane() == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = 0;
  for (int i = 0; i < 8; ++i) value += of_warp[i];
  return value;
}

/// x sigmoid(x) y of two halves of each row, 8 bf16 a thread.
__global__ void __launch_bounds__(256) gated(const uint4* in, uint4* out, uint32_t pieces) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x, row = i / pieces, at = row * 2 * pieces + i % pieces;
  uint4 x = in[at];
  const uint4 y = in[at + pieces];
  auto* const a = reinterpret_cast<__nv_bfloat162*>(&x);
  const auto* const b = reinterpret_cast<const __nv_bfloat162*>(&y);
  for (int j = 0; j < 4; ++j) {
    const float2 u = __bfloat1622float2(a[j]), v = __bfloat1622float2(b[j]);
    a[j] = __floats2bfloat162_rn(u.x / (1 + __expf(-u.x)) * v.x, u.y / (1 + __expf(-u.y)) * v.y);
  }
  out[i] = x;
}

/// Mean and variance of each channel of images x channels x pixels, a block each.
__global__ void __launch_bounds__(256)
    channel_moments(const float* in, float2* out, int images, int channels, int pixels) {
  float sum = 0, squares = 0;
  for (int image = 0; image < images; ++image) {
    const float* const from = in + (size_t{static_cast<unsigned>(image)} * channels + blockIdx.x) * pixels;
    for (int i = threadIdx.x; i < pixels; i += 256) {
      sum += from[i];
      squares += from[i] * from[i];
    }
  }
  sum = sum_of_block(sum);
  __syncthreads();
  squares = sum_of_block(squares);
  const float count = static_cast<float>(images) * pixels, mean = sum / count;
  if (threadIdx.x == 0) out[blockIdx.x] = {mean, squares / count - mean * mean};
}

/// 3 x 3 on each channel, a word a thread.
__global__ void __launch_bounds__(256) depthwise(const float* in, const float* weights, float* out, int width) {
  const int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 8 + threadIdx.x / 32;
  const size_t plane = size_t{blockIdx.z} * width * width;
  float sum = 0;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) {
      if (x + dx < 0 || x + dx >= width || y + dy < 0 || y + dy >= width) continue;
      sum += weights[blockIdx.z * 9 + (dy + 1) * 3 + dx + 1] * in[plane + (y + dy) * width + x + dx];
    }
  }
  out[plane + y * width + x] = sum;
}

/// Rows of floats as bytes and a scale, a block each.
__global__ void __launch_bounds__(256) quantised(const float4* in, char4* out, float* scales, int pieces) {
  __shared__ float of_warp[8];
  const float4* const from = in + size_t{blockIdx.x} * pieces;
  float most = 0;
  for (int i = threadIdx.x; i < pieces; i += 256) {
    const float4 x = from[i];
    most = fmaxf(most, fmaxf(fmaxf(fabsf(x.x), fabsf(x.y)), fmaxf(fabsf(x.z), fabsf(x.w))));
  }
  for (int distance = 16; distance > 0; distance /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, distance));
  if (lane() == 0) of_warp[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < 8; ++i) most = fmaxf(most, of_warp[i]);
  const float scale = most / 127, inverse = most > 0 ? 127 / most : 0;
  if (threadIdx.x == 0) scales[blockIdx.x] = scale;
  const auto byte = [&](float x) { return static_cast<signed char>(__float2int_rn(x * inverse)); };
  for (int i = threadIdx.x; i < pieces; i += 256) {
    const float4 x = from[i];
    out[size_t{blockIdx.x} * pieces + i] = {byte(x.x), byte(x.y), byte(x.z), byte(x.w)};
  }
}

/// Adds rows to rows of a table by number, a word a thread.
__global__ void __launch_bounds__(256)
    added_rows(const float* in, const uint32_t* which, float* table, uint32_t columns, uint32_t rows) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x, row = i / columns;
  atomicAdd(&table[size_t{which[row] % rows} * columns + i % columns], in[i]);
}

/// The two largest of 64 logits of each token, and their softmax, a thread each.
__global__ void __launch_bounds__(128) two_experts(const float4* logits, float2* weights, uint2* experts) {
  const uint32_t token = blockIdx.x * 128 + threadIdx.x;
  float first = -INFINITY, second = -INFINITY;
  uint32_t best = 0, next = 0;
  const auto take = [&](float x, uint32_t number) {
    if (x > first) {
      second = first, next = best;
      first = x, best = number;
    } else if (x > second) {
      second = x, next = number;
    }
  };
  for (uint32_t i = 0; i < 16; ++i) {
    const float4 x = logits[size_t{token} * 16 + i];
    take(x.x, 4 * i), take(x.y, 4 * i + 1), take(x.z, 4 * i + 2), take(x.w, 4 * i + 3);
  }
  const float part = 1 / (1 + __expf(second - first));
  weights[token] = {part, 1 - part};
  experts[token] = {best, next};
}

/// Keys and values of new tokens to their places in a cache of pages of 16, 16 bytes a thread.
__global__ void __launch_bounds__(256) cached(const uint4* in, const uint32_t* pages, uint4* cache, uint32_t pieces) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x, token = i / pieces;
  cache[(size_t{pages[token / 16] % 4096} * 16 + token % 16) * pieces + i % pieces] = in[i];
}

/// A bf16 matrix times a vector, a warp to a row, 16 bytes a lane.
__global__ void __launch_bounds__(256) matrix_vector(const uint4* matrix, const uint4* vector, float* out, int pieces) {
  const size_t row = size_t{blockIdx.x} * 8 + threadIdx.x / 32;
  float sum = 0;
  for (int i = lane(); i < pieces; i += 32) {
    const uint4 x = matrix[row * pieces + i], y = vector[i];
    const auto* const a = reinterpret_cast<const __nv_bfloat162*>(&x);
    const auto* const b = reinterpret_cast<const __nv_bfloat162*>(&y);
    for (int j = 0; j < 4; ++j) {
      const float2 u = __bfloat1622float2(a[j]), v = __bfloat1622float2(b[j]);
      sum += u.x * v.x + u.y * v.y;
    }
  }
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (lane() == 0) out[row] = sum;
}

/// Products of 16 x 16 tiles in fp32, as every course begins.
__global__ void __launch_bounds__(256) tiled_product(const float* a, const float* b, float* c, int n) {
  __shared__ float of_a[16][16], of_b[16][16];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16, row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
  float sum = 0;
  for (int k = 0; k < n; k += 16) {
    of_a[y][x] = a[row * n + k + x];
    of_b[y][x] = b[(k + y) * n + column];
    __syncthreads();
    for (int i = 0; i < 16; ++i) sum += of_a[y][i] * of_b[i][x];
    __syncthreads();
  }
  c[row * n + column] = sum;
}

/// Where each of the needles would stand among sorted words.
__global__ void __launch_bounds__(256)
    found(const uint32_t* sorted, const uint32_t* needles, uint32_t* out, int count) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x, needle = needles[i];
  int low = 0, high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (sorted[middle] < needle)
      low = middle + 1;
    else
      high = middle;
  }
  out[i] = low;
}

// ---- Times
// -----------------------------------------------------------------------------------------------------------

BENCHMARK(gates) {
  Operands operands(8 * kMi, 4 * kMi);
  time("gated halves of 1024 rows of 16384 bf16", operands.sets, [&](cudaStream_t stream, int set) {
    gated<<<kMi / 256, 256, 0, stream>>>(operands.from<uint4>(set), operands.to<uint4>(set), 1024);
  });
}
BENCHMARK(moments) {
  Operands operands(16 * kMi, 512);
  time("moments of 256 channels of 16 images of 64 x 64", operands.sets, [&](cudaStream_t stream, int set) {
    channel_moments<<<256, 256, 0, stream>>>(operands.from<float>(set), operands.to<float2>(set), 16, 256, 4096);
  });
}
BENCHMARK(depthwise_convolution) {
  Operands operands(8 * kMi, 8 * kMi);
  DeviceArray<float> weights(128 * 9);
  time("3 x 3 on each of 128 channels of 256 x 256", operands.sets, [&](cudaStream_t stream, int set) {
    depthwise<<<dim3(8, 32, 128), 256, 0, stream>>>(operands.from<float>(set), weights.data(), operands.to<float>(set),
                                                    256);
  });
}
BENCHMARK(quantisation) {
  Operands operands(16 * kMi, 4 * kMi + 4096);
  time("4096 rows of 4096 floats as bytes", operands.sets, [&](cudaStream_t stream, int set) {
    quantised<<<4096, 256, 0, stream>>>(operands.from<float4>(set), operands.to<char4>(set),
                                        operands.to<float>(set) + 4 * kMi, 1024);
  });
}
BENCHMARK(table_sums) {
  Operands operands(4 * kMi, 2 * kMi);
  DeviceArray<uint32_t> which(16384);
  which.from_host(numbers(16384));
  time("16384 rows of 256 added to rows of a table", operands.sets, [&](cudaStream_t stream, int set) {
    added_rows<<<4 * kMi / 256, 256, 0, stream>>>(operands.from<float>(set), which.data(), operands.to<float>(set), 256,
                                                  8192);
  });
}
BENCHMARK(experts) {
  Operands operands(4 * kMi, 4 * 65536);
  time("two of 64 experts for 65536 tokens, a thread each", operands.sets, [&](cudaStream_t stream, int set) {
    two_experts<<<512, 128, 0, stream>>>(operands.from<float4>(set), operands.to<float2>(set),
                                         operands.to<uint2>(set) + 65536);
  });
}
BENCHMARK(caches) {
  Operands operands(4 * kMi, 32 * kMi);
  DeviceArray<uint32_t> pages(512);
  pages.from_host(numbers(512));
  time("8192 tokens of 2048 bytes into pages of a cache", operands.sets, [&](cudaStream_t stream, int set) {
    cached<<<kMi / 256, 256, 0, stream>>>(operands.from<uint4>(set), pages.data(), operands.to<uint4>(set), 128);
  });
}
BENCHMARK(vectors) {
  Operands operands(16 * kMi + 4096, 8192);
  time("bf16 matrix of 8192 x 4096 times vector", operands.sets, [&](cudaStream_t stream, int set) {
    matrix_vector<<<1024, 256, 0, stream>>>(operands.from<uint4>(set), operands.from<uint4>(set) + 4 * kMi,
                                            operands.to<float>(set), 512);
  });
}
BENCHMARK(tiles) {
  Operands operands(2 * kMi, kMi);
  time("product of 1024 x 1024 in tiles of 16 x 16", operands.sets, [&](cudaStream_t stream, int set) {
    tiled_product<<<dim3(64, 64), 256, 0, stream>>>(operands.from<float>(set), operands.from<float>(set) + kMi,
                                                    operands.to<float>(set), 1024);
  });
}
BENCHMARK(searches) {
  Operands operands(kMi, kMi);
  DeviceArray<uint32_t> sorted(kMi);
  std::vector<uint32_t> words(kMi);
  for (size_t i = 0; i < kMi; ++i) words[i] = static_cast<uint32_t>(16 * i);
  sorted.from_host(words);
  DeviceArray<uint32_t> needles(kMi);
  needles.from_host(numbers(kMi));
  time("1 Mi searches in 1 Mi sorted words", operands.sets, [&](cudaStream_t stream, int set) {
    found<<<kMi / 256, 256, 0, stream>>>(sorted.data(), needles.data(), operands.to<uint32_t>(set), kMi);
  });
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
