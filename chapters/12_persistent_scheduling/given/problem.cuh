// The problem, its tiles and the roles: what is as in chapter 10. Which block computes which tile is not here.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/tile_payload.hpp"
#include "stagecraft/tile_work.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

using Element = __nv_bfloat16;
/// The tile of C that a block computes at a time.
inline constexpr int kTileM = 128;
inline constexpr int kTileN = 128;
/// Elements along K in a tile of A or B: 128 bytes, as wide as the swizzle.
inline constexpr int kTileK = 64;

/// k-tiles that fit in shared memory, and tiles of C that fit in tensor memory.
inline constexpr int kStages = 4;
inline constexpr int kAccumulators = 2;

using ATile = Tile<Element, kTileM, kTileK>;
using BTile = Tile<Element, kTileN, kTileK>;
using Payload = StandardTilePayload<ATile, BTile, kStages>;
using Accumulator = TmemTensor<kTileM, kTileN>;

/// What a launch computes: C (m x n) = A (m x k) * B (n x k) transposed, all row-major.
struct Problem {
  TileMap<ATile> a;
  TileMap<BTile> b;
  float* c;
  int m, n, k;

  /// The same, counted in tiles.
  ProductTiles tiles() const {
    return {.rows = static_cast<uint32_t>((m + kTileM - 1) / kTileM),
            .columns = static_cast<uint32_t>((n + kTileN - 1) / kTileN),
            .k_tiles = static_cast<uint32_t>((k + kTileK - 1) / kTileK)};
  }
};

//! [role]
/// What a warp does.
enum class Role { load, multiply, store, schedule };

inline constexpr int kStoreWarps = 4;
inline constexpr int kStoreThreads = kStoreWarps * kWarpSize;
inline constexpr int kGemmThreads = 3 * kWarpSize + kStoreThreads;

/// The calling warp's role: warp 0 loads tiles, warp 1 multiplies them, warps 2 to 5 store, warp 6 schedules. Called by
/// a whole warp.
__device__ inline Role warp_role() {
  const uint32_t warp = warp_index();
  return warp == 0 ? Role::load : warp == 1 ? Role::multiply : warp < 2 + kStoreWarps ? Role::store : Role::schedule;
}
//! [role]

/// The stages in dynamic shared memory.
__device__ inline Payload tiles_in_shared_memory() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  return Payload{*reinterpret_cast<typename Payload::Storage*>(dynamic_shared_memory)};
}

/// Stores the quarter of a tile of C that the calling warp can reach. Called by each of four whole warps in a row.
__device__ inline void store_quarter(const Problem& problem, const Work& work, const Accumulator& accumulator) {
  constexpr int kColumns = 32;  // at a time, in registers
  const int row = work.row * kTileM + Accumulator::row_of(warp_index(), lane_index());
  for (int column = 0; column < kTileN; column += kColumns) {
    float sums[kColumns];
    accumulator.load(sums, warp_index(), column);
    const int first = work.column * kTileN + column;
    if (row >= problem.m) continue;
#pragma unroll
    for (int i = 0; i < kColumns; ++i) {
      if (first + i < problem.n) problem.c[int64_t{row} * problem.n + first + i] = sums[i];
    }
  }
}

}  // namespace stagecraft
