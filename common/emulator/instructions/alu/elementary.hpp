// The functions that the chip approximates in a way that is not known bit by bit, computed in double precision: lg2,
// sin, cos and tanh. The others are in interpolation.hpp. This header is for the vector files only.
//
// The PTX ISA bounds the chip's own errors (2^-22 for lg2, 2^-20.5 for sin and cos on [-2pi, 2pi], 2^-11 for tanh). The
// results here have errors below 2^-40 before they are rounded, and so are within every bound.
#pragma once

#include "emulator/instructions/alu/numerics.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

/// Adding this to a double of at most 2^50 rounds it to an integer, which is then in the low bits.
inline constexpr double kRoundingShift = 0x1.8p+52;

/// Returns 2^x for x clamped to [-1000, 1000]; for NaN, some number.
STAGECRAFT_INLINE double power_of_two(double x) {
  x = x < 1000.0 ? x : 1000.0;
  x = x > -1000.0 ? x : -1000.0;
  const double shifted = x + kRoundingShift;
  const double t = (x - (shifted - kRoundingShift)) * 0x1.62e42fefa39efp-1;  // ln 2
  const double p =
      1.0 +
      t * (1.0 +
           t * (1.0 / 2 +
                t * (1.0 / 6 +
                     t * (1.0 / 24 +
                          t * (1.0 / 120 +
                               t * (1.0 / 720 + t * (1.0 / 5040 + t * (1.0 / 40320 +
                                                                       t * (1.0 / 362880 + t * (1.0 / 3628800))))))))));
  const uint64_t exponent = bits_as<uint64_t>(shifted) << 52;
  return bits_as<double>(bits_as<uint64_t>(p) + exponent);
}

STAGECRAFT_INLINE float logarithm2(float x) {
  const double wide = x;  // a subnormal float is a normal double
  const uint64_t bits = bits_as<uint64_t>(wide);
  // Subtracting the pattern of sqrt(1/2) puts the significand into [sqrt(1/2), sqrt(2)).
  const uint64_t moved = bits - 0x3fe6a09e667f3bcdu;
  const auto exponent = static_cast<double>(static_cast<int32_t>(static_cast<int64_t>(moved) >> 52));
  const double m = bits_as<double>((moved & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  const double series =
      s *
      (2.0 + z * (2.0 / 3 +
                  z * (2.0 / 5 + z * (2.0 / 7 + z * (2.0 / 9 + z * (2.0 / 11 + z * (2.0 / 13 + z * (2.0 / 15))))))));
  auto result = static_cast<float>(exponent + series * 0x1.71547652b82fep+0);  // 1 / ln 2
  result = x == 0 ? -__builtin_inff() : result;
  result = x == __builtin_inff() ? x : result;
  return x >= 0 ? result : canonical_nan<float>();
}

STAGECRAFT_INLINE float hyperbolic_tangent(float x) {
  const double wide = x;
  const double clamped = wide > 20.0 ? 20.0 : wide < -20.0 ? -20.0 : wide;
  const double power = power_of_two(clamped * (2 * 0x1.71547652b82fep+0));
  const double z = wide * wide;
  const double large = 1.0 - 2.0 / (power + 1.0);
  const double small = wide * (1.0 + z * (-1.0 / 3 + z * (2.0 / 15)));
  const bool is_small = z < 1e-4;
  const auto result = static_cast<float>(is_small ? small : large);
  return x == x ? result : canonical_nan<float>();
}

/// Returns the sine, or the cosine if `Quarter` is 1. As on the chip, the argument is first converted to turns in
/// single precision, rounded toward zero (measured on an H200). This rounding is the error of large arguments.
template <int Quarter>
STAGECRAFT_INLINE float circular(float x) {
  const double product = static_cast<double>(x) * 0x1.45f306p-3;  // 1 / (2 pi); exact
  const double turns = bits_as<double>(bits_as<uint64_t>(product) & ~uint64_t{0x1fffffff});
  // From 2^23 on there are whole turns only; NaN and infinities are handled at the end.
  const double size = turns < 0 ? -turns : turns;
  const double quarters = size < 0x1p+23 ? 4.0 * turns : 0.0;
  const double shifted = quarters + kRoundingShift;
  const double r = (quarters - (shifted - kRoundingShift)) * 1.57079632679489661923;
  const uint64_t quadrant = bits_as<uint64_t>(shifted) + Quarter;
  const double z = r * r;
  const double sine =
      r * (1.0 + z * (-1.0 / 6 +
                      z * (1.0 / 120 +
                           z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800 + z * (1.0 / 6227020800.0)))))));
  const double cosine =
      1.0 + z * (-1.0 / 2 + z * (1.0 / 24 + z * (-1.0 / 720 +
                                                 z * (1.0 / 40320 + z * (-1.0 / 3628800 + z * (1.0 / 479001600.0))))));
  // Select with bit operations, which every level has for vectors.
  const uint64_t odd = 0 - (quadrant & 1u);
  const uint64_t value = (bits_as<uint64_t>(cosine) & odd) | (bits_as<uint64_t>(sine) & ~odd);
  const auto result = static_cast<float>(bits_as<double>(value ^ (quadrant & 2u) << 62));
  return x - x == 0 ? result : canonical_nan<float>();
}

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
