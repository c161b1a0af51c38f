// The functions that the chip approximates by tables: reciprocal, square root and its reciprocal, and the exponential,
// bit by bit. This header is for the vector files only.
//
// The significand, or the part of an exponent after the point, is cut into 64 or 128 parts. In each the function is a
// polynomial of the second degree in the bits that follow, all of whose steps are exact, except that the square is cut
// off and so is the result. Structure: Oberman and Siu, "A High-Performance Area-Efficient Multifunction Interpolator"
// (ARITH 2005). What the square drops, and the tables, were recovered from an H200. What a subnormal number becomes is
// in the machine code that ptxas 13.0 makes, which is the same for sm_90a and sm_100a. No B200 was available.
#pragma once

#include "emulator/instructions/alu/interpolation_tables.hpp"
#include "emulator/instructions/alu/numerics.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

/// Bits after those that choose the part.
inline constexpr uint32_t kInterpolatedBits = 17;
inline constexpr uint32_t kMantissa = 0x7fffff, kOneBits = 0x3f800000, kLeading = 0x800000;

/// Squares 17 bits and returns the upper 15 of 34. The partial products of two bits whose place is in the lower 19 are
/// left out before they are added.
STAGECRAFT_INLINE int32_t square_of(uint32_t x) {
  constexpr int kDropped = 2 * static_cast<int>(kInterpolatedBits) - 15;
  uint32_t sum = 0;
  // Unrolled, so that loops over lanes have no other loop within and become vector code.
#pragma GCC unroll 16
  for (int i = 1; i < static_cast<int>(kInterpolatedBits); ++i) {
    // Pairs of bit i with a higher one: bit j of x counts 2^(i + j + 1).
    const int lowest = kDropped - 1 - i > i + 1 ? kDropped - 1 - i : i + 1;
    const uint32_t others = lowest >= static_cast<int>(kInterpolatedBits) ? 0u : x & (~0u << lowest);
    const int shift = i + 1 - kDropped;
    const uint32_t pairs = shift < 0 ? others >> -shift : others << shift;
    const uint32_t alone = 2 * i >= kDropped ? 1u << (2 * i - kDropped) : 0u;
    sum += (pairs + alone) & (0u - (x >> i & 1u));
  }
  return static_cast<int32_t>(sum);
}

/// Returns the 24 bits of a result for the 17 bits `x` of a part.
template <int Parts>
STAGECRAFT_INLINE uint32_t interpolate(const Coefficients<Parts>& table, int32_t part, uint32_t x) {
  const int64_t sum = table.constant[part] + static_cast<int64_t>(table.linear[part]) * static_cast<int32_t>(x) +
                      static_cast<int64_t>(table.quadratic[part]) * square_of(x);
  return static_cast<uint32_t>(sum >> kInterpolatedBits);
}

STAGECRAFT_INLINE float with_sign(uint32_t bits, uint32_t sign) { return bits_as<float>(bits | sign); }

/// Returns 1 / x. Subnormal arguments are zero, and subnormal results become it.
STAGECRAFT_INLINE float reciprocal_of(float x) {
  const uint32_t bits = bits_as<uint32_t>(x), sign = bits & 0x80000000u, exponent = bits >> 23 & 255u;
  const uint32_t mantissa = bits & kMantissa;
  const uint32_t value = interpolate(kReciprocal, static_cast<int32_t>(mantissa >> 16), (mantissa & 0xffffu) << 1);
  const int32_t moved = static_cast<int32_t>(value) - static_cast<int32_t>(kLeading) +
                        (253 - static_cast<int32_t>(exponent)) * static_cast<int32_t>(kLeading);
  uint32_t result = moved < static_cast<int32_t>(kLeading) ? 0u : static_cast<uint32_t>(moved);
  result = exponent == 0 ? 0x7f800000u : exponent == 255 ? 0u : result;
  return x == x ? with_sign(result, sign) : canonical_nan<float>();
}

/// Returns the part of a table of a root that a number is in: there are 64 for even exponents, and 64 for odd ones.
STAGECRAFT_INLINE int32_t part_of_root(uint32_t bits) {
  return static_cast<int32_t>((bits >> 17 & 63u) | (~bits >> 17 & 64u));
}
/// Returns half of the number's exponent, rounded down, as an addend to the bits of a float.
STAGECRAFT_INLINE int32_t half_exponent(uint32_t bits) {
  return ((static_cast<int32_t>(bits >> 23) - 127) >> 1) * static_cast<int32_t>(kLeading);
}

/// Returns 1 / sqrt(x); the same holds for subnormal numbers.
STAGECRAFT_INLINE float reciprocal_root_of(float x) {
  const uint32_t bits = bits_as<uint32_t>(x), magnitude = bits & 0x7fffffffu;
  const uint32_t value = interpolate(kReciprocalRoot, part_of_root(bits), bits & 0x1ffffu);
  const bool is_one = (bits & 0xffffffu) == kLeading;  // 1, 4, 16, ...: not by the table
  uint32_t result =
      (is_one ? 2 * kLeading : value) - kLeading + 0x3f000000u - static_cast<uint32_t>(half_exponent(bits));
  result = magnitude < kLeading ? 0x7f800000u | (bits & 0x80000000u) : magnitude == 0x7f800000u ? 0u : result;
  return magnitude < kLeading || x > 0 ? bits_as<float>(result) : canonical_nan<float>();
}

/// Returns sqrt(x); the same holds for subnormal numbers.
STAGECRAFT_INLINE float root_of(float x) {
  const uint32_t bits = bits_as<uint32_t>(x), magnitude = bits & 0x7fffffffu;
  const uint32_t value = interpolate(kRoot, part_of_root(bits), bits & 0x1ffffu);
  uint32_t result = value - kLeading + kOneBits + static_cast<uint32_t>(half_exponent(bits));
  result = magnitude < kLeading ? bits & 0x80000000u : magnitude == 0x7f800000u ? magnitude : result;
  return magnitude < kLeading || x > 0 ? bits_as<float>(result) : canonical_nan<float>();
}

/// Returns 2^x. The first 23 bits of x after the point count. They are inverted, not negated, if x is negative and they
/// are not all zero. Subnormal results become zero.
STAGECRAFT_INLINE float exponential2(float x) {
  const float magnitude = __builtin_fabsf(x) < 200.0f ? __builtin_fabsf(x) : 200.0f;
  const auto fixed = static_cast<int32_t>(magnitude * 0x1p23f);
  const int32_t inverted = (fixed & static_cast<int32_t>(kMantissa)) != 0 ? ~fixed : -fixed;
  const int32_t power = x < 0 ? inverted : fixed;
  const auto fraction = static_cast<uint32_t>(power) & kMantissa;
  const int32_t whole = power >> 23;
  const uint32_t value = interpolate(kExponential, static_cast<int32_t>(fraction >> 17), fraction & 0x1ffffu);
  uint32_t result = value - kLeading + static_cast<uint32_t>(whole + 127) * kLeading;
  result = whole < -126 ? 0u : whole > 127 ? 0x7f800000u : result;
  return x == x ? bits_as<float>(result) : canonical_nan<float>();
}

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
