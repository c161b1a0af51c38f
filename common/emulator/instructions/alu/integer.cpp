// Integer arithmetic on 16, 32 and 64 bits and on packed 16-bit pairs. Compiled once per x86-64 level.
//
// Arithmetic that wraps is done on unsigned types, because signed overflow is undefined in C++.
#include "emulator/instructions/alu/lane_loops.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

template <typename T>
struct Properties;
template <>
struct Properties<uint16_t> {
  using Unsigned = uint16_t;
  using Wide = uint32_t;
  static constexpr bool is_signed = false;
};
template <>
struct Properties<int16_t> {
  using Unsigned = uint16_t;
  using Wide = int32_t;
  static constexpr bool is_signed = true;
};
template <>
struct Properties<uint32_t> {
  using Unsigned = uint32_t;
  using Wide = uint64_t;
  static constexpr bool is_signed = false;
};
template <>
struct Properties<int32_t> {
  using Unsigned = uint32_t;
  using Wide = int64_t;
  static constexpr bool is_signed = true;
  static constexpr int32_t lowest = -0x7fffffff - 1, highest = 0x7fffffff;
};
template <>
struct Properties<uint64_t> {
  using Unsigned = uint64_t;
  using Wide = unsigned __int128;
  static constexpr bool is_signed = false;
};
template <>
struct Properties<int64_t> {
  using Unsigned = uint64_t;
  using Wide = __int128;
  static constexpr bool is_signed = true;
};

template <typename T>
using Unsigned = typename Properties<T>::Unsigned;
template <typename T>
using Wide = typename Properties<T>::Wide;

/// Returns the product modulo 2^bits; 16-bit factors would be promoted to int, whose product can overflow.
template <typename T>
STAGECRAFT_INLINE T product_low(T a, T b) {
  if constexpr (sizeof(T) == 2) {
    return static_cast<T>(static_cast<uint32_t>(static_cast<Unsigned<T>>(a)) * static_cast<Unsigned<T>>(b));
  } else {
    return static_cast<T>(static_cast<Unsigned<T>>(a) * static_cast<Unsigned<T>>(b));
  }
}

template <typename T>
STAGECRAFT_INLINE T product_high(T a, T b) {
  return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T)));
}

template <typename T>
STAGECRAFT_INLINE T sum(T a, T b) {
  return static_cast<T>(static_cast<Unsigned<T>>(a) + static_cast<Unsigned<T>>(b));
}

template <typename T>
struct Add {
  static T apply(T a, T b) { return sum(a, b); }
};
template <typename T>
struct Subtract {
  static T apply(T a, T b) { return static_cast<T>(static_cast<Unsigned<T>>(a) - static_cast<Unsigned<T>>(b)); }
};
STAGECRAFT_INLINE int32_t saturate_32(int64_t value) {
  value = value < Properties<int32_t>::lowest ? Properties<int32_t>::lowest : value;
  return static_cast<int32_t>(value > Properties<int32_t>::highest ? Properties<int32_t>::highest : value);
}
struct AddSaturate {
  static int32_t apply(int32_t a, int32_t b) { return saturate_32(int64_t{a} + b); }
};
struct SubtractSaturate {
  static int32_t apply(int32_t a, int32_t b) { return saturate_32(int64_t{a} - b); }
};
template <typename T>
struct MultiplyLow {
  static T apply(T a, T b) { return product_low(a, b); }
};
template <typename T>
struct MultiplyHigh {
  static T apply(T a, T b) { return product_high(a, b); }
};
template <typename T>
struct MultiplyWide {
  static Wide<T> apply(T a, T b) { return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)); }
};
template <typename T>
struct MultiplyAddLow {
  static T apply(T a, T b, T c) { return sum(product_low(a, b), c); }
};
template <typename T>
struct MultiplyAddHigh {
  static T apply(T a, T b, T c) { return sum(product_high(a, b), c); }
};
struct MultiplyAddHighSaturate {
  static int32_t apply(int32_t a, int32_t b, int32_t c) { return saturate_32(int64_t{product_high(a, b)} + c); }
};
template <typename T>
struct MultiplyAddWide {
  static Wide<T> apply(T a, T b, Wide<T> c) { return sum<Wide<T>>(MultiplyWide<T>::apply(a, b), c); }
};

/// Returns the 48-bit product of the low 24 bits of the factors.
template <typename T>
STAGECRAFT_INLINE uint64_t product_24(T a, T b) {
  if constexpr (Properties<T>::is_signed) {
    const int32_t left = static_cast<int32_t>(static_cast<uint32_t>(a) << 8) >> 8;
    const int32_t right = static_cast<int32_t>(static_cast<uint32_t>(b) << 8) >> 8;
    return static_cast<uint64_t>(int64_t{left} * right);
  } else {
    return uint64_t{a & 0xffffffu} * (b & 0xffffffu);
  }
}
template <typename T>
struct Multiply24Low {
  static T apply(T a, T b) { return static_cast<T>(static_cast<uint32_t>(product_24(a, b))); }
};
template <typename T>
struct Multiply24High {
  static T apply(T a, T b) { return static_cast<T>(static_cast<uint32_t>(product_24(a, b) >> 16)); }
};
template <typename T>
struct MultiplyAdd24Low {
  static T apply(T a, T b, T c) { return sum(Multiply24Low<T>::apply(a, b), c); }
};
template <typename T>
struct MultiplyAdd24High {
  static T apply(T a, T b, T c) { return sum(Multiply24High<T>::apply(a, b), c); }
};
struct MultiplyAdd24HighSaturate {
  static int32_t apply(int32_t a, int32_t b, int32_t c) {
    return saturate_32(int64_t{Multiply24High<int32_t>::apply(a, b)} + c);
  }
};

// After a division by zero, quotient and remainder are all ones, as with ptxas's code on the chip; the most negative
// number divided by -1 wraps. PTX leaves both open.

/// Divides 16- and 32-bit integers in double, which represents both operands exactly; the truncated quotient is always
/// right.
template <typename T>
STAGECRAFT_INLINE T quotient_narrow(T a, T b) {
  const double divisor = b == 0 ? 1.0 : static_cast<double>(b);
  const double exact = static_cast<double>(a) / divisor;
  if constexpr (sizeof(T) == 2) {
    return static_cast<T>(static_cast<int32_t>(exact));
  } else if constexpr (Properties<T>::is_signed) {
    // 2^31 is the one quotient that an int32_t cannot hold; it wraps.
    const double wrapped = exact == 2147483648.0 ? -2147483648.0 : exact;
    return static_cast<T>(static_cast<int32_t>(wrapped));
  } else {
    return static_cast<T>(exact);
  }
}

template <typename T, bool Remainder>
struct DivideNarrow {
  static T apply(T a, T b) {
    const T quotient = quotient_narrow(a, b);
    const T result = Remainder ? Subtract<T>::apply(a, product_low(quotient, b)) : quotient;
    return b == 0 ? static_cast<T>(-1) : result;
  }
};

template <typename T, bool Remainder>
STAGECRAFT_INLINE T divide_wide(T a, T b) {
  if (b == 0) return static_cast<T>(-1);
  if constexpr (Properties<T>::is_signed) {
    if (b == -1) return Remainder ? 0 : static_cast<T>(-static_cast<Unsigned<T>>(a));
  }
  return Remainder ? a % b : a / b;
}

template <typename T, bool Remainder>
Outcome run_divide_wide(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* d = lanes<T>(fragment.registers, op.destination);
  const auto* a = lanes<T>(fragment.registers, op.a);
  const auto* b = lanes<T>(fragment.registers, op.b);
  for (; mask != 0; mask &= mask - 1) {
    const int lane = __builtin_ctz(mask);
    d[lane] = divide_wide<T, Remainder>(a[lane], b[lane]);
  }
  return Outcome::next;
}

template <typename T>
struct Absolute {
  static T apply(T a) { return static_cast<T>(a < 0 ? -static_cast<Unsigned<T>>(a) : static_cast<Unsigned<T>>(a)); }
};
template <typename T>
struct Negate {
  static T apply(T a) { return static_cast<T>(-static_cast<Unsigned<T>>(a)); }
};
template <typename T, bool Relu = false>
struct Minimum {
  static T apply(T a, T b) {
    const T least = a < b ? a : b;
    return Relu && least < 0 ? T{0} : least;
  }
};
template <typename T, bool Relu = false>
struct Maximum {
  static T apply(T a, T b) {
    const T most = a > b ? a : b;
    return Relu && most < 0 ? T{0} : most;
  }
};
/// Returns c + |a - b|; the difference of two signed numbers always fits the unsigned type.
template <typename T>
struct SumOfDifference {
  static T apply(T a, T b, T c) {
    const auto left = static_cast<Unsigned<T>>(a), right = static_cast<Unsigned<T>>(b);
    const auto difference = static_cast<Unsigned<T>>(a < b ? right - left : left - right);
    return sum(static_cast<T>(difference), c);
  }
};

template <bool Signed>
STAGECRAFT_INLINE int32_t byte_of(uint32_t word, int index) {
  const uint32_t byte = word >> (8 * index) & 0xffu;
  return Signed ? static_cast<int8_t>(byte) : static_cast<int32_t>(byte);
}
template <bool Signed>
STAGECRAFT_INLINE int32_t half_of(uint32_t word, int index) {
  const uint32_t half = word >> (16 * index) & 0xffffu;
  return Signed ? static_cast<int16_t>(half) : static_cast<int32_t>(half);
}
template <bool SignedA, bool SignedB>
struct DotProduct4 {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    int32_t total = 0;
    for (int k = 0; k < 4; ++k) total += byte_of<SignedA>(a, k) * byte_of<SignedB>(b, k);
    return c + static_cast<uint32_t>(total);
  }
};
template <bool SignedA, bool SignedB, bool Upper>
struct DotProduct2 {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    int32_t total = 0;
    for (int k = 0; k < 2; ++k) total += half_of<SignedA>(a, k) * byte_of<SignedB>(b, k + (Upper ? 2 : 0));
    return c + static_cast<uint32_t>(total);
  }
};

template <typename T>
void put_common(Catalog& catalog, Type type) {
  catalog.put(Operation::mul_hi, type, 0, lane_handlers<MultiplyHigh<T>>());
  catalog.put(Operation::mad_hi, type, 0, lane_handlers<MultiplyAddHigh<T>>());
  catalog.put(Operation::minimum, type, 0, lane_handlers<Minimum<T>>());
  catalog.put(Operation::maximum, type, 0, lane_handlers<Maximum<T>>());
  catalog.put(Operation::sad, type, 0, lane_handlers<SumOfDifference<T>>());
  if constexpr (sizeof(T) < 8) {
    catalog.put(Operation::mul_wide, type, 0, lane_handlers<MultiplyWide<T>>());
    catalog.put(Operation::mad_wide, type, 0, lane_handlers<MultiplyAddWide<T>>());
    catalog.put(Operation::divide, type, 0, lane_handlers<DivideNarrow<T, false>>());
    catalog.put(Operation::remainder, type, 0, lane_handlers<DivideNarrow<T, true>>());
  } else {
    catalog.put(Operation::divide, type, 0, both(run_divide_wide<T, false>));
    catalog.put(Operation::remainder, type, 0, both(run_divide_wide<T, true>));
  }
  if constexpr (sizeof(T) == 4) {
    catalog.put(Operation::mul24_lo, type, 0, lane_handlers<Multiply24Low<T>>());
    catalog.put(Operation::mul24_hi, type, 0, lane_handlers<Multiply24High<T>>());
    catalog.put(Operation::mad24_lo, type, 0, lane_handlers<MultiplyAdd24Low<T>>());
    catalog.put(Operation::mad24_hi, type, 0, lane_handlers<MultiplyAdd24High<T>>());
  }
  if constexpr (Properties<T>::is_signed) {
    catalog.put(Operation::absolute, type, 0, lane_handlers<Absolute<T>>());
    catalog.put(Operation::negate, type, 0, lane_handlers<Negate<T>>());
  }
}

/// Adds operations that do not depend on the sign: the same handlers under both types.
template <typename U>
void put_modular(Catalog& catalog, Type unsigned_type, Type signed_type) {
  for (const Type type : {unsigned_type, signed_type}) {
    catalog.put(Operation::add, type, 0, lane_handlers<Add<U>>());
    catalog.put(Operation::sub, type, 0, lane_handlers<Subtract<U>>());
    catalog.put(Operation::mul_lo, type, 0, lane_handlers<MultiplyLow<U>>());
    catalog.put(Operation::mad_lo, type, 0, lane_handlers<MultiplyAddLow<U>>());
  }
}

template <bool SignedA, bool SignedB>
void put_dot_products(Catalog& catalog) {
  constexpr uint16_t kSigns = (SignedA ? 1 : 0) | (SignedB ? 2 : 0);
  catalog.put(Operation::dp4a, Type::u32, kSigns, lane_handlers<DotProduct4<SignedA, SignedB>>());
  catalog.put(Operation::dp2a, Type::u32, kSigns, lane_handlers<DotProduct2<SignedA, SignedB, false>>());
  catalog.put(Operation::dp2a, Type::u32, kSigns | 4, lane_handlers<DotProduct2<SignedA, SignedB, true>>());
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_integer(Catalog& catalog) {
  put_modular<uint16_t>(catalog, Type::u16, Type::s16);
  put_modular<uint32_t>(catalog, Type::u32, Type::s32);
  put_modular<uint64_t>(catalog, Type::u64, Type::s64);
  put_common<uint16_t>(catalog, Type::u16);
  put_common<int16_t>(catalog, Type::s16);
  put_common<uint32_t>(catalog, Type::u32);
  put_common<int32_t>(catalog, Type::s32);
  put_common<uint64_t>(catalog, Type::u64);
  put_common<int64_t>(catalog, Type::s64);

  catalog.put(Operation::add_saturate, Type::s32, 0, lane_handlers<AddSaturate>());
  catalog.put(Operation::sub_saturate, Type::s32, 0, lane_handlers<SubtractSaturate>());
  catalog.put(Operation::mad_hi_saturate, Type::s32, 0, lane_handlers<MultiplyAddHighSaturate>());
  catalog.put(Operation::mad24_hi_saturate, Type::s32, 0, lane_handlers<MultiplyAdd24HighSaturate>());
  catalog.put(Operation::minimum_relu, Type::s32, 0, lane_handlers<Minimum<int32_t, true>>());
  catalog.put(Operation::maximum_relu, Type::s32, 0, lane_handlers<Maximum<int32_t, true>>());

  // Pairs in a 32-bit register are 64 elements: variant kPair.
  catalog.put(Operation::add, Type::u16, kPair, lane_handlers<Add<uint16_t>, 2>());
  catalog.put(Operation::add, Type::s16, kPair, lane_handlers<Add<uint16_t>, 2>());
  catalog.put(Operation::minimum, Type::u16, kPair, lane_handlers<Minimum<uint16_t>, 2>());
  catalog.put(Operation::maximum, Type::u16, kPair, lane_handlers<Maximum<uint16_t>, 2>());
  catalog.put(Operation::minimum, Type::s16, kPair, lane_handlers<Minimum<int16_t>, 2>());
  catalog.put(Operation::maximum, Type::s16, kPair, lane_handlers<Maximum<int16_t>, 2>());
  catalog.put(Operation::minimum_relu, Type::s16, kPair, lane_handlers<Minimum<int16_t, true>, 2>());
  catalog.put(Operation::maximum_relu, Type::s16, kPair, lane_handlers<Maximum<int16_t, true>, 2>());

  put_dot_products<false, false>(catalog);
  put_dot_products<true, false>(catalog);
  put_dot_products<false, true>(catalog);
  put_dot_products<true, true>(catalog);
}

}  // namespace stagecraft::emulator::machine::alu
