// Copies of tiles that several blocks of a cluster share: each block brings a slice, and TMA writes it to
// all of them. Also copies that signal the leader of a pair, and hints for the L2 cache.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/cluster.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/ptx.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

/// Where the slices of a tile go, and what they signal there.
/// @tparam CtaGroup  1: in each block the copies signal that block's barrier. 2: those into either block of a pair
///                   signal the barrier of its even block, the leader.
/// @tparam Slices    as for TileMap: how many blocks share the tile. 1: the tile is this block's alone.
template <int CtaGroup, int Slices>
struct TileSharing {
  static constexpr int cta_group = CtaGroup;  ///< as the parameter
  static constexpr int slices = Slices;       ///< as the parameter
  uint32_t slice = 0;                         ///< the one that this block brings
  uint16_t blocks = 0;                        ///< bit i: block i of the cluster gets it; this block must be among them
};

namespace detail {

/// One box for this block alone.
template <int CtaGroup, L2Hint Hint, int Rank>
__device__ __forceinline__ void copy_box(void* to, const CUtensorMap& map, const int32_t (&at)[Rank], MbarPtr barrier) {
  if constexpr (Hint != L2Hint::none) {
    ptx::copy_tensor<CtaGroup>(to, &map, at, barrier, ptx::cache_policy<Hint>());
  } else if constexpr (CtaGroup == 1) {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, &map, at, barrier);
  } else {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_shared, cuda::ptx::space_global, ptx::cta_group<CtaGroup>, to,
                                    &map, at, barrier);
  }
}

/// One box for several blocks.
template <int CtaGroup, L2Hint Hint, int Rank>
__device__ __forceinline__ void copy_box_to_blocks(void* to, const CUtensorMap& map, const int32_t (&at)[Rank],
                                                   MbarPtr barrier, uint16_t blocks) {
  if constexpr (Hint != L2Hint::none) {
    ptx::copy_tensor_to_blocks<CtaGroup>(to, &map, at, barrier, blocks, ptx::cache_policy<Hint>());
  } else if constexpr (CtaGroup == 1) {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, to, &map, at, barrier, blocks);
  } else {
    cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, ptx::cta_group<CtaGroup>, to,
                                    &map, at, barrier, blocks);
  }
}

/// The barrier that copies into this block signal: its own, or that of the even block of its pair.
template <int CtaGroup>
__device__ __forceinline__ MbarPtr signalled_barrier(MbarPtr barrier) {
  if constexpr (CtaGroup == 1) return barrier;
  return barrier_in_block(barrier, block_rank() & ~1u);
}

}  // namespace detail

/// Asks for this block's slice of a tile, for all blocks that share it, and returns at once.
///
/// Called by one thread of each of the blocks; together they bring the whole tile to each. A slice lands at the same
/// offset in the shared memory of every block, and its bytes count at the barrier at the same offset there, or in the
/// leader of the pair there. So each block may ask only when the stage is free in all of them.
/// @tparam Hint        what the L2 cache is to do with what the copy brings.
/// @param sharing      who shares the tile: of a pipeline's stage, `load_a` and `load_b` know.
/// @param row, column  of the matrix, where the whole tile starts; as for `copy_tile`.
/// @param barrier      in this block, even where the leader's is signalled.
/// Source: PTX ISA, "cp.async.bulk.tensor" (`.multicast::cluster`, `.cta_group`).
template <L2Hint Hint = L2Hint::none, TileElement Element, int Rows, int Columns, Swizzle TileSwizzle, Major TileMajor,
          int CtaGroup, int Slices>
__device__ __forceinline__ void copy_shared_tile(
    Tile<Element, Rows, Columns, TileSwizzle, TileMajor>& to,
    const TileMap<Tile<Element, Rows, Columns, TileSwizzle, TileMajor>, Slices>& map, int row, int column,
    MbarPtr barrier, TileSharing<CtaGroup, Slices> sharing) {
  using T = Tile<Element, Rows, Columns, TileSwizzle, TileMajor>;
  constexpr int kLines = T::lines / Slices;
  constexpr uint32_t kSpan = swizzle_span(TileSwizzle);
  const int first_line = static_cast<int>(sharing.slice) * kLines;
  const MbarPtr signalled = detail::signalled_barrier<CtaGroup>(barrier);
#pragma unroll
  for (int box = 0; box < T::num_boxes; ++box) {
    const int32_t contiguous = (TileMajor == Major::k ? column : row) + box * T::box_elements;
    const int32_t at[2] = {contiguous, (TileMajor == Major::k ? row : column) + first_line};
    void* const place = to.storage + box * T::bytes_per_box + first_line * kSpan;
    if constexpr (Slices == 1) {
      detail::copy_box<CtaGroup, Hint>(place, map.map, at, signalled);
    } else {
      detail::copy_box_to_blocks<CtaGroup, Hint>(place, map.map, at, signalled, sharing.blocks);
    }
  }
}

/// The same for a plain tile, which is not shared.
template <L2Hint Hint = L2Hint::none, TileElement Element, int Rows, int Columns, int CtaGroup>
__device__ __forceinline__ void copy_shared_tile(PlainTile<Element, Rows, Columns>& to,
                                                 const TileMap<PlainTile<Element, Rows, Columns>>& map, int row,
                                                 int column, MbarPtr barrier, TileSharing<CtaGroup, 1>) {
  const int32_t at[2] = {column, row};
  detail::copy_box<CtaGroup, Hint>(to.storage, map.map, at, detail::signalled_barrier<CtaGroup>(barrier));
}

/// The same for scale factors, which are not shared. Parameters as for `copy_tile` of scale factors.
template <L2Hint Hint = L2Hint::none, TileElement Scale, int Rows, int Blocks, int CtaGroup>
__device__ __forceinline__ void copy_shared_tile(ScaleFactorTile<Scale, Rows, Blocks>& to,
                                                 const TileMap<ScaleFactorTile<Scale, Rows, Blocks>>& map, int row,
                                                 int block, MbarPtr barrier, TileSharing<CtaGroup, 1>) {
  const int32_t at[3] = {0, block / 4, row / 128};
  detail::copy_box<CtaGroup, Hint>(to.storage, map.map, at, detail::signalled_barrier<CtaGroup>(barrier));
}

}  // namespace stagecraft
