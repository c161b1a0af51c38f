// Kernels that were written after tables_and_channels.cu had been measured: modelled, and only then measured
// (docs/timing.md).
#include <cuda_fp16.h>

#include "kernel_timing.hpp"

using namespace silicon;

/// The eight largest of each row of 1024, a warp each, which takes the largest of all lanes eight times.
__global__ void __launch_bounds__(256) largest_eight(const float* in, float* out) {
  const size_t row = size_t{blockIdx.x} * 8 + threadIdx.x / 32;
  float own[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) own[i] = in[row * 1024 + i * 32 + lane()];
  for (int place = 0; place < 8; ++place) {
    float most = -INFINITY;
#pragma unroll
    for (int i = 0; i < 32; ++i) most = fmaxf(most, own[i]);
    float all = most;
    for (int distance = 16; distance > 0; distance /= 2) all = fmaxf(all, __shfl_xor_sync(~0u, all, distance));
#pragma unroll
    for (int i = 0; i < 32; ++i) own[i] = own[i] == all ? -INFINITY : own[i];
    if (lane() == 0) out[row * 8 + place] = all;
  }
}

/// Pixels of four bytes to three planes of floats.
__global__ void __launch_bounds__(256) planes(const uchar4* in, float* out, uint32_t pixels) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  const uchar4 x = in[i];
  out[i] = (x.x / 255.f - 0.485f) / 0.229f;
  out[pixels + i] = (x.y / 255.f - 0.456f) / 0.224f;
  out[2 * pixels + i] = (x.z / 255.f - 0.406f) / 0.225f;
}

/// Group norm: a block to each run of words, which it reads twice.
__global__ void __launch_bounds__(512) group_norm(const float4* in, float4* out, int pieces) {
  __shared__ float2 of_warp[16];
  const float4* const from = in + size_t{blockIdx.x} * pieces;
  float2 sums{};
  for (int i = threadIdx.x; i < pieces; i += 512) {
    const float4 x = from[i];
    sums.x += x.x + x.y + x.z + x.w;
    sums.y += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    sums.x += __shfl_xor_sync(~0u, sums.x, distance);
    sums.y += __shfl_xor_sync(~0u, sums.y, distance);
  }
  if (lane() == 0) of_warp[threadIdx.x / 32] = sums;
  __syncthreads();
  sums = {};
  for (int i = 0; i < 16; ++i) sums.x += of_warp[i].x, sums.y += of_warp[i].y;
  const float mean = sums.x / (4 * pieces), scale = rsqrtf(sums.y / (4 * pieces) - mean * mean + 1e-5f);
  for (int i = threadIdx.x; i < pieces; i += 512) {
    const float4 x = from[i];
    out[size_t{blockIdx.x} * pieces + i] = {(x.x - mean) * scale, (x.y - mean) * scale, (x.z - mean) * scale,
                                            (x.w - mean) * scale};
  }
}

/// Walsh-Hadamard transform of rows of 1024, a warp each: 32 words a lane, and five exchanges between lanes.
__global__ void __launch_bounds__(128) hadamard(const float* in, float* out) {
  const size_t row = size_t{blockIdx.x} * 4 + threadIdx.x / 32;
  float own[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) own[i] = in[row * 1024 + i * 32 + lane()];
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2)
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      if ((i & distance) != 0) continue;
      const float a = own[i], b = own[i + distance];
      own[i] = a + b, own[i + distance] = a - b;
    }
#pragma unroll
  for (int i = 0; i < 32; ++i) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
      const float other = __shfl_xor_sync(~0u, own[i], distance);
      own[i] = (lane() & distance) != 0 ? other - own[i] : other + own[i];
    }
    out[row * 1024 + i * 32 + lane()] = own[i];
  }
}

/// A filter of 31 taps over a signal, through shared memory.
__global__ void __launch_bounds__(256) filtered(const float* in, const float* taps, float* out) {
  __shared__ float near_by[256 + 30];
  const size_t first = size_t{blockIdx.x} * 256;
  for (int i = threadIdx.x; i < 286; i += 256) near_by[i] = in[first + i];
  __syncthreads();
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 31; ++i) sum += taps[i] * near_by[threadIdx.x + i];
  out[first + threadIdx.x] = sum;
}

/// Sums of rows of a sparse matrix whose rows have 1 to 128 entries, a warp to a row.
__global__ void __launch_bounds__(256)
    segments(const float* values, const uint32_t* columns, const uint32_t* starts, const float* vector, float* out) {
  const uint32_t row = blockIdx.x * 8 + threadIdx.x / 32, end = starts[row + 1];
  float sum = 0;
  for (uint32_t i = starts[row] + lane(); i < end; i += 32) sum += values[i] * __ldg(vector + columns[i]);
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (lane() == 0) out[row] = sum;
}

/// A hash of each record of 64 bytes.
__global__ void __launch_bounds__(256) hashed(const uint4* in, uint32_t* out) {
  const size_t record = size_t{blockIdx.x} * 256 + threadIdx.x;
  uint32_t hash = 0x9e3779b9u;
  for (int i = 0; i < 4; ++i) {
    const uint4 x = in[record * 4 + i];
    for (const uint32_t word : {x.x, x.y, x.z, x.w}) {
      hash = (hash ^ word * 0xcc9e2d51u) * 0x85ebca6bu;
      hash = (hash << 13 | hash >> 19) + 0xe6546b64u;
    }
  }
  out[record] = hash ^ hash >> 16;
}

/// Scores of a query against the keys of its head: 128 halves each, a quarter of a warp to a key.
__global__ void __launch_bounds__(256) scores(const uint4* queries, const uint4* keys, float* out, uint32_t count) {
  const uint32_t head = blockIdx.y, part = threadIdx.x % 8, key = blockIdx.x * 32 + threadIdx.x / 8;
  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    const uint4 q = queries[head * 16 + i * 8 + part], k = keys[(size_t{head} * count + key) * 16 + i * 8 + part];
    const auto* const a = reinterpret_cast<const __half2*>(&q);
    const auto* const b = reinterpret_cast<const __half2*>(&k);
    for (int j = 0; j < 4; ++j) {
      const float2 x = __half22float2(a[j]), y = __half22float2(b[j]);
      sum += x.x * y.x + x.y * y.y;
    }
  }
  for (int distance = 4; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (part == 0) out[head * count + key] = sum * 0.0883883f;
}

/// Softmax of the rows of a square up to the diagonal, a block each.
__global__ void __launch_bounds__(256) causal_softmax(const float* in, float* out, int columns) {
  __shared__ float of_warp[8];
  const int row = static_cast<int>(blockIdx.x) % columns;
  const float* const from = in + size_t{blockIdx.x} * columns;
  float sum = 0;
  for (int i = threadIdx.x; i <= row; i += 256) sum += __expf(from[i]);
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0u, sum, distance);
  if (lane() == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 8; ++i) sum += of_warp[i];
  const float inverse = 1 / sum;
  for (int i = threadIdx.x; i < columns; i += 256)
    out[size_t{blockIdx.x} * columns + i] = i <= row ? __expf(from[i]) * inverse : 0;
}

/// Products of 16 x 16 by 16 x 16, a block of 256 threads to four of them.
__global__ void __launch_bounds__(256) small_products(const float4* a, const float4* b, float4* c) {
  __shared__ float4 of_a[4][16][4], of_b[4][16][4];
  const uint32_t product = threadIdx.x / 64, row = threadIdx.x % 64 / 4, column = threadIdx.x % 4;
  const size_t at = size_t{blockIdx.x} * 256 + threadIdx.x;
  of_a[product][row][column] = a[at];
  of_b[product][row][column] = b[at];
  __syncthreads();
  float4 sum{};
#pragma unroll
  for (int k = 0; k < 16; ++k) {
    const float x = reinterpret_cast<const float*>(of_a[product][row])[k];
    const float4 y = of_b[product][k][column];
    sum.x += x * y.x, sum.y += x * y.y, sum.z += x * y.z, sum.w += x * y.w;
  }
  c[at] = sum;
}

// ---- Times
// -----------------------------------------------------------------------------------------------------------

BENCHMARK(top) {
  Operands operands(16 * kMi, 16384 * 8);
  time("eight largest of 16384 rows of 1024, a warp each", operands.sets, [&](cudaStream_t stream, int set) {
    largest_eight<<<2048, 256, 0, stream>>>(operands.from<float>(set), operands.to<float>(set));
  });
}
BENCHMARK(pixels) {
  Operands operands(4 * kMi, 12 * kMi);
  time("4 Mi pixels of bytes to planes of floats", operands.sets, [&](cudaStream_t stream, int set) {
    planes<<<4 * kMi / 256, 256, 0, stream>>>(operands.from<uchar4>(set), operands.to<float>(set), 4 * kMi);
  });
}
BENCHMARK(groups) {
  Operands operands(16 * kMi, 16 * kMi);
  time("group norm of 512 groups of 32768", operands.sets, [&](cudaStream_t stream, int set) {
    group_norm<<<512, 512, 0, stream>>>(operands.from<float4>(set), operands.to<float4>(set), 8192);
  });
}
BENCHMARK(transforms) {
  Operands operands(8 * kMi, 8 * kMi);
  time("Hadamard transforms of 8192 rows of 1024, a warp each", operands.sets, [&](cudaStream_t stream, int set) {
    hadamard<<<2048, 128, 0, stream>>>(operands.from<float>(set), operands.to<float>(set));
  });
}
BENCHMARK(filters) {
  Operands operands(8 * kMi + 32, 8 * kMi);
  time("31 taps over 8 Mi words", operands.sets, [&](cudaStream_t stream, int set) {
    filtered<<<8 * kMi / 256, 256, 0, stream>>>(operands.from<float>(set), operands.from<float>(set),
                                                operands.to<float>(set));
  });
}
BENCHMARK(sparse_rows) {
  constexpr uint32_t kRows = 65536;
  std::vector<uint32_t> starts = numbers(kRows + 1), columns = numbers(kRows * 128);
  uint32_t entries = 0;
  for (uint32_t& start : starts) {
    const uint32_t length = 1 + start % 128;
    start = entries;
    entries += length;
  }
  for (uint32_t& column : columns) column %= kRows;
  DeviceArray<uint32_t> of_starts(kRows + 1), of_columns(kRows * 128);
  of_starts.from_host(starts), of_columns.from_host(columns);
  Operands operands(kRows * 128, kRows);
  DeviceArray<float> vector(kRows);
  time("65536 sparse rows of 1 to 128, a warp each", operands.sets, [&](cudaStream_t stream, int set) {
    segments<<<kRows / 8, 256, 0, stream>>>(operands.from<float>(set), of_columns.data(), of_starts.data(),
                                            vector.data(), operands.to<float>(set));
  });
}
BENCHMARK(hashes) {
  Operands operands(16 * kMi, kMi);
  time("hashes of 1 Mi records of 64 bytes, a thread each", operands.sets, [&](cudaStream_t stream, int set) {
    hashed<<<kMi / 256, 256, 0, stream>>>(operands.from<uint4>(set), operands.to<uint32_t>(set));
  });
}
BENCHMARK(keys) {
  Operands operands(16 * kMi + 4096, 32 * 8192);
  time("scores of 32 queries against 8192 keys of 128 halves", operands.sets, [&](cudaStream_t stream, int set) {
    scores<<<dim3(256, 32), 256, 0, stream>>>(operands.from<uint4>(set) + 4 * kMi, operands.from<uint4>(set),
                                              operands.to<float>(set), 8192);
  });
}
BENCHMARK(triangles) {
  Operands operands(16 * kMi, 16 * kMi);
  time("softmax of 16 triangles of 1024 x 1024", operands.sets, [&](cudaStream_t stream, int set) {
    causal_softmax<<<16384, 256, 0, stream>>>(operands.from<float>(set), operands.to<float>(set), 1024);
  });
}
BENCHMARK(small) {
  Operands operands(16 * kMi, 8 * kMi);
  time("32768 products of 16 x 16", operands.sets, [&](cudaStream_t stream, int set) {
    small_products<<<8192, 256, 0, stream>>>(operands.from<float4>(set), operands.from<float4>(set) + 2 * kMi,
                                             operands.to<float4>(set));
  });
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
