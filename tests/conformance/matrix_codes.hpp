// Codes of matrix elements for the programs about MMAs: small integers, whose products and sums are exact in every
// accumulator, so that no order of additions matters; and numbers from 1 to 2, for which it does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/random.hpp"

namespace stagecraft::conformance {

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

  /// `count` words full of such codes.
  std::vector<uint32_t> words(harness::Random& random, size_t count, bool small_integers) const {
    std::vector<uint32_t> all(count);
    for (uint32_t& word : all) {
      for (int bit = 0; bit < 32; bit += bits) word |= (small_integers ? small(random) : unit(random)) << bit;
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

/// Words of an accumulator: integers from -64 to 64, or any for s32; or numbers from 1 to 2.
inline std::vector<uint32_t> accumulator_words(const std::string& type, harness::Random& random, size_t count,
                                               bool small_integers) {
  std::vector<uint32_t> all(count);
  for (uint32_t& word : all) {
    if (type == "s32") {
      // Often close to where sums overflow.
      const auto bits = static_cast<uint32_t>(random.bits());
      word = bits % 2 == 0 ? static_cast<uint32_t>(random.bits()) : 0x7fffff00u + bits / 2 % 512;
    } else if (type == "f16") {
      const ElementCodes half = codes_of("f16");
      word =
          small_integers ? half.small(random) | half.small(random) << 16 : half.unit(random) | half.unit(random) << 16;
    } else {
      const ElementCodes single = codes_of("tf32");
      word = small_integers ? single.small(random) : 0x3f800000 | (static_cast<uint32_t>(random.bits()) & 0x7fffff);
    }
  }
  return all;
}

}  // namespace stagecraft::conformance
