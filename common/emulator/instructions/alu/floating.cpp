// Single- and double-precision arithmetic that IEEE 754 defines. Compiled once per x86-64 level.
//
// Rounding to nearest is the processor's own; the directed modes run the same code with the control register set.
#include "emulator/instructions/alu/lane_loops.hpp"
#include "emulator/instructions/alu/numerics.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

/// Applies the modifiers to a result: flushes, makes NaN canonical, saturates.
template <int Flags, typename T>
STAGECRAFT_INLINE T finished(T value) {
  value = flushed<(Flags & kFlush) != 0>(value);
  if constexpr ((Flags & kSaturate) != 0) return saturated(value);
  return canonical(value);
}
template <int Flags, typename T>
STAGECRAFT_INLINE T taken(T value) {
  return flushed<(Flags & kFlush) != 0>(value);
}

/// With .ftz a result counts as subnormal if it is one when rounded as if the exponent had no limit (measured on an
/// H200). If the result is the least normal number, computing it 2^100 times as large decides. If that overflows, the
/// result was exact.
inline constexpr float kEnlarge = 0x1p+100f;
template <int Flags, typename T, typename Enlarged>
STAGECRAFT_INLINE T without_subnormal(T value, Enlarged enlarged) {
  if constexpr ((Flags & kFlush) != 0) {
    const T large = enlarged();
    const uint32_t bits = bits_as<uint32_t>(value);
    const bool open = (bits & 0x7fffffffu) == 0x00800000u;
    const bool small = bits_as<float>(bits_as<uint32_t>(large) & 0x7fffffffu) < 0x1p-126f * kEnlarge;
    return bits_as<T>((open & small) ? bits & 0x80000000u : bits);
  }
  return value;
}

template <typename T, int Flags>
struct Add {
  static T apply(T a, T b) { return finished<Flags, T>(carried(taken<Flags>(a) + taken<Flags>(b), b, a)); }
};
template <typename T, int Flags>
struct Subtract {
  static T apply(T a, T b) { return finished<Flags, T>(carried(taken<Flags>(a) - taken<Flags>(b), b, a)); }
};
template <typename T, int Flags>
struct Multiply {
  static T apply(T a, T b) {
    const T x = taken<Flags>(a), y = taken<Flags>(b);
    const T product = without_subnormal<Flags>(x * y, [&] { return x * kEnlarge * y; });
    return finished<Flags, T>(carried(product, b, a));
  }
};
template <typename T>
STAGECRAFT_INLINE T carried(T value, T first, T second, T third) {
  return carried(value, first, second != second ? second : third);
}
template <typename T, int Flags>
struct MultiplyAdd {
  static T apply(T a, T b, T c) {
    const T x = taken<Flags>(a), y = taken<Flags>(b), z = taken<Flags>(c);
    const T sum = without_subnormal<Flags>(fused(x, y, z), [&] { return fused(x * kEnlarge, y, z * kEnlarge); });
    return finished<Flags, T>(carried(sum, b, c, a));
  }
};
/// Does the same under a directed rounding mode, where the baseline's replacement for the fused operation is not right.
template <typename T, int Flags>
struct MultiplyAddDirected {
  static T apply(T a, T b, T c) {
    if constexpr (sizeof(T) == 4) {
      const T x = taken<Flags>(a), y = taken<Flags>(b), z = taken<Flags>(c);
      return finished<Flags, T>(without_subnormal<Flags>(
          __builtin_fmaf(x, y, z), [&] { return __builtin_fmaf(x * kEnlarge, y, z * kEnlarge); }));
    } else {
      return finished<Flags, T>(carried(__builtin_fma(a, b, c), b, c, a));
    }
  }
};
template <typename T, int Flags>
struct Divide {
  static T apply(T a, T b) {
    const T x = taken<Flags>(a), y = taken<Flags>(b);
    const T quotient = without_subnormal<Flags>(x / y, [&] { return x * kEnlarge / y; });
    return finished<Flags, T>(carried(quotient, a, b));
  }
};
template <typename T, int Flags>
struct Reciprocal {
  static T apply(T a) {
    const T x = taken<Flags>(a);
    return finished<Flags, T>(without_subnormal<Flags>(T{1} / x, [&] { return T{1} * kEnlarge / x; }));
  }
};
template <typename T, int Flags>
struct SquareRoot {
  static T apply(T a) {
    if constexpr (sizeof(T) == 4) return finished<Flags, T>(__builtin_sqrtf(taken<Flags>(a)));
    return finished<Flags, T>(__builtin_sqrt(taken<Flags>(a)));
  }
};

template <typename T>
inline constexpr auto kSignBit = typename UnsignedOf<sizeof(T)>::type{1} << (8 * sizeof(T) - 1);

template <typename T>
STAGECRAFT_INLINE T magnitude(T value) {
  return bits_as<T>(bits_as<typename UnsignedOf<sizeof(T)>::type>(value) & ~kSignBit<T>);
}

// The chip treats these as arithmetic that adds zero: a NaN becomes the one of single precision, and in double
// precision keeps even its sign (measured on an H200).
template <typename T, int Flags>
struct Absolute {
  static T apply(T a) { return canonical(carried(magnitude(taken<Flags>(a)), a, a)); }
};
template <typename T, int Flags>
struct Negate {
  static T apply(T a) {
    using U = typename UnsignedOf<sizeof(T)>::type;
    return canonical(carried(bits_as<T>(static_cast<U>(bits_as<U>(taken<Flags>(a)) ^ kSignBit<T>)), a, a));
  }
};

/// Returns the lesser (or greater) of two. The result is the number if one is NaN, unless .NaN; -0 is less than +0;
/// .xorsign.abs compares the magnitudes, and the sign of the result is the exclusive or of the signs.
template <typename T, bool Greater, int Flags>
STAGECRAFT_INLINE T extreme(T a, T b) {
  using U = typename UnsignedOf<sizeof(T)>::type;
  a = taken<Flags>(a);
  b = taken<Flags>(b);
  const U sign = (bits_as<U>(a) ^ bits_as<U>(b)) & kSignBit<T>;
  if constexpr ((Flags & kXorSign) != 0) {
    a = magnitude(a);
    b = magnitude(b);
  }
  // Equal values differ only if they are zeros: the lesser has the or of the bits, the greater the and.
  const U tie = Greater ? bits_as<U>(a) & bits_as<U>(b) : bits_as<U>(a) | bits_as<U>(b);
  const T chosen = (Greater ? a > b : a < b) ? a : b;
  T result = a == b ? bits_as<T>(tie) : chosen;
  if constexpr ((Flags & kXorSign) != 0) result = bits_as<T>(static_cast<U>(bits_as<U>(result) | sign));
  const bool a_nan = a != a, b_nan = b != b;
  if constexpr ((Flags & kNan) != 0) return (a_nan | b_nan) ? canonical_nan<T>() : result;
  T number = a_nan ? b : a;
  if constexpr ((Flags & kXorSign) != 0) number = bits_as<T>(static_cast<U>(bits_as<U>(number) | sign));
  result = (a_nan | b_nan) ? number : result;
  return (a_nan & b_nan) ? canonical(carried(b, b, b)) : result;
}

template <typename T, bool Greater, int Flags>
struct Extreme {
  static T apply(T a, T b) { return extreme<T, Greater, Flags>(a, b); }
};
template <bool Greater, int Flags>
struct Extreme3 {
  static float apply(float a, float b, float c) {
    return extreme<float, Greater, Flags>(extreme<float, Greater, Flags>(a, b), c);
  }
};

/// Adds handlers that round to nearest, and handlers that round as the immediate says.
template <typename F, int PerLane = 1>
void put_both(Catalog& catalog, Operation operation, Type type, int flags) {
  catalog.put(operation, type, static_cast<uint16_t>(flags), lane_handlers<F, PerLane>());
  catalog.put(operation, type, static_cast<uint16_t>(flags | kDirected), directed_handlers<F, PerLane>());
}

template <typename T, int Flags>
void put_arithmetic(Catalog& catalog, Type type) {
  put_both<Add<T, Flags>>(catalog, Operation::add, type, Flags);
  put_both<Subtract<T, Flags>>(catalog, Operation::sub, type, Flags);
  put_both<Multiply<T, Flags>>(catalog, Operation::multiply, type, Flags);
  catalog.put(Operation::multiply_add, type, Flags, lane_handlers<MultiplyAdd<T, Flags>>());
  catalog.put(Operation::multiply_add, type, Flags | kDirected, directed_handlers<MultiplyAddDirected<T, Flags>>());
}

template <typename T, int Flags>
void put_roots(Catalog& catalog, Type type) {
  put_both<Divide<T, Flags>>(catalog, Operation::divide, type, Flags);
  put_both<Reciprocal<T, Flags>>(catalog, Operation::reciprocal, type, Flags);
  put_both<SquareRoot<T, Flags>>(catalog, Operation::square_root, type, Flags);
  catalog.put(Operation::absolute, type, Flags, lane_handlers<Absolute<T, Flags>>());
  catalog.put(Operation::negate, type, Flags, lane_handlers<Negate<T, Flags>>());
}

template <typename T, int Flags>
void put_extremes(Catalog& catalog, Type type) {
  catalog.put(Operation::minimum, type, Flags, lane_handlers<Extreme<T, false, Flags>>());
  catalog.put(Operation::maximum, type, Flags, lane_handlers<Extreme<T, true, Flags>>());
  if constexpr (sizeof(T) == 4) {
    catalog.put(Operation::minimum3, type, Flags, lane_handlers<Extreme3<false, Flags>>());
    catalog.put(Operation::maximum3, type, Flags, lane_handlers<Extreme3<true, Flags>>());
  }
}

template <int Flags>
void put_pairs(Catalog& catalog) {
  put_both<Add<float, Flags>, 2>(catalog, Operation::add, Type::f32x2, Flags);
  put_both<Subtract<float, Flags>, 2>(catalog, Operation::sub, Type::f32x2, Flags);
  put_both<Multiply<float, Flags>, 2>(catalog, Operation::multiply, Type::f32x2, Flags);
  catalog.put(Operation::multiply_add, Type::f32x2, Flags, lane_handlers<MultiplyAdd<float, Flags>, 2>());
  catalog.put(Operation::multiply_add, Type::f32x2, Flags | kDirected,
              directed_handlers<MultiplyAddDirected<float, Flags>, 2>());
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_floating(Catalog& catalog) {
  put_arithmetic<float, kPlain>(catalog, Type::f32);
  put_arithmetic<float, kFlush>(catalog, Type::f32);
  put_arithmetic<float, kSaturate>(catalog, Type::f32);
  put_arithmetic<float, kFlush | kSaturate>(catalog, Type::f32);
  put_arithmetic<double, kPlain>(catalog, Type::f64);
  put_roots<float, kPlain>(catalog, Type::f32);
  put_roots<float, kFlush>(catalog, Type::f32);
  put_roots<double, kPlain>(catalog, Type::f64);
  put_extremes<float, kPlain>(catalog, Type::f32);
  put_extremes<float, kFlush>(catalog, Type::f32);
  put_extremes<float, kNan>(catalog, Type::f32);
  put_extremes<float, kFlush | kNan>(catalog, Type::f32);
  put_extremes<float, kXorSign>(catalog, Type::f32);
  put_extremes<float, kFlush | kXorSign>(catalog, Type::f32);
  put_extremes<float, kNan | kXorSign>(catalog, Type::f32);
  put_extremes<float, kFlush | kNan | kXorSign>(catalog, Type::f32);
  put_extremes<double, kPlain>(catalog, Type::f64);
  put_pairs<kPlain>(catalog);
  put_pairs<kFlush>(catalog);
}

}  // namespace stagecraft::emulator::machine::alu
