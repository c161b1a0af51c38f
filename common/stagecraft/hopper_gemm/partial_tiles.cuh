// Tiles that several blocks compute, each by a part of K: how their sums come together.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "stagecraft/cluster.hpp"
#include "stagecraft/hopper_gemm/tile_of_c.cuh"
#include "stagecraft/ptx.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// Writes a warp's sums of a part of K of a tile to memory, for the warp that collects them. Called by a whole warp.
template <typename Config>
__device__ __forceinline__ void deliver(const TwinProblem<Config>& problem, const typename Twin<Config>::Sums& sums,
                                        int warp, int lane) {
  constexpr int kWords = Config::tile_n / 8;  // of four sums, for each 64 rows
  float4* to = problem.partial + static_cast<int64_t>(warp) * Twin<Config>::Sums::rows / 64 * kWords * 32 + lane;
#pragma unroll
  for (int i = 0; i < Twin<Config>::Sums::rows / 64; ++i) {
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const float* d = sums.of[i] + word * 4;
      __stcg(to + (i * kWords + word) * 32, make_float4(d[0], d[1], d[2], d[3]));
    }
  }
  __syncwarp();
  if (lane == 0) ptx::store_release(problem.delivered + warp, 1);  // releases what all lanes have written
}

/// Waits for what a warp of another block delivers, and adds it to the caller's sums. Called by a whole warp.
template <typename Config>
__device__ __forceinline__ void collect(const TwinProblem<Config>& problem, typename Twin<Config>::Sums& sums, int warp,
                                        int lane) {
  constexpr int kWords = Config::tile_n / 8;
  uint32_t* delivered = problem.delivered + warp;
  if (lane == 0) {
    while (ptx::load_acquire(delivered) == 0) {
    }
    ptx::store_relaxed(delivered, 0);  // for the next launch
  }
  __syncwarp();
  const float4* from =
      problem.partial + static_cast<int64_t>(warp) * Twin<Config>::Sums::rows / 64 * kWords * 32 + lane;
#pragma unroll
  for (int i = 0; i < Twin<Config>::Sums::rows / 64; ++i) {
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      if (word % 4 == 0) asm volatile("" ::: "memory");  // no more loads at once than there are registers for
      const float4 other = __ldcg(from + (i * kWords + word) * 32);
      float* d = sums.of[i] + word * 4;
      d[0] += other.x;
      d[1] += other.y;
      d[2] += other.z;
      d[3] += other.w;
    }
  }
}

/// Adds up the sums of the two blocks of a cluster: the first half of each block's warps, with its rows, ends up with
/// all sums in the first block, the second half in the second. Called by all threads that multiply, in both blocks,
/// when neither needs its stages any more.
/// @param warp  of the caller, among those that multiply.
/// @param part  of K, and of the rows: that of the own block.
/// @return whether the caller's sums are now whole, in `whole`; else the other block has them.
template <typename Shared, typename Sums>
__device__ __forceinline__ bool exchange(Shared& shared, const Sums& sums, Sums& whole, int warp, int part) {
  constexpr int kWords = Sums::columns / 8, kHalf = sizeof(shared.exchanged[0]) / sizeof(float4) / kWarpSize;
  const int thread = warp % kHalf * kWarpSize + lane_index();
  const bool keeps = warp / kHalf == part;
  sync_cluster();
  if (!keeps) {
#pragma unroll
    for (int i = 0; i < Sums::rows / 64; ++i) {
#pragma unroll
      for (int word = 0; word < kWords; ++word) {
        const float* d = sums.of[i] + word * 4;
        ptx::store_in_block(ptx::address_in_block(&shared.exchanged[i * kWords + word][thread], 1 - part),
                            make_float4(d[0], d[1], d[2], d[3]));
      }
    }
  }
  sync_cluster();
  if (!keeps) return false;
#pragma unroll
  for (int i = 0; i < Sums::rows / 64; ++i) {
#pragma unroll
    for (int word = 0; word < kWords; ++word) {
      const float* d = sums.of[i] + word * 4;
      const float4 other = shared.exchanged[i * kWords + word][thread];
      float* to = whole.of[i] + word * 4;
      to[0] = d[0] + other.x;
      to[1] = d[1] + other.y;
      to[2] = d[2] + other.z;
      to[3] = d[3] + other.w;
    }
  }
  return true;
}

}  // namespace stagecraft
