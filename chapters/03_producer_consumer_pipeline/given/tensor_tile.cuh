// What a product on the tensor core is made of, besides the ring that feeds it. Chapters 07 and 08 explain these parts.
#pragma once

#include <cuda/ptx>

#include "launches.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

/// A tile of A or of B: kTileK columns of its kTile rows, as the tensor core reads them.
using Operand = Tile<__nv_bfloat16, kTile, kTileK, Swizzle::bytes_64>;
/// The sums, in tensor memory.
using Sums = TmemTensor<kTile, kTile>;

/// What a stage holds.
struct Tiles {
  Operand a, b;
};

/// By what TMA finds A and B.
struct Operands {
  TileMap<Operand> a, b;
};

/// Announces the bytes of two tiles at `full`, and starts their copies. Called by one lane.
__device__ inline void copy_tiles(Tiles& tiles, const Operands& operands, int k_tile, MbarPtr full) {
  expect_bytes(full, 2 * Operand::bytes);
  copy_tile(tiles.a, operands.a, /*row=*/0, k_tile * kTileK, full);
  copy_tile(tiles.b, operands.b, /*row=*/0, k_tile * kTileK, full);
}

/// Warps that store the sums. Each reaches a quarter of tensor memory's lanes.
inline constexpr int kStoreWarps = 4;
/// Threads of the block: a warp that copies and one that multiplies come first.
inline constexpr int kTileThreads = (2 + kStoreWarps) * kWarpSize;

/// What a warp does.
enum class Role { copy, multiply, store };

/// The calling warp's role. Called by a whole warp.
__device__ inline Role warp_role() {
  return warp_index() == 0 ? Role::copy : warp_index() == 1 ? Role::multiply : Role::store;
}

/// Waits until `done` has completed its first phase, and writes the sums to `c`. Called by all threads of four warps.
__device__ inline void store_sums(const Sums& sums, float* c, MbarPtr done) {
  wait(done, /*parity=*/0);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const uint32_t warp = warp_index();
  float* const row = c + Sums::row_of(warp, lane_index()) * kTile;
  constexpr int kColumns = 32;
  for (int first = 0; first < kTile; first += kColumns) {
    float values[kColumns];
    sums.load(values, warp, first);
    for (int i = 0; i < kColumns; ++i) row[first + i] = values[i];
  }
}

}  // namespace stagecraft
