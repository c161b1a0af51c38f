// The values of narrow number formats: 16-bit floats, and the element types of matrix operands.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace stagecraft::emulator::machine {

enum class ElementFormat : uint8_t {
  f16,
  bf16,
  tf32,         ///< a 32-bit cell whose low 13 bits are ignored
  e4m3,         ///< 448 is the largest; 0x7f and 0xff are not numbers, there is no infinity
  e5m2,         ///< infinity and not-a-number as in f16
  e2m3,         ///< in the low 6 bits of a byte
  e3m2,         ///< in the low 6 bits of a byte
  e2m1,         ///< in bits 5:2 of a byte
  e2m1_packed,  ///< two in a byte, the first in the low half
  u8,
  s8,
  u4,  ///< two in a byte, the first in the low half
  s4,
};

constexpr uint32_t bits_of(ElementFormat format) {
  switch (format) {
    case ElementFormat::f16:
    case ElementFormat::bf16: return 16;
    case ElementFormat::tf32: return 32;
    case ElementFormat::e2m1_packed:
    case ElementFormat::u4:
    case ElementFormat::s4: return 4;
    default: return 8;
  }
}

/// Value of a float with a sign bit above `exponent_bits` and `mantissa_bits`, without codes for infinity and
/// not-a-number; exact. Source: PTX ISA, "Alternate floating-point formats".
constexpr float minifloat(uint32_t code, uint32_t exponent_bits, uint32_t mantissa_bits, int bias) {
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = code >> mantissa_bits & ((1u << exponent_bits) - 1);
  const bool negative = (code >> (mantissa_bits + exponent_bits) & 1) != 0;
  // 2^power by the exponent field of a float: |power| stays far below 126 for all formats here.
  const int power = (exponent == 0 ? 1 : static_cast<int>(exponent)) - bias - static_cast<int>(mantissa_bits);
  const float scale = std::bit_cast<float>(static_cast<uint32_t>(power + 127) << 23);
  const float magnitude = static_cast<float>(exponent == 0 ? mantissa : mantissa + (1u << mantissa_bits)) * scale;
  return negative ? -magnitude : magnitude;
}

constexpr float kNotANumber = std::bit_cast<float>(0x7fc00000u);
constexpr float kInfinity = std::bit_cast<float>(0x7f800000u);

constexpr float from_e4m3(uint32_t code) { return (code & 0x7f) == 0x7f ? kNotANumber : minifloat(code, 4, 3, 7); }
constexpr float from_e5m2(uint32_t code) {
  if ((code & 0x7c) != 0x7c) return minifloat(code, 5, 2, 15);
  return (code & 3) != 0 ? kNotANumber : (code & 0x80) != 0 ? -kInfinity : kInfinity;
}
constexpr float from_e2m3(uint32_t code) { return minifloat(code, 2, 3, 1); }
constexpr float from_e3m2(uint32_t code) { return minifloat(code, 3, 2, 3); }
constexpr float from_e2m1(uint32_t code) { return minifloat(code, 2, 1, 1); }
/// A scale factor: a power of two, 2^-127 for 0.
constexpr float from_ue8m0(uint32_t code) {
  if (code == 0xff) return kNotANumber;
  return std::bit_cast<float>(code == 0 ? 0x00400000u : code << 23);
}
/// A scale factor: e4m3 without its sign.
constexpr float from_ue4m3(uint32_t code) { return from_e4m3(code & 0x7f); }

constexpr float from_f16(uint32_t code) {
  if ((code & 0x7c00) != 0x7c00) return minifloat(code, 5, 10, 15);
  return (code & 0x3ff) != 0 ? kNotANumber : (code & 0x8000) != 0 ? -kInfinity : kInfinity;
}
constexpr float from_bf16(uint32_t code) { return std::bit_cast<float>(code << 16); }

/// Rounds to the nearest f16, ties to even; too large becomes infinity.
constexpr uint16_t to_f16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7fff);
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // 65520 and above
  // Bits of the float's mantissa below the last one of the result; more of them when that is subnormal.
  const uint32_t exponent = magnitude >> 23;
  if (exponent < 102) return static_cast<uint16_t>(sign);  // below 2^-25, half of the smallest subnormal
  const bool subnormal = exponent < 113;
  const uint32_t dropped = subnormal ? 126 - exponent : 13;
  const uint32_t mantissa = subnormal ? ((magnitude & 0x7fffff) | 0x800000) : magnitude - (112u << 23);
  uint32_t result = mantissa >> dropped;
  const uint32_t rest = mantissa & ((1u << dropped) - 1);
  const uint32_t half = 1u << (dropped - 1);
  if (rest > half || (rest == half && (result & 1) != 0)) ++result;
  return static_cast<uint16_t>(sign | result);
}

/// Rounds to the nearest bf16, ties to even.
constexpr uint16_t to_bf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16 & 0x8000) | 0x7fff);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// The value of each byte in the formats of 8 bits and fewer; in the packed ones of 4 bits, that of its lower half.
const std::array<float, 256>& values_of(ElementFormat format);

/// Expands 16 elements of 4 or 6 bits, packed from the low bit up, to the byte containers that kind::f8f6f4 uses: 6
/// bits in the low bits of the byte; 4 bits in its middle, as documented for mma.sync of the same kinds.
void unpack_chunk(ElementFormat format, const uint8_t* packed, uint8_t* containers);

}  // namespace stagecraft::emulator::machine
