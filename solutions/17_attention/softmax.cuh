// The softmax of a row of scores, block of keys by block of keys, in the registers of one thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "stagecraft/attention/exponential.hpp"
#include "stagecraft/packed_elements.hpp"
#include "stagecraft/tmem_operand.hpp"

namespace stagecraft {

//! [load]
/// Reads the calling thread's row of S, and waits for it. In pieces: a load of 128 registers at a time would need more
/// than the kernel has at its start.
///
/// Called by a whole converged warp, after waiting for the product and `tcgen05.fence::after_thread_sync`.
template <int Count, typename Scores>
__device__ __forceinline__ void load_scores(float (&values)[Count], const Scores& scores, uint32_t warp) {
  constexpr int kAtOnce = 32;
  uint32_t words[Count / kAtOnce][kAtOnce];
#pragma unroll
  for (int i = 0; i < Count / kAtOnce; ++i) load_tmem(words[i], scores.part_of_warp(warp, i * kAtOnce));
  wait_for_tmem_loads();
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = __uint_as_float(words[i / kAtOnce][i % kAtOnce]);
}
//! [load]

//! [mask]
/// Scores of keys that the row does not see become -inf, whose power is 0.
/// @param visible  how many keys of these the row sees, the first ones; may be negative or more than `Count`.
template <int Count>
__device__ __forceinline__ void mask_keys(float (&scores)[Count], int visible) {
#pragma unroll
  for (int key = 0; key < Count; ++key) {
    if (key >= visible) scores[key] = -INFINITY;
  }
}
//! [mask]

//! [threshold]
/// By how much, in powers of two, the largest score may have grown before sums are multiplied down to it: up to there
/// they may be 2^8 times as large as they would be, which all their types can hold.
inline constexpr float kRescaleThreshold = 8;
//! [threshold]

/// What a thread knows of its row, after some blocks of keys.
///
/// All powers are of 2, relative to a maximum: 2^(scale_log2 * (score - maximum)). It is that of all scores, or of
/// some, from which it differs by no more than the threshold. The sums of powers, here and in tensor memory, are
/// relative to the same maximum, so it cancels out where one is divided by the other.
class RowSoftmax {
 public:
  /// Before the first block.
  /// @param scale_log2  positive.
  __device__ __forceinline__ explicit RowSoftmax(float scale_log2) : scale_log2_(scale_log2) {}

  //! [maximum]
  /// Takes note of a block's scores, and returns the factor by which what was summed before must be multiplied: 1,
  /// where the maximum stays.
  /// @param threshold  0: the maximum is always that of all scores.
  template <int Count>
  __device__ __forceinline__ float raise_maximum(const float (&scores)[Count], float threshold = kRescaleThreshold) {
    float maxima[4] = {maximum_, maximum_, maximum_, maximum_};  // four at a time: no instruction waits for the last
#pragma unroll
    for (int key = 0; key < Count; key += 8) {
#pragma unroll
      for (int i = 0; i < 4; ++i) maxima[i] = fmaxf(maxima[i], fmaxf(scores[key + i], scores[key + 4 + i]));
    }
    const float maximum = fmaxf(fmaxf(maxima[0], maxima[1]), fmaxf(maxima[2], maxima[3]));
    const float growth = scale_log2_ * (maximum - maximum_);
    if (!(growth > threshold)) return 1;  // also where it is NaN: no key has been seen yet
    maximum_ = maximum;
    const float factor = exp2_by_unit(-growth);  // 0 where this is the first block: growth is infinite
    for (auto& sum : sums_) sum = __fmul2_rn(sum, {factor, factor});
    return factor;
  }
  //! [maximum]

  //! [powers]
  /// Computes the powers of scores, adds them to the row's sum, rounds them to the type of the second product, and
  /// starts to store them in the calling warp's rows of P.
  ///
  /// Called by a whole converged warp. They are there after `wait_for_tmem_stores()`.
  /// @param visible        how many keys of the block any row of the warp sees, the first ones. Powers of others are 0:
  ///                       where all of 32 are, they are not computed.
  /// @tparam Polynomials   of every four, two are computed by polynomials.
  /// @tparam First, Count  of the row's scores, multiples of 32.
  template <bool Polynomials, int First, int Count, typename Element, int Rows, int Columns>
  __device__ __forceinline__ void put_powers(const float (&scores)[Columns],
                                             const TmemOperand<Element, Rows, Columns>& probabilities, uint32_t warp,
                                             int visible) {
    constexpr int kAtOnce = 32;
    const float offset = maximum_ == -INFINITY ? 0 : -scale_log2_ * maximum_;  // -inf - -inf would be NaN
#pragma unroll
    for (int first = First; first < First + Count; first += kAtOnce) {
      uint32_t cells[kAtOnce / 2] = {};
      if (first < visible) {  // what is in a branch ptxas leaves there: else all polynomials come first, and spill
#pragma unroll
        for (int key = first; key < first + kAtOnce; key += 2) {
          const float2 exponents =
              __ffma2_rn({scores[key], scores[key + 1]}, {scale_log2_, scale_log2_}, {offset, offset});
          const float2 powers = Polynomials && key % 4 == 2
                                    ? exp2_by_polynomial(exponents)
                                    : float2{exp2_by_unit(exponents.x), exp2_by_unit(exponents.y)};
          sums_[key / 2 % 2] = __fadd2_rn(sums_[key / 2 % 2], powers);
          cells[(key - first) / 2] = pack_pair<Element>(powers.x, powers.y);
        }
      }
      probabilities.store(cells, warp, first);
    }
  }
  //! [powers]

  //! [end]
  /// What the row's output must be multiplied by: 1 / sum, or 0 where it has seen no key.
  __device__ __forceinline__ float inverse_sum() const { return maximum_ == -INFINITY ? 0 : 1 / sum(); }

  /// The natural logarithm of the sum of exp(scale * score); -inf where it has seen no key.
  __device__ __forceinline__ float logsumexp() const {
    constexpr float kLn2 = 0x1.62e43p-1f;
    return maximum_ == -INFINITY ? -INFINITY : kLn2 * (scale_log2_ * maximum_ + log2f(sum()));
  }
  //! [end]

 private:
  __device__ __forceinline__ float sum() const { return (sums_[0].x + sums_[0].y) + (sums_[1].x + sums_[1].y); }

  float scale_log2_;
  float maximum_ = -INFINITY;
  float2 sums_[2] = {};  // parts of the sum of powers
};

}  // namespace stagecraft
