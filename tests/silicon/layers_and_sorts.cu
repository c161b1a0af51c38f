// Layers of neural networks, sorts, a sparse matrix and Fourier transforms, to compare the model of the chip with: they
// were modelled before they were measured (docs/timing.md).
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernel_timing.hpp"

using namespace silicon;

__device__ inline void load_matrices(uint32_t (&r)[4], const void* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(at)));
}
__device__ inline void load_transposed(uint32_t (&r)[4], const void* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(at)));
}
__device__ inline void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void copy_16_bytes(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
__device__ inline uint32_t pack(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return reinterpret_cast<const uint32_t&>(both);
}

/// Attention with heads of 64: 64 queries to a block of four warps, keys and values by 64, softmax as they come.
__global__ void __launch_bounds__(128)
    attention(const __nv_bfloat16* q, const __nv_bfloat16* k, const __nv_bfloat16* v, __nv_bfloat16* out, int keys) {
  __shared__ __align__(16) __nv_bfloat16 k_tile[64][72], v_tile[64][72];
  const int warp = threadIdx.x / 32, l = lane();
  const size_t head = size_t{blockIdx.y} * keys * 64, first = head + size_t{blockIdx.x} * 64 * 64;
  for (int i = threadIdx.x; i < 512; i += 128)
    *reinterpret_cast<uint4*>(&k_tile[i / 8][i % 8 * 8]) = *reinterpret_cast<const uint4*>(q + first + i * 8);
  __syncthreads();
  uint32_t of_q[4][4];
  for (int step = 0; step < 4; ++step) load_matrices(of_q[step], &k_tile[warp * 16 + l % 16][step * 16 + l / 16 * 8]);
  __syncthreads();
  float sums[8][4] = {}, most[2] = {-1e30f, -1e30f}, weight[2] = {};
  for (int key = 0; key < keys; key += 64) {
    for (int i = threadIdx.x; i < 512; i += 128) {
      copy_16_bytes(&k_tile[i / 8][i % 8 * 8], k + head + size_t(key) * 64 + i * 8);
      copy_16_bytes(&v_tile[i / 8][i % 8 * 8], v + head + size_t(key) * 64 + i * 8);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    float scores[8][4] = {};
    for (int n = 0; n < 8; ++n)
      for (int half = 0; half < 2; ++half) {
        uint32_t of_k[4];
        load_matrices(of_k, &k_tile[n * 8 + l % 8][half * 32 + l / 8 * 8]);
        multiply(scores[n], of_q[2 * half], of_k[0], of_k[1]);
        multiply(scores[n], of_q[2 * half + 1], of_k[2], of_k[3]);
      }
    for (int row = 0; row < 2; ++row) {
      float highest = most[row];
      for (int n = 0; n < 8; ++n)
        highest = fmaxf(highest, fmaxf(scores[n][2 * row], scores[n][2 * row + 1]) * 0.18033688f);
      highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 1));
      highest = fmaxf(highest, __shfl_xor_sync(~0u, highest, 2));
      const float factor = exp2f(most[row] - highest);
      most[row] = highest;
      weight[row] *= factor;
      for (int n = 0; n < 8; ++n)
        for (int i = 2 * row; i < 2 * row + 2; ++i) {
          sums[n][i] *= factor;
          weight[row] += scores[n][i] = exp2f(scores[n][i] * 0.18033688f - highest);
        }
    }
    for (int step = 0; step < 4; ++step) {
      const uint32_t of_p[4] = {pack(scores[2 * step][0], scores[2 * step][1]),
                                pack(scores[2 * step][2], scores[2 * step][3]),
                                pack(scores[2 * step + 1][0], scores[2 * step + 1][1]),
                                pack(scores[2 * step + 1][2], scores[2 * step + 1][3])};
      for (int n = 0; n < 8; n += 2) {
        uint32_t of_v[4];
        load_transposed(of_v, &v_tile[step * 16 + l % 16][n * 8 + l / 16 * 8]);
        multiply(sums[n], of_p, of_v[0], of_v[1]);
        multiply(sums[n + 1], of_p, of_v[2], of_v[3]);
      }
    }
    __syncthreads();
  }
  for (int row = 0; row < 2; ++row) {
    weight[row] += __shfl_xor_sync(~0u, weight[row], 1);
    weight[row] += __shfl_xor_sync(~0u, weight[row], 2);
    const size_t at = first + (warp * 16 + l / 4 + row * 8) * 64 + l % 4 * 2;
    for (int n = 0; n < 8; ++n)
      *reinterpret_cast<uint32_t*>(out + at + n * 8) =
          pack(sums[n][2 * row] / weight[row], sums[n][2 * row + 1] / weight[row]);
  }
}

/// 128 x 128 of C to a block of eight warps; tiles of 32 along K come by cp.async, one ahead.
__global__ void __launch_bounds__(256)
    double_buffered(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int n) {
  __shared__ __align__(16) __nv_bfloat16 a_tile[2][128][40], b_tile[2][128][40];
  const int warp = threadIdx.x / 32, l = lane(), row0 = blockIdx.y * 128, column0 = blockIdx.x * 128;
  const auto fetch = [&](int stage, int k) {
    for (int i = threadIdx.x; i < 512; i += 256) {
      copy_16_bytes(&a_tile[stage][i / 4][i % 4 * 8], a + size_t(row0 + i / 4) * n + k + i % 4 * 8);
      copy_16_bytes(&b_tile[stage][i / 4][i % 4 * 8], b + size_t(column0 + i / 4) * n + k + i % 4 * 8);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float sums[4][4][4] = {};
  fetch(0, 0);
  for (int k = 0, stage = 0; k < n; k += 32, stage ^= 1) {
    if (k + 32 < n) {
      fetch(stage ^ 1, k + 32);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_group 0;" ::: "memory");
    }
    __syncthreads();
    for (int step = 0; step < 32; step += 16) {
      uint32_t of_a[4][4], of_b[2][4];
      for (int i = 0; i < 4; ++i)
        load_matrices(of_a[i], &a_tile[stage][warp / 4 * 64 + i * 16 + l % 16][step + l / 16 * 8]);
      for (int i = 0; i < 2; ++i)
        load_matrices(of_b[i], &b_tile[stage][warp % 4 * 32 + i * 16 + l / 16 * 8 + l % 8][step + l / 8 % 2 * 8]);
      for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 4; ++x) multiply(sums[y][x], of_a[y], of_b[x / 2][x % 2 * 2], of_b[x / 2][x % 2 * 2 + 1]);
    }
    __syncthreads();
  }
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 4; ++x)
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<uint32_t*>(c + size_t(row0 + warp / 4 * 64 + y * 16 + half * 8 + l / 4) * n + column0 +
                                     warp % 4 * 32 + x * 8 + l % 4 * 2) =
            pack(sums[y][x][2 * half], sums[y][x][2 * half + 1]);
}

/// Products of bytes by dp4a: 64 x 64 of C to a block, 4 x 4 to a thread, four bytes of K in a word.
__global__ void __launch_bounds__(256) bytes_multiplied(const int* a, const int* b, int* c, int n, int words) {
  __shared__ int a_tile[16][65], b_tile[16][65];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16, row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
  int sums[4][4] = {};
  for (int k = 0; k < words; k += 16) {
    for (int i = 0; i < 4; ++i) {
      a_tile[x][y + i * 16] = a[size_t(row0 + y + i * 16) * words + k + x];
      b_tile[x][y + i * 16] = b[size_t(column0 + y + i * 16) * words + k + x];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      int of_a[4], of_b[4];
      for (int j = 0; j < 4; ++j) of_a[j] = a_tile[i][y + j * 16], of_b[j] = b_tile[i][x + j * 16];
      for (int j = 0; j < 4; ++j)
        for (int m = 0; m < 4; ++m) sums[j][m] = __dp4a(of_a[j], of_b[m], sums[j][m]);
    }
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j)
    for (int m = 0; m < 4; ++m) c[size_t(row0 + y + j * 16) * n + column0 + x + m * 16] = sums[j][m];
}

/// Fourier transforms of 256 points, four to a block, by radix 4 in shared memory.
__global__ void __launch_bounds__(256) fourier(const float2* in, float2* out) {
  __shared__ float2 points[4][2][256];
  const int of_block = threadIdx.x / 64, i = threadIdx.x % 64;
  const size_t first = (size_t{blockIdx.x} * 4 + of_block) * 256;
  for (int j = 0; j < 4; ++j) points[of_block][0][i + j * 64] = in[first + i + j * 64];
  __syncthreads();
  int from = 0;
  for (int length = 1; length < 256; length *= 4, from ^= 1) {
    const int k = i % length;
    float2 v[4];
    for (int j = 0; j < 4; ++j) {
      const float2 p = points[of_block][from][i + j * 64];
      float sine, cosine;
      __sincosf(-6.2831853f * j * k / (4 * length), &sine, &cosine);
      v[j] = {p.x * cosine - p.y * sine, p.x * sine + p.y * cosine};
    }
    const float2 s = {v[0].x + v[2].x, v[0].y + v[2].y}, d = {v[0].x - v[2].x, v[0].y - v[2].y};
    const float2 t = {v[1].x + v[3].x, v[1].y + v[3].y}, e = {v[1].y - v[3].y, v[3].x - v[1].x};
    float2* const to = points[of_block][from ^ 1] + (i - k) * 4 + k;
    to[0] = {s.x + t.x, s.y + t.y};
    to[length] = {d.x + e.x, d.y + e.y};
    to[2 * length] = {s.x - t.x, s.y - t.y};
    to[3 * length] = {d.x - e.x, d.y - e.y};
    __syncthreads();
  }
  for (int j = 0; j < 4; ++j) out[first + i + j * 64] = points[of_block][from][i + j * 64];
}

/// A pass of a radix sort inside each block of 4096 keys: ranks by digit with match_any, then a scatter.
__global__ void __launch_bounds__(256) radix_pass(const uint32_t* keys, uint32_t* sorted, uint32_t* totals, int shift) {
  __shared__ uint32_t counts[8][256], ends[256];
  const int warp = threadIdx.x / 32;
  const size_t first = size_t{blockIdx.x} * 4096;
  for (int i = 0; i < 8; ++i) counts[i][threadIdx.x] = 0;
  __syncthreads();
  uint32_t own[16], rank[16];
  for (int i = 0; i < 16; ++i) {
    own[i] = keys[first + warp * 512 + i * 32 + lane()];
    const uint32_t digit = own[i] >> shift & 255, same = __match_any_sync(~0u, digit);
    const uint32_t before = __popc(same & ((1u << lane()) - 1));
    const uint32_t base = counts[warp][digit];
    __syncwarp();
    if (before == 0) counts[warp][digit] = base + __popc(same);
    __syncwarp();
    rank[i] = base + before;
  }
  __syncthreads();
  uint32_t sum = 0;
  for (int i = 0; i < 8; ++i) {
    const uint32_t count = counts[i][threadIdx.x];
    counts[i][threadIdx.x] = sum;
    sum += count;
  }
  atomicAdd(&totals[threadIdx.x], sum);
  ends[threadIdx.x] = sum;
  __syncthreads();
  for (int offset = 1; offset < 256; offset *= 2) {
    const uint32_t before = threadIdx.x >= offset ? ends[threadIdx.x - offset] : 0;
    __syncthreads();
    ends[threadIdx.x] += before;
    __syncthreads();
  }
  for (int i = 0; i < 8; ++i) counts[i][threadIdx.x] += ends[threadIdx.x] - sum;
  __syncthreads();
  for (int i = 0; i < 16; ++i) sorted[first + counts[warp][own[i] >> shift & 255] + rank[i]] = own[i];
}

/// A sparse matrix in compressed rows times a vector, a row to a warp.
__global__ void __launch_bounds__(256)
    sparse_times_vector(const int* starts, const int* columns, const float* values, const float* x, float* y) {
  const int row = blockIdx.x * 8 + threadIdx.x / 32;
  float sum = 0;
  for (int i = starts[row] + lane(); i < starts[row + 1]; i += 32) sum += values[i] * x[columns[i]];
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  if (lane() == 0) y[row] = sum;
}

/// Sorts each 2048 keys in shared memory.
__global__ void __launch_bounds__(1024) bitonic_sort(const uint32_t* in, uint32_t* out) {
  __shared__ uint32_t keys[2048];
  const size_t first = size_t{blockIdx.x} * 2048;
  keys[threadIdx.x] = in[first + threadIdx.x];
  keys[threadIdx.x + 1024] = in[first + threadIdx.x + 1024];
  for (int size = 2; size <= 2048; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      const int low = 2 * threadIdx.x - (threadIdx.x & (stride - 1));
      const uint32_t a = keys[low], b = keys[low + stride];
      if ((a > b) == ((low & size) == 0)) keys[low] = b, keys[low + stride] = a;
    }
  __syncthreads();
  out[first + threadIdx.x] = keys[threadIdx.x];
  out[first + threadIdx.x + 1024] = keys[threadIdx.x + 1024];
}

/// 3 x 3 with 16 channels in and 16 out: 16 x 16 pixels to a block, all channels of one to a thread.
__global__ void __launch_bounds__(256) convolution(const float* in, const float* weights, float* out, int n) {
  __shared__ float tile[18][18], of_weights[16][9];
  const int x = threadIdx.x % 16, y = threadIdx.x / 16, x0 = blockIdx.x * 16, y0 = blockIdx.y * 16;
  float sums[16] = {};
  for (int channel = 0; channel < 16; ++channel) {
    __syncthreads();
    for (int i = threadIdx.x; i < 324; i += 256) {
      const int row = y0 + i / 18 - 1, column = x0 + i % 18 - 1;
      const bool inside = row >= 0 && row < n && column >= 0 && column < n;
      tile[i / 18][i % 18] = inside ? in[(size_t(channel) * n + row) * n + column] : 0;
    }
    if (threadIdx.x < 144) of_weights[threadIdx.x / 9][threadIdx.x % 9] = weights[channel * 144 + threadIdx.x];
    __syncthreads();
    float around[9];
    for (int i = 0; i < 9; ++i) around[i] = tile[y + i / 3][x + i % 3];
#pragma unroll
    for (int o = 0; o < 16; ++o)
      for (int i = 0; i < 9; ++i) sums[o] += around[i] * of_weights[o][i];
  }
  for (int o = 0; o < 16; ++o) out[(size_t(o) * n + y0 + y) * n + x0 + x] = sums[o];
}

__global__ void __launch_bounds__(256) gelu(const float4* in, float4* out) {
  const size_t i = size_t{blockIdx.x} * 256 + threadIdx.x;
  const auto f = [](float x) { return 0.5f * x * (1 + tanhf(0.7978846f * (x + 0.044715f * x * x * x))); };
  const float4 v = in[i];
  out[i] = {f(v.x), f(v.y), f(v.z), f(v.w)};
}

/// A row of 4096 halves to a block of 256: its mean square over registers, then a scale.
__global__ void __launch_bounds__(256) rms_norm(const uint4* in, const uint4* scale, uint4* out) {
  __shared__ float of_warp[8];
  uint4 values[2];
  float sum = 0;
  for (int i = 0; i < 2; ++i) {
    values[i] = in[size_t{blockIdx.x} * 512 + i * 256 + threadIdx.x];
    const __half2* const pairs = reinterpret_cast<const __half2*>(&values[i]);
    for (int j = 0; j < 4; ++j) {
      const float2 v = __half22float2(pairs[j]);
      sum += v.x * v.x + v.y * v.y;
    }
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  if (lane() == 0) of_warp[threadIdx.x / 32] = sum;
  __syncthreads();
  sum = 0;
  for (int i = 0; i < 8; ++i) sum += of_warp[i];
  const __half2 factor = __float2half2_rn(rsqrtf(sum / 4096 + 1e-5f));
  for (int i = 0; i < 2; ++i) {
    const uint4 by = scale[i * 256 + threadIdx.x];
    __half2* const pairs = reinterpret_cast<__half2*>(&values[i]);
    for (int j = 0; j < 4; ++j) pairs[j] = pairs[j] * factor * reinterpret_cast<const __half2*>(&by)[j];
    out[size_t{blockIdx.x} * 512 + i * 256 + threadIdx.x] = values[i];
  }
}

constexpr int kCount = 1 << 22;

BENCHMARK(tensor_cores) {
  const int sets = sets_of(size_t{kCount} * 8);
  auto a = arrays<__nv_bfloat16>(sets, kCount), b = arrays<__nv_bfloat16>(sets, kCount);
  auto c = arrays<__nv_bfloat16>(sets, kCount), d = arrays<__nv_bfloat16>(sets, kCount);
  time("attention, 16 heads of 64, 2048 keys", sets, [&](cudaStream_t stream, int set) {
    attention<<<dim3(32, 16), 128, 0, stream>>>(a[set].data(), b[set].data(), c[set].data(), d[set].data(), 2048);
  });
  time("bf16 product by mma.sync and cp.async, 2048 cubed", sets, [&](cudaStream_t stream, int set) {
    double_buffered<<<dim3(16, 16), 256, 0, stream>>>(a[set].data(), b[set].data(), c[set].data(), 2048);
  });
}

BENCHMARK(words) {
  const int sets = sets_of(size_t{kCount} * 8);
  auto in = arrays<uint32_t>(sets, kCount), out = arrays<uint32_t>(sets, kCount);
  DeviceArray<uint32_t> totals(256);
  const auto keys = numbers(kCount, 1);
  for (auto& each : in) each.from_host(keys);
  const auto ints = [](DeviceArray<uint32_t>& array) { return reinterpret_cast<int*>(array.data()); };
  time("product of bytes by dp4a, 1024 x 1024 x 4096", sets, [&](cudaStream_t stream, int set) {
    bytes_multiplied<<<dim3(16, 16), 256, 0, stream>>>(ints(in[set]), ints(in[set]) + (1 << 20), ints(out[set]), 1024,
                                                       1024);
  });
  time("pass of a radix sort of 4 Mi keys, in blocks of 4096", sets, [&](cudaStream_t stream, int set) {
    radix_pass<<<kCount / 4096, 256, 0, stream>>>(in[set].data(), out[set].data(), totals.data(), 8);
  });
  time("bitonic sort of 512 times 2048 keys", sets,
       [&](cudaStream_t stream, int set) { bitonic_sort<<<512, 1024, 0, stream>>>(in[set].data(), out[set].data()); });
}

BENCHMARK(sparse) {
  constexpr int kRows = 1 << 16, kEach = 40;
  const int sets = sets_of(size_t{kRows} * kEach * 8);
  auto columns = arrays<int>(sets, size_t{kRows} * kEach);
  auto values = arrays<float>(sets, size_t{kRows} * kEach), x = arrays<float>(sets, kRows);
  auto y = arrays<float>(sets, kRows);
  DeviceArray<int> starts(kRows + 1);
  std::vector<int> first(kRows + 1), of(size_t{kRows} * kEach);
  const auto random = numbers(of.size(), 1);
  for (int row = 0; row < kRows; ++row) first[row + 1] = first[row] + static_cast<int>(random[row] % kEach);
  for (size_t i = 0; i < of.size(); ++i) of[i] = static_cast<int>(random[i] % kRows);
  starts.from_host(first);
  for (auto& each : columns) each.from_host(of);
  time("sparse matrix of 64 Ki rows times vector", sets, [&](cudaStream_t stream, int set) {
    sparse_times_vector<<<kRows / 8, 256, 0, stream>>>(starts.data(), columns[set].data(), values[set].data(),
                                                       x[set].data(), y[set].data());
  });
}

BENCHMARK(floats) {
  const int sets = sets_of(size_t{kCount} * 32);
  auto in = arrays<float>(sets, 4 * kCount), out = arrays<float>(sets, 4 * kCount);
  DeviceArray<float> weights(16 * 144);
  const auto f4 = [](DeviceArray<float>& array) { return reinterpret_cast<float4*>(array.data()); };
  const auto u4 = [](DeviceArray<float>& array) { return reinterpret_cast<uint4*>(array.data()); };
  time("8192 Fourier transforms of 256 points", sets, [&](cudaStream_t stream, int set) {
    fourier<<<2048, 256, 0, stream>>>(reinterpret_cast<float2*>(in[set].data()),
                                      reinterpret_cast<float2*>(out[set].data()));
  });
  time("convolution 3 x 3, 16 channels of 512 x 512", sets, [&](cudaStream_t stream, int set) {
    convolution<<<dim3(32, 32), 256, 0, stream>>>(in[set].data(), weights.data(), out[set].data(), 512);
  });
  time("GELU of 16 Mi floats", sets,
       [&](cudaStream_t stream, int set) { gelu<<<kCount / 256, 256, 0, stream>>>(f4(in[set]), f4(out[set])); });
  time("RMS norm of 4096 rows of 4096 halves", sets, [&](cudaStream_t stream, int set) {
    rms_norm<<<4096, 256, 0, stream>>>(u4(in[set]), u4(in[0]) + (1 << 21), u4(out[set]));
  });
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
