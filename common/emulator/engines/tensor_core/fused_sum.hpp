// The sum that one MMA instruction forms, as the tensor cores of Hopper form it: the products along K and the
// accumulator are added at once in fixed point, and the sum is rounded once.
//
// Each product keeps its significand, from 1 to 4, and the exponent that is the sum of its factors'. All terms are
// aligned to the largest exponent, `fraction_bits` bits after the point are kept of each, those after them are
// dropped (which rounds towards zero), and the sum of what is left is exact. It becomes an f32, rounded towards zero,
// or an f16, rounded to the nearest. A factor that is subnormal in its format keeps the format's least exponent.
//
// Sources: MMA-Sim (Xie et al., arXiv 2511.10909), Khattak and Mikaitis (arXiv 2512.07004); every bit was compared with
// an H200 (tests/conformance/).
#pragma once

#include <cstdint>

#include "emulator/numerics/narrow_floats.hpp"

namespace stagecraft::emulator::machine {

/// What a sum becomes.
enum class SumResult : uint8_t {
  f32,         ///< f32, rounded towards zero
  f32_13bits,  ///< the same with 13 of f32's 23 bits after the point
  odd,         ///< f32 whose last bit is set if the sum has more bits; `to_f16` rounds it as it would the sum itself
};

/// How an instruction adds.
struct FusedSum {
  /// Bits after the point that are kept of each term, after it was aligned to the largest; 0: no fused sum, but plain
  /// additions in fp32, one after another.
  int fraction_bits = 0;
  /// Exponents of the least normal numbers of A's and B's formats.
  int a_least = -14, b_least = -14;
  SumResult result = SumResult::f32;
};

/// Returns the exponent of the least normal number of a format of floats.
int least_exponent(ElementFormat format);

/// Returns how products of floats of these formats are added: fused, unless STAGECRAFT_MMA_SUMS is "plain" in the
/// environment. Then they are added one after another in fp32, which is a few times as fast for random numbers.
FusedSum sum_of(ElementFormat a, ElementFormat b, SumResult result, int fraction_bits = 25);

/// Returns c + the sum of `k` products of elements that are `a_step` and `b_step` apart, for all formats and any
/// values.
float fused_sum(const float* a, uint32_t a_step, const float* b, uint32_t b_step, uint32_t k, float c,
                const FusedSum& how);

}  // namespace stagecraft::emulator::machine
