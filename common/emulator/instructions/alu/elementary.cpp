// Approximations of the chip: reciprocals, roots, exponential, logarithm, sine, cosine. Compiled once per x86-64 level.
#if defined(__GNUC__) && !defined(__clang__) && STAGECRAFT_ISA_LEVEL >= 3
// Without this GCC gathers nothing from the tables of interpolation.hpp, and makes no vector code.
#pragma GCC target("tune=icelake-server")
#endif
#include "emulator/instructions/alu/interpolation.hpp"
#include "emulator/instructions/alu/lane_loops.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

// What ptxas makes of the forms without .ftz: arguments and results are scaled where the chip's function, which takes
// subnormal numbers for zero and has none as results, would not do.
constexpr float kLeastNormal = 0x1p-126f, kMostInverted = 0x1p+126f;

STAGECRAFT_INLINE bool is_subnormal(float a) { return __builtin_fabsf(a) < kLeastNormal; }

template <bool Flush>
struct Exponential2 {
  static float apply(float a) {
    const bool small = !Flush && a < -126.0f;
    const float result = exponential2(small ? a * 0.5f : a);
    return small ? result * result : result;
  }
};
template <bool Flush>
struct ReciprocalApproximate {
  static float apply(float a) {
    const float scale = Flush ? 1.0f : is_subnormal(a) ? 0x1p+24f : __builtin_fabsf(a) > kMostInverted ? 0.25f : 1.0f;
    return canonical(reciprocal_of(a * scale) * scale);
  }
};
template <bool Flush>
struct RootApproximate {
  static float apply(float a) {
    const bool small = !Flush && is_subnormal(a);
    return canonical(root_of(small ? a * 0x1p+24f : a) * (small ? 0x1p-12f : 1.0f));
  }
};
template <bool Flush>
struct Logarithm2 {
  static float apply(float a) {
    const bool small = !Flush && is_subnormal(a);
    return logarithm2(small ? a * 0x1p+24f : a) - (small ? 24.0f : 0.0f);
  }
};
struct HyperbolicTangent {
  static float apply(float a) { return hyperbolic_tangent(a); }
};
template <bool Flush>
struct ReciprocalRoot {
  static float apply(float a) {
    const bool small = !Flush && is_subnormal(a);
    return canonical(reciprocal_root_of(small ? a * 0x1p+24f : a) * (small ? 0x1p+12f : 1.0f));
  }
};
struct ReciprocalRootDouble {
  static double apply(double a) { return 1.0 / __builtin_sqrt(a); }
};

/// Computes a * (1 / b), as ptxas does it. Only .full has quotients by numbers above 2^126.
template <bool Flush, bool Full>
struct DivideApproximate {
  static float apply(float a, float b) {
    const float scale = Full && __builtin_fabsf(b) > kMostInverted ? 0.25f
                        : !Flush && is_subnormal(b)                ? 0x1p+24f
                                                                   : 1.0f;
    a = flushed<Flush>(flushed<Flush>(a) * scale);
    return canonical(flushed<Flush>(a * reciprocal_of(b * scale)));
  }
};

STAGECRAFT_INLINE double flush_double(double value) {
  const uint64_t bits = bits_as<uint64_t>(value);
  return bits_as<double>((bits & 0x7fffffffffffffffu) < 0x0010000000000000u ? bits & 0x8000000000000000u : bits);
}
/// Computes with the upper word only, even of a NaN; the lower word of the result is zero. NaN is 0x7fffffff00000000; a
/// NaN whose payload is only in the lower word counts as an infinity (PTX ISA, "rcp.approx.ftz.f64"; NaN measured on an
/// H200).
template <bool Root>
struct Gross {
  static double apply(double a) {
    const double upper = flush_double(bits_as<double>(bits_as<uint64_t>(a) & 0xffffffff00000000u));
    const double exact = flush_double(1.0 / (Root ? __builtin_sqrt(upper) : upper));
    const uint64_t result = bits_as<uint64_t>(exact) & 0xffffffff00000000u;
    return bits_as<double>(exact != exact ? 0x7fffffff00000000u : result);
  }
};

template <int Quarter, bool Flush>
Outcome run_circular(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* d = lanes<float>(fragment.registers, op.destination);
  const auto* a = lanes<float>(fragment.registers, op.a);
  alignas(64) float result[32];
  for (int i = 0; i < 32; ++i) {
    const float x = flush(a[i]);  // even without .ftz (measured on an H200)
    result[i] = flushed<Flush>(circular<Quarter>(x));
  }
  alignas(64) uint32_t select[32];
  spread<uint32_t, 1>(mask, select);
  STAGECRAFT_LANES
  for (int i = 0; i < 32; ++i) blend<float>(d[i], result[i], select[i]);
  return Outcome::next;
}

template <bool Flush>
void put_approximations(Catalog& catalog) {
  constexpr uint16_t kVariant = Flush ? kFlush : kPlain;
  catalog.put(Operation::exponential2, Type::f32, kVariant, lane_handlers<Exponential2<Flush>>());
  catalog.put(Operation::logarithm2, Type::f32, kVariant, lane_handlers<Logarithm2<Flush>>());
  catalog.put(Operation::reciprocal_root, Type::f32, kVariant, lane_handlers<ReciprocalRoot<Flush>>());
  catalog.put(Operation::divide_approximate, Type::f32, kVariant, lane_handlers<DivideApproximate<Flush, false>>());
  catalog.put(Operation::divide_full, Type::f32, kVariant, lane_handlers<DivideApproximate<Flush, true>>());
  catalog.put(Operation::reciprocal_approximate, Type::f32, kVariant, lane_handlers<ReciprocalApproximate<Flush>>());
  catalog.put(Operation::root_approximate, Type::f32, kVariant, lane_handlers<RootApproximate<Flush>>());
  catalog.put(Operation::sine, Type::f32, kVariant, both(run_circular<0, Flush>));
  catalog.put(Operation::cosine, Type::f32, kVariant, both(run_circular<1, Flush>));
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_elementary(Catalog& catalog) {
  put_approximations<false>(catalog);
  put_approximations<true>(catalog);
  catalog.put(Operation::hyperbolic_tangent, Type::f32, kPlain, lane_handlers<HyperbolicTangent>());
  catalog.put(Operation::reciprocal_root, Type::f64, kPlain, lane_handlers<ReciprocalRootDouble>());
  catalog.put(Operation::reciprocal_gross, Type::f64, kPlain, lane_handlers<Gross<false>>());
  catalog.put(Operation::reciprocal_root_gross, Type::f64, kPlain, lane_handlers<Gross<true>>());
}

}  // namespace stagecraft::emulator::machine::alu
