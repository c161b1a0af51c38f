// Sums in integers of 32 bits, in units of the last bit that is kept. Only files that are compiled once per level
// include this.
#pragma once

#include "emulator/engines/tensor_core/fused_sum.hpp"
#include "emulator/engines/tensor_core/fused_vectors.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

constexpr uint32_t kTermsOfInts = 16;  // products whose sum certainly fits 32 bits

// Exponents are biased here. With these, a sum is a normal number, and so is the value of its last bit.
constexpr int kMostExponent = 120 + kBias, kLeastExponent = 26;

// Returns 2^exponent for biased exponents.
[[gnu::always_inline]] inline Floats powers(Ints exponent) { return (Floats)(exponent << kFractionBits); }

[[gnu::always_inline]] inline Ints whole(Floats values) { return __builtin_convertvector(values, Ints); }

// Returns what makes units of numbers, when the largest of them has this exponent.
[[gnu::always_inline]] inline Floats scale_for(Ints exponent, int kept) { return powers(2 * kBias + kept - exponent); }

// Adds modulo 2^32: sums that do not fit are formed in another way.
[[gnu::always_inline]] inline Ints add(Ints a, Ints b) { return (Ints)((Words)a + (Words)b); }

// Returns a sum in fp32, rounded towards zero. Where it does not fit it sets all bits of `unfit`.
template <SumResult kResult, uint32_t kTerms>
[[gnu::always_inline]] inline Floats round_sum(const Ints (&terms)[kTerms], Ints& unfit) {
  if constexpr (kResult != SumResult::odd && kTerms == 2) {
    const Ints sum = add(terms[0], terms[1]);
    unfit |= ((sum ^ terms[0]) & (sum ^ terms[1])) < 0;
    return __builtin_convertvector(sum, Floats);
  } else {
    const auto sum_of_half = [&](uint32_t half) {
      Doubles sum{};
      for (uint32_t i = 0; i < kTerms; ++i) sum += widen(*(reinterpret_cast<const HalfInts*>(&terms[i]) + half));
      return sum;
    };
    const Doubles first = sum_of_half(0), last = sum_of_half(1);
    const HalfFloats low = __builtin_convertvector(first, HalfFloats), high = __builtin_convertvector(last, HalfFloats);
    const Floats rounded = join(low, high);
    if constexpr (kResult != SumResult::odd) return rounded;
    const Floats error = join(__builtin_convertvector(first - widen(low), HalfFloats),
                              __builtin_convertvector(last - widen(high), HalfFloats));
    return (Floats)((Ints)rounded | ((error != 0) & 1));
  }
}

// Returns the sum of terms, the last of which is C, as the instruction does. Sets all bits of `unfit` where it cannot.
template <SumResult kResult, uint32_t kTerms>
[[gnu::always_inline]] inline Ints round_terms(const Ints (&terms)[kTerms], Ints c, Ints exponent, Ints no_products,
                                               int kept, Ints& unfit) {
  unfit = exponent > kMostExponent;
  const Floats sum = round_sum<kResult>(terms, unfit) * powers(exponent - kept);
  // Without products, C does not change, except that -0 becomes 0.
  const int kept_of_c = kept < kFractionBits ? -1 << (kFractionBits - kept) : -1;
  Ints rounded = select(no_products, (Ints)((Floats)(c & kept_of_c) + Floats{}), (Ints)sum);
  if constexpr (kResult == SumResult::f32_13bits) {
    rounded &= ~0x3ff;
  } else if constexpr (kResult == SumResult::odd) {
    constexpr int32_t kHalfOfLeastF16 = (kBias - 25) << kFractionBits;
    rounded &= (rounded & INT32_MAX) > kHalfOfLeastF16;
  }
  return rounded;
}

}  // namespace
}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
