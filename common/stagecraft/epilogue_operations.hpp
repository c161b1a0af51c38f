// The operations of epilogues: factors and addends, activations, and the largest magnitude. Each works on the values
// that a thread has of one row. Chapter 13 builds them.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "stagecraft/epilogue.hpp"

namespace stagecraft {

// ---- Factors and addends --------------------------------------------------------------------------------------------

//! [multiply]
/// values * factor: alpha, or the scale of a type with a small range, such as e4m3, which must come before the
/// conversion: that saturates.
struct Multiply {
  float factor;  ///< the same for all
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace&) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] *= factor;
  }
};
//! [multiply]

namespace detail {

/// Calls `use(i, vector[first + i])` for each i below `valid`; reads 16 bytes at a time where all are valid and
/// aligned.
template <int Count, typename T, typename Use>
__device__ __forceinline__ void for_each_entry(const T* vector, int valid, Use use) {
  constexpr int kPerWord = 16 / sizeof(T);
  if constexpr (Count % kPerWord == 0) {
    if (valid >= Count && reinterpret_cast<uintptr_t>(vector) % 16 == 0) {
#pragma unroll
      for (int first = 0; first < Count; first += kPerWord) {
        const uint4 word = __ldg(reinterpret_cast<const uint4*>(vector + first));
        const auto& entries = reinterpret_cast<const T(&)[kPerWord]>(word);
#pragma unroll
        for (int i = 0; i < kPerWord; ++i) use(first + i, static_cast<float>(entries[i]));
      }
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    if (i < valid) use(i, static_cast<float>(vector[i]));
  }
}

}  // namespace detail

/// A vector in global memory with an entry for each column, or for each row, of a matrix.
/// @tparam T  float, __nv_bfloat16 or __half.
template <typename T>
struct EpilogueVector {
  const T* entries;          ///< of the first matrix
  int64_t batch_stride = 0;  ///< entries from one matrix's vector to the next; 0: all have the same
};

//! [add per column]
/// values + vector[column]: a bias for each column of D.
template <typename T>
struct AddPerColumn {
  EpilogueVector<T> vector;  ///< in global memory
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
    detail::for_each_entry<Count>(vector.entries + place.batch * vector.batch_stride + place.column, place.valid,
                                  [&](int i, float entry) { values[i] += entry; });
  }
};
//! [add per column]

/// values * vector[column]: a scale for each column of D, such as those of B's rows.
template <typename T>
struct MultiplyPerColumn {
  EpilogueVector<T> vector;  ///< in global memory
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
    detail::for_each_entry<Count>(vector.entries + place.batch * vector.batch_stride + place.column, place.valid,
                                  [&](int i, float entry) { values[i] *= entry; });
  }
};

/// values + vector[row]: a bias for each row of D.
template <typename T>
struct AddPerRow {
  EpilogueVector<T> vector;  ///< in global memory
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
    if (place.valid == 0) return;
    const float entry = static_cast<float>(vector.entries[place.batch * vector.batch_stride + place.row]);
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] += entry;
  }
};

/// values * vector[row]: a scale for each row of D, such as those of A's rows.
template <typename T>
struct MultiplyPerRow {
  EpilogueVector<T> vector;  ///< in global memory
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
    if (place.valid == 0) return;
    const float entry = static_cast<float>(vector.entries[place.batch * vector.batch_stride + place.row]);
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] *= entry;
  }
};

// ---- Activations ----------------------------------------------------------------------------------------------------

namespace detail {

/// x / (1 + exp(-y)): x times the logistic function of y, to about 5 + 1.2 * |y| units in the last place.
/// Source: CUDA C++ Programming Guide, "Intrinsic Functions" (__expf: 2 + 1.173 * |x| units; __fdividef: 2).
__device__ __forceinline__ float times_logistic(float x, float y) { return __fdividef(x, 1 + __expf(-y)); }

}  // namespace detail

/// max(x, 0); NaN stays NaN.
struct Relu {
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace&) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = values[i] < 0 ? 0 : values[i];
  }
};

/// x / 2 * (1 + erf(x / sqrt(2))): x times the normal distribution function.
struct Gelu {
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace&) const {
    constexpr float kRootOfHalf = 0.70710678118654752f;
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = 0.5f * values[i] * (1 + erff(kRootOfHalf * values[i]));
  }
};

/// The usual approximation of GELU: x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))).
///
/// (1 + tanh(y)) / 2 is the logistic function of 2 * y.
struct GeluTanh {
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace&) const {
    constexpr float kTwiceRoot = 1.5957691216057308f;  // 2 * sqrt(2 / pi)
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      const float x = values[i];
      values[i] = detail::times_logistic(x, kTwiceRoot * x * (1 + 0.044715f * x * x));
    }
  }
};

/// x / (1 + exp(-x)), also called swish.
struct Silu {
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace&) const {
#pragma unroll
    for (int i = 0; i < Count; ++i) values[i] = detail::times_logistic(values[i], values[i]);
  }
};

//! [gated silu]
/// SwiGLU: silu(gate) * up, where columns 2j (gate) and 2j + 1 (up) of the accumulator make column j of D.
///
/// The rows of B, which become the accumulator's columns, must alternate: a row of the gate's weights, a row of the
/// other's. Then both are in registers of one thread. The matrix must have an even number of columns.
struct GatedSilu {
  static constexpr int columns_per_result = 2;  ///< of the accumulator
  /// Applies it to values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace&) const {
#pragma unroll
    for (int i = 0; i < Count / 2; ++i) {
      const float gate = values[2 * i], up = values[2 * i + 1];
      values[i] = detail::times_logistic(gate, gate) * up;
    }
  }
};
//! [gated silu]

// ---- What is measured -----------------------------------------------------------------------------------------------

namespace detail {

/// The bits of |value|. As integers they are ordered as the numbers are, infinity above them, and NaN above that.
__device__ __forceinline__ uint32_t magnitude(float value) { return __float_as_uint(value) & 0x7fffffff; }

}  // namespace detail

//! [absolute maximum]
/// The largest |value| of the whole matrix, for the choice of a scale. It changes no value.
///
/// Each warp raises `*maximum` once per tile. A NaN is larger than everything.
class AbsoluteMaximum {
 public:
  /// @param maximum  in global memory; 0, or what the values are compared with, before the kernel starts.
  __host__ __device__ explicit AbsoluteMaximum(float* maximum) : maximum_(maximum) {}

  /// Looks at values of one row. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(const float (&values)[Count], const RowPlace& place) {
#pragma unroll
    for (int i = 0; i < Count; ++i) {
      if (i < place.valid) largest_ = max(largest_, detail::magnitude(values[i]));
    }
  }

  /// Raises `*maximum`. Called by a whole converged warp.
  __device__ __forceinline__ void end_tile() {
    const uint32_t of_warp = __reduce_max_sync(0xffffffff, largest_);
    if (threadIdx.x % 32 == 0) atomicMax(reinterpret_cast<unsigned*>(maximum_), of_warp);
    largest_ = 0;
  }

 private:
  float* maximum_;
  uint32_t largest_ = 0;
};
//! [absolute maximum]

}  // namespace stagecraft
