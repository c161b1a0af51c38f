// What happens to a sum between tensor memory and D: small function objects, put together at compile time into an
// Epilogue. A TileWriter calls it with the values of one row at a time.
//
//     Epilogue epilogue{Multiply{alpha}, AddPerColumn{bias}, Gelu{}};      // gelu(alpha * sum + bias[column])
//
// An operation is any type that can be called as `operation(values, place)`, with `float (&values)[Count]` in the
// registers of the calling thread and a RowPlace. It may have three more members, all called by whole converged warps:
//
//     static constexpr int columns_per_result = 2;   // it makes one result of two values: values[0 .. Count / 2 - 1]
//     auto slice(const SlicePlace&);                 // returns what is called in its place for the values of a slice
//     void end_tile();                               // after the last value of a tile
//
// What `slice()` returns may have a member `store()`, called by one thread when the slice is complete: for what it has
// in shared memory, to be stored with the group of the writer's own stores.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace stagecraft {

/// Where the tile of a block is in its matrix, and where the matrix ends. Columns are the accumulator's: where an
/// epilogue makes one result of two of them, D has half as many.
struct TilePlace {
  int row = 0;         ///< of the block's first
  int column = 0;      ///< of its first
  int batch = 0;       ///< number of the matrix
  int row_end = 0;     ///< rows of the matrix; of a group, the row after its last
  int column_end = 0;  ///< columns of the matrix
  int group = 0;       ///< of rows, where the matrix has several groups of them, one after the other; else 0
};

/// Where the part of a slice is that the calling warp writes: as many rows as it reaches lanes of an accumulator.
struct SlicePlace {
  int row = 0;       ///< of the warp's first
  int column = 0;    ///< of its first
  int batch = 0;     ///< number of the matrix
  int tile_row = 0;  ///< the same row, counted from the block's first
  int half = 0;      ///< 1 for the warps that hold the right half of the columns (M = 128 in a pair), else 0
  int number = 0;    ///< of the slice, over all tiles of the block
};

//! [row place]
/// Where the values are that an operation gets: side by side in one row.
struct RowPlace {
  int row = 0;           ///< of the matrix
  int column = 0;        ///< of the first value
  int batch = 0;         ///< number of the matrix
  int valid = 0;         ///< how many of the values are in the matrix: the first 0 to Count
  int slice_row = 0;     ///< of the warp's part of the slice; -1 in a lane without a row, whose values mean nothing
  int slice_column = 0;  ///< of the first value in the slice
  int group = 0;         ///< of rows, where the matrix has several groups of them, one after the other; else 0

  /// The place of the results, where each is made of `columns` values.
  __device__ __forceinline__ RowPlace narrowed(int columns) const {
    return {row, column / columns, batch, valid / columns, slice_row, slice_column / columns, group};
  }
};
//! [row place]

/// Where two values of the calling thread are, side by side, of which the first is at (row, column) of a slice.
__device__ __forceinline__ RowPlace place_of(const TilePlace& tile, const SlicePlace& slice, int row, int column) {
  const int left = slice.row + row < tile.row_end ? tile.column_end - slice.column - column : 0;
  return {.row = slice.row + row,
          .column = slice.column + column,
          .batch = tile.batch,
          .valid = left < 0   ? 0
                   : left < 2 ? left
                              : 2,
          .slice_row = row,
          .slice_column = column,
          .group = tile.group};
}

namespace detail {

template <typename Operation>
__host__ __device__ constexpr int columns_per_result_of() {
  if constexpr (requires { Operation::columns_per_result; }) return Operation::columns_per_result;
  return 1;
}

template <typename Operation>
__host__ __device__ constexpr int results_at_once_of() {
  if constexpr (requires { Operation::results_at_once; }) return Operation::results_at_once;
  return 1;
}

/// An operation to which all slices are the same.
template <typename Operation>
struct SameForAllSlices {
  Operation& operation;
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) {
    operation(values, place);
  }
};

template <typename Operation>
struct SliceOf {
  using type = SameForAllSlices<Operation>;
};
template <typename Operation>
requires requires(Operation& operation, const SlicePlace& place) { operation.slice(place); }
struct SliceOf<Operation> {
  using type = decltype(std::declval<Operation&>().slice(std::declval<const SlicePlace&>()));
};

/// What is called for the values of a slice.
template <typename Operation>
__device__ __forceinline__ typename SliceOf<Operation>::type slice_of(Operation& operation, const SlicePlace& place) {
  if constexpr (requires { operation.slice(place); }) {
    return operation.slice(place);
  } else {
    return {operation};
  }
}

}  // namespace detail

/// Operations one after the other, each on what the one before has left. Without any, D is the sums.
template <typename... Operations>
class Epilogue;

/// No operation at all.
template <>
class Epilogue<> {
 public:
  static constexpr int columns_per_result = 1;  ///< D has as many columns as the accumulator
  static constexpr int results_at_once = 1;     ///< each on its own

  /// Nothing, for the values of a slice.
  struct Slice {
    /// Leaves the values as they are.
    template <int Count>
    __device__ __forceinline__ void operator()(float (&)[Count], const RowPlace&) {}
    /// Has nothing to store.
    __device__ __forceinline__ void store() {}
  };
  /// Begins a slice.
  __device__ __forceinline__ Slice slice(const SlicePlace&) { return {}; }
  /// Ends a tile.
  __device__ __forceinline__ void end_tile() {}
};

/// An operation, and those after it. Every thread of the epilogue's warps has its own object.
template <typename First, typename... Rest>
class Epilogue<First, Rest...> {
 public:
  /// Columns of the accumulator that make one column of D: 1, or 2 with a gated activation.
  static constexpr int columns_per_result =
      detail::columns_per_result_of<First>() * Epilogue<Rest...>::columns_per_result;
  /// Results that some operation needs together, such as those that share a scale factor.
  static constexpr int results_at_once = detail::results_at_once_of<First>() > Epilogue<Rest...>::results_at_once
                                             ? detail::results_at_once_of<First>()
                                             : Epilogue<Rest...>::results_at_once;

  /// In the order in which they are applied.
  __host__ __device__ constexpr explicit Epilogue(First first, Rest... rest)
      : first_(std::move(first)), rest_(std::move(rest)...) {}

  /// All operations, for the values of one slice.
  class Slice {
   public:
    /// Made by `slice()`.
    __device__ __forceinline__ Slice(Epilogue& epilogue, const SlicePlace& place)
        : first_(detail::slice_of(epilogue.first_, place)), rest_(epilogue.rest_.slice(place)) {}

    /// Applies them to values of one row. Called by all lanes.
    template <int Count>
    __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) {
      constexpr int kColumns = detail::columns_per_result_of<First>();
      static_assert(Count % kColumns == 0, "Epilogue: a gated activation needs an even number of columns");
      first_(values, place);
      if constexpr (kColumns == 1) {
        rest_(values, place);
      } else {
        rest_(reinterpret_cast<float(&)[Count / kColumns]>(values), place.narrowed(kColumns));
      }
    }

    /// Asks for the stores of what the operations have in shared memory. Called by one thread.
    __device__ __forceinline__ void store() {
      if constexpr (requires { first_.store(); }) first_.store();
      rest_.store();
    }

   private:
    typename detail::SliceOf<First>::type first_;
    typename Epilogue<Rest...>::Slice rest_;
  };

  /// Begins a slice. Called by a whole converged warp, which keeps what it returns until the slice is stored.
  __device__ __forceinline__ Slice slice(const SlicePlace& place) { return Slice(*this, place); }

  /// Ends a tile. Called by a whole converged warp.
  __device__ __forceinline__ void end_tile() {
    if constexpr (requires { first_.end_tile(); }) first_.end_tile();
    rest_.end_tile();
  }

 private:
  First first_;
  Epilogue<Rest...> rest_;
};

/// The types are those of the operations.
template <typename... Operations>
Epilogue(Operations...) -> Epilogue<Operations...>;

}  // namespace stagecraft
