// Stochastic rounding (cvt.rs). Compiled once per x86-64 level.
//
// Random bits are added to the bits of the significand that the result does not keep, and the carry rounds up (PTX ISA,
// "cvt", rounding modifiers). The PTX ISA's layouts of rbits say which random bits an input has. For four results from
// one word we follow what others measured on B200s: each input has 16 of them, added to the upper 16 bits that are
// dropped, even below the least normal number, and two inputs share 16 bits, which the first of them reads backwards.
// Their programs are FlashInfer (include/flashinfer/mamba/conversion.cuh, e4m3, over 22528 inputs) and a probe for
// e4m3x4, e5m2x4, e2m1x4 and bf16x2. Unconfirmed: that the 6-bit formats work like the 8-bit ones, for which PTX has
// one layout; that below 2^-14 too f16 adds its 13 bits to the upper dropped bits; that f16 and bf16 beyond the range
// become infinity, and that a NaN becomes the one of .rn.
#include "emulator/instructions/alu/lane_loops.hpp"
#include "emulator/instructions/alu/narrow_formats.hpp"
#include "emulator/instructions/alu/numerics.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

/// Returns the magnitude of a finite number in a format with this many fraction bits and this bias, not limited to its
/// range. `random` has `RandomBits` bits.
template <uint32_t FractionBits, uint32_t Bias, uint32_t RandomBits>
STAGECRAFT_INLINE uint32_t round_randomly(uint32_t magnitude, uint32_t random) {
  constexpr uint32_t kDropped = 23 - FractionBits, kRebias = 127 - Bias;
  static_assert(kDropped >= RandomBits);
  const uint32_t rebased = magnitude - (kRebias << 23);
  const uint32_t normal = ((rebased >> (kDropped - RandomBits)) + random) >> RandomBits;
  // Subnormal: the significand in units of the least number. Bits to which no random bit is added cannot carry; when
  // the significand has no bits above them, there is no carry at all.
  const uint32_t exponent = magnitude >> 23;
  const uint32_t significand = (magnitude & 0x007fffffu) | 0x00800000u;
  const uint32_t distance = kDropped + kRebias + 1 - RandomBits - exponent;
  const uint32_t cut = (distance < 24u ? distance : 24u) & 31u;
  const uint32_t subnormal = ((significand >> cut) + random) >> RandomBits;
  return exponent <= kRebias ? subnormal : normal;
}

template <typename Format>
STAGECRAFT_INLINE uint32_t encode(float value, uint32_t random) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t code = round_randomly<Format::kFractionBits, Format::kBias, 16>(magnitude, random);
  code = code > Format::kMost || magnitude >= 0x7f800000u ? Format::kMost : code;
  code |= bits >> 31 != 0 ? Format::kSignBit : 0;
  return magnitude > 0x7f800000u ? Format::kNan : code;
}

STAGECRAFT_INLINE uint32_t reversed16(uint32_t bits) {
  bits = (bits >> 1 & 0x5555u) | (bits & 0x5555u) << 1;
  bits = (bits >> 2 & 0x3333u) | (bits & 0x3333u) << 2;
  bits = (bits >> 4 & 0x0f0fu) | (bits & 0x0f0fu) << 4;
  return (bits >> 8 & 0x00ffu) | (bits & 0x00ffu) << 8;
}

/// Makes two of four results, in their half of the destination: the upper one if `Immediate` is 1.
template <typename Format, typename Destination>
struct StochasticPair {
  static Destination apply(float a, float b, uint32_t random, Immediate upper) {
    constexpr bool kNibbles = Format::kSignBit == 8;
    const auto half = static_cast<uint32_t>(upper.value & 1u);
    // For 4-bit results the upper pair uses the odd bytes of the word and the lower pair the even ones.
    const uint32_t bytes = random >> (8 * half);
    const uint32_t share = kNibbles ? (bytes >> 8 & 0xff00u) | (bytes & 0x00ffu) : random >> (16 * half) & 0xffffu;
    const uint32_t pair = encode<Format>(a, reversed16(share)) << (kNibbles ? 4 : 8) | encode<Format>(b, share);
    return static_cast<Destination>(pair << ((kNibbles ? 8 : 16) * half));
  }
};

STAGECRAFT_INLINE uint32_t f16_randomly(float value, uint32_t random) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t code = round_randomly<10, 15, 13>(magnitude, random & 0x1fffu);
  code = code > 0x7c00u || magnitude >= 0x7f800000u ? 0x7c00u : code;
  return magnitude > 0x7f800000u ? kNan16 : code | (bits >> 16 & 0x8000u);
}
STAGECRAFT_INLINE uint32_t bf16_randomly(float value, uint32_t random) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t code = (magnitude == 0x7f800000u ? magnitude : magnitude + (random & 0xffffu)) >> 16;
  return magnitude > 0x7f800000u ? kNan16 : code | (bits >> 16 & 0x8000u);
}
struct StochasticF16 {
  static uint32_t apply(float a, float b, uint32_t random) {
    return f16_randomly(a, random >> 16) << 16 | f16_randomly(b, random);
  }
};
struct StochasticBf16 {
  static uint32_t apply(float a, float b, uint32_t random) {
    return bf16_randomly(a, random >> 16) << 16 | bf16_randomly(b, random);
  }
};

template <typename Format, typename Destination>
void put_pair(Catalog& catalog, NarrowFormat format) {
  catalog.put(Operation::stochastic_pair, Type::f32, static_cast<uint16_t>(format),
              lane_handlers<StochasticPair<Format, Destination>>());
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_stochastic(Catalog& catalog) {
  put_pair<E4m3, uint32_t>(catalog, NarrowFormat::e4m3);
  put_pair<E5m2, uint32_t>(catalog, NarrowFormat::e5m2);
  put_pair<E2m3, uint32_t>(catalog, NarrowFormat::e2m3);
  put_pair<E3m2, uint32_t>(catalog, NarrowFormat::e3m2);
  put_pair<E2m1, uint16_t>(catalog, NarrowFormat::e2m1);
  catalog.put(Operation::stochastic_halves, Type::f16x2, 0, lane_handlers<StochasticF16>());
  catalog.put(Operation::stochastic_halves, Type::bf16x2, 0, lane_handlers<StochasticBf16>());
}

}  // namespace stagecraft::emulator::machine::alu
