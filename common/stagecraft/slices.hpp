// How an epilogue goes through an accumulator: each of four warps takes its own part out of tensor memory, slice by
// slice, and frees the accumulator as soon as its last columns are in registers.
#pragma once

#include <bit>
#include <cstdint>
#include <utility>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// Warps that take an accumulator out of tensor memory: four, because each reaches a quarter of the lanes. Any four in
/// a row, of which number 4 * i + j reaches lanes 32 * j to 32 * j + 31.
inline constexpr int kEpilogueWarps = 4;

/// The part of an accumulator that one warp holds, in its own block: a rectangle.
///
/// The first `rows` lanes of a warp have a row each. Rows are counted in the block: in a pair, each block has
/// half of those of the matrix.
/// @tparam Accumulator  a TmemTensor.
template <typename Accumulator>
struct WarpPart {
  static constexpr int rows = Accumulator::layout == AccumulatorLayout::f ? 16 : 32;  ///< lanes with a row
  static constexpr int columns = Accumulator::tmem_columns;                           ///< of each row
  static constexpr int block_rows = Accumulator::rows / Accumulator::cta_group;       ///< of all warps together
  static constexpr int halves = Accumulator::columns / columns;  ///< 2 where two warps share a row, else 1

  /// The first row of warp number `warp`, in the block.
  __host__ __device__ static constexpr int first_row(uint32_t warp) { return Accumulator::row_of(warp, 0); }
  /// Which half of the columns warp number `warp` has: 0, or 1 for the right one.
  __host__ __device__ static constexpr int half(uint32_t warp) { return Accumulator::column_of(warp, 0) / columns; }
};

// ---- Slices ---------------------------------------------------------------------------------------------------------

/// `Rows` x `Columns` elements in shared memory on their way between registers and global memory.
template <TileElement Element, int Rows, int Columns>
using SliceTile = Tile<Element, Rows, Columns, widest_swizzle(Columns* element_bits<Element> / 8)>;

/// How an accumulator is cut into slices, each stored by one copy per warp.
///
/// A slice of D is as wide as a line of the widest swizzle that divides the warp's columns, 128 bytes if possible, but
/// not wider than `MaxColumns` columns of the accumulator.
/// @tparam ColumnsPerResult  columns of the accumulator that make one of D.
template <typename Accumulator, TileElement Element, int ColumnsPerResult = 1, int MaxColumns = 128>
struct Slices {
  using Part = WarpPart<Accumulator>;  ///< what a warp has

  static_assert(std::has_single_bit(static_cast<unsigned>(MaxColumns)) && MaxColumns >= 32 && MaxColumns <= 256,
                "Slices: MaxColumns must be 32, 64, 128 or 256");
  static_assert(Part::columns * element_bits<Element> / 8 % (16 * ColumnsPerResult) == 0,
                "Slices: what a warp has of a row of D must be a multiple of 16 bytes, as TMA needs. Choose "
                "a wider accumulator, or a wider type of D");

 private:
  __host__ __device__ static constexpr int widest() {
    constexpr int kBytes = Part::columns / ColumnsPerResult * element_bits<Element> / 8;
    constexpr int kLine = static_cast<int>(swizzle_span(widest_swizzle(kBytes)));
    constexpr int kSums = kLine * 8 / element_bits<Element> * ColumnsPerResult;
    return kSums < MaxColumns ? kSums : MaxColumns;
  }

 public:
  static constexpr int sums = widest();                    ///< columns of the accumulator in a slice
  static constexpr int columns = sums / ColumnsPerResult;  ///< columns of D in a slice
  static constexpr int count = Part::columns / sums;       ///< slices of a tile
  static_assert(columns * element_bits<Element> % 128 == 0,
                "Slices: MaxColumns leaves less than 16 bytes of a row of D; choose more columns");
};

namespace detail {

/// Sums that a thread has in registers at a time: 32, or more where D's type or an operation needs more together.
template <typename SlicesType, int Bits, int ColumnsPerResult, int ResultsAtOnce>
__host__ __device__ constexpr int sums_at_once() {
  const int for_a_word = 128 / Bits * ColumnsPerResult, for_an_operation = ResultsAtOnce * ColumnsPerResult;
  int sums = for_a_word > for_an_operation ? for_a_word : for_an_operation;
  if (sums < 32) sums = 32;
  return sums < SlicesType::sums ? sums : SlicesType::sums;
}

}  // namespace detail

/// Goes through the calling warp's part of an accumulator, slice by slice, and frees the accumulator as soon as
/// the last of its columns is in registers.
///
/// Calls for each slice `begin(slice)`, for each piece of each row `put(values, place)` with the epilogue's results,
/// and `end(slice, operations)`. Called by a whole converged warp.
template <typename SlicesType, int Bits, typename Stage, typename Operations, typename Begin, typename Put,
          typename End>
__device__ __forceinline__ void for_each_slice(Stage&& sums, const TilePlace& tile, int& number, Operations& epilogue,
                                               Begin begin, Put put, End end) {
  using Part = typename SlicesType::Part;
  constexpr int kColumnsPerResult = Operations::columns_per_result;
  constexpr int kAtOnce = detail::sums_at_once<SlicesType, Bits, kColumnsPerResult, Operations::results_at_once>();
  static_assert(SlicesType::sums == SlicesType::columns * kColumnsPerResult,
                "TileWriter: its ColumnsPerResult must be columns_per_result of the epilogue");
  static_assert(kAtOnce / kColumnsPerResult % Operations::results_at_once == 0,
                "TileWriter: an operation needs more results together than a slice of D is wide, such as the 32 that "
                "share a scale factor. Choose a wider accumulator");

  const uint32_t warp = warp_index();
  const int lane = static_cast<int>(lane_index());
  const auto accumulator = sums.accumulator();
  const int tile_row = Part::first_row(warp);
  const int row = tile.row + tile_row + lane;
  const bool has_row = lane < Part::rows && row < tile.row_end;
#pragma unroll 1
  for (int index = 0; index < SlicesType::count; ++index, ++number) {
    const int first = index * SlicesType::sums;  // of tensor memory
    const SlicePlace slice{.row = tile.row + tile_row,
                           .column = tile.column + Part::half(warp) * Part::columns + first,
                           .batch = tile.batch,
                           .tile_row = tile_row,
                           .half = Part::half(warp),
                           .number = number};
    begin(slice);
    auto operations = epilogue.slice(slice);
#pragma unroll
    for (int column = 0; column < SlicesType::sums; column += kAtOnce) {
      float values[kAtOnce];
      accumulator.load(values, warp, first + column);
      if (index == SlicesType::count - 1 && column == SlicesType::sums - kAtOnce) {
        sums.arrive();  // the next MMAs may overwrite it, while this warp still works on its last slice
      }
      const int left = has_row ? tile.column_end - slice.column - column : 0;
      const RowPlace place{.row = row,
                           .column = slice.column + column,
                           .batch = tile.batch,
                           .valid = left < 0         ? 0
                                    : left < kAtOnce ? left
                                                     : kAtOnce,
                           .slice_row = lane < Part::rows ? lane : -1,
                           .slice_column = column,
                           .group = tile.group};
      operations(values, place);
      put(reinterpret_cast<float(&)[kAtOnce / kColumnsPerResult]>(values), place.narrowed(kColumnsPerResult));
    }
    end(slice, operations);
  }
  epilogue.end_tile();
  std::forward<Stage>(sums).release_without_signal();
}

}  // namespace stagecraft
