// What the epilogue's threads read and write in global memory themselves, where TMA cannot: matrices of D's
// shape, of which a group's rows end inside of a tile, or of which the sums are the transpose.
#pragma once

#include <cstdint>

#include "stagecraft/epilogue.hpp"
#include "stagecraft/gemm/column_writer.hpp"
#include "stagecraft/row_writer.hpp"

namespace stagecraft {

/// A matrix of D's shape, and those of its batch.
template <typename Element>
struct DirectMatrix {
  Element* address;      ///< of element (0, 0) of the first matrix
  int64_t pitch;         ///< elements from one row to the next
  int64_t batch_stride;  ///< elements from one matrix to the next
};

/// As SecondOutput, which TMA stores, but each thread stores its own values. Nothing is written beyond the
/// end of a row, of a matrix, or of a group.
/// @tparam Transposes  the sums are those of D transposed: a row of sums is a column of the matrix.
template <TileElement Element, bool Transposes>
class DirectSecondOutput {
 public:
  using Map = DirectMatrix<Element>;  ///< where it is
  /// What it has in shared memory: nothing.
  struct Storage {};

  /// Called by any thread, with the parameters of SecondOutput.
  __device__ __forceinline__ DirectSecondOutput(Storage&, const Map& matrix) : matrix_(&matrix) {}

  /// The values of one slice.
  class Slice {
   public:
    /// Made by `slice()`.
    __device__ __forceinline__ explicit Slice(const Map& matrix) : matrix_(&matrix) {}
    /// Stores values of one row. Any thread.
    template <int Count>
    __device__ __forceinline__ void operator()(const float (&values)[Count], const RowPlace& place) const {
      Element* const first = matrix_->address + place.batch * matrix_->batch_stride;
      if constexpr (Transposes) {
        store_in_column(first, matrix_->pitch, values, place);
      } else {
        store_in_row<Element>(first, matrix_->pitch, values, place);
      }
    }
    /// Nothing is left to store.
    __device__ __forceinline__ void store() const {}

   private:
    const Map* matrix_;
  };
  /// Begins a slice. Any thread.
  __device__ __forceinline__ Slice slice(const SlicePlace&) const { return Slice(*matrix_); }

 private:
  const Map* matrix_;
};

/// values + factor * C, each element read by the thread that adds it. Where the sums are those of D transposed, the
/// lanes of a warp read neighbouring elements. With a factor of 0 they read none.
template <TileElement Element, bool Transposes>
struct AddDirect {
  const DirectMatrix<const Element>& matrix;  ///< C
  float factor;                               ///< beta
  /// Applies it to values of one row of sums. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
    if (factor == 0) return;
    const int across = Transposes ? place.column : place.row, along = Transposes ? place.row : place.column;
    const Element* const first = matrix.address + place.batch * matrix.batch_stride + across * matrix.pitch + along;
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if (i < place.valid) values[i] += factor * static_cast<float>(first[Transposes ? i * matrix.pitch : i]);
    }
  }
};

}  // namespace stagecraft
