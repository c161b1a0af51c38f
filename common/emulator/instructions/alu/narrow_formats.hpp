// The floating-point formats of 8, 6 and 4 bits (OCP MX formats). This header is for the vector files only.
#pragma once

#include <cstdint>

namespace stagecraft::emulator::machine::alu {
namespace {

/// `Most` is the code of the largest magnitude, `Nan` what a NaN becomes (6- and 4-bit formats have none).
template <uint32_t ExponentBits, uint32_t FractionBits, uint32_t Bias, uint32_t Most, uint32_t Nan>
struct Narrow {
  static constexpr uint32_t kExponentBits = ExponentBits, kFractionBits = FractionBits, kBias = Bias, kMost = Most,
                            kNan = Nan;
  static constexpr uint32_t kSignBit = 1u << (ExponentBits + FractionBits);
};
using E4m3 = Narrow<4, 3, 7, 0x7e, 0x7f>;
using E5m2 = Narrow<5, 2, 15, 0x7b, 0x7f>;
using E2m3 = Narrow<2, 3, 1, 0x1f, 0x1f>;
using E3m2 = Narrow<3, 2, 3, 0x1f, 0x1f>;
using E2m1 = Narrow<2, 1, 1, 0x7, 0x7>;

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
