// The problem and its tiles: what the kernel of this chapter is about, without who waits for whom.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "stagecraft/slices.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/tile_payload.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

//! [sizes]
/// Operands are bf16, in tiles of 128 bytes along K.
using Operand = __nv_bfloat16;
inline constexpr int kTileM = 128;
inline constexpr int kTileK = 64;
using ATile = Tile<Operand, kTileM, kTileK>;
template <int TileN>
using BTile = Tile<Operand, TileN, kTileK>;
/// The tile of sums that a block computes at a time, in tensor memory.
template <int TileN>
using AccumulatorOf = TmemTensor<kTileM, TileN>;
/// k-tiles in shared memory.
inline constexpr int kStages = 3;
template <int TileN>
using PayloadOf = StandardTilePayload<ATile, BTile<TileN>, kStages>;
//! [sizes]

/// Loading warp, multiplying warp, and four for the epilogue.
inline constexpr int kEpilogueThreads = kEpilogueWarps * kWarpSize;
inline constexpr int kGemmThreads = 2 * kWarpSize + kEpilogueThreads;

/// What a warp does.
enum class Role { load, multiply, epilogue };

/// The calling warp's role. Called by a whole warp.
__device__ inline Role warp_role() {
  const uint32_t warp = warp_index();
  return warp == 0 ? Role::load : warp == 1 ? Role::multiply : Role::epilogue;
}

//! [problem]
/// What a launch computes: D = epilogue(A (m x k) * B (n x k) transposed), all row-major. Each matrix is known to the
/// kernel by its tensor map alone.
/// @tparam Writer      of D.
/// @tparam Operations  the epilogue, as the host has put it together.
template <int TileN, typename Writer, typename Operations>
struct Problem {
  TileMap<ATile> a;
  TileMap<BTile<TileN>> b;
  typename Writer::Map d;
  Operations epilogue;
  int m, n, k;
};
//! [problem]

//! [map of d]
/// The tensor map of D: m x columns, row-major, without gaps. It ends where D ends, and so does every store.
template <typename Writer, typename Element>
typename Writer::Map map_of_d(Element* d, uint64_t m, uint64_t columns) {
  const uint64_t stride = columns * sizeof(Element);
  return make_batched_tile_map<typename Writer::SliceTile>(d, m, columns, stride, /*batches=*/1, m * stride);
}
//! [map of d]

/// Where a block is in its work: tile number blockIdx.x of D, then every gridDim.x-th. Each role goes through the tiles
/// independently.
class TileOfD {
 public:
  __device__ TileOfD(int m, int n, int tile_n)
      : m_(m),
        n_(n),
        tile_n_(tile_n),
        down_((m + kTileM - 1) / kTileM),
        count_(down_ * ((n + tile_n - 1) / tile_n)),
        number_(static_cast<int>(blockIdx.x)) {}

  __device__ bool exists() const { return number_ < count_; }
  __device__ void next() { number_ += static_cast<int>(gridDim.x); }
  __device__ TilePlace place() const {
    return {.row = number_ % down_ * kTileM,
            .column = number_ / down_ * tile_n_,
            .batch = 0,
            .row_end = m_,
            .column_end = n_};
  }

 private:
  int m_, n_, tile_n_, down_, count_, number_;
};

}  // namespace stagecraft
