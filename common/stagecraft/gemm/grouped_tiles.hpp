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
/// so that a graph can be launched again with other numbers. A number below 0 counts as 0, and one that is larger than
/// the matrix as all of its rows.
struct GroupRows {
  int groups = 0;               ///< how many there are
  int most = 0;                 ///< masked: rows of each matrix; 0: contiguous
  const int* counts = nullptr;  ///< masked: rows of each group, in device memory
  int ends[kMostGroups] = {};   ///< contiguous: the row after each group's last
  int scale_rows[kMostGroups] =
      {};  ///< contiguous: where each group's scale factors begin, of A and of D, in padded rows

  /// Whether each group has a matrix of its own.
  __host__ __device__ __forceinline__ bool is_masked() const { return most > 0; }
  /// The first row of a group in A and D.
  __host__ __device__ __forceinline__ int begin(int group) const {
    return is_masked() || group == 0 ? 0 : ends[group - 1];
  }
  /// The row after its last. The host does not know it where groups are masked, and takes the largest.
  __host__ __device__ __forceinline__ int end(int group) const {
    if (!is_masked()) return ends[group];
#ifdef __CUDA_ARCH__
    const int count = counts[group] < most ? counts[group] : most;
    return count > 0 ? count : 0;
#else
    return most;
#endif
  }
};

/// Each unit is a tile of a group, or one of equally many pieces of a tile along K. The members are those of WholeTiles
/// and SplitK.
///
/// The host does not know how many units masked groups have, and counts those of full matrices. With a static schedule
/// that is harmless, because a cluster looks before it begins. With launch control each cluster that is launched is a
/// turn: one beyond the end has a work without k-tiles.
/// @tparam BlockM    rows of a block's tile.
/// @tparam DividesK  tiles may have several pieces.
template <typename Shape, int BlockM, bool DividesK>
class GroupedTiles {
 public:
  using Cluster = Shape;  ///< the blocks that take a turn together

  GroupedTiles() = default;
  /// @param columns, k_tiles  of each product, in tiles of a block.
  /// @param splits            pieces of each tile; no more than there are k-tiles are made.
  GroupedTiles(const GroupRows& rows, uint32_t columns, uint32_t k_tiles, uint32_t splits)
      : rows_(rows),
        columns_((columns + Shape::columns - 1) / Shape::columns),
        k_tiles_(k_tiles),
        pieces_(k_tiles, splits) {}

  /// How many units there are; on the host, at most.
  __host__ __device__ uint32_t units() const { return tiles() * pieces(); }
  /// A unit is one piece.
  __host__ __device__ static constexpr uint32_t works(uint32_t /*unit*/) { return 1; }
  /// What the block of rank `rank` does in a unit; without k-tiles, if it is beyond the last.
  __device__ __forceinline__ Work work(uint32_t unit, uint32_t /*index*/, uint32_t rank) const {
    const uint32_t tile = unit / pieces();
    uint32_t in_group = tile;
    int group = 0;
    for (; group < rows_.groups && in_group >= tiles_of(group); ++group) in_group -= tiles_of(group);
    if (group == rows_.groups) return {};
    const Work work = detail::whole_tile<Shape>({in_group / columns_, in_group % columns_}, group, k_tiles_, rank);
    return DividesK ? pieces_.cut(work, unit - tile * pieces(), tile * Shape::blocks + rank) : work;
  }
  /// As of SplitK: on the host, for as many tiles as there may be.
  __host__ uint32_t slots() const { return DividesK ? pieces_.slots(tiles() * Shape::blocks) : 0; }
  /// As of SplitK.
  __host__ uint32_t counters() const { return DividesK ? pieces_.counters(tiles() * Shape::blocks) : 0; }

  /// Where a tile is in D. Its column is filled in by the caller.
  __device__ __forceinline__ TilePlace place_of(const Work& work) const {
    return {.row = rows_.begin(work.batch) + work.row * BlockM,
            .column = 0,
            .batch = rows_.is_masked() ? work.batch : 0,
            .row_end = rows_.end(work.batch),
            .column_end = 0,
            .group = rows_.is_masked() ? 0 : work.batch};
  }

  /// The padded row of the scale factors of a row of D.
  /// @param group  of a TilePlace.
  __device__ __forceinline__ int padded_row_of(int group, int row) const {
    return rows_.is_masked() ? row : rows_.scale_rows[group] + row - rows_.begin(group);
  }

  /// The first padded row of a tile's scale factors of A.
  /// @param rows_of_matrix  padded rows of each matrix, where groups have one.
  __device__ __forceinline__ int scale_row_of(const Work& work, int rows_of_matrix) const {
    const int of_group = rows_.is_masked() ? work.batch * rows_of_matrix : rows_.scale_rows[work.batch];
    return of_group + work.row * BlockM;
  }

 private:
  __host__ __device__ __forceinline__ uint32_t pieces() const { return DividesK ? pieces_.count() : 1; }
  __host__ __device__ __forceinline__ uint32_t tiles_of(int group) const {
    constexpr int kRows = BlockM * Shape::rows;
    return static_cast<uint32_t>((rows_.end(group) - rows_.begin(group) + kRows - 1) / kRows) * columns_;
  }
  __host__ __device__ __forceinline__ uint32_t tiles() const {
    uint32_t all = 0;
    for (int group = 0; group < rows_.groups; ++group) all += tiles_of(group);
    return all;
  }

  GroupRows rows_;
  uint32_t columns_ = 0, k_tiles_ = 0;
  detail::Pieces pieces_;
};

}  // namespace stagecraft
