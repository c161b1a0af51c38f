// Conversions between integers and floating-point types. Compiled once per x86-64 level.
//
// A `cvt` becomes one handler in the common cases, and a chain of handlers with scratch vectors in the rare ones; the
// translator (translate_conversion.cpp) chooses them. Integers narrower than 32 bits are 32-bit lanes here.
#include "emulator/instructions/alu/lane_loops.hpp"
#include "emulator/instructions/alu/numerics.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

/// Extends the low bits of a lane, as the integer type E, to the lanes of another register.
template <typename Source, typename E, typename Destination>
struct Extend {
  static Destination apply(Source a) { return static_cast<Destination>(static_cast<E>(a)); }
};

template <typename Source, typename E>
void put_extension(Catalog& catalog, Type type) {
  const auto variant = [](uint16_t to) { return static_cast<uint16_t>(sizeof(Source) | to << 4); };
  if constexpr (sizeof(E) <= 2) {
    catalog.put(Operation::extend, type, variant(2), lane_handlers<Extend<Source, E, uint16_t>>());
  }
  if constexpr (sizeof(E) <= 4) {
    catalog.put(Operation::extend, type, variant(4), lane_handlers<Extend<Source, E, uint32_t>>());
  }
  catalog.put(Operation::extend, type, variant(8), lane_handlers<Extend<Source, E, uint64_t>>());
}

/// Clamps 64-bit lanes to the range of an integer type. The immediate has its highest value; bit 63 says signed. The
/// range of an unsigned type begins at 0, that of a signed one at -highest - 1.
struct ClampSigned {
  static int64_t apply(int64_t a, Immediate range) {
    const auto highest = static_cast<int64_t>(range.value & 0x7fffffffffffffffu);
    const int64_t lowest = range.value >> 63 != 0 ? -highest - 1 : 0;
    const int64_t raised = a < lowest ? lowest : a;
    return raised > highest ? highest : raised;
  }
};
struct ClampUnsigned {
  static uint64_t apply(uint64_t a, Immediate range) {
    const uint64_t highest = range.value & 0x7fffffffffffffffu;
    return a > highest ? highest : a;
  }
};

template <typename I, typename F>
struct IntegerToFloat {
  // The tricks for 64-bit or unsigned numbers yield -0 when rounding down. Testing for 0 does not help: a compiler may
  // know that it becomes +0, and omit the test. The sign is always that of the integer.
  static F apply(I a) {
    using Bits = typename UnsignedOf<sizeof(F)>::type;
    constexpr int kSignBit = 8 * sizeof(F) - 1;
    const Bits magnitude = bits_as<Bits>(static_cast<F>(a)) & ~(Bits{1} << kSignBit);
    return bits_as<F>(magnitude | static_cast<Bits>(a < 0) << kSignBit);
  }
};

/// Converts an integer to a float whose last bit is sticky, which suits any later rounding to 22 bits or fewer.
template <typename I>
STAGECRAFT_INLINE float odd_float_of_integer(I a) {
  if constexpr (sizeof(I) <= 4) {
    return odd_float(static_cast<double>(a));
  } else {
    const bool negative = a < 0;
    const auto magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
    const bool large = magnitude >> 53 != 0;
    const uint64_t kept = large ? magnitude >> 11 | ((magnitude & 0x7ffu) != 0 ? 1u : 0u) : magnitude;
    const double value = static_cast<double>(static_cast<int64_t>(kept)) * (large ? 2048.0 : 1.0);
    return odd_float(negative ? -value : value);
  }
}
template <typename I, RoundingMode Mode>
struct IntegerToF16 {
  static uint16_t apply(I a) { return f16_from_float<Mode>(odd_float_of_integer(a)); }
};
template <typename I, RoundingMode Mode>
struct IntegerToBf16 {
  static uint16_t apply(I a) { return bf16_from_float<Mode>(odd_float_of_integer(a)); }
};

template <RoundingMode Mode>
STAGECRAFT_INLINE float integral(float x) {
  if constexpr (Mode == RoundingMode::nearest) return __builtin_rintf(x);
  if constexpr (Mode == RoundingMode::zero) return __builtin_truncf(x);
  if constexpr (Mode == RoundingMode::down) return __builtin_floorf(x);
  return __builtin_ceilf(x);
}
template <RoundingMode Mode>
STAGECRAFT_INLINE double integral(double x) {
  if constexpr (Mode == RoundingMode::nearest) return __builtin_rint(x);
  if constexpr (Mode == RoundingMode::zero) return __builtin_trunc(x);
  if constexpr (Mode == RoundingMode::down) return __builtin_floor(x);
  return __builtin_ceil(x);
}
template <typename F, RoundingMode Mode>
struct RoundToIntegral {
  static F apply(F a) { return canonical(integral<Mode>(a)); }
};

/// Converts to an integer. A value out of range becomes the nearest number of the type, and NaN zero; but with f64 or
/// 64-bit integers NaN becomes the highest bit alone (PTX ISA, "cvt").
template <typename F, typename I, typename Lane, RoundingMode Mode>
struct FloatToInteger {
  static Lane apply(F a) {
    constexpr bool kSigned = I(-1) < I(0);
    constexpr int kWidth = 8 * sizeof(I);
    constexpr auto kTop = static_cast<I>(uint64_t{1} << (kWidth - 1));
    constexpr I kLowest = kSigned ? kTop : I{0};
    constexpr I kHighest = static_cast<I>(~kLowest);
    constexpr F kBeyond = static_cast<F>(uint64_t{1} << (kWidth - 1)) * (kSigned ? 1 : 2);
    constexpr F kLeast = kSigned ? -kBeyond : F{0};
    constexpr I kNan = sizeof(F) == 8 || sizeof(I) == 8 ? kTop : I{0};
    const F value = integral<Mode>(a);
    const bool inside = (value >= kLeast) & (value < kBeyond);
    const I number = static_cast<I>(inside ? value : F{0});
    const I outside = value != value ? kNan : value < kLeast ? kLowest : kHighest;
    return static_cast<Lane>(inside ? number : outside);
  }
};

// Between double precision and other formats a NaN keeps its sign and the payload's upper bits and is quieted, as on
// the host's processor (measured on an H200).
template <bool Flush>
struct DoubleToFloat {
  static float apply(double a) { return flushed<Flush>(static_cast<float>(a)); }
};
template <RoundingMode Mode>
struct DoubleToF16 {
  static uint16_t apply(double a) {
    const uint64_t bits = bits_as<uint64_t>(a);
    const auto payload = static_cast<uint16_t>((bits >> 48 & 0x8000u) | 0x7e00u | (bits >> 42 & 0x3ffu));
    return a == a ? f16_from_float<Mode>(odd_float(a)) : payload;
  }
};
template <RoundingMode Mode>
struct DoubleToBf16 {
  static uint16_t apply(double a) {
    const uint64_t bits = bits_as<uint64_t>(a);
    const auto payload = static_cast<uint16_t>((bits >> 48 & 0x8000u) | 0x7fc0u | (bits >> 45 & 0x7fu));
    return a == a ? bf16_from_float<Mode>(odd_float(a)) : payload;
  }
};
struct F16ToDouble {
  static double apply(uint16_t a) { return static_cast<double>(float_from_f16(a)); }
};
struct DoubleToOddFloat {
  static float apply(double a) { return odd_float(a); }
};
template <bool Flush>
struct FloatToDouble {
  static double apply(float a) { return static_cast<double>(flushed<Flush>(a)); }
};
struct F16ToFloat {
  static float apply(uint16_t a) { return canonical(float_from_f16(a)); }
};
/// A bfloat16 is the upper half of the float, NaN or not.
struct Bf16ToFloat {
  static float apply(uint16_t a) { return float_from_bf16(a); }
};
template <RoundingMode Mode>
struct FloatToF16 {
  static uint16_t apply(float a) { return f16_from_float<Mode>(a); }
};
template <RoundingMode Mode>
struct FloatToBf16 {
  static uint16_t apply(float a) { return bf16_from_float<Mode>(a); }
};
template <RoundingMode Mode>
struct PackF16 {
  static uint32_t apply(float a, float b) {
    return static_cast<uint32_t>(f16_from_float<Mode>(a)) << 16 | f16_from_float<Mode>(b);
  }
};
template <RoundingMode Mode>
struct PackBf16 {
  static uint32_t apply(float a, float b) {
    return static_cast<uint32_t>(bf16_from_float<Mode>(a)) << 16 | bf16_from_float<Mode>(b);
  }
};

/// Flushes an operand, and makes its NaN the canonical one; the NaN of a result is kept.
struct FlushOperand {
  static float apply(float a) { return canonical(flush(a)); }
};
struct FlushResult {
  static float apply(float a) { return flush(a); }
};
template <typename T>
struct Saturate {
  static T apply(T a) { return saturated(a); }
};
/// Clamps magnitudes to that of the immediate (a float's bits); NaN stays.
struct ClampMagnitude {
  static float apply(float a, Immediate limit) {
    const auto most = static_cast<uint32_t>(limit.value);
    const uint32_t bits = bits_as<uint32_t>(a);
    const uint32_t size = bits & 0x7fffffffu;
    return bits_as<float>(size > most && size <= 0x7f800000u ? most | (bits & 0x80000000u) : bits);
  }
};
/// Makes negative numbers +0; NaN stays.
struct Relu {
  static float apply(float a) {
    const uint32_t bits = bits_as<uint32_t>(a);
    return bits_as<float>(bits >> 31 != 0 && (bits & 0x7fffffffu) <= 0x7f800000u ? 0u : bits);
  }
};

enum class Tf32Rounding : uint16_t { nearest, away, zero, away_finite };
template <Tf32Rounding Mode>
struct ToTf32 {
  static uint32_t apply(float a) {
    const uint32_t bits = bits_as<uint32_t>(a);
    const uint32_t size = bits & 0x7fffffffu;
    uint32_t increment = 0;
    if constexpr (Mode == Tf32Rounding::nearest) increment = 0xfffu + (size >> 13 & 1u);
    constexpr bool kAway = Mode == Tf32Rounding::away || Mode == Tf32Rounding::away_finite;
    if constexpr (kAway) increment = 0x1000u;
    const uint32_t rounded = ((size + (size < 0x7f800000u ? increment : 0u)) & ~0x1fffu) | (bits & 0x80000000u);
    // Rounding away only truncates a NaN, even a payload's last bit; the other modes have one NaN (measured on an
    // H200).
    const uint32_t nan = kAway ? bits & ~0x1fffu : kNan32 & ~0x1fffu;
    const uint32_t result = size > 0x7f800000u ? nan : rounded;
    // .satfinite subtracts one unit in the last place from anything that has reached infinity, even a NaN (measured on
    // an H200).
    if constexpr (Mode == Tf32Rounding::away_finite) {
      return (result & 0x7fffffffu) >= 0x7f800000u ? result - 0x2000u : result;
    }
    return result;
  }
};

constexpr uint16_t variant_of(Type source, RoundingMode mode = RoundingMode::nearest) {
  return static_cast<uint16_t>(static_cast<unsigned>(source) | static_cast<unsigned>(mode) << 8);
}

template <typename I, RoundingMode Mode>
void put_from_integer_to_half(Catalog& catalog, Type source) {
  catalog.put(Operation::integer_to_float, Type::f16, variant_of(source, Mode), lane_handlers<IntegerToF16<I, Mode>>());
  catalog.put(Operation::integer_to_float, Type::bf16, variant_of(source, Mode),
              lane_handlers<IntegerToBf16<I, Mode>>());
}

template <typename I>
void put_from_integer(Catalog& catalog, Type source) {
  catalog.put(Operation::integer_to_float, Type::f32, variant_of(source), lane_handlers<IntegerToFloat<I, float>>());
  catalog.put(Operation::integer_to_float, Type::f64, variant_of(source), lane_handlers<IntegerToFloat<I, double>>());
  // The directed modes of these share one handler, listed under `zero`, which takes the mode from the immediate.
  catalog.put(Operation::integer_to_float, Type::f32, variant_of(source, RoundingMode::zero),
              directed_handlers<IntegerToFloat<I, float>>());
  catalog.put(Operation::integer_to_float, Type::f64, variant_of(source, RoundingMode::zero),
              directed_handlers<IntegerToFloat<I, double>>());
  put_from_integer_to_half<I, RoundingMode::nearest>(catalog, source);
  put_from_integer_to_half<I, RoundingMode::zero>(catalog, source);
  put_from_integer_to_half<I, RoundingMode::down>(catalog, source);
  put_from_integer_to_half<I, RoundingMode::up>(catalog, source);
}

template <typename F, RoundingMode Mode>
void put_to_integers(Catalog& catalog, Type source) {
  const uint16_t variant = variant_of(source, Mode);
  constexpr Operation kOperation = Operation::float_to_integer;
  catalog.put(kOperation, Type::u8, variant, lane_handlers<FloatToInteger<F, uint8_t, uint32_t, Mode>>());
  catalog.put(kOperation, Type::s8, variant, lane_handlers<FloatToInteger<F, int8_t, uint32_t, Mode>>());
  catalog.put(kOperation, Type::u16, variant, lane_handlers<FloatToInteger<F, uint16_t, uint32_t, Mode>>());
  catalog.put(kOperation, Type::s16, variant, lane_handlers<FloatToInteger<F, int16_t, uint32_t, Mode>>());
  catalog.put(kOperation, Type::u32, variant, lane_handlers<FloatToInteger<F, uint32_t, uint32_t, Mode>>());
  catalog.put(kOperation, Type::s32, variant, lane_handlers<FloatToInteger<F, int32_t, uint32_t, Mode>>());
  catalog.put(kOperation, Type::u64, variant, lane_handlers<FloatToInteger<F, uint64_t, uint64_t, Mode>>());
  catalog.put(kOperation, Type::s64, variant, lane_handlers<FloatToInteger<F, int64_t, uint64_t, Mode>>());
  catalog.put(Operation::round_to_integral, source, static_cast<uint16_t>(Mode),
              lane_handlers<RoundToIntegral<F, Mode>>());
}

template <RoundingMode Mode>
void put_to_half(Catalog& catalog) {
  catalog.put(Operation::float_to_float, Type::f16, variant_of(Type::f32, Mode), lane_handlers<FloatToF16<Mode>>());
  catalog.put(Operation::float_to_float, Type::bf16, variant_of(Type::f32, Mode), lane_handlers<FloatToBf16<Mode>>());
  catalog.put(Operation::float_to_float, Type::f16, variant_of(Type::f64, Mode), lane_handlers<DoubleToF16<Mode>>());
  catalog.put(Operation::float_to_float, Type::bf16, variant_of(Type::f64, Mode), lane_handlers<DoubleToBf16<Mode>>());
  catalog.put(Operation::pack_halves, Type::f16x2, static_cast<uint16_t>(Mode), lane_handlers<PackF16<Mode>>());
  catalog.put(Operation::pack_halves, Type::bf16x2, static_cast<uint16_t>(Mode), lane_handlers<PackBf16<Mode>>());
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_conversion(Catalog& catalog) {
  put_extension<uint16_t, uint8_t>(catalog, Type::u8);
  put_extension<uint16_t, int8_t>(catalog, Type::s8);
  put_extension<uint16_t, uint16_t>(catalog, Type::u16);
  put_extension<uint16_t, int16_t>(catalog, Type::s16);
  put_extension<uint32_t, uint8_t>(catalog, Type::u8);
  put_extension<uint32_t, int8_t>(catalog, Type::s8);
  put_extension<uint32_t, uint16_t>(catalog, Type::u16);
  put_extension<uint32_t, int16_t>(catalog, Type::s16);
  put_extension<uint32_t, uint32_t>(catalog, Type::u32);
  put_extension<uint32_t, int32_t>(catalog, Type::s32);
  put_extension<uint64_t, uint8_t>(catalog, Type::u8);
  put_extension<uint64_t, int8_t>(catalog, Type::s8);
  put_extension<uint64_t, uint16_t>(catalog, Type::u16);
  put_extension<uint64_t, int16_t>(catalog, Type::s16);
  put_extension<uint64_t, uint32_t>(catalog, Type::u32);
  put_extension<uint64_t, int32_t>(catalog, Type::s32);
  put_extension<uint64_t, uint64_t>(catalog, Type::u64);
  put_extension<uint64_t, int64_t>(catalog, Type::s64);
  catalog.put(Operation::clamp_integer, Type::s64, 0, lane_handlers<ClampSigned>());
  catalog.put(Operation::clamp_integer, Type::u64, 0, lane_handlers<ClampUnsigned>());

  put_from_integer<uint32_t>(catalog, Type::u32);
  put_from_integer<int32_t>(catalog, Type::s32);
  put_from_integer<uint64_t>(catalog, Type::u64);
  put_from_integer<int64_t>(catalog, Type::s64);
  put_to_integers<float, RoundingMode::nearest>(catalog, Type::f32);
  put_to_integers<float, RoundingMode::zero>(catalog, Type::f32);
  put_to_integers<float, RoundingMode::down>(catalog, Type::f32);
  put_to_integers<float, RoundingMode::up>(catalog, Type::f32);
  put_to_integers<double, RoundingMode::nearest>(catalog, Type::f64);
  put_to_integers<double, RoundingMode::zero>(catalog, Type::f64);
  put_to_integers<double, RoundingMode::down>(catalog, Type::f64);
  put_to_integers<double, RoundingMode::up>(catalog, Type::f64);

  put_to_half<RoundingMode::nearest>(catalog);
  put_to_half<RoundingMode::zero>(catalog);
  put_to_half<RoundingMode::down>(catalog);
  put_to_half<RoundingMode::up>(catalog);
  catalog.put(Operation::float_to_float, Type::f32, variant_of(Type::f16), lane_handlers<F16ToFloat>());
  catalog.put(Operation::float_to_float, Type::f32, variant_of(Type::bf16), lane_handlers<Bf16ToFloat>());
  catalog.put(Operation::float_to_float, Type::f64, variant_of(Type::f32), lane_handlers<FloatToDouble<false>>());
  catalog.put(Operation::float_to_float, Type::f32, variant_of(Type::f64), lane_handlers<DoubleToFloat<false>>());
  // As for integers, there is one handler for all directed modes.
  catalog.put(Operation::float_to_float, Type::f32, variant_of(Type::f64, RoundingMode::zero),
              directed_handlers<DoubleToFloat<false>>());
  catalog.put(Operation::float_to_float, Type::f64, variant_of(Type::f16), lane_handlers<F16ToDouble>());
  catalog.put(Operation::odd_float, Type::f32, 0, lane_handlers<DoubleToOddFloat>());
  catalog.put(Operation::flush, Type::f32, 0, lane_handlers<FlushOperand>());
  catalog.put(Operation::flush, Type::f32, 1, lane_handlers<FlushResult>());
  catalog.put(Operation::saturate, Type::f32, 0, lane_handlers<Saturate<float>>());
  catalog.put(Operation::saturate, Type::f64, 0, lane_handlers<Saturate<double>>());
  catalog.put(Operation::clamp_magnitude, Type::f32, 0, lane_handlers<ClampMagnitude>());
  catalog.put(Operation::relu, Type::f32, 0, lane_handlers<Relu>());
  catalog.put(Operation::to_tf32, Type::f32, 0, lane_handlers<ToTf32<Tf32Rounding::nearest>>());
  catalog.put(Operation::to_tf32, Type::f32, 1, lane_handlers<ToTf32<Tf32Rounding::away>>());
  catalog.put(Operation::to_tf32, Type::f32, 2, lane_handlers<ToTf32<Tf32Rounding::zero>>());
  catalog.put(Operation::to_tf32, Type::f32, 3, lane_handlers<ToTf32<Tf32Rounding::away_finite>>());
}

}  // namespace stagecraft::emulator::machine::alu
