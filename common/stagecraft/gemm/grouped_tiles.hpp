// The tiles of several products of which each has its own number of rows, as the experts of a mixture-of-experts layer
// have them: A and D hold the rows of all groups, B a matrix for each.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/tile_work.hpp"

namespace stagecraft {

/// Groups at most: their sizes are in the kernel's parameter.
inline constexpr int kMostGroups = 256;

/// How many rows each group has.
///
/// *Contiguous*: the rows of A and D are those of one group after the other; the host knows where each ends. *Masked*:
/// each group has a matrix of its own in a batch, of which only the first rows count, and how many is in device memory,
/// so that a graph can be launched again with other numbers.
struct GroupRows {
  int groups = 0;               ///< how many there are
  const int* counts = nullptr;  ///< masked: rows of each group, in device memory; null: contiguous
  int most = 0;                 ///< masked: rows of each matrix
  int ends[kMostGroups] = {};   ///< contiguous: the row after each group's last

  /// Whether each group has a matrix of its own.
  __device__ __forceinline__ bool is_masked() const { return counts != nullptr; }
  /// The first row of a group in A and D.
  __device__ __forceinline__ int begin(int group) const { return is_masked() || group == 0 ? 0 : ends[group - 1]; }
  /// The row after its last.
  __device__ __forceinline__ int end(int group) const {
    if (!is_masked()) return ends[group];
    return counts[group] < most ? counts[group] : most;
  }
};

/// Each unit is a tile of a group, with all of its k-tiles. The members are those of WholeTiles, for a static schedule.
/// @tparam BlockM  rows of a block's tile.
template <typename Shape, int BlockM>
class GroupedTiles {
 public:
  using Cluster = Shape;  ///< the blocks that take a turn together

  GroupedTiles() = default;
  /// @param columns, k_tiles  of each product, in tiles of a block.
  GroupedTiles(const GroupRows& rows, uint32_t columns, uint32_t k_tiles)
      : rows_(rows), columns_((columns + Shape::columns - 1) / Shape::columns), k_tiles_(k_tiles) {}

  /// How many units there are; on the host, where the sizes of the groups may be unknown, more than any launch has.
  __host__ __device__ uint32_t units() const {
#ifdef __CUDA_ARCH__
    uint32_t all = 0;
    for (int group = 0; group < rows_.groups; ++group) all += units_of(group);
    return all;
#else
    return UINT32_MAX;
#endif
  }
  /// A unit is one tile.
  __host__ __device__ static constexpr uint32_t works(uint32_t /*unit*/) { return 1; }
  /// The tile of a unit, for the block of rank `rank`.
  __device__ __forceinline__ Work work(uint32_t unit, uint32_t /*index*/, uint32_t rank) const {
    int group = 0;
    for (; unit >= units_of(group); ++group) unit -= units_of(group);
    return {.row = static_cast<int>(unit / columns_ * Shape::rows + Shape::row(rank)),
            .column = static_cast<int>(unit % columns_ * Shape::columns + Shape::column(rank)),
            .batch = group,
            .first_k_tile = 0,
            .k_tiles = static_cast<int>(k_tiles_),
            .piece = 0,
            .pieces = 1,
            .first_slot = 0,
            .counter = 0};
  }
  /// No tile is divided, so that none has a partial sum.
  __host__ __device__ static constexpr uint32_t slots() { return 0; }
  /// Nor a counter of pieces.
  __host__ __device__ static constexpr uint32_t counters() { return 0; }

  /// Where a tile is in D. Its column is filled in by the caller.
  __device__ __forceinline__ TilePlace place_of(const Work& work) const {
    return {.row = rows_.begin(work.batch) + work.row * BlockM,
            .column = 0,
            .batch = rows_.is_masked() ? work.batch : 0,
            .row_end = rows_.end(work.batch),
            .column_end = 0};
  }

 private:
  __device__ __forceinline__ uint32_t units_of(int group) const {
    constexpr int kRows = BlockM * Shape::rows;
    return static_cast<uint32_t>((rows_.end(group) - rows_.begin(group) + kRows - 1) / kRows) * columns_;
  }

  GroupRows rows_;
  uint32_t columns_ = 0, k_tiles_ = 0;
};

}  // namespace stagecraft
