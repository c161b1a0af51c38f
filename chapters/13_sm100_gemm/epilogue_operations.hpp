// Chapter 13: operations of an epilogue. TODO 1 to 3 are here. Each gets the values that the calling thread has of one
// row, side by side, and where they are; stagecraft/epilogue.hpp puts operations together.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "stagecraft/epilogue.hpp"

namespace stagecraft {

/// values * factor.
struct Multiply {
  float factor;
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace&) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] *= factor;
  }
};

/// x / 2 * (1 + erf(x / sqrt(2))).
struct Gelu {
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace&) const {
    constexpr float kRootOfHalf = 0.70710678118654752f;
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = 0.5f * values[i] * (1 + erff(kRootOfHalf * values[i]));
  }
};

/// A vector in global memory with an entry for each column of a matrix.
template <typename T>
struct EpilogueVector {
  const T* entries;
};

/// values + vector[column]: a bias for each column of D.
template <typename T>
struct AddPerColumn {
  EpilogueVector<T> vector;
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
    // TODO 1: add to each value the entry of its column; `place` says which the first one is. What may be read?
  }
};

/// silu(gate) * up, where columns 2j (gate) and 2j + 1 (up) of the accumulator make column j of D.
/// silu(x) = x / (1 + exp(-x)); `__fdividef` and `__expf` are fast and good enough.
struct GatedSilu {
  static constexpr int columns_per_result = 2;
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace&) const {
    // TODO 2: result j goes to values[j]; the second half of the array is not looked at any more.
  }
};

/// The largest |value| of the whole matrix. It changes no value.
class AbsoluteMaximum {
 public:
  /// @param maximum  in global memory; not negative.
  __host__ __device__ explicit AbsoluteMaximum(float* maximum) : maximum_(maximum) {}

  template <int Count>
  __device__ __forceinline__ void operator()(const float (&values)[Count], const RowPlace& place) {
    // TODO 3: remember the largest |value| of those that are in the matrix.
  }

  /// Raises `*maximum` to what this warp has seen. Called by a whole converged warp.
  __device__ __forceinline__ void end_tile() {
    // TODO 3: the largest of the 32 lanes, and then, by one of them, of all warps. (Hint: bits of floats.)
    largest_ = 0;
  }

 private:
  float* maximum_;
  uint32_t largest_ = 0;
};

}  // namespace stagecraft
