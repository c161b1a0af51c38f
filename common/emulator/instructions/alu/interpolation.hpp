// The functions that the chip approximates by tables: reciprocal, square root and its reciprocal, exponential and
// logarithm, sine, cosine and hyperbolic tangent, bit by bit. This header is for the vector files only.
//
// The significand, the part of an exponent after the point, or a quarter turn is cut into 64 or 128 parts. In each the
// function is a polynomial of the second degree in the bits that follow, all of whose steps are exact, except that the
// square is cut off and so is the result. Structure: Oberman and Siu, "A High-Performance Area-Efficient Multifunction
// Interpolator" (ARITH 2005). What the square drops, and the tables, were recovered from an H200. What a subnormal
// number becomes is in the machine code that ptxas 13.0 makes, which is the same for sm_90a and sm_100a. No B200 was
// available.
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

/// Returns the exact sum for the 17 bits `x` of a part.
template <int Parts>
STAGECRAFT_INLINE int64_t polynomial(const Coefficients<Parts>& table, int32_t part, uint32_t x) {
  return table.constant[part] + static_cast<int64_t>(table.linear[part]) * static_cast<int32_t>(x) +
         static_cast<int64_t>(table.quadratic[part]) * square_of(x);
}
/// Returns the 24 bits of a result between 1 and 2 for the 17 bits `x` of a part.
template <int Parts>
STAGECRAFT_INLINE uint32_t interpolate(const Coefficients<Parts>& table, int32_t part, uint32_t x) {
  return static_cast<uint32_t>(polynomial(table, part, x) >> kInterpolatedBits);
}

/// Returns value * 2^-`Point`, cut off to a float, for a value of 0 to 2^52.
template <int Point>
STAGECRAFT_INLINE float cut_to_float(int64_t value) {
  constexpr double kIntegers = 0x1p+52;  // whose last bits are the integer that was added
  const double wide = bits_as<double>(static_cast<uint64_t>(value) | bits_as<uint64_t>(kIntegers)) - kIntegers;
  const double cut = bits_as<double>(bits_as<uint64_t>(wide) & ~uint64_t{0x1fffffff});
  return static_cast<float>(cut * (1.0 / static_cast<double>(int64_t{1} << Point)));
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

/// Returns log2(x). Subnormal arguments are zero. Less than zero, the sum's 36 bits after the point are inverted, not
/// negated; near zero all of them show.
STAGECRAFT_INLINE float logarithm2(float x) {
  const uint32_t bits = bits_as<uint32_t>(x), mantissa = bits & kMantissa;
  const int64_t exponent = static_cast<int32_t>(bits >> 23) - 127;
  const int64_t sum = polynomial(kLogarithm, static_cast<int32_t>(mantissa >> 17), mantissa & 0x1ffffu);
  const int64_t value = exponent * (int64_t{1} << 36) + (sum >> 2);
  const int64_t sign = value >> 63;
  const float size = cut_to_float<36>(value ^ sign);
  float result = bits == kOneBits ? 0.0f : sign != 0 ? -size : size;
  result = (bits & 0x7fffffffu) < kLeading ? -__builtin_inff() : x == __builtin_inff() ? x : result;
  return (bits & 0x7fffffffu) < kLeading || x > 0 ? result : canonical_nan<float>();
}

/// Returns the sine, or the cosine if `Quarter` is 1. The argument is first converted to turns in single precision,
/// rounded toward zero, of which 25 bits after the point count; what is odd of four quarters is inverted, not negated.
template <int Quarter>
STAGECRAFT_INLINE float circular(float x) {
  const double product = static_cast<double>(x) * 0x1.45f306p-3;  // 1 / (2 pi); exact
  const double cut = bits_as<double>(bits_as<uint64_t>(product) & ~uint64_t{0x1fffffff});
  const auto turns = bits_as<uint32_t>(static_cast<float>(cut));
  const uint32_t significand = (turns & kMantissa) | kLeading;
  const int32_t right =
      125 - static_cast<int32_t>(turns >> 23 & 255u);  // brings the 25th bit after the point to the end
  const uint32_t phase =
      (right >= 0 ? significand >> (right < 31 ? right : 31) : significand << (right > -25 ? -right : 25)) +
      (static_cast<uint32_t>(Quarter) << 23);
  const uint32_t place = (phase ^ (0u - (phase >> 23 & 1u))) & kMantissa;
  const int64_t sum = polynomial(kSine, static_cast<int32_t>(place >> 17), place & 0x1ffffu);
  const uint32_t sign = (phase << 7 ^ (Quarter == 0 ? bits_as<uint32_t>(x) : 0u)) & 0x80000000u;
  const float result = with_sign(bits_as<uint32_t>(cut_to_float<38>(sum)), sign);
  return x - x == 0 ? result : canonical_nan<float>();
}

/// How the octaves from 2^-8 to 2^3 are cut for the tangent: 2^kTangentParts parts each, from kTangentFirst on.
inline constexpr int32_t kTangentParts[11] = {0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 3};
inline constexpr int32_t kTangentFirst[11] = {0, 1, 2, 3, 5, 7, 11, 15, 19, 27, 43};

/// Returns tanh(x), which is x itself below 2^-8 and 1 from 8 on.
STAGECRAFT_INLINE float hyperbolic_tangent(float x) {
  const uint32_t bits = bits_as<uint32_t>(x), magnitude = bits & 0x7fffffffu, mantissa = bits & kMantissa;
  const int32_t above = static_cast<int32_t>(magnitude >> 23) - (127 - 8);
  const int32_t octave = above < 0 ? 0 : above > 10 ? 10 : above;
  const int32_t parts = kTangentParts[octave];
  const int32_t part = kTangentFirst[octave] + static_cast<int32_t>(mantissa >> (23 - parts));
  const int64_t sum = polynomial(kTangent, part, mantissa >> (6 - parts) & 0x1ffffu);
  const uint32_t value = bits_as<uint32_t>(cut_to_float<39>(sum));
  const uint32_t result = above < 0 ? magnitude : above > 10 ? kOneBits : value;
  return x == x ? with_sign(result, bits & 0x80000000u) : canonical_nan<float>();
}

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
