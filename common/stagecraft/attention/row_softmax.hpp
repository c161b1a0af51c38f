// The softmax of a row of scores, block of keys by block of keys, in the registers of one thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "stagecraft/attention/exponential.hpp"
#include "stagecraft/packed_elements.hpp"
#include "stagecraft/tmem_operand.hpp"

namespace stagecraft {

/// Reads the calling thread's row of scores from tensor memory, and waits for it.
///
/// Called by a whole converged warp. One instruction for all of it would take registers that only follow each other.
template <typename Scores, int Count>
__device__ __forceinline__ void load_row(float (&values)[Count], const Scores& scores, uint32_t warp) {
  constexpr int kAtOnce = 32;
  uint32_t words[Count / kAtOnce][kAtOnce];
#pragma unroll
  for (int i = 0; i < Count / kAtOnce; ++i) load_tmem(words[i], scores.part_of_warp(warp, i * kAtOnce));
  wait_for_tmem_loads();
#pragma unroll
  for (int i = 0; i < Count; ++i) values[i] = __uint_as_float(words[i / kAtOnce][i % kAtOnce]);
}

/// Scores of keys that the row does not see become -inf, whose power is 0.
/// @param first, end  the keys that it sees, counted from the first score; any numbers, none where end <= first.
template <int Count>
__device__ __forceinline__ void keep_keys(float (&scores)[Count], int first, int end) {
#pragma unroll
  for (int key = 0; key < Count; ++key) {
    if (key < first || key >= end) scores[key] = -INFINITY;  // not a sum: what is masked may be NaN
  }
}

/// What a thread knows of its row, after some blocks of keys.
///
/// All powers are of 2, relative to a maximum: 2^(scale_log2 * (score - maximum) + Shift). The maximum is that of all
/// scores, or of some, from which it differs by no more than the threshold. The sums of powers, here and in tensor
/// memory, are relative to the same maximum, so it cancels out where one is divided by the other.
/// @tparam Element  of the powers, as the second product takes them. e4m3 has its numbers from 2^-9 to 448: powers are
///                  shifted up by 8, and the maximum is always that of all scores.
template <TileElement Element>
class SinkSoftmax {
 public:
  /// By how many powers of two the powers are larger.
  static constexpr float shift = element_bits<Element> == 8 ? 8 : 0;
  /// By how much, in powers of two, the largest score may have grown before sums are multiplied down to it: up to there
  /// they may be 2^8 times as large as they would be, which all their types can hold.
  static constexpr float threshold = element_bits<Element> == 8 ? 0 : 8;

  /// Before the first block.
  /// @param scale_log2  positive.
  /// @param sink        a logit to base 2 that has no value, but a power that counts in the sum; -inf: none.
  __device__ __forceinline__ SinkSoftmax(float scale_log2, float sink)
      : scale_log2_(scale_log2),
        maximum_(sink / scale_log2),
        sums_{{sink == -INFINITY ? 0
               : sink < INFINITY ? exp2f(shift)
                                 : NAN,
               0},
              {0, 0}} {}

  /// Takes note of a block's scores, and returns the factor by which what was summed before must be multiplied: 1,
  /// where the maximum stays.
  template <int Count>
  __device__ __forceinline__ float raise_maximum(const float (&scores)[Count]) {
    float maxima[4] = {maximum_, maximum_, maximum_, maximum_};  // four at a time: no instruction waits for the last
#pragma unroll
    for (int key = 0; key < Count; key += 8) {
#pragma unroll
      for (int i = 0; i < 4; ++i) maxima[i] = larger(maxima[i], larger(scores[key + i], scores[key + 4 + i]));
    }
    const float maximum = larger(larger(maxima[0], maxima[1]), larger(maxima[2], maxima[3]));
    if (!(maximum < INFINITY)) sums_[0].x = NAN;  // and so the row will be
    const float growth = scale_log2_ * (maximum - maximum_);
    if (!(growth > threshold)) return 1;  // also where it is NaN: no key has been seen yet
    maximum_ = maximum;
    const float factor = exp2_by_unit(-growth);  // 0 where this is the first block: growth is infinite
    for (float2& sum : sums_) sum = __fmul2_rn(sum, {factor, factor});
    return factor;
  }

  /// Makes powers of `Count` scores from `First` on, adds them to the row's sum, rounds them to the type of the second
  /// product, and starts to store them in the calling warp's rows of P.
  ///
  /// Called by a whole converged warp, of whose lanes each has a row. They are there after `wait_for_tmem_stores()`.
  /// @tparam Polynomials  of every four, two are computed by polynomials.
  template <bool Polynomials, int First, int Count, int Keys, int Rows, int Columns>
  __device__ __forceinline__ void put_powers(const float (&scores)[Keys],
                                             const TmemOperand<Element, Rows, Columns>& powers, uint32_t warp) {
    using Pair = detail::PairConversion<Element>;
    const float offset = (maximum_ == -INFINITY ? 0 : -scale_log2_ * maximum_) + shift;  // -inf - -inf would be NaN
    constexpr int kAtOnce = 16, kBits = element_bits<Element>;
    static_assert(First % kAtOnce == 0 && Count % kAtOnce == 0, "put_powers: pieces are of 16 keys");
#pragma unroll
    for (int first = First; first < First + Count; first += kAtOnce) {
      uint32_t cells[kAtOnce * kBits / 32] = {};
#pragma unroll
      for (int key = first; key < first + kAtOnce; key += 2) {
        const float2 exponents =
            __ffma2_rn({scores[key], scores[key + 1]}, {scale_log2_, scale_log2_}, {offset, offset});
        const float2 both = Polynomials && key % 4 == 2 ? exp2_by_polynomial(exponents)
                                                        : float2{exp2_by_unit(exponents.x), exp2_by_unit(exponents.y)};
        sums_[key / 2 % 2] = __fadd2_rn(sums_[key / 2 % 2], both);
        const int bit = (key - first) * kBits;
        cells[bit / 32] |= uint32_t{Pair::convert(both.x, both.y)} << bit % 32;
      }
      powers.store(cells, warp, first);
    }
  }

  /// What the row's output must be multiplied by: 1 / sum, or 0 where it has seen no key; NaN where a score was NaN or
  /// +inf.
  __device__ __forceinline__ float inverse_sum() const { return sum() == 0 ? 0 : 1 / sum(); }

  /// The natural logarithm of the sum of exp(scale * score); -inf where it has seen no key.
  __device__ __forceinline__ float logsumexp() const {
    constexpr float kLn2 = 0x1.62e43p-1f;
    return sum() == 0 ? -INFINITY : kLn2 * (scale_log2_ * maximum_ + (log2f(sum()) - shift));
  }

 private:
  /// The larger of two numbers; NaN where one is. Source: PTX ISA, "max" (.NaN).
  __device__ __forceinline__ static float larger(float x, float y) {
    float result;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
    return result;
  }

  __device__ __forceinline__ float sum() const { return (sums_[0].x + sums_[0].y) + (sums_[1].x + sums_[1].y); }

  float scale_log2_;
  float maximum_;
  float2 sums_[2];  // parts of the sum of powers
};

}  // namespace stagecraft
