// Arithmetic on f16, f16x2, bf16 and bf16x2. Compiled once per x86-64 level.
//
// Every operation rounds once. Sums of f16 are rounded to float first, which is harmless for a single addition, because
// float has more than twice the digits. Products are exact in float (f16) or double (bf16). The fused operation rounds
// the sum to odd, after which the second rounding is right.
#if defined(__GNUC__) && !defined(__clang__) && STAGECRAFT_ISA_LEVEL >= 3
// Without this GCC gathers nothing from the tables of interpolation.hpp, and makes no vector code.
#pragma GCC target("tune=icelake-server")
#endif
#include "emulator/instructions/alu/interpolation.hpp"
#include "emulator/instructions/alu/lane_loops.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

struct F16 {
  static constexpr uint16_t kInfinity = 0x7c00, kLeastNormal = 0x0400, kOne = 0x3c00;
  /// A result of ex2 or tanh as a number of the format.
  STAGECRAFT_INLINE static float cut_off(float value) {
    const float result = float_from_f16(f16_from_float<RoundingMode::zero>(value));
    return value >= 65536.0f ? __builtin_inff() : result;
  }
  STAGECRAFT_INLINE static float product(float a, float b) { return a * b; }
  STAGECRAFT_INLINE static float fused(float a, float b, float c) { return odd_sum(a * b, c); }

#if STAGECRAFT_ISA_LEVEL == 4
  /// g++ 12 issues false warnings about uninitialised values for the forms without a mask.
  static constexpr __mmask16 kAll = 0xffff;
#endif
  template <int N>
  STAGECRAFT_INLINE static void widen(const uint16_t* in, float* out) {
#if STAGECRAFT_ISA_LEVEL == 4
    for (int i = 0; i < N; i += 16) {
      _mm512_storeu_ps(out + i,
                       _mm512_maskz_cvtph_ps(kAll, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i))));
    }
#elif STAGECRAFT_ISA_LEVEL == 3
    for (int i = 0; i < N; i += 8) {
      _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i))));
    }
#else
    for (int i = 0; i < N; ++i) out[i] = float_from_f16(in[i]);
#endif
  }
  /// A NaN may have any payload.
  template <int N>
  STAGECRAFT_INLINE static void narrow(const float* in, uint16_t* out) {
#if STAGECRAFT_ISA_LEVEL == 4
    for (int i = 0; i < N; i += 16) {
      const __m256i halves =
          _mm512_maskz_cvtps_ph(kAll, _mm512_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), halves);
    }
#elif STAGECRAFT_ISA_LEVEL == 3
    for (int i = 0; i < N; i += 8) {
      const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), halves);
    }
#else
    for (int i = 0; i < N; ++i) out[i] = f16_from_float(in[i]);
#endif
  }
};

/// Products of bf16 can leave the range of float on both sides, so they are computed in double and rounded to odd.
struct Bf16 {
  static constexpr uint16_t kInfinity = 0x7f80, kLeastNormal = 0x0080, kOne = 0x3f80;
  STAGECRAFT_INLINE static float cut_off(float value) {
    return value == value ? bits_as<float>(bits_as<uint32_t>(value) & 0xffff0000u) : value;
  }
  STAGECRAFT_INLINE static float product(float a, float b) {
    return odd_float(static_cast<double>(a) * static_cast<double>(b));
  }
  STAGECRAFT_INLINE static float fused(float a, float b, float c) {
    return odd_float(odd_sum(static_cast<double>(a) * static_cast<double>(b), static_cast<double>(c)));
  }
  template <int N>
  STAGECRAFT_INLINE static void widen(const uint16_t* in, float* out) {
    for (int i = 0; i < N; ++i) out[i] = float_from_bf16(in[i]);
  }
  template <int N>
  STAGECRAFT_INLINE static void narrow(const float* in, uint16_t* out) {
    for (int i = 0; i < N; ++i) out[i] = bf16_from_float(in[i]);
  }
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

// The operations, on operands widened to float; the result is still to be rounded to the format.
template <typename Format>
struct Add {
  STAGECRAFT_INLINE static float apply(float a, float b) { return a + b; }
};
template <typename Format>
struct Subtract {
  STAGECRAFT_INLINE static float apply(float a, float b) { return a - b; }
};
template <typename Format>
struct Multiply {
  STAGECRAFT_INLINE static float apply(float a, float b) { return Format::product(a, b); }
};
template <typename Format>
struct MultiplyAdd {
  STAGECRAFT_INLINE static float apply(float a, float b, float c) { return Format::fused(a, b, c); }
};
/// Both truncate and do not round, as measured on an H200 for every f16 and bf16.
template <typename Format>
struct Exponential2 {
  STAGECRAFT_INLINE static float apply(float a) { return Format::cut_off(exponential2(a)); }
};
template <typename Format>
struct HyperbolicTangent {
  STAGECRAFT_INLINE static float apply(float a) { return Format::cut_off(hyperbolic_tangent(a)); }
};

template <typename Signature>
inline constexpr int kSources = 0;
template <>
inline constexpr int kSources<float (*)(float)> = 1;
template <>
inline constexpr int kSources<float (*)(float, float)> = 2;
template <>
inline constexpr int kSources<float (*)(float, float, float)> = 3;

/// The NaN that a tensor copy fills in for elements out of bounds; with .oob it makes a product zero.
inline constexpr uint16_t kOutOfBounds = 0x7ff7;

template <typename Format, bool Flagged, int N>
STAGECRAFT_INLINE void load(const std::byte* registers, RegisterOffset offset, uint64_t flags, float* out) {
  const auto* source = reinterpret_cast<const Aliased<uint16_t>::type*>(registers + offset);
  alignas(64) uint16_t halves[N];
  for (int i = 0; i < N; ++i) halves[i] = taken<Format, Flagged>(source[i], flags);
  Format::template widen<N>(halves, out);
}

/// Computes all lanes in steps, each of them vector code: widen, compute, narrow, apply the modifiers, write.
template <typename Format, typename F, bool Flagged, int PerLane, bool Full>
Outcome run_half(Fragment& fragment, const Op& op, LaneMask mask) {
  constexpr int N = 32 * PerLane;
  constexpr int kCount = kSources<decltype(&F::apply)>;
  std::byte* registers = fragment.registers;
  alignas(64) float x[N], y[N], z[N], result[N];
  alignas(64) uint16_t halves[N];
  load<Format, Flagged, N>(registers, op.a, op.immediate, x);
  if constexpr (kCount > 1) load<Format, Flagged, N>(registers, op.b, op.immediate, y);
  if constexpr (kCount > 2) load<Format, Flagged, N>(registers, op.c, op.immediate, z);
  for (int i = 0; i < N; ++i) {
    if constexpr (kCount == 1) result[i] = F::apply(x[i]);
    if constexpr (kCount == 2) result[i] = F::apply(x[i], y[i]);
    if constexpr (kCount == 3) result[i] = F::apply(x[i], y[i], z[i]);
  }
  if constexpr (Flagged && kCount > 1 && Format::kLeastNormal == F16::kLeastNormal) {
    // .ftz flushes results that are below 2^-14 when they are rounded to 11 bits (measured on an H200).
    if ((op.immediate & kHalfFlush) != 0) {
      for (int i = 0; i < N; ++i) {
        const uint32_t bits = bits_as<uint32_t>(result[i]);
        result[i] = bits_as<float>((bits & 0x7fffffffu) < 0x387ff000u ? bits & 0x80000000u : bits);
      }
    }
  }
  Format::template narrow<N>(result, halves);
  if constexpr (Flagged && kCount == 3 && Format::kLeastNormal == Bf16::kLeastNormal) {
    // The result is rounded to odd, so truncating it is right too.
    if ((op.immediate & kHalfTowardZero) != 0) {
      for (int i = 0; i < N; ++i) halves[i] = bf16_from_float<RoundingMode::zero>(result[i]);
    }
  }
  for (int i = 0; i < N; ++i) {
    const uint16_t tidy = is_nan<Format>(halves[i]) ? kNan16 : halves[i];
    halves[i] = finished<Format, Flagged>(tidy, op.immediate);
  }
  if constexpr (Flagged && kCount == 3) {
    if ((op.immediate & kHalfOutOfBounds) != 0) {
      const auto* a = lanes<uint16_t>(registers, op.a);
      const auto* b = lanes<uint16_t>(registers, op.b);
      for (int i = 0; i < N; ++i) halves[i] = a[i] == kOutOfBounds || b[i] == kOutOfBounds ? uint16_t{0} : halves[i];
    }
  }
  auto* d = lanes<uint16_t>(registers, op.destination);
  if constexpr (Full) {
    for (int i = 0; i < N; ++i) d[i] = halves[i];
  } else {
    alignas(64) uint16_t select[N];
    spread<uint16_t, PerLane>(mask, select);
    for (int i = 0; i < N; ++i) blend<uint16_t>(d[i], halves[i], select[i]);
  }
  return Outcome::next;
}

template <typename Format, typename F, bool Flagged, int PerLane>
Handlers half_handlers() {
  return {run_half<Format, F, Flagged, PerLane, true>, run_half<Format, F, Flagged, PerLane, false>};
}

// A NaN becomes the one of its format (measured on an H200).
template <typename Format, bool Flagged>
struct Negate {
  static uint16_t apply(uint16_t a, Immediate flags) {
    return is_nan<Format>(a) ? kNan16 : taken<Format, Flagged>(a, flags.value) ^ 0x8000u;
  }
};
template <typename Format, bool Flagged>
struct Absolute {
  static uint16_t apply(uint16_t a, Immediate flags) {
    return is_nan<Format>(a) ? kNan16 : taken<Format, Flagged>(a, flags.value) & 0x7fffu;
  }
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
    // Converts sign and magnitude to two's complement, with -0 below +0.
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

template <typename Format, bool Flagged, int PerLane>
void put_all(Catalog& catalog, Type type) {
  constexpr uint16_t kVariant = Flagged ? kFlagged : kPlain;
  catalog.put(Operation::add, type, kVariant, half_handlers<Format, Add<Format>, Flagged, PerLane>());
  catalog.put(Operation::sub, type, kVariant, half_handlers<Format, Subtract<Format>, Flagged, PerLane>());
  catalog.put(Operation::multiply, type, kVariant, half_handlers<Format, Multiply<Format>, Flagged, PerLane>());
  catalog.put(Operation::multiply_add, type, kVariant, half_handlers<Format, MultiplyAdd<Format>, Flagged, PerLane>());
  catalog.put(Operation::negate, type, kVariant, lane_handlers<Negate<Format, Flagged>, PerLane>());
  catalog.put(Operation::absolute, type, kVariant, lane_handlers<Absolute<Format, Flagged>, PerLane>());
  catalog.put(Operation::minimum, type, kVariant, lane_handlers<Extreme<Format, false, Flagged>, PerLane>());
  catalog.put(Operation::maximum, type, kVariant, lane_handlers<Extreme<Format, true, Flagged>, PerLane>());
  catalog.put(Operation::exponential2, type, kVariant, half_handlers<Format, Exponential2<Format>, Flagged, PerLane>());
  if constexpr (!Flagged) {
    catalog.put(Operation::hyperbolic_tangent, type, kVariant,
                half_handlers<Format, HyperbolicTangent<Format>, Flagged, PerLane>());
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
