// Where things are in tensor memory: maps from the rows and columns of an accumulator, or from the registers of a warp,
// to cells. The library, its tests and the figures of the lessons all take them from here.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace stagecraft {

inline constexpr int kTmemLanes = 128;    ///< rows of tensor memory, of which each warp of four reaches 32
inline constexpr int kTmemColumns = 512;  ///< columns, of 32-bit cells

/// A cell of tensor memory, or the distance between two.
struct TmemCell {
  uint32_t lane = 0;    ///< 0 to 127
  uint32_t column = 0;  ///< 0 to 511

  /// The same lane and the same column.
  bool operator==(const TmemCell&) const = default;
};

/// The address of a cell, as instructions take it: lane in the upper half, column in the lower.
/// Source: PTX ISA, "Tensor Memory Addressing".
__host__ __device__ constexpr uint32_t tmem_address(TmemCell cell) { return cell.lane << 16 | cell.column; }

/// Moves a tensor-memory address.
/// @param lanes, columns  how far; a warp's loads start at lane 32 * (warp index modulo 4), the only lanes it may
/// touch.
__host__ __device__ constexpr uint32_t tmem_offset(uint32_t address, uint32_t lanes, uint32_t columns) {
  return address + tmem_address({lanes, columns});
}

// ---- Accumulators ---------------------------------------------------------------------------------------------------

/// How the elements of D are spread over tensor memory. The letters are the PTX ISA's.
/// Source: PTX ISA, "tcgen05: data path layout organization".
enum class AccumulatorLayout : uint8_t {
  a,  ///< a pair of blocks, M = 256: half the rows in each
  b,  ///< a pair of blocks, M = 128: half the rows in each, the right half of the columns in lanes 64 to 127
  d,  ///< one block, M = 128: row m in lane m
  f,  ///< one block, M = 64: 16 rows in the first 16 of every 32 lanes
};

/// The layout of D for an MMA's M and cta_group.
__host__ __device__ constexpr AccumulatorLayout accumulator_layout(int m, int cta_group) {
  if (cta_group == 2) return m == 256 ? AccumulatorLayout::a : AccumulatorLayout::b;
  return m == 128 ? AccumulatorLayout::d : AccumulatorLayout::f;
}

/// Columns of tensor memory that D occupies; D itself has `n`.
__host__ __device__ constexpr int accumulator_columns(AccumulatorLayout layout, int n) {
  return layout == AccumulatorLayout::b ? n / 2 : n;
}

/// The place of an element of D: the block of the pair, and the cell relative to D's address.
struct AccumulatorPlace {
  uint32_t cta = 0;  ///< 0, or 1 in the odd block of a pair
  TmemCell cell;     ///< relative to the address of D

  /// The same cell of the same block.
  bool operator==(const AccumulatorPlace&) const = default;
};

/// The place of element (row, column) of D, which has `n` columns.
/// Source: CUTLASS, cute/atom/mma_traits_sm100_frag.hpp (tmem_frg).
__host__ __device__ constexpr AccumulatorPlace accumulator_place(AccumulatorLayout layout, uint32_t row,
                                                                 uint32_t column, uint32_t n) {
  switch (layout) {
    case AccumulatorLayout::a: return {row / 128, {row % 128, column}};
    case AccumulatorLayout::b: return {row / 64, {row % 64 + column / (n / 2) * 64, column % (n / 2)}};
    case AccumulatorLayout::d: return {0, {row, column}};
    case AccumulatorLayout::f: return {0, {row / 16 * 32 + row % 16, column}};
  }
  return {};
}

/// The row of D that a lane of block number `cta` of the pair holds; -1 for a lane that holds none.
__host__ __device__ constexpr int accumulator_row(AccumulatorLayout layout, uint32_t lane, uint32_t cta = 0) {
  switch (layout) {
    case AccumulatorLayout::a: return static_cast<int>(cta * 128 + lane);
    case AccumulatorLayout::b: return static_cast<int>(cta * 64 + lane % 64);
    case AccumulatorLayout::d: return static_cast<int>(lane);
    case AccumulatorLayout::f: return lane % 32 < 16 ? static_cast<int>(lane / 32 * 16 + lane % 32) : -1;
  }
  return -1;
}

/// The column of D, which has `n`, that a lane holds in its column `column`.
__host__ __device__ constexpr int accumulator_column(AccumulatorLayout layout, uint32_t lane, uint32_t column,
                                                     uint32_t n) {
  return static_cast<int>(layout == AccumulatorLayout::b ? lane / 64 * (n / 2) + column : column);
}

// ---- What a warp loads and stores -----------------------------------------------------------------------------------

/// The shapes of `tcgen05.ld` and `tcgen05.st`: lanes x bits that one repetition covers.
enum class FragmentShape : uint8_t { lanes_32x32b, lanes_16x64b, lanes_16x128b, lanes_16x256b };

/// Lanes that a shape covers.
__host__ __device__ constexpr int fragment_lanes(FragmentShape shape) {
  return shape == FragmentShape::lanes_32x32b ? 32 : 16;
}

/// Registers that each thread has for one repetition.
__host__ __device__ constexpr int fragment_registers(FragmentShape shape) {
  switch (shape) {
    case FragmentShape::lanes_16x128b: return 2;
    case FragmentShape::lanes_16x256b: return 4;
    default: return 1;
  }
}

/// Columns that one repetition covers.
__host__ __device__ constexpr int fragment_columns(FragmentShape shape) {
  switch (shape) {
    case FragmentShape::lanes_32x32b: return 1;
    case FragmentShape::lanes_16x64b: return 2;
    case FragmentShape::lanes_16x128b: return 4;
    default: return 8;
  }
}

/// The cell, relative to the address, that register `index` of thread `thread` (0 to 31) of the warp loads or stores.
/// Source: CUTLASS, cute/atom/copy_traits_sm100.hpp (SM100_TMEM_LOAD_*).
__host__ __device__ constexpr TmemCell fragment_cell(FragmentShape shape, uint32_t thread, uint32_t index) {
  switch (shape) {
    case FragmentShape::lanes_32x32b: return {thread, index};
    case FragmentShape::lanes_16x64b: return {thread / 4 + thread % 2 * 8, index * 2 + thread / 2 % 2};
    case FragmentShape::lanes_16x128b: return {thread / 4 + index % 2 * 8, index / 2 * 4 + thread % 4};
    case FragmentShape::lanes_16x256b:
      return {thread / 4 + index / 2 % 2 * 8, index / 4 * 8 + thread % 4 * 2 + index % 2};
  }
  return {};
}

/// The cell, relative to the address, of the scale factors of row `row` (of A, or column of B) for the lanes of quarter
/// `quarter` (0 to 3): each quarter has its own copy. The instruction descriptor says which byte of the cell.
/// Source: CUTLASS, cute/atom/mma_traits_sm100_frag.hpp (tmem_sf_frg).
__host__ __device__ constexpr TmemCell scale_factor_cell(uint32_t row, uint32_t quarter) {
  return {row % 32 + quarter * 32, row / 32};
}

}  // namespace stagecraft
