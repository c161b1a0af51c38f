// Rows that are reduced, stencils, scans, gathers, histograms and small products. The model of the chip was not made
// with them: what it says of them is compared with what they take here (docs/timing.md).
#include <cuda_bf16.h>
#include <mma.h>

#include "kernel_timing.hpp"

using namespace silicon;

// ---- Kernels
// ---------------------------------------------------------------------------------------------------------

/// One row to a block; three passes over registers.
__global__ void __launch_bounds__(256) softmax_rows(const float* in, float* out, int columns) {
  __shared__ float of_warp[8];
  const float* const row = in + size_t{blockIdx.x} * columns;
  float values[16], most = -1e30f;
  for (int i = 0; i < 16; ++i) most = fmaxf(most, values[i] = row[i * 256 + threadIdx.x]);
  for (int offset = 16; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, offset));
  if (lane() == 0) of_warp[threadIdx.x / 32] = most;
  __syncthreads();
  for (int i = 0; i < 8; ++i) most = fmaxf(most, of_warp[i]);
  float sum = 0;
  for (int i = 0; i < 16; ++i) sum += values[i] = __expf(values[i] - most);
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  __syncthreads();
  if (lane() == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 8; ++i) sum += of_warp[i];
  const float scale = 1 / sum;
  for (int i = 0; i < 16; ++i) out[size_t{blockIdx.x} * columns + i * 256 + threadIdx.x] = values[i] * scale;
}

/// A row to a warp, in float4.
__global__ void __launch_bounds__(256)
    matrix_times_vector(const float4* matrix, const float4* vector, float* out, int columns) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32;
  float sum = 0;
  for (int i = lane(); i < columns / 4; i += 32) {
    const float4 a = matrix[size_t(row) * (columns / 4) + i], b = vector[i];
    sum += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  if (lane() == 0) out[row] = sum;
}

__global__ void __launch_bounds__(256) stencil(const float* in, float* out, int n) {
  const int x = blockIdx.x * 32 + threadIdx.x % 32 + 1, y = blockIdx.y * 8 + threadIdx.x / 32 + 1;
  if (x >= n - 1 || y >= n - 1) return;
  const float* const at = in + size_t(y) * n + x;
  out[size_t(y) * n + x] = 0.2f * (at[0] + at[-1] + at[1] + at[-n] + at[n]);
}

__global__ void __launch_bounds__(256) histogram(const uint32_t* in, uint32_t* counts, int count) {
  __shared__ uint32_t own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * 256 + threadIdx.x; i < count; i += gridDim.x * 256) atomicAdd(&own[in[i] & 255], 1u);
  __syncthreads();
  atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

__global__ void __launch_bounds__(256) gather(const float* in, const uint32_t* from, float* out) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  out[i] = in[from[i]];
}

/// Sums of all before, for each block of 1024.
__global__ void __launch_bounds__(1024) block_scan(const float* in, float* out) {
  __shared__ float sums[2][1024];
  const size_t i = size_t{blockIdx.x} * 1024 + threadIdx.x;
  sums[0][threadIdx.x] = in[i];
  __syncthreads();
  int from = 0;
  for (int offset = 1; offset < 1024; offset *= 2, from ^= 1) {
    float value = sums[from][threadIdx.x];
    if (threadIdx.x >= offset) value += sums[from][threadIdx.x - offset];
    sums[from ^ 1][threadIdx.x] = value;
    __syncthreads();
  }
  out[i] = sums[from][threadIdx.x];
}

/// Polynomials of degree 64 in registers: arithmetic alone.
__global__ void __launch_bounds__(256) polynomials(const float* in, float* out) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x;
  const float x = in[i];
  float y = 1;
#pragma unroll
  for (int k = 0; k < 64; ++k) y = y * x + 0.25f * k;
  out[i] = y;
}

/// 64 x 64 of C to a block of four warps, by nvcuda::wmma on bf16 in shared memory.
__global__ void __launch_bounds__(128) wmma_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n) {
  using namespace nvcuda;
  __shared__ __align__(32) __nv_bfloat16 a_tile[64][32 + 8], b_tile[32][64 + 8];
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sums[2][2];
  for (auto& row : sums)
    for (auto& sum : row) wmma::fill_fragment(sum, 0.f);
  const int warp = threadIdx.x / 32, row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
  for (int k = 0; k < n; k += 32) {
    for (int i = threadIdx.x; i < 64 * 32 / 8; i += 128)
      *reinterpret_cast<uint4*>(&a_tile[i / 4][i % 4 * 8]) =
          *reinterpret_cast<const uint4*>(a + size_t(row0 + i / 4) * n + k + i % 4 * 8);
    for (int i = threadIdx.x; i < 32 * 64 / 8; i += 128)
      *reinterpret_cast<uint4*>(&b_tile[i / 8][i % 8 * 8]) =
          *reinterpret_cast<const uint4*>(b + size_t(k + i / 8) * n + column0 + i % 8 * 8);
    __syncthreads();
    for (int step = 0; step < 32; step += 16) {
      wmma::fragment<wmma::matrix_a, 16, 16, 16, __nv_bfloat16, wmma::row_major> of_a[2];
      wmma::fragment<wmma::matrix_b, 16, 16, 16, __nv_bfloat16, wmma::row_major> of_b[2];
      for (int i = 0; i < 2; ++i) {
        wmma::load_matrix_sync(of_a[i], &a_tile[warp / 2 * 32 + i * 16][step], 40);
        wmma::load_matrix_sync(of_b[i], &b_tile[step][warp % 2 * 32 + i * 16], 72);
      }
      for (int y = 0; y < 2; ++y)
        for (int x = 0; x < 2; ++x) wmma::mma_sync(sums[y][x], of_a[y], of_b[x], sums[y][x]);
    }
    __syncthreads();
  }
  for (int y = 0; y < 2; ++y)
    for (int x = 0; x < 2; ++x)
      wmma::store_matrix_sync(c + size_t(row0 + warp / 2 * 32 + y * 16) * n + column0 + warp % 2 * 32 + x * 16,
                              sums[y][x], n, wmma::mem_row_major);
}

/// One row of 4096 to a block: mean and variance over registers, then scale and shift.
__global__ void __launch_bounds__(256)
    layer_norm(const float4* in, const float4* scale, const float4* shift, float4* out) {
  __shared__ float of_warp[2][8];
  const float4* const row = in + size_t{blockIdx.x} * 1024;
  float4 values[4];
  float sum = 0, squares = 0;
  for (int i = 0; i < 4; ++i) {
    const float4 v = values[i] = row[i * 256 + threadIdx.x];
    sum += v.x + v.y + v.z + v.w;
    squares += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
  }
  for (int offset = 16; offset > 0; offset /= 2) {
    sum += __shfl_xor_sync(~0u, sum, offset);
    squares += __shfl_xor_sync(~0u, squares, offset);
  }
  if (lane() == 0) of_warp[0][threadIdx.x / 32] = sum, of_warp[1][threadIdx.x / 32] = squares;
  __syncthreads();
  sum = squares = 0;
  for (int i = 0; i < 8; ++i) sum += of_warp[0][i], squares += of_warp[1][i];
  const float mean = sum / 4096, factor = rsqrtf(squares / 4096 - mean * mean + 1e-5f);
  for (int i = 0; i < 4; ++i) {
    const int at = i * 256 + threadIdx.x;
    const float4 v = values[i], a = scale[at], b = shift[at];
    out[size_t{blockIdx.x} * 1024 + at] = {(v.x - mean) * factor * a.x + b.x, (v.y - mean) * factor * a.y + b.y,
                                           (v.z - mean) * factor * a.z + b.z, (v.w - mean) * factor * a.w + b.w};
  }
}

/// A product of 64 x 64 x 64 to a block, 4 x 4 to a thread.
__global__ void __launch_bounds__(256) small_products(const float4* a, const float4* b, float4* c) {
  __shared__ float a_tile[64][64 + 4];
  __shared__ float4 b_tile[64][16];
  const size_t first = size_t{blockIdx.x} * 1024;
  for (int i = 0; i < 4; ++i) {
    const int at = i * 256 + threadIdx.x;
    *reinterpret_cast<float4*>(&a_tile[at / 16][at % 16 * 4]) = a[first + at];
    b_tile[at / 16][at % 16] = b[first + at];
  }
  __syncthreads();
  const int x = threadIdx.x % 16, y = threadIdx.x / 16 * 4;
  float4 sums[4] = {};
#pragma unroll 8
  for (int k = 0; k < 64; ++k) {
    const float4 of_b = b_tile[k][x];
    for (int i = 0; i < 4; ++i) {
      const float of_a = a_tile[y + i][k];
      sums[i].x += of_a * of_b.x, sums[i].y += of_a * of_b.y, sums[i].z += of_a * of_b.z, sums[i].w += of_a * of_b.w;
    }
  }
  for (int i = 0; i < 4; ++i) c[first + (y + i) * 16 + x] = sums[i];
}

/// Each thread counts what it finds at one of a few words of global memory.
__global__ void __launch_bounds__(256) count_in_global(const uint32_t* in, uint32_t* counts) {
  atomicAdd(&counts[in[blockIdx.x * 256 + threadIdx.x] % 64], threadIdx.x);
}

// ---- Timing
// ----------------------------------------------------------------------------------------------------------

constexpr int kN = 2048, kCount = kN * kN;

BENCHMARK(rows) {
  const int sets = sets_of(size_t{kCount} * 8);
  auto in = arrays<float>(sets, kCount), out = arrays<float>(sets, kCount);
  time("softmax of 1024 rows of 4096", sets, [&](cudaStream_t stream, int set) {
    softmax_rows<<<1024, 256, 0, stream>>>(in[set].data(), out[set].data(), 4096);
  });
  time("matrix of 2048 x 2048 times vector", sets, [&](cudaStream_t stream, int set) {
    matrix_times_vector<<<kN / 8, 256, 0, stream>>>(reinterpret_cast<float4*>(in[set].data()),
                                                    reinterpret_cast<float4*>(out[set].data() + kN), out[set].data(),
                                                    kN);
  });
  time("stencil of 5 points, 2048 x 2048", sets, [&](cudaStream_t stream, int set) {
    stencil<<<dim3(kN / 32, kN / 8), 256, 0, stream>>>(in[set].data(), out[set].data(), kN);
  });
  time("scan of 4096 blocks of 1024", sets, [&](cudaStream_t stream, int set) {
    block_scan<<<kCount / 1024, 1024, 0, stream>>>(in[set].data(), out[set].data());
  });
  time("4 Mi polynomials of degree 64", sets, [&](cudaStream_t stream, int set) {
    polynomials<<<kCount / 256, 256, 0, stream>>>(in[set].data(), out[set].data());
  });
}

BENCHMARK(indices) {
  const int sets = sets_of(size_t{kCount} * 12);
  auto in = arrays<float>(sets, kCount), out = arrays<float>(sets, kCount);
  auto from = arrays<uint32_t>(sets, kCount);
  std::vector<uint32_t> numbers(kCount);
  for (uint32_t i = 0, x = 1; i < kCount; ++i) numbers[i] = (x = x * 1664525u + 1013904223u) >> 10;
  for (auto& each : from) each.from_host(numbers);
  static_assert(kCount == 1 << 22);
  time("gather of 4 Mi words at random", sets, [&](cudaStream_t stream, int set) {
    gather<<<kCount / 256, 256, 0, stream>>>(in[set].data(), from[set].data(), out[set].data());
  });
  time("histogram of 4 Mi words in 256 bins", sets, [&](cudaStream_t stream, int set) {
    histogram<<<528, 256, 0, stream>>>(from[set].data(), reinterpret_cast<uint32_t*>(out[set].data()), kCount);
  });
}

BENCHMARK(layers) {
  const int sets = sets_of(size_t{kCount} * 8);
  auto in = arrays<float>(sets, 2 * kCount), out = arrays<float>(sets, 2 * kCount);
  const auto of = [](DeviceArray<float>& array) { return reinterpret_cast<float4*>(array.data()); };
  time("layer norm of 2048 rows of 4096", sets, [&](cudaStream_t stream, int set) {
    layer_norm<<<2048, 256, 0, stream>>>(of(in[set]), of(in[0]), of(in[0]) + 1024, of(out[set]));
  });
  time("1024 products of 64 x 64 x 64", sets, [&](cudaStream_t stream, int set) {
    small_products<<<1024, 256, 0, stream>>>(of(in[set]), of(in[set]) + kCount / 4, of(out[set]));
  });
}

BENCHMARK(counts) {
  const int sets = sets_of(size_t{kCount} * 4);
  auto in = arrays<uint32_t>(sets, kCount);
  DeviceArray<uint32_t> counts(64);
  std::vector<uint32_t> numbers(kCount);
  for (uint32_t i = 0, x = 1; i < kCount; ++i) numbers[i] = (x = x * 1664525u + 1013904223u) >> 10;
  for (auto& each : in) each.from_host(numbers);
  time("1 Mi words counted in 64 words of global memory", sets, [&](cudaStream_t stream, int set) {
    count_in_global<<<kCount / 4 / 256, 256, 0, stream>>>(in[set].data(), counts.data());
  });
}

BENCHMARK(products) {
  const int sets = sets_of(size_t{kCount} * 8);
  auto a = arrays<__nv_bfloat16>(sets, kCount), b = arrays<__nv_bfloat16>(sets, kCount);
  auto c = arrays<float>(sets, kCount);
  for (const int n : {1024, 2048})
    time("wmma bf16, tiles of 64 x 64 in shared memory, " + std::to_string(n), sets, [&](cudaStream_t stream, int set) {
      wmma_gemm<<<dim3(n / 64, n / 64), 128, 0, stream>>>(a[set].data(), b[set].data(), c[set].data(), n);
    });
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
