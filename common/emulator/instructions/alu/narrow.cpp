// Conversions to and from floating-point formats of 8, 6 and 4 bits, and of scale factors. Compiled once per x86-64
// level.
//
// Source for results beyond the range: PTX ISA, "cvt". A test compares with the host conversions of the CUDA headers
// (tests/emulator/instructions/alu).
#include <bit>

#include "emulator/instructions/alu/lane_loops.hpp"
#include "emulator/instructions/alu/narrow_formats.hpp"
#include "emulator/instructions/alu/numerics.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

/// Rounds to nearest even, and saturates at the largest finite magnitude.
template <typename Format>
STAGECRAFT_INLINE uint32_t encode(float value, bool relu) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const bool nan = magnitude > 0x7f800000u;
  constexpr uint32_t kDropped = 23 - Format::kFractionBits;
  constexpr uint32_t kRebias = 127 - Format::kBias;
  const uint32_t rebased = magnitude - (kRebias << 23);
  const uint32_t normal = (rebased + rounding_increment<RoundingMode::nearest>(rebased, kDropped, false)) >> kDropped;
  // Subnormal: the significand in units of the least number; when more than 25 bits are dropped, none is left.
  const uint32_t exponent = magnitude >> 23;
  const uint32_t significand = (magnitude & 0x007fffffu) | 0x00800000u;
  const uint32_t distance = kDropped + kRebias + 1 - exponent;
  const uint32_t drop = (distance < 26u ? distance : 26u) & 31u;
  const uint32_t subnormal =
      (significand + rounding_increment<RoundingMode::nearest>(significand, drop, false)) >> drop;
  uint32_t code = exponent <= kRebias ? subnormal : normal;
  code = code > Format::kMost || magnitude >= 0x7f800000u ? Format::kMost : code;
  code |= bits >> 31 != 0 ? Format::kSignBit : 0;
  code = relu && bits >> 31 != 0 ? 0 : code;
  return nan ? Format::kNan : code;
}

/// Converts exactly, because every number of these formats is one of f16. NaN becomes 0x7fff.
template <typename Format>
constexpr uint16_t decode(uint32_t code, bool relu) {
  const uint32_t magnitude = code & (Format::kSignBit - 1);
  const bool negative = (code & Format::kSignBit) != 0;
  bool nan = false;
  if constexpr (Format::kBias == 15) nan = magnitude > 0x7cu;
  if constexpr (Format::kBias == 7) nan = magnitude == 0x7fu;
  if (nan) return kNan16;
  if (relu && negative) return 0;
  const uint32_t exponent = magnitude >> Format::kFractionBits;
  uint32_t result = magnitude << (10 - Format::kFractionBits);
  if (Format::kBias != 15 && exponent != 0) result += (15 - Format::kBias) << 10;
  if (Format::kBias != 15 && exponent == 0 && magnitude != 0) {  // subnormal here, but not in f16
    const auto top = static_cast<uint32_t>(std::bit_width(magnitude)) - 1;
    result = (top + 16 - Format::kBias - Format::kFractionBits) << 10 | ((magnitude << (10 - top)) & 0x3ffu);
  }
  return static_cast<uint16_t>(result | (negative ? 0x8000u : 0u));
}
/// The values by code, without and with .relu. The compiler computes this plain array, because a file of one x86-64
/// level must run nothing at start-up and call no function of other files.
template <typename Format>
struct Decoded {
  uint16_t values[2][2 * Format::kSignBit] = {};
  constexpr Decoded() {
    for (uint32_t code = 0; code < 2 * Format::kSignBit; ++code) {
      values[0][code] = decode<Format>(code, false);
      values[1][code] = decode<Format>(code, true);
    }
  }
};
template <typename Format>
constexpr Decoded<Format> kDecoded;

template <typename Format>
struct NarrowPair {
  static uint16_t apply(float a, float b, Immediate flags) {
    const bool relu = (flags.value & kNarrowRelu) != 0;
    const uint32_t upper = encode<Format>(a, relu), lower = encode<Format>(b, relu);
    constexpr uint32_t kField = Format::kSignBit == 8 ? 4 : 8;
    return static_cast<uint16_t>(upper << kField | lower);
  }
};
template <typename Format>
struct NarrowHalves {
  static uint16_t apply(uint32_t a, Immediate flags) {
    const bool relu = (flags.value & kNarrowRelu) != 0;
    const uint32_t upper = encode<Format>(float_from_f16(static_cast<uint16_t>(a >> 16)), relu);
    const uint32_t lower = encode<Format>(float_from_f16(static_cast<uint16_t>(a)), relu);
    constexpr uint32_t kField = Format::kSignBit == 8 ? 4 : 8;
    return static_cast<uint16_t>(upper << kField | lower);
  }
};
template <typename Format>
struct WidenPair {
  static uint32_t apply(uint16_t a, Immediate flags) {
    const auto& decoded = kDecoded<Format>.values[(flags.value & kNarrowRelu) != 0 ? 1 : 0];
    constexpr uint32_t kField = Format::kSignBit == 8 ? 4 : 8, kCode = 2 * Format::kSignBit - 1;
    return static_cast<uint32_t>(decoded[a >> kField & kCode]) << 16 | decoded[a & kCode];
  }
};

/// Returns the exponent of |x| as a scale factor 2^(code - 127); 255 is NaN. Rounds toward zero, or up with kNarrowUp.
STAGECRAFT_INLINE uint32_t encode_scale(float value, uint64_t flags) {
  const uint32_t magnitude = bits_as<uint32_t>(value) & 0x7fffffffu;
  const bool up = (flags & kNarrowUp) != 0, finite = (flags & kNarrowFinite) != 0;
  const uint32_t fraction = magnitude & 0x007fffffu;
  uint32_t code = magnitude >> 23;
  // 2^-127 is the least scale, in the middle of the subnormals; larger ones round up to 2^-126.
  const bool above = code == 0 ? fraction > 0x00400000u : fraction != 0;
  code += up && above ? 1 : 0;
  code = code > 0xfeu ? (finite ? 0xfeu : 0xffu) : code;
  return magnitude > 0x7f800000u ? 0xffu : code;
}
struct ScalePair {
  static uint16_t apply(float a, float b, Immediate flags) {
    return static_cast<uint16_t>(encode_scale(a, flags.value) << 8 | encode_scale(b, flags.value));
  }
};
STAGECRAFT_INLINE uint32_t decode_scale(uint32_t code) {
  return code == 0 ? 0x0040u : code == 0xffu ? kNan16 : code << 7;
}
struct WidenScale {
  static uint32_t apply(uint16_t a) { return decode_scale(a >> 8u) << 16 | decode_scale(a & 0xffu); }
};

struct PackIntegers {
  STAGECRAFT_INLINE static uint32_t field(int32_t value, int32_t lowest, int32_t highest, uint32_t mask) {
    const int32_t raised = value < lowest ? lowest : value;
    return static_cast<uint32_t>(raised > highest ? highest : raised) & mask;
  }
  static uint32_t apply(int32_t a, int32_t b, uint32_t c, Immediate how) {
    const auto width = static_cast<uint32_t>(how.value & 0x1fu);
    const bool is_signed = (how.value >> 8 & 1u) != 0;
    const uint32_t mask = (1u << width) - 1;
    const auto highest = static_cast<int32_t>(is_signed ? mask >> 1 : mask);
    const int32_t lowest = is_signed ? -highest - 1 : 0;
    const uint32_t pair = field(a, lowest, highest, mask) << width | field(b, lowest, highest, mask);
    return pair | static_cast<uint32_t>(static_cast<uint64_t>(c) << (2 * width));
  }
};

template <typename Format>
void put_format(Catalog& catalog, NarrowFormat format) {
  const auto variant = static_cast<uint16_t>(format);
  catalog.put(Operation::narrow_pair, Type::f32, variant, lane_handlers<NarrowPair<Format>>());
  catalog.put(Operation::widen_pair, Type::f16x2, variant, lane_handlers<WidenPair<Format>>());
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_narrow(Catalog& catalog) {
  put_format<E4m3>(catalog, NarrowFormat::e4m3);
  put_format<E5m2>(catalog, NarrowFormat::e5m2);
  put_format<E2m3>(catalog, NarrowFormat::e2m3);
  put_format<E3m2>(catalog, NarrowFormat::e3m2);
  put_format<E2m1>(catalog, NarrowFormat::e2m1);
  catalog.put(Operation::narrow_halves, Type::f16x2, static_cast<uint16_t>(NarrowFormat::e4m3),
              lane_handlers<NarrowHalves<E4m3>>());
  catalog.put(Operation::narrow_halves, Type::f16x2, static_cast<uint16_t>(NarrowFormat::e5m2),
              lane_handlers<NarrowHalves<E5m2>>());
  catalog.put(Operation::narrow_halves, Type::f16x2, static_cast<uint16_t>(NarrowFormat::e2m1),
              lane_handlers<NarrowHalves<E2m1>>());
  catalog.put(Operation::scale_pair, Type::f32, 0, lane_handlers<ScalePair>());
  catalog.put(Operation::widen_scale, Type::bf16x2, 0, lane_handlers<WidenScale>());
  catalog.put(Operation::pack_integers, Type::s32, 0, lane_handlers<PackIntegers>());
}

}  // namespace stagecraft::emulator::machine::alu
