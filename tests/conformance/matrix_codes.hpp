// Codes of matrix elements for the programs about MMAs: small integers, whose products and sums are exact in every
// accumulator, so that no order of additions matters; and numbers of all sizes, for which the width of the adder, its
// rounding and its treatment of special values matter.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/random.hpp"

namespace stagecraft::conformance {

/// How the numbers of a matrix are drawn.
enum class Draw {
  integers,    ///< from -4 to 4; random bits for integer types
  units,       ///< from 1 to 2
  near,        ///< exponents within 4 of 1's
  wide,        ///< exponents such that products are within the range of f32
  full,        ///< all finite codes
  tiny,        ///< mostly subnormal, or next to it; the others are among the largest
  sparse,      ///< three of four are zeros, of both signs
  cancelling,  ///< products in pairs whose sum is small or zero
  special,     ///< some are infinite, not-a-number, zero or the largest
};

/// The draws whose sums are rounded, with their names in a report.
inline constexpr std::array<std::pair<Draw, const char*>, 8> kRounded{{{Draw::units, "from 1 to 2"},
                                                                       {Draw::near, "near 1"},
                                                                       {Draw::wide, "wide"},
                                                                       {Draw::full, "all finite"},
                                                                       {Draw::tiny, "tiny"},
                                                                       {Draw::sparse, "sparse"},
                                                                       {Draw::cancelling, "cancelling"},
                                                                       {Draw::special, "special"}}};

/// A float with a sign bit, as the codes of its fields.
struct FloatCodes {
  uint32_t exponent_bits, mantissa_bits;
  bool has_infinity =
      true;  ///< the largest exponent is that of infinity and not-a-number; otherwise one code is the latter

  uint32_t largest_exponent() const { return (1u << exponent_bits) - (has_infinity ? 2 : 1); }
  uint32_t bias() const { return (1u << (exponent_bits - 1)) - 1; }
  uint32_t not_a_number() const { return (1u << (exponent_bits + mantissa_bits)) - 1; }
  uint32_t infinity() const { return has_infinity ? (largest_exponent() + 1) << mantissa_bits : not_a_number(); }
  uint32_t largest() const { return infinity() - 1; }

  /// A code with an exponent field in [first, last], as far as there are such.
  uint32_t between(harness::Random& random, int first, int last) const {
    const auto bits_given = random.bits();
    if (first < 0) first = 0;
    if (last > static_cast<int>(largest_exponent())) last = static_cast<int>(largest_exponent());
    const uint32_t exponent = static_cast<uint32_t>(first) +
                              static_cast<uint32_t>(bits_given >> 40) % static_cast<uint32_t>(last - first + 1);
    const uint32_t mantissa = static_cast<uint32_t>(bits_given) & ((1u << mantissa_bits) - 1);
    const uint32_t magnitude = exponent << mantissa_bits | mantissa;
    const uint32_t sign = static_cast<uint32_t>(bits_given >> 63) << (exponent_bits + mantissa_bits);
    return sign | (magnitude == not_a_number() ? magnitude - 1 : magnitude);
  }

  /// An element; `spread` is how far exponents of `wide` may be from 1's.
  uint32_t draw(harness::Random& random, Draw how, int spread) const {
    const int one = static_cast<int>(bias()), most = static_cast<int>(largest_exponent());
    const auto choice = static_cast<uint32_t>(random.bits() >> 32);
    switch (how) {
      case Draw::units: return between(random, one, one) & ~(1u << (exponent_bits + mantissa_bits));
      case Draw::wide: return between(random, one - spread, one + spread);
      case Draw::full: return between(random, 0, most);
      case Draw::tiny: return choice % 4 != 0 ? between(random, 0, 2) : between(random, most - 2, most);
      case Draw::sparse:
        if (choice % 4 == 0) return between(random, one - spread, one + spread);
        return (choice >> 8 & 1) << (exponent_bits + mantissa_bits);
      case Draw::special: {
        if (choice % 64 != 0) break;
        const uint32_t codes[] = {infinity(), not_a_number(), largest(), 0, infinity(), 1, infinity() + 1};
        return codes[(choice >> 8) % 7] | (choice >> 16 & 1) << (exponent_bits + mantissa_bits);
      }
      default: break;
    }
    return between(random, one - 4, one + 4);
  }
};

/// An element type by its PTX name, as codes of `bits` bits. f64 is not among them.
struct ElementCodes {
  std::string type;
  int bits = 16;

  /// The code of an integer from -4 to 4; of random bits for integer types and single bits.
  uint32_t small(harness::Random& random) const {
    const auto bits_given = static_cast<uint32_t>(random.bits());
    if (type[0] == 's' || type[0] == 'u' || type == "b1") return bits_given & ((1u << bits) - 1);
    const uint32_t magnitude = bits_given % 5, sign = bits_given / 5 & 1;
    static constexpr uint32_t kF16[] = {0, 0x3c00, 0x4000, 0x4200, 0x4400},
                              kBf16[] = {0, 0x3f80, 0x4000, 0x4040, 0x4080}, kE4m3[] = {0, 0x38, 0x40, 0x44, 0x48},
                              kE5m2[] = {0, 0x3c, 0x40, 0x42, 0x44};
    if (type == "f16") return kF16[magnitude] | sign << 15;
    if (type == "bf16") return kBf16[magnitude] | sign << 15;
    if (type == "tf32") return kBf16[magnitude] << 16 | sign << 31;
    return (type == "e4m3" ? kE4m3 : kE5m2)[magnitude] | sign << 7;
  }
  /// The code of a random number from 1 to 2.
  uint32_t unit(harness::Random& random) const {
    const auto bits_given = static_cast<uint32_t>(random.bits());
    if (type == "f16") return 0x3c00 | (bits_given & 0x3ff);
    if (type == "bf16") return 0x3f80 | (bits_given & 0x7f);
    if (type == "tf32") return 0x3f800000 | (bits_given & 0x7fe000);
    return type == "e4m3" ? 0x38 | (bits_given & 7) : 0x3c | (bits_given & 3);
  }

  FloatCodes fields() const {
    if (type == "f16") return {5, 10};
    if (type == "bf16") return {8, 7};
    if (type == "tf32") return {8, 23};  // of which the instruction takes the upper 10
    return type == "e4m3" ? FloatCodes{4, 3, false} : FloatCodes{5, 2};
  }
  /// How far from 1's the exponents of `wide` may be.
  int spread() const { return type == "bf16" || type == "tf32" ? 60 : 15; }

  /// `count` words full of codes. With `cancelling`, the second of two neighbours is the first or, in a matrix that is
  /// `negated`, nearly its negative: so are the neighbours' products, because neighbours are adjacent along K.
  std::vector<uint32_t> words(harness::Random& random, size_t count, Draw how, bool negated = false) const {
    std::vector<uint32_t> all(count);
    for (uint32_t& word : all) {
      uint32_t code = 0;
      for (int bit = 0; bit < 32; bit += bits) {
        if (how == Draw::cancelling && bit / bits % 2 == 1) {
          if (negated) code ^= 1u << (bits - 1) | (static_cast<uint32_t>(random.bits() >> 62) == 0 ? 1u : 0u);
        } else {
          code = how == Draw::integers ? small(random)
                 : how == Draw::units  ? unit(random)
                                       : fields().draw(random, how, spread());
        }
        word |= code << bit;
      }
    }
    return all;
  }
};

inline ElementCodes codes_of(const std::string& type) {
  const int bits = type == "tf32"                    ? 32
                   : type == "f16" || type == "bf16" ? 16
                   : type == "s4" || type == "u4"    ? 4
                   : type == "b1"                    ? 1
                                                     : 8;
  return {type, bits};
}

/// Words of an accumulator, for operands of type `element`: integers from -64 to 64, or any for s32; or numbers of the
/// size of the products.
inline std::vector<uint32_t> accumulator_words(const std::string& type, harness::Random& random, size_t count, Draw how,
                                               const std::string& element = "f16") {
  const auto drawn = [&](const FloatCodes& fields) {
    const auto choice = static_cast<uint32_t>(random.bits() >> 32);
    const int one = static_cast<int>(fields.bias());
    const int spread = element == "bf16" || element == "tf32" ? 125 : 45;
    if (how == Draw::special && choice % 8 == 0) return fields.draw(random, Draw::sparse, spread);
    if (how == Draw::special && choice % 8 == 1) {
      const uint32_t codes[] = {fields.infinity(), fields.not_a_number(), fields.largest(), fields.infinity() + 1};
      return codes[(choice >> 8) % 4] | (choice >> 16 & 1) << (fields.exponent_bits + fields.mantissa_bits);
    }
    // The size of what is left when products cancel.
    if (how == Draw::cancelling) return fields.between(random, one - 24, one + 4);
    return fields.draw(random, how, spread);
  };
  std::vector<uint32_t> all(count);
  for (uint32_t& word : all) {
    if (type == "s32") {
      // Often close to where sums overflow.
      const auto bits = static_cast<uint32_t>(random.bits());
      word = bits % 2 == 0 ? static_cast<uint32_t>(random.bits()) : 0x7fffff00u + bits / 2 % 512;
    } else if (type == "f16") {
      const ElementCodes half = codes_of("f16");
      if (how == Draw::integers || how == Draw::units) {
        const bool small = how == Draw::integers;
        word = small ? half.small(random) | half.small(random) << 16 : half.unit(random) | half.unit(random) << 16;
      } else {
        word = drawn({5, 10});
        word |= drawn({5, 10}) << 16;
      }
    } else if (how == Draw::integers) {
      word = codes_of("tf32").small(random);
    } else if (how == Draw::units) {
      word = 0x3f800000 | (static_cast<uint32_t>(random.bits()) & 0x7fffff);
    } else {
      word = drawn({8, 23});
    }
  }
  return all;
}

}  // namespace stagecraft::conformance
