// From an accumulator to the transpose of D: where A and B are exchanged, because D has few rows, an accumulator's rows
// are the columns of D.
#pragma once

#include <cstdint>

#include "stagecraft/output_stages.hpp"
#include "stagecraft/slices.hpp"

namespace stagecraft {

/// As `store_in_row()`, but in a column of the matrix, whose rows are the columns of the sums.
template <TileElement Element, int Count>
__device__ __forceinline__ void store_in_column(Element* matrix, int64_t pitch, const float (&values)[Count],
                                                const RowPlace& place) {
  Element* const column = matrix + place.column * pitch + place.row;
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    if (i < place.valid) column[i * pitch] = Element(values[i]);
  }
}

/// Writes accumulators to D as RowWriter does, but each row of an accumulator to a column of D. The lanes of a warp,
/// which have neighbouring rows, write neighbouring elements.
template <typename AccumulatorType, TileElement Element>
class ColumnWriter {
 public:
  using Accumulator = AccumulatorType;                      ///< what it writes
  using Slices = stagecraft::Slices<Accumulator, Element>;  ///< in which pieces

  /// @param d             element (0, 0) of the first matrix, in global memory.
  /// @param pitch         elements from one row of D to the next.
  /// @param batch_stride  elements from one matrix to the next.
  __device__ __forceinline__ ColumnWriter(Element* d, int64_t pitch, int64_t batch_stride)
      : d_(d), pitch_(pitch), batch_stride_(batch_stride) {}

  /// As `TileWriter::write()`.
  template <typename Pipeline, typename Operations>
  __device__ __forceinline__ void write(EpilogueStage<Pipeline>&& sums, const TilePlace& tile, Operations& epilogue) {
    for_each_slice<Slices, element_bits<Element>>(
        std::move(sums), tile, slices_written_, epilogue, [](const SlicePlace&) {},
        [&](const auto& values, const RowPlace& place) { put(values, place); }, [](const SlicePlace&, auto&) {});
  }

 private:
  template <int Count>
  __device__ __forceinline__ void put(const float (&values)[Count], const RowPlace& place) const {
    store_in_column(d_ + place.batch * batch_stride_, pitch_, values, place);
  }

  Element* d_;
  int64_t pitch_, batch_stride_;
  int slices_written_ = 0;
};

}  // namespace stagecraft
