// Arithmetic on f16, f16x2, bf16 and bf16x2. Compiled once per x86-64 level.
//
// Every operation is rounded once. Sums of f16 are rounded to float first, which is harmless for a single addition
// (float has more than twice the digits); products are exact in float (f16) or double (bf16); the fused operation takes
// the sum rounded to odd, which the second rounding cannot spoil.
#include "emulator/machine/alu/elementary.hpp"
#include "emulator/machine/alu/lane_loops.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

struct F16 {
  using Wide = float;  ///< holds every product exactly
  static constexpr uint16_t kInfinity = 0x7c00, kLeastNormal = 0x0400, kOne = 0x3c00;
  STAGECRAFT_INLINE static float widen(uint16_t bits) { return float_from_f16(bits); }
  STAGECRAFT_INLINE static uint16_t narrow(float value) { return f16_from_float(value); }
};

struct Bf16 {
  using Wide = double;
  static constexpr uint16_t kInfinity = 0x7f80, kLeastNormal = 0x0080, kOne = 0x3f80;
  STAGECRAFT_INLINE static float widen(uint16_t bits) { return float_from_bf16(bits); }
  STAGECRAFT_INLINE static uint16_t narrow(float value) { return bf16_from_float(value); }
  STAGECRAFT_INLINE static uint16_t narrow(double value) { return bf16_from_float(odd_float(value)); }
};

template <typename Format>
STAGECRAFT_INLINE bool is_nan(uint16_t bits) {
  return (bits & 0x7fffu) > Format::kInfinity;
}

// The modifiers, as run-time flags: .ftz on operands and result, .sat, .relu; a plain handler has none of these.
template <typename Format, bool Flagged>
STAGECRAFT_INLINE uint16_t taken(uint16_t bits, uint64_t flags) {
  if constexpr (!Flagged) return bits;
  const bool flush = (flags & kHalfFlush) != 0 && (bits & 0x7fffu) < Format::kLeastNormal;
  return flush ? bits & 0x8000u : bits;
}
template <typename Format, bool Flagged>
STAGECRAFT_INLINE uint16_t finished(uint16_t bits, uint64_t flags) {
  if constexpr (!Flagged) return bits;
  const bool nan = is_nan<Format>(bits);
  const bool negative = bits >> 15 != 0;
  uint16_t result = taken<Format, true>(bits, flags);
  uint16_t clamped = negative || nan ? 0 : result;
  clamped = clamped > Format::kOne ? Format::kOne : clamped;
  result = (flags & kHalfRelu) != 0 && negative && !nan ? 0 : result;
  return (flags & kHalfSaturate) != 0 ? clamped : result;
}

template <typename Format, bool Flagged>
struct Add {
  static uint16_t apply(uint16_t a, uint16_t b, Immediate flags) {
    const float x = Format::widen(taken<Format, Flagged>(a, flags.value));
    const float y = Format::widen(taken<Format, Flagged>(b, flags.value));
    return finished<Format, Flagged>(Format::narrow(x + y), flags.value);
  }
};
template <typename Format, bool Flagged>
struct Subtract {
  static uint16_t apply(uint16_t a, uint16_t b, Immediate flags) {
    const float x = Format::widen(taken<Format, Flagged>(a, flags.value));
    const float y = Format::widen(taken<Format, Flagged>(b, flags.value));
    return finished<Format, Flagged>(Format::narrow(x - y), flags.value);
  }
};
template <typename Format, bool Flagged>
struct Multiply {
  static uint16_t apply(uint16_t a, uint16_t b, Immediate flags) {
    const typename Format::Wide x = Format::widen(taken<Format, Flagged>(a, flags.value));
    const typename Format::Wide y = Format::widen(taken<Format, Flagged>(b, flags.value));
    return finished<Format, Flagged>(Format::narrow(x * y), flags.value);
  }
};

/// The NaN that a tensor copy fills in for what lies outside; with .oob it makes a product vanish.
inline constexpr uint16_t kOutOfBounds = 0x7ff7;

template <typename Format, bool Flagged>
struct MultiplyAdd {
  static uint16_t apply(uint16_t a, uint16_t b, uint16_t c, Immediate flags) {
    using Wide = typename Format::Wide;
    const Wide x = Format::widen(taken<Format, Flagged>(a, flags.value));
    const Wide y = Format::widen(taken<Format, Flagged>(b, flags.value));
    const Wide z = Format::widen(taken<Format, Flagged>(c, flags.value));
    const uint16_t result = finished<Format, Flagged>(Format::narrow(odd_sum(x * y, z)), flags.value);
    if constexpr (!Flagged) return result;
    const bool outside = (flags.value & kHalfOutOfBounds) != 0 && (a == kOutOfBounds || b == kOutOfBounds);
    return outside ? uint16_t{0} : result;
  }
};

template <typename Format, bool Flagged>
struct Negate {
  static uint16_t apply(uint16_t a, Immediate flags) { return taken<Format, Flagged>(a, flags.value) ^ 0x8000u; }
};
template <typename Format, bool Flagged>
struct Absolute {
  static uint16_t apply(uint16_t a, Immediate flags) { return taken<Format, Flagged>(a, flags.value) & 0x7fffu; }
};

template <typename Format, bool Greater, bool Flagged>
struct Extreme {
  static uint16_t apply(uint16_t a, uint16_t b, Immediate how) {
    a = taken<Format, Flagged>(a, how.value);
    b = taken<Format, Flagged>(b, how.value);
    const uint16_t sign = (a ^ b) & 0x8000u;
    const bool xor_sign = Flagged && (how.value & kHalfXorSign) != 0;
    a = xor_sign ? a & 0x7fffu : a;
    b = xor_sign ? b & 0x7fffu : b;
    // Sign and magnitude to two's complement, with -0 below +0.
    const auto left = static_cast<int16_t>(a >> 15 != 0 ? 0x8000u - a - 1u : a);
    const auto right = static_cast<int16_t>(b >> 15 != 0 ? 0x8000u - b - 1u : b);
    const bool a_nan = is_nan<Format>(a), b_nan = is_nan<Format>(b);
    uint16_t result = (Greater ? left > right : left < right) ? a : b;
    result = a_nan ? b : b_nan ? a : result;
    result = xor_sign ? result | sign : result;
    const bool any = Flagged && (how.value & kHalfNan) != 0;
    return (any ? a_nan | b_nan : a_nan & b_nan) ? kNan16 : result;
  }
};

template <typename Format, bool Flagged>
struct Exponential2 {
  static uint16_t apply(uint16_t a, Immediate flags) {
    const float x = Format::widen(taken<Format, Flagged>(a, flags.value));
    return finished<Format, Flagged>(Format::narrow(exponential2(x)), flags.value);
  }
};
template <typename Format>
struct HyperbolicTangent {
  static uint16_t apply(uint16_t a) { return Format::narrow(hyperbolic_tangent(Format::widen(a))); }
};

template <typename Format, bool Flagged, int PerLane>
void put_all(Catalog& catalog, Type type) {
  constexpr uint16_t kVariant = Flagged ? kFlagged : kPlain;
  catalog.put(Operation::add, type, kVariant, lane_handlers<Add<Format, Flagged>, PerLane>());
  catalog.put(Operation::sub, type, kVariant, lane_handlers<Subtract<Format, Flagged>, PerLane>());
  catalog.put(Operation::multiply, type, kVariant, lane_handlers<Multiply<Format, Flagged>, PerLane>());
  catalog.put(Operation::multiply_add, type, kVariant, lane_handlers<MultiplyAdd<Format, Flagged>, PerLane>());
  catalog.put(Operation::negate, type, kVariant, lane_handlers<Negate<Format, Flagged>, PerLane>());
  catalog.put(Operation::absolute, type, kVariant, lane_handlers<Absolute<Format, Flagged>, PerLane>());
  catalog.put(Operation::minimum, type, kVariant, lane_handlers<Extreme<Format, false, Flagged>, PerLane>());
  catalog.put(Operation::maximum, type, kVariant, lane_handlers<Extreme<Format, true, Flagged>, PerLane>());
  catalog.put(Operation::exponential2, type, kVariant, lane_handlers<Exponential2<Format, Flagged>, PerLane>());
  if constexpr (!Flagged) {
    catalog.put(Operation::hyperbolic_tangent, type, kVariant, lane_handlers<HyperbolicTangent<Format>, PerLane>());
  }
}

template <typename Format>
void put_format(Catalog& catalog, Type single, Type pair) {
  put_all<Format, false, 1>(catalog, single);
  put_all<Format, true, 1>(catalog, single);
  put_all<Format, false, 2>(catalog, pair);
  put_all<Format, true, 2>(catalog, pair);
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_half(Catalog& catalog) {
  put_format<F16>(catalog, Type::f16, Type::f16x2);
  put_format<Bf16>(catalog, Type::bf16, Type::bf16x2);
}

}  // namespace stagecraft::emulator::machine::alu
