// From an accumulator to D without shared memory, for a D that TMA cannot store.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/output_stages.hpp"
#include "stagecraft/packed_elements.hpp"
#include "stagecraft/slices.hpp"

namespace stagecraft {

namespace detail {

/// Elements in the smallest piece of memory that a thread can store, and this piece: two of 4 bits are a byte.
template <TileElement Element>
inline constexpr int kPerUnit = element_bits<Element> < 8 ? 8 / element_bits<Element> : 1;
template <TileElement Element>
using Unit = std::conditional_t<kPerUnit<Element> == 1, Element, unsigned char>;

}  // namespace detail

/// Rounds values and stores them in a row, those that are in the matrix: 16 bytes at a time where they are aligned.
///
/// Called by any thread.
/// @param matrix  element (0, 0) of the matrix, in global memory.
/// @param pitch   elements from one row to the next; even for elements of 4 bits.
template <TileElement Element, int Count>
__device__ __forceinline__ void store_in_row(detail::Unit<Element>* matrix, int64_t pitch, const float (&values)[Count],
                                             const RowPlace& place) {
  constexpr int kPerWord = 128 / element_bits<Element>;
  constexpr int kPerUnit = detail::kPerUnit<Element>;
  using Unit = detail::Unit<Element>;
  Unit* const row = matrix + (place.row * pitch + place.column) / kPerUnit;
  const bool is_aligned = reinterpret_cast<uintptr_t>(row) % 16 == 0;
#pragma unroll
  for (int first = 0; first < Count; first += kPerWord) {
    const uint4 word = pack_elements<Element>(reinterpret_cast<const float(&)[kPerWord]>(values[first]));
    if (is_aligned && first + kPerWord <= place.valid) {
      *reinterpret_cast<uint4*>(row + first / kPerUnit) = word;
    } else {
      const auto& units = reinterpret_cast<const Unit(&)[kPerWord / kPerUnit]>(word);
#pragma unroll
      for (int i = 0; i < kPerWord / kPerUnit; ++i) {
        if (first + i * kPerUnit < place.valid) row[first / kPerUnit + i] = units[i];
      }
    }
  }
}

/// Writes accumulators to D as TileWriter does, but row by row from the registers: for a D that TMA cannot
/// store, because its rows do not begin on 16-byte boundaries, or because a group's rows end inside of a tile.
///
/// Slower: the lanes of a warp write to 32 rows at once.
template <typename AccumulatorType, TileElement Element, int ColumnsPerResult = 1, int MaxColumns = 128>
class RowWriter {
 public:
  using Accumulator = AccumulatorType;                                                    ///< what it writes
  using Slices = stagecraft::Slices<Accumulator, Element, ColumnsPerResult, MaxColumns>;  ///< in which pieces

  /// @param d             element (0, 0) of the first matrix, in global memory.
  /// @param row_stride    elements from one row to the next; even for elements of 4 bits, two of which share a byte.
  /// @param batch_stride  elements from one matrix to the next.
  __device__ __forceinline__ RowWriter(Element* d, int64_t row_stride, int64_t batch_stride)
      : d_(reinterpret_cast<Unit*>(d)), row_stride_(row_stride), batch_stride_(batch_stride) {}

  /// As `TileWriter::write()`.
  template <typename Pipeline, typename Operations>
  __device__ __forceinline__ void write(EpilogueStage<Pipeline>&& sums, const TilePlace& tile, Operations& epilogue) {
    for_each_slice<Slices, element_bits<Element>>(
        std::move(sums), tile, slices_written_, epilogue, [](const SlicePlace&) {},
        [&](const auto& values, const RowPlace& place) { put(values, place); }, [](const SlicePlace&, auto&) {});
  }

 private:
  using Unit = detail::Unit<Element>;

  template <int Count>
  __device__ __forceinline__ void put(const float (&values)[Count], const RowPlace& place) const {
    store_in_row<Element>(d_ + place.batch * batch_stride_ / detail::kPerUnit<Element>, row_stride_, values, place);
  }

  Unit* d_;
  int64_t row_stride_, batch_stride_;
  int slices_written_ = 0;
};

}  // namespace stagecraft
