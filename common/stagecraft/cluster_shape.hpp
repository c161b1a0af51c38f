// Which blocks of a cluster share tiles of A and of B, and which tensor cores read what a block brings: everything that
// the pipelines need to know of a cluster, computed from the rank of a block.
#pragma once

#include <cuda_runtime.h>

#include <concepts>
#include <cstdint>

namespace stagecraft {

/// A cluster of `Rows` x `Columns` blocks that compute as many neighbouring tiles of C.
///
/// Launch it with cluster dimensions (Rows, Columns, 1), x along M. So block `rank` computes the tile in row
/// `rank % Rows` and column `rank / Rows`. Blocks of a row need the same tile of A, blocks of a column the same tile of
/// B: each of them brings a slice, and TMA writes it to all of them.
///
/// With `CtaGroup` 2, ranks 2i and 2i + 1 are a *pair*, two neighbours along M: one thread of the even one, the
/// *leader*, has the tensor cores of both multiply. Each block of the pair holds its own tile of A and half of the
/// tile of B, so that B is shared by the blocks of a column whose ranks have the same parity.
///
/// A mask of blocks has bit i set for the block of rank i. All functions are for any thread.
/// Source: PTX ISA, "%cluster_ctarank"; "CTA pair" (5th generation tensor core instructions).
template <int Rows, int Columns, int CtaGroup = 1>
struct ClusterShape {
  static_assert(Rows >= 1 && Columns >= 1, "ClusterShape: Rows and Columns must be at least 1");
  static_assert(Rows * Columns <= 16,
                "ClusterShape: a cluster has at most 16 blocks, and more than 8 only where the kernel allows "
                "non-portable sizes");
  static_assert(CtaGroup == 1 || CtaGroup == 2, "ClusterShape: CtaGroup must be 1 or 2, a block or a pair");
  static_assert(Rows % CtaGroup == 0,
                "ClusterShape: the blocks of a pair are neighbours along M, so with CtaGroup 2 Rows must be even");

  static constexpr int rows = Rows;              ///< blocks along M
  static constexpr int columns = Columns;        ///< blocks along N
  static constexpr int blocks = Rows * Columns;  ///< of the cluster
  static constexpr int cta_group = CtaGroup;     ///< blocks whose tensor cores work together

  static constexpr int blocks_sharing_a = Columns;          ///< that need the same tile of A: slices of a tile of A
  static constexpr int blocks_sharing_b = Rows / CtaGroup;  ///< that need the same tile of B: slices of a tile of B

  /// Commits for each time that a stage is used up: one by each leader whose MMAs read what a block brings, those of
  /// its row and those of its column, of which one is in both. The arrive count of the empty barriers of tiles.
  static constexpr int readers = blocks_sharing_a + blocks_sharing_b - 1;

  /// The block's place in the cluster along M, 0 to rows - 1.
  __host__ __device__ static constexpr uint32_t row(uint32_t rank) { return rank % Rows; }
  /// The block's place in the cluster along N, 0 to columns - 1.
  __host__ __device__ static constexpr uint32_t column(uint32_t rank) { return rank / Rows; }

  /// The rank of the block whose thread issues the MMAs for this one: its own, or that of the pair's even block.
  __host__ __device__ static constexpr uint32_t leader(uint32_t rank) { return rank / CtaGroup * CtaGroup; }
  /// Whether a thread of this block issues MMAs.
  __host__ __device__ static constexpr bool is_leader(uint32_t rank) { return rank % CtaGroup == 0; }
  /// The block's place in its pair: 0, or 1 in the odd block of a pair.
  __host__ __device__ static constexpr uint32_t place_in_pair(uint32_t rank) { return rank % CtaGroup; }

  /// The slice of its tile of A that the block brings, 0 to blocks_sharing_a - 1.
  __host__ __device__ static constexpr uint32_t slice_of_a(uint32_t rank) { return column(rank); }
  /// The slice of its tile of B that the block brings, 0 to blocks_sharing_b - 1.
  __host__ __device__ static constexpr uint32_t slice_of_b(uint32_t rank) { return row(rank) / CtaGroup; }

  /// The blocks that need the same tile of A as this one, which is among them: those of its row.
  __host__ __device__ static constexpr uint16_t sharing_a(uint32_t rank) {
    return static_cast<uint16_t>(kEveryRow << row(rank));
  }
  /// The blocks that need the same tile of B as this one, which is among them: those of its column, in a cluster of
  /// pairs every second one.
  __host__ __device__ static constexpr uint16_t sharing_b(uint32_t rank) {
    return static_cast<uint16_t>(kColumnOfB << (column(rank) * Rows + place_in_pair(rank)));
  }

  /// The blocks of the pair, or the block alone.
  __host__ __device__ static constexpr uint16_t pair(uint32_t rank) {
    return static_cast<uint16_t>(((1u << CtaGroup) - 1) << leader(rank));
  }
  /// The blocks that bring what the MMAs of this block, a leader, read: they wait for its commits.
  __host__ __device__ static constexpr uint16_t feeding(uint32_t rank) {
    const uint32_t rows_of_pair = kEveryRow * ((1u << CtaGroup) - 1) << row(leader(rank));
    const uint32_t whole_column = ((1u << Rows) - 1) << column(rank) * Rows;
    return static_cast<uint16_t>(rows_of_pair | whole_column);
  }

 private:
  /// Bits 0, Step, 2 * Step, ...: `Count` of them.
  static constexpr uint32_t bits(int count, int step) {
    uint32_t mask = 0;
    for (int i = 0; i < count; ++i) mask |= 1u << (i * step);
    return mask;
  }
  static constexpr uint32_t kEveryRow = bits(Columns, Rows);                // row 0 of each column
  static constexpr uint32_t kColumnOfB = bits(blocks_sharing_b, CtaGroup);  // the even, or all, of column 0
};

/// A kernel without clusters: each block brings and multiplies its own tiles.
using OneBlock = ClusterShape<1, 1, 1>;

/// A ClusterShape.
template <typename T>
concept BlockCluster = requires(uint32_t rank) {
  { T::blocks } -> std::convertible_to<int>;
  { T::cta_group } -> std::convertible_to<int>;
  { T::readers } -> std::convertible_to<int>;
  { T::feeding(rank) } -> std::same_as<uint16_t>;
};

}  // namespace stagecraft
