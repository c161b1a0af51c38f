// Rows of tables, a heat equation on a grid, edit distances and random numbers, to compare the model of the chip with:
// modelled before they were measured, by two states of the model (docs/timing.md). Each is a benchmark of its own, so
// that the emulated GPU begins with an empty L2.
#include <cuda_bf16.h>

#include "kernel_timing.hpp"

using namespace silicon;

/// Nearest of 32 centres to each point of four coordinates; the centres are in shared memory.
__global__ void __launch_bounds__(256) nearest_centre(const float4* points, const float4* centres, uint32_t* nearest) {
  __shared__ float4 all[32];
  if (threadIdx.x < 32) all[threadIdx.x] = centres[threadIdx.x];
  __syncthreads();
  const float4 p = points[blockIdx.x * 256 + threadIdx.x];
  float least = 1e30f;
  uint32_t best = 0;
  for (uint32_t i = 0; i < 32; ++i) {
    const float x = p.x - all[i].x, y = p.y - all[i].y, z = p.z - all[i].z, w = p.w - all[i].w;
    const float distance = x * x + y * y + z * z + w * w;
    if (distance < least) least = distance, best = i;
  }
  nearest[blockIdx.x * 256 + threadIdx.x] = best;
}

/// The largest of each row of 1024 and its column, a row to a warp.
__global__ void __launch_bounds__(256) largest_of_rows(const float4* in, float2* out) {
  const size_t row = size_t{blockIdx.x} * 8 + threadIdx.x / 32;
  float most = -1e30f;
  int at = 0;
  for (int i = lane(); i < 256; i += 32) {
    const float4 four = in[row * 256 + i];
    const float each[4] = {four.x, four.y, four.z, four.w};
    for (int j = 0; j < 4; ++j)
      if (each[j] > most) most = each[j], at = 4 * i + j;
  }
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(~0u, most, distance);
    const int other_at = __shfl_xor_sync(~0u, at, distance);
    if (other > most || (other == most && other_at < at)) most = other, at = other_at;
  }
  if (lane() == 0) out[row] = {most, __int_as_float(at)};
}

/// Sums of 16 rows of a table for each output row, as embeddings are gathered: 256 floats a row, a warp to an output.
__global__ void __launch_bounds__(128) sums_of_gathered_rows(const float4* table, const uint32_t* which, float4* out) {
  const size_t row = size_t{blockIdx.x} * 4 + threadIdx.x / 32;
  float4 low = {}, high = {};
  for (int i = 0; i < 16; ++i) {
    const size_t at = size_t{which[row * 16 + i] % 65536} * 64;
    const float4 a = table[at + lane()], b = table[at + 32 + lane()];
    low.x += a.x, low.y += a.y, low.z += a.z, low.w += a.w;
    high.x += b.x, high.y += b.y, high.z += b.z, high.w += b.w;
  }
  out[row * 64 + lane()] = low;
  out[row * 64 + 32 + lane()] = high;
}

/// Philox 4 x 32 with ten rounds: four numbers to a counter.
__global__ void __launch_bounds__(256) philox(uint4* out) {
  uint4 c = {blockIdx.x * 256 + threadIdx.x, 0, 0, 0};
  uint32_t k0 = 0x12345678, k1 = 0x9abcdef0;
#pragma unroll
  for (int i = 0; i < 10; ++i) {
    const uint64_t a = uint64_t{0xd2511f53u} * c.x, b = uint64_t{0xcd9e8d57u} * c.z;
    c = {uint32_t(b >> 32) ^ c.y ^ k0, uint32_t(b), uint32_t(a >> 32) ^ c.w ^ k1, uint32_t(a)};
    k0 += 0x9e3779b9u, k1 += 0xbb67ae85u;
  }
  out[blockIdx.x * 256 + threadIdx.x] = c;
}

/// One step of a heat equation in 256 x 256 x 256 points: tiles of 32 x 8, planes one after the other.
__global__ void __launch_bounds__(256) heat_step(const float* in, float* out) {
  __shared__ float plane[10][34];
  const int x = blockIdx.x * 32 + threadIdx.x % 32, y = blockIdx.y * 8 + threadIdx.x / 32, first = blockIdx.z * 32;
  const int tx = threadIdx.x % 32 + 1, ty = threadIdx.x / 32 + 1;
  const auto at = [&](int i, int j, int k) {
    return (size_t((k + 256) % 256) * 256 + (j + 256) % 256) * 256 + (i + 256) % 256;
  };
  float before = in[at(x, y, first - 1)], here = in[at(x, y, first)];
  for (int z = first; z < first + 32; ++z) {
    const float after = in[at(x, y, z + 1)];
    plane[ty][tx] = here;
    if (tx == 1) plane[ty][0] = in[at(x - 1, y, z)];
    if (tx == 32) plane[ty][33] = in[at(x + 1, y, z)];
    if (ty == 1) plane[0][tx] = in[at(x, y - 1, z)];
    if (ty == 8) plane[9][tx] = in[at(x, y + 1, z)];
    __syncthreads();
    out[at(x, y, z)] = here + 0.1f * (before + after + plane[ty][tx - 1] + plane[ty][tx + 1] + plane[ty - 1][tx] +
                                      plane[ty + 1][tx] - 6 * here);
    __syncthreads();
    before = here, here = after;
  }
}

/// Edit distances of pairs of strings of 64 characters: a pair to a warp, two columns to a lane, by anti-diagonals.
__global__ void __launch_bounds__(128) edit_distances(const uint8_t* a, const uint8_t* b, int* out) {
  const size_t pair = size_t{blockIdx.x} * 4 + threadIdx.x / 32;
  const int l = lane();
  const uint8_t mine[2] = {b[pair * 64 + 2 * l], b[pair * 64 + 2 * l + 1]};
  int above[2] = {2 * l + 1, 2 * l + 2}, left_above = 2 * l;
  for (int turn = 0; turn < 64 + 31; ++turn) {
    const int row = turn - l;
    int left = __shfl_up_sync(~0u, above[1], 1);
    if (l == 0) left = row + 1;
    if (row < 0 || row >= 64) continue;
    const uint8_t letter = a[pair * 64 + row];
    const int first = min(min(above[0], left) + 1, left_above + (letter != mine[0]));
    const int second = min(min(above[1], first) + 1, above[0] + (letter != mine[1]));
    left_above = left, above[0] = first, above[1] = second;
  }
  if (l == 31) out[pair] = above[1];
}

/// Sums of the columns of a matrix of 8192 x 1024: 256 columns and 64 rows to a block, which adds to global memory.
__global__ void __launch_bounds__(256) sums_of_columns(const float* in, float* sums) {
  const int column = blockIdx.x * 256 + threadIdx.x;
  float sum = 0;
#pragma unroll 8
  for (int row = 0; row < 64; ++row) sum += in[(size_t{blockIdx.y} * 64 + row) * 1024 + column];
  atomicAdd(&sums[column], sum);
}

/// Rotary positions: pairs of bf16 turned by an angle that is computed from the position and the pair.
__global__ void __launch_bounds__(256) rotate_pairs(const __nv_bfloat162* in, __nv_bfloat162* out) {
  const uint32_t i = blockIdx.x * 256 + threadIdx.x, pair = i % 64, position = i / (64 * 16);
  float sine, cosine;
  __sincosf(position * exp2f(pair * -0.2076205f), &sine, &cosine);
  const float2 v = __bfloat1622float2(in[i]);
  out[i] = __floats2bfloat162_rn(v.x * cosine - v.y * sine, v.x * sine + v.y * cosine);
}

/// Values of so many bytes each, filled with bits of small floats.
struct Values {
  int sets;
  std::vector<DeviceArray<uint32_t>> in, out;
  Values(size_t in_bytes, size_t out_bytes)
      : sets(sets_of(in_bytes + out_bytes)),
        in(arrays<uint32_t>(sets, in_bytes / 4)),
        out(arrays<uint32_t>(sets, out_bytes / 4)) {
    std::vector<uint32_t> values(in_bytes / 4);
    uint32_t x = 1;
    for (uint32_t& each : values) each = ((x = x * 1664525u + 1013904223u) >> 9) | 0x3f000000u;
    for (auto& each : in) each.from_host(values);
  }
  template <typename T>
  const T* from(int set) {
    return reinterpret_cast<const T*>(in[set].data());
  }
  template <typename T>
  T* to(int set) {
    return reinterpret_cast<T*>(out[set].data());
  }
};

BENCHMARK(nearest) {
  Values operands(16 * kMi + 512, 4 * kMi);
  time("nearest of 32 centres to 1 Mi points", operands.sets, [&](cudaStream_t stream, int set) {
    nearest_centre<<<4096, 256, 0, stream>>>(operands.from<float4>(set), operands.from<float4>(set) + kMi,
                                             operands.to<uint32_t>(set));
  });
}
BENCHMARK(largest) {
  Values operands(32 * kMi, 64 << 10);
  time("largest of each of 8192 rows of 1024", operands.sets, [&](cudaStream_t stream, int set) {
    largest_of_rows<<<1024, 256, 0, stream>>>(operands.from<float4>(set), operands.to<float2>(set));
  });
}
BENCHMARK(gathered) {
  Values operands(64 * kMi, 8 * kMi + (512 << 10));
  std::vector<uint32_t> which(128 << 10);
  uint32_t x = 7;
  for (uint32_t& each : which) each = (x = x * 1664525u + 1013904223u) >> 12;
  DeviceArray<uint32_t> rows(which.size());
  rows.from_host(which);
  time("8192 sums of 16 rows of 256 of a table of 64 Mi bytes", operands.sets, [&](cudaStream_t stream, int set) {
    sums_of_gathered_rows<<<2048, 128, 0, stream>>>(operands.from<float4>(set), rows.data(), operands.to<float4>(set));
  });
}
BENCHMARK(random_numbers) {
  Values operands(4, 64 * kMi);
  time("16 Mi random numbers by Philox", operands.sets,
       [&](cudaStream_t stream, int set) { philox<<<16384, 256, 0, stream>>>(operands.to<uint4>(set)); });
}
BENCHMARK(heat) {
  Values operands(64 * kMi, 64 * kMi);
  time("heat equation, 256 x 256 x 256", operands.sets, [&](cudaStream_t stream, int set) {
    heat_step<<<dim3(8, 32, 8), 256, 0, stream>>>(operands.from<float>(set), operands.to<float>(set));
  });
}
BENCHMARK(edits) {
  Values operands(8 * kMi, 256 << 10);
  time("edit distances of 64 Ki pairs of 64 characters", operands.sets, [&](cudaStream_t stream, int set) {
    edit_distances<<<16384, 128, 0, stream>>>(operands.from<uint8_t>(set), operands.from<uint8_t>(set) + 4 * kMi,
                                              operands.to<int>(set));
  });
}
BENCHMARK(columns) {
  Values operands(32 * kMi, 4096);
  time("sums of the columns of 8192 x 1024", operands.sets, [&](cudaStream_t stream, int set) {
    sums_of_columns<<<dim3(4, 128), 256, 0, stream>>>(operands.from<float>(set), operands.to<float>(set));
  });
}
BENCHMARK(rotary) {
  Values operands(32 * kMi, 32 * kMi);
  time("rotary positions of 8192 x 16 heads of 128", operands.sets, [&](cudaStream_t stream, int set) {
    rotate_pairs<<<32768, 256, 0, stream>>>(operands.from<__nv_bfloat162>(set), operands.to<__nv_bfloat162>(set));
  });
}

int main(int argc, char** argv) { return silicon::main(argc, argv); }
