// Floating-point formats on bits: NaN, flushing, and conversions between binary64, binary32 and the 16-bit formats.
// This header is for the vector files only; it is branch-free, so that loops over lanes become vector code.
#pragma once

#include "emulator/instructions/alu/lane_loops.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

inline constexpr uint32_t kNan32 = 0x7fffffffu;
inline constexpr uint64_t kNan64 = 0x7ff8000000000000u;
inline constexpr uint16_t kNan16 = 0x7fffu;  ///< of f16 and of bf16

template <typename T>
STAGECRAFT_INLINE T canonical_nan();
template <>
STAGECRAFT_INLINE float canonical_nan<float>() {
  return bits_as<float>(kNan32);
}
template <>
STAGECRAFT_INLINE double canonical_nan<double>() {
  return bits_as<double>(kNan64);
}

/// Returns the NaN that a result is: single precision has only 0x7fffffff, double precision keeps payloads (PTX ISA,
/// "Floating-Point Instructions").
STAGECRAFT_INLINE float canonical(float value) { return value == value ? value : canonical_nan<float>(); }
STAGECRAFT_INLINE double canonical(double value) { return value; }

/// Returns the NaN of a double-precision result whose operands are NaN: `first`, or otherwise `second`, quieted;
/// `value` when neither is NaN. It is explicit because otherwise the compiler's order of operands decides. The handlers
/// pass the order of an H200 (tests/conformance/expected). Single precision has only one NaN.
STAGECRAFT_INLINE float carried(float value, float, float) { return value; }
STAGECRAFT_INLINE double carried(double value, double first, double second) {
  constexpr uint64_t kQuiet = 0x0008000000000000u;
  const double nan = first != first ? first : second;
  return nan != nan ? bits_as<double>(bits_as<uint64_t>(nan) | kQuiet) : value;
}

/// Makes a subnormal a zero of the same sign.
STAGECRAFT_INLINE float flush(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  return bits_as<float>((bits & 0x7fffffffu) < 0x00800000u ? bits & 0x80000000u : bits);
}
template <bool Flush>
STAGECRAFT_INLINE float flushed(float value) {
  return Flush ? flush(value) : value;
}
template <bool Flush>
STAGECRAFT_INLINE double flushed(double value) {
  return value;
}

/// Does what .sat does: clamps to [0, 1], and NaN to +0.
template <typename T>
STAGECRAFT_INLINE T saturated(T value) {
  const T positive = value > T{0} ? value : T{0};
  return positive < T{1} ? positive : T{1};
}

// 16-bit floats: numerics/narrow_floats.hpp has these conversions for single values. Here they have no branches and
// every rounding mode, and they are inlined into loops that are compiled for each level of the processor, which may
// call no function that other files share (host/isa_level.hpp).
STAGECRAFT_INLINE float float_from_bf16(uint16_t bits) { return bits_as<float>(static_cast<uint32_t>(bits) << 16); }

/// Converts exactly. A multiplication adjusts the exponent, which makes subnormals right too.
STAGECRAFT_INLINE float float_from_f16(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  const uint32_t finite = bits_as<uint32_t>(bits_as<float>(magnitude) * 0x1p+112f);
  const uint32_t special = magnitude | 0x7f800000u;
  const uint32_t result = magnitude >= (0x7c00u << 13) ? special : finite;
  return bits_as<float>(result | static_cast<uint32_t>(bits & 0x8000u) << 16);
}

/// Returns what rounding adds to the `dropped` bits that are not kept, given the last bit kept and the sign. Adding it
/// and truncating yields the rounded magnitude; a carry moves into the exponent as it should.
template <RoundingMode Mode, typename U>
STAGECRAFT_INLINE U rounding_increment(U magnitude, uint32_t dropped, bool negative) {
  const U ones = static_cast<U>((U{1} << dropped) - 1);
  if constexpr (Mode == RoundingMode::nearest) return (ones >> 1) + (magnitude >> dropped & 1);
  if constexpr (Mode == RoundingMode::up) return negative ? U{0} : ones;
  if constexpr (Mode == RoundingMode::down) return negative ? ones : U{0};
  return 0;
}

/// Converts to bfloat16: the upper half of the float, rounded. NaN becomes 0x7fff.
template <RoundingMode Mode = RoundingMode::nearest>
STAGECRAFT_INLINE uint16_t bf16_from_float(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t sign = bits >> 16 & 0x8000u;
  const uint32_t rounded = (magnitude + rounding_increment<Mode>(magnitude, 16, sign != 0)) >> 16;
  // Rounding toward zero stops at the largest bfloat16; infinity stays infinity in every mode.
  const uint32_t finite = magnitude == 0x7f800000u ? 0x7f80u : rounded;
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? kNan16 : finite | sign);
}

/// Converts to binary16. NaN becomes 0x7fff.
template <RoundingMode Mode = RoundingMode::nearest>
STAGECRAFT_INLINE uint16_t f16_from_float(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const bool negative = bits >> 31 != 0;
  // Normal numbers: rebias the exponent by 127 - 15, drop 13 bits.
  const uint32_t rebased = magnitude - (112u << 23);
  const uint32_t normal = (rebased + rounding_increment<Mode>(rebased, 13, negative)) >> 13;
  // Below 2^-14: the significand in units of 2^-24. An exponent field of 113 - k drops 13 + k bits; from 26 on only a
  // sticky bit is left, and shifting by at most 26 keeps it below half a unit.
  const uint32_t exponent = magnitude >> 23;
  const uint32_t significand = exponent == 0 ? magnitude & 0x007fffffu : (magnitude & 0x007fffffu) | 0x00800000u;
  const uint32_t distance = 126u - (exponent == 0 ? 1u : exponent);
  const uint32_t drop = (distance < 26u ? distance : 26u) & 31u;
  const uint32_t subnormal = (significand + rounding_increment<Mode>(significand, drop, negative)) >> drop;
  uint32_t result = magnitude < (113u << 23) ? subnormal : normal;
  // 65520 and more: infinity, or the largest finite number in modes that round toward zero from here.
  constexpr bool kNearest = Mode == RoundingMode::nearest;
  const bool away = kNearest || (Mode == RoundingMode::up && !negative) || (Mode == RoundingMode::down && negative);
  const uint32_t overflow = away ? 0x7c00u : 0x7bffu;
  result = magnitude >= (143u << 23) ? overflow : result;
  result = magnitude == 0x7f800000u ? 0x7c00u : result;
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? kNan16 : result | (negative ? 0x8000u : 0u));
}

/// Rounds a double to odd: an inexact result becomes the neighbouring float with an odd last bit. Rounding that again
/// to 22 bits or fewer has the same result as rounding the double once.
STAGECRAFT_INLINE float odd_float(double value) {
  const float nearest = static_cast<float>(value);
  const uint32_t bits = bits_as<uint32_t>(nearest);
  const auto back = static_cast<double>(nearest);
  const bool too_small = (back < 0 ? -back : back) < (value < 0 ? -value : value);
  const bool infinite = (bits & 0x7fffffffu) == 0x7f800000u;
  const bool exact = back == value || value != value;
  // A value that rounds to zero becomes the least subnormal of its sign, which is odd.
  const uint32_t odd = (bits & 1u) != 0 ? bits : too_small ? bits + 1 : bits - 1;
  const bool overflowed = infinite && !exact;
  return bits_as<float>(exact ? bits : overflowed ? (bits & 0x80000000u) | 0x7f7fffffu : odd);
}

/// Makes the last bit of a rounded sum odd when the sum was inexact; `error` is what rounding lost.
STAGECRAFT_INLINE float made_odd(float sum, float error) {
  const uint32_t bits = bits_as<uint32_t>(sum);
  const bool outward = (error > 0) == (sum > 0);
  const uint32_t odd = (bits & 1u) != 0 ? bits : outward ? bits + 1 : bits - 1;
  return bits_as<float>(error != 0 && error == error ? odd : bits);
}
STAGECRAFT_INLINE double made_odd(double sum, double error) {
  const uint64_t bits = bits_as<uint64_t>(sum);
  const bool outward = (error > 0) == (sum > 0);
  const uint64_t odd = (bits & 1u) != 0 ? bits : outward ? bits + 1 : bits - 1;
  return bits_as<double>(error != 0 && error == error ? odd : bits);
}

/// Returns a + b rounded to odd, by Knuth's exact error of a sum. For infinite operands the error is NaN and has no
/// effect.
template <typename T>
STAGECRAFT_INLINE T odd_sum(T a, T b) {
  const T sum = a + b;
  const T part = sum - a;
  const T error = (a - (sum - part)) + (b - part);
  return made_odd(sum, error);
}

/// Returns a * b + c, rounded once, to nearest.
STAGECRAFT_INLINE float fused(float a, float b, float c) {
#if defined(__FMA__) || !defined(__x86_64__)
  return __builtin_fmaf(a, b, c);
#else
  // The product is exact in double; the sum, rounded to odd there, can be rounded again.
  return static_cast<float>(odd_sum(static_cast<double>(a) * static_cast<double>(b), static_cast<double>(c)));
#endif
}
STAGECRAFT_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
