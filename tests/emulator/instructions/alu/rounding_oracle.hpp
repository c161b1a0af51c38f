// Rounds a number to any small floating-point format by the definition; slow, but the reference of the tests.
#pragma once

#include <cmath>
#include <cstdint>

#include "emulator/instructions/alu/handlers.hpp"

namespace stagecraft::emulator::machine::alu {

struct FloatFormat {
  int exponent_bits, fraction_bits, bias;
  uint32_t infinity;  ///< code of infinity; 0 for formats without
  uint32_t largest;   ///< code of the largest finite magnitude
  uint32_t nan;
};
inline constexpr FloatFormat kF16{5, 10, 15, 0x7c00, 0x7bff, 0x7fff};
inline constexpr FloatFormat kBf16{8, 7, 127, 0x7f80, 0x7f7f, 0x7fff};

/// Returns the value of a code without sign or specials.
inline long double value_of(const FloatFormat& format, uint32_t code) {
  const uint32_t fraction = code & ((1u << format.fraction_bits) - 1);
  const uint32_t exponent = code >> format.fraction_bits & ((1u << format.exponent_bits) - 1);
  const int scale = static_cast<int>(exponent == 0 ? 1 : exponent) - format.bias - format.fraction_bits;
  return ldexpl(fraction + (exponent == 0 ? 0u : 1u << format.fraction_bits), scale);
}
inline long double value_of_half(const FloatFormat& format, uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  long double value = magnitude > format.infinity    ? static_cast<long double>(NAN)
                      : magnitude == format.infinity ? static_cast<long double>(INFINITY)
                                                     : value_of(format, magnitude);
  return (bits & 0x8000u) != 0 ? -value : value;
}

/// Returns the code, with its sign above the exponent, of `value` plus a tiny `error`, of which only the sign matters.
/// Overflow becomes infinity or the largest number, depending on the mode; formats without infinity saturate.
inline uint32_t round_to(const FloatFormat& format, long double value, RoundingMode mode = RoundingMode::nearest,
                         long double error = 0) {
  if (std::isnan(value)) return format.nan;
  const bool negative = std::signbit(value);
  const uint32_t sign = negative ? 1u << (format.exponent_bits + format.fraction_bits) : 0;
  if (negative) {
    value = -value;
    error = -error;
  }
  if (std::isinf(value)) return (format.infinity != 0 ? format.infinity : format.largest) | sign;
  if (value == 0 && error == 0) return sign;
  const int least = 1 - format.bias;
  const int exponent = value == 0 ? least : std::max(std::ilogb(value), least);
  const long double scaled = ldexpl(value, format.fraction_bits - exponent);
  long double whole = floorl(scaled);
  long double rest = scaled - whole;
  if (rest == 0 && error < 0) {
    whole -= 1;
    rest = 0.75L;
    error = 0;
  }
  bool up = false;
  const bool inexact = rest != 0 || error != 0;
  switch (mode) {
    case RoundingMode::nearest:
      up = rest > 0.5L || (rest == 0.5L && (error > 0 || (error == 0 && fmodl(whole, 2) == 1)));
      break;
    case RoundingMode::up: up = inexact && !negative; break;
    case RoundingMode::down: up = inexact && negative; break;
    case RoundingMode::zero: break;
  }
  const auto digits = static_cast<uint64_t>(whole) + (up ? 1 : 0);
  const uint64_t hidden = uint64_t{1} << format.fraction_bits;
  const uint64_t code = exponent == least && digits < hidden
                            ? digits
                            : (static_cast<uint64_t>(exponent - least + 1) << format.fraction_bits) + digits - hidden;
  if (code <= format.largest) return static_cast<uint32_t>(code) | sign;
  const bool away = mode == RoundingMode::nearest || (mode == RoundingMode::up && !negative) ||
                    (mode == RoundingMode::down && negative);
  return (away && format.infinity != 0 ? format.infinity : format.largest) | sign;
}

}  // namespace stagecraft::emulator::machine::alu
