// The Mandelbrot set, bodies that attract each other, small matrices and a hash table, to compare the model of the chip
// with: modelled before they were measured (docs/timing.md).
#include "kernel_timing.hpp"

using namespace silicon;

/// Turns until each point escapes: lanes leave the loop one after the other.
__global__ void __launch_bounds__(256) mandelbrot(int* turns, int n, int most) {
  const int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 8 + threadIdx.x / 32;
  const float re = x * 3.0f / n - 2.2f, im = y * 3.0f / n - 1.5f;
  float a = 0, b = 0;
  int i = 0;
  while (i < most && a * a + b * b < 4) {
    const float t = a * a - b * b + re;
    b = 2 * a * b + im;
    a = t;
    ++i;
  }
  turns[size_t(y) * n + x] = i;
}

/// Accelerations of bodies by all others, in tiles of 256.
__global__ void __launch_bounds__(256) n_body(const float4* bodies, float4* accelerations, int count) {
  __shared__ float4 tile[256];
  const float4 own = bodies[blockIdx.x * 256 + threadIdx.x];
  float3 sum = {};
  for (int first = 0; first < count; first += 256) {
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
#pragma unroll 8
    for (int i = 0; i < 256; ++i) {
      const float4 other = tile[i];
      const float dx = other.x - own.x, dy = other.y - own.y, dz = other.z - own.z;
      const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
      const float factor = other.w * inverse * inverse * inverse;
      sum.x += dx * factor, sum.y += dy * factor, sum.z += dz * factor;
    }
    __syncthreads();
  }
  accelerations[blockIdx.x * 256 + threadIdx.x] = {sum.x, sum.y, sum.z, 0};
}

/// Inserts keys into a table with open addresses; its length is no power of two.
__global__ void __launch_bounds__(256) insert(const uint32_t* keys, uint32_t* table, uint32_t slots) {
  const uint32_t key = keys[blockIdx.x * 256 + threadIdx.x] | 1;
  for (uint32_t at = key * 2654435761u % slots;; at = at + 1 == slots ? 0 : at + 1) {
    const uint32_t before = atomicCAS(&table[at], 0, key);
    if (before == 0 || before == key) return;
  }
}

/// LU without pivots of a matrix of 32 x 32 to a warp, a column to a lane.
__global__ void __launch_bounds__(128) batched_lu(const float* in, float* out) {
  const size_t first = (size_t{blockIdx.x} * 4 + threadIdx.x / 32) * 1024;
  float column[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) column[i] = in[first + i * 32 + lane()] + (i == lane() ? 32.f : 0.f);
#pragma unroll
  for (int k = 0; k < 32; ++k)
#pragma unroll
    for (int i = k + 1; i < 32; ++i) {
      const float factor = __shfl_sync(~0u, column[i], k) / __shfl_sync(~0u, column[k], k);
      if (lane() > k) column[i] -= factor * column[k];
      if (lane() == k) column[i] = factor;
    }
#pragma unroll
  for (int i = 0; i < 32; ++i) out[first + i * 32 + lane()] = column[i];
}

constexpr int kCount = 1 << 20;

BENCHMARK(fresh) {
  const int sets = sets_of(size_t{kCount} * 8);
  auto in = arrays<uint32_t>(sets, kCount), out = arrays<uint32_t>(sets, 2 * kCount);
  std::vector<uint32_t> keys(kCount);
  uint32_t x = 1;
  for (uint32_t& each : keys) each = (x = x * 1664525u + 1013904223u) >> 8;
  for (auto& each : in) each.from_host(keys);
  const auto f = [](DeviceArray<uint32_t>& a) { return reinterpret_cast<float*>(a.data()); };
  time("Mandelbrot set of 1024 x 1024, at most 128 turns", sets, [&](cudaStream_t stream, int set) {
    mandelbrot<<<dim3(32, 128), 256, 0, stream>>>(reinterpret_cast<int*>(out[set].data()), 1024, 128);
  });
  time("accelerations of 8192 bodies", sets, [&](cudaStream_t stream, int set) {
    n_body<<<32, 256, 0, stream>>>(reinterpret_cast<float4*>(in[set].data()),
                                   reinterpret_cast<float4*>(out[set].data()), 8192);
  });
  time("LU of 1024 matrices of 32 x 32", sets,
       [&](cudaStream_t stream, int set) { batched_lu<<<256, 128, 0, stream>>>(f(in[set]), f(out[set])); });
  // The words of `in` are tiny as floats, and so are the quotients above: those of these numbers are not.
  std::vector<float> ordinary(kCount);
  for (int i = 0; i < kCount; ++i) ordinary[i] = 1 + static_cast<float>(keys[i]) * 0x1p-24f;
  for (int set = 0; set < sets; ++set)
    check(cudaMemcpy(out[set].data() + kCount, ordinary.data(), kCount * 4, cudaMemcpyHostToDevice), "cudaMemcpy");
  time("LU of 1024 matrices of 32 x 32, of ordinary numbers", sets,
       [&](cudaStream_t stream, int set) { batched_lu<<<256, 128, 0, stream>>>(f(out[set]) + kCount, f(out[set])); });
  auto tables = arrays<uint32_t>(sets, 1500007);
  for (int set = 0; set < sets; ++set) insert<<<kCount / 512, 256>>>(in[set].data(), tables[set].data(), 1500007);
  check(cudaDeviceSynchronize(), "insert");
  time("512 Ki keys into a hash table of 1500007, which are there already", sets, [&](cudaStream_t stream, int set) {
    insert<<<kCount / 512, 256, 0, stream>>>(in[set].data(), tables[set].data(), 1500007);
  });
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
