// The problem and its tiles: what the kernels of this chapter share. Who waits for whom is not here.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/cluster.hpp"
#include "stagecraft/cluster_shape.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_payload.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

//! [sizes]
using Element = __nv_bfloat16;

/// What a block computes at a time: 128 rows of C. A pair computes 256 x 256, a block alone 128 x 128.
inline constexpr int kTileM = 128;
template <typename Cluster>
inline constexpr int kTileN = 128 * Cluster::cta_group;
/// Elements along K in a tile: 128 bytes, as wide as the swizzle.
inline constexpr int kTileK = 64;

/// What a block holds of each operand for a k-tile: 16 KiB, in a pair as well as alone.
using ATile = Tile<Element, kTileM, kTileK>;
template <typename Cluster>
using BTile = Tile<Element, kTileN<Cluster> / Cluster::cta_group, kTileK>;
/// The sums of a block, or of a pair: in a pair, each block has half of the rows in its own tensor memory.
template <typename Cluster>
using Accumulator = TmemTensor<kTileM * Cluster::cta_group, kTileN<Cluster>, Cluster::cta_group>;
//! [sizes]

/// Warps that store a tile of C. Four, because a warp can reach only a quarter of the lanes of tensor memory.
inline constexpr int kStoreWarps = 4;
inline constexpr int kStoreThreads = kStoreWarps * kWarpSize;
inline constexpr int kThreads = 2 * kWarpSize + kStoreThreads;

/// What a warp does.
enum class Role { load, multiply, store };

/// The calling warp's role: warp 0 loads tiles, warp 1 multiplies them, all others only store. Called by a whole warp.
__device__ inline Role warp_role() {
  const uint32_t warp = warp_index();
  return warp == 0 ? Role::load : warp == 1 ? Role::multiply : Role::store;
}

//! [problem]
/// What a launch computes: C (m x n, f32) = A (m x k) * B (n x k) transposed, all row-major.
template <typename Cluster>
struct Problem {
  TileMap<ATile, Cluster::blocks_sharing_a> a;
  TileMap<BTile<Cluster>, Cluster::blocks_sharing_b> b;
  float* c;
  int m, n, k;
  uint32_t slow_nanoseconds =
      0;  ///< how much longer than the others the first block of a cluster takes to store a tile

  /// k-tiles to add up for each tile of C. What is beyond an edge reads as zero.
  __device__ int k_tiles() const { return (k + kTileK - 1) / kTileK; }
  /// Tiles of C of a whole cluster.
  __host__ __device__ int tiles_down() const {
    constexpr int kRows = Cluster::rows * kTileM;
    return (m + kRows - 1) / kRows;
  }
  __host__ __device__ int tiles() const {
    constexpr int kColumns = Cluster::columns * kTileN<Cluster>;
    return tiles_down() * ((n + kColumns - 1) / kColumns);
  }
};
//! [problem]

//! [tile of c]
/// Where a block is in its work. All blocks of a cluster go through the same tiles of the cluster, and each computes
/// its own part: the grid has Cluster::columns blocks along y, and Cluster::rows for each cluster along x.
template <typename Cluster>
class TileOfC {
 public:
  __device__ explicit TileOfC(const Problem<Cluster>& problem)
      : problem_(problem), number_(static_cast<int>(blockIdx.x) / Cluster::rows) {}

  __device__ bool exists() const { return number_ < problem_.tiles(); }
  __device__ void next() { number_ += static_cast<int>(gridDim.x) / Cluster::rows; }
  /// The first row of A and of C that is this block's.
  __device__ int row() const {
    return (number_ % problem_.tiles_down() * Cluster::rows + Cluster::row(block_rank())) * kTileM;
  }
  /// The first column of C that is this block's; both blocks of a pair have the same.
  __device__ int column() const {
    return (number_ / problem_.tiles_down() * Cluster::columns + Cluster::column(block_rank())) * kTileN<Cluster>;
  }

 private:
  const Problem<Cluster>& problem_;
  int number_;
};
//! [tile of c]

/// A barrier for all threads of the cluster that also orders what they do in tensor memory.
__device__ inline void sync_cluster_and_tensor_memory() {
  __syncwarp();
  cuda::ptx::tcgen05_fence_before_thread_sync();
  sync_cluster();
  cuda::ptx::tcgen05_fence_after_thread_sync();
}

/// Stores the quarter of this block's part of a tile of C that the calling warp can reach.
template <typename Cluster>
__device__ void store_quarter(const Problem<Cluster>& problem, const TileOfC<Cluster>& tile,
                              const Accumulator<Cluster>& accumulator) {
  constexpr int kColumns = 32;  // at a time, in registers
  const int row = tile.row() + Accumulator<Cluster>::row_of(warp_index(), lane_index());
  float* const row_of_c = problem.c + int64_t{row} * problem.n + tile.column();
  const int valid = problem.n - tile.column();
  if (problem.slow_nanoseconds != 0 && block_rank() == 0) __nanosleep(problem.slow_nanoseconds);
#pragma unroll 1
  for (int column = 0; column < kTileN<Cluster>; column += kColumns) {
    float sums[kColumns];
    accumulator.load(sums, warp_index(), column);
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (row < problem.m && column + i < valid) row_of_c[column + i] = sums[i];
    }
  }
}

}  // namespace stagecraft
