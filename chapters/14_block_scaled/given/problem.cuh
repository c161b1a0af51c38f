// The problems and their tiles: what the two kernels of this chapter share. Who waits for whom is not here.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "block_scaled.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/tile_payload.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// Rows of C that a block computes at a time.
inline constexpr int kTileM = 128;

//! [tiles]
/// Elements along K in a tile of A or B: 128 bytes, as wide as the swizzle.
template <typename Type>
inline constexpr int kTileK = 1024 / element_bits<typename Type::Element>;
/// Scale factors that each of their rows has in a k-tile.
template <typename Type>
inline constexpr int kTileBlocks = kTileK<Type> / Type::block;

template <typename Type>
using ATile = Tile<typename Type::Element, kTileM, kTileK<Type>>;
template <typename Type, int TileN>
using BTile = Tile<typename Type::Element, TileN, kTileK<Type>>;
template <typename Type>
using SfaTile = ScaleFactorTile<typename Type::Scale, kTileM, kTileBlocks<Type>>;
template <typename Type, int TileN>
using SfbTile = ScaleFactorTile<typename Type::Scale, TileN, kTileBlocks<Type>>;
/// What is in shared memory: `Stages` k-tiles.
template <typename Type, int TileN, int Stages>
using Payload = BlockScaledTilePayload<ATile<Type>, BTile<Type, TileN>, SfaTile<Type>, SfbTile<Type, TileN>, Stages>;
//! [tiles]

//! [problem]
/// What a launch computes: C (m x n) = A (m x k) * B (n x k) transposed.
template <typename Type, int TileN>
struct Problem {
  static constexpr int tile_n = TileN;
  static constexpr int tile_k = kTileK<Type>;

  TileMap<ATile<Type>> a;
  TileMap<BTile<Type, TileN>> b;
  TileMap<SfaTile<Type>> sfa;
  TileMap<SfbTile<Type, TileN>> sfb;
  float* c;
  int m, n, k;
};
//! [problem]

//! [blockwise]
inline constexpr int kScaledK = 128;        ///< elements along K that share a scale: a k-tile
inline constexpr int kScaledColumns = 128;  ///< columns of B that share a scale: a tile

using BlockwiseTile = Tile<__nv_fp8_e4m3, 128, kScaledK>;  // of A, and of B
using AScalesTile = PlainTile<float, 1, kTileM>;
template <int Stages>
using BlockwisePayload = BlockwiseFp8TilePayload<BlockwiseTile, BlockwiseTile, AScalesTile, Stages>;

/// What a launch with blockwise scales computes.
struct BlockwiseProblem {
  static constexpr int tile_n = kScaledColumns;
  static constexpr int tile_k = kScaledK;

  TileMap<BlockwiseTile> a, b;
  TileMap<AScalesTile> a_scales;  // a row for each k-tile, a column for each row of A
  const float* b_scales;          // a row for each k-tile, with one scale for each 128 columns of C
  int64_t b_scales_in_row;
  float* c;
  int m, n, k;
};
//! [blockwise]

/// k-tiles to add up for each tile of C. The last may hang over the edge: what is beyond reads as zero and adds
/// nothing.
template <typename P>
__device__ int k_tiles_of(const P& problem) {
  return (problem.k + P::tile_k - 1) / P::tile_k;
}

/// Where a block is in its work: it begins with tile number blockIdx.x of C and goes on to every gridDim.x-th. Each
/// role goes through the tiles independently; no role learns from another which is next.
template <typename P>
class TileOfC {
 public:
  __device__ explicit TileOfC(const P& problem) : problem_(problem), number_(blockIdx.x) {}

  __host__ __device__ static uint32_t tiles_down(const P& problem) { return (problem.m + kTileM - 1) / kTileM; }
  __host__ __device__ static uint32_t tiles(const P& problem) {
    return tiles_down(problem) * ((problem.n + P::tile_n - 1) / P::tile_n);
  }
  __device__ bool exists() const { return number_ < tiles(problem_); }
  __device__ void next() { number_ += gridDim.x; }
  __device__ int row() const { return number_ % tiles_down(problem_) * kTileM; }
  __device__ int column() const { return number_ / tiles_down(problem_) * P::tile_n; }

 private:
  const P& problem_;
  uint32_t number_;
};

/// Warps that store a tile of C. Four, because a warp can reach only a quarter of the lanes of tensor memory.
inline constexpr int kStoreThreads = 4 * kWarpSize;
inline constexpr int kThreads = 2 * kWarpSize + kStoreThreads;

/// What a warp does.
enum class Role { load, multiply, store };

/// The calling warp's role: warp 0 loads tiles, warp 1 multiplies them, all others only store. Called by a whole warp.
__device__ inline Role warp_role() {
  const uint32_t warp = warp_index();
  return warp == 0 ? Role::load : warp == 1 ? Role::multiply : Role::store;
}

/// The stages in dynamic shared memory.
template <typename PayloadType>
__device__ PayloadType tiles_in_shared_memory() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  return PayloadType{*reinterpret_cast<typename PayloadType::Storage*>(dynamic_shared_memory)};
}

/// Writes `Count` sums of row `row` of C, from column `column` on: those that C has.
template <typename P, int Count>
__device__ void store_sums(const P& problem, int row, int column, const float (&sums)[Count]) {
  if (row >= problem.m) return;
  float* const to = problem.c + int64_t{row} * problem.n + column;
  const bool aligned = reinterpret_cast<uintptr_t>(to) % 16 == 0;
#pragma unroll
  for (int first = 0; first < Count; first += 4) {
    if (aligned && column + first + 4 <= problem.n) {
      *reinterpret_cast<float4*>(to + first) = {sums[first], sums[first + 1], sums[first + 2], sums[first + 3]};
    } else {
#pragma unroll
      for (int i = first; i < first + 4; ++i) {
        if (column + i < problem.n) to[i] = sums[i];
      }
    }
  }
}

/// Stores the quarter of a tile of C that the calling warp can reach. Called by each of four whole warps in a row.
template <typename P, typename Accumulator>
__device__ void store_quarter(const P& problem, const TileOfC<P>& tile, const Accumulator& accumulator) {
  constexpr int kColumns = 32;  // at a time, in registers
  const int row = tile.row() + Accumulator::row_of(warp_index(), lane_index());
  for (int column = 0; column < P::tile_n; column += kColumns) {
    float sums[kColumns];
    accumulator.load(sums, warp_index(), column);
    store_sums(problem, row, tile.column() + column, sums);
  }
}

}  // namespace stagecraft
