// Logic, shifts, fields and byte permutation. Compiled once per x86-64 level.
#include "emulator/instructions/alu/lane_loops.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

template <typename T>
inline constexpr uint32_t kBits = 8 * sizeof(T);

template <typename T>
struct And {
  static T apply(T a, T b) { return a & b; }
};
template <typename T>
struct Or {
  static T apply(T a, T b) { return a | b; }
};
template <typename T>
struct Xor {
  static T apply(T a, T b) { return a ^ b; }
};
template <typename T>
struct Not {
  static T apply(T a) { return static_cast<T>(~a); }
};
template <typename T>
struct LogicalNot {
  static T apply(T a) { return a == 0 ? 1 : 0; }
};

/// Computes any function of three bits: bit 4a + 2b + c of the table, as a tree of choices, c first.
struct Lop3 {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c, Immediate table) {
    const auto entry = [&](int index) {
      return static_cast<uint32_t>(-static_cast<int32_t>(table.value >> index & 1));
    };
    const uint32_t c00 = entry(0) ^ (c & (entry(0) ^ entry(1))), c01 = entry(2) ^ (c & (entry(2) ^ entry(3)));
    const uint32_t c10 = entry(4) ^ (c & (entry(4) ^ entry(5))), c11 = entry(6) ^ (c & (entry(6) ^ entry(7)));
    const uint32_t b0 = c00 ^ (b & (c00 ^ c01)), b1 = c10 ^ (b & (c10 ^ c11));
    return b0 ^ (a & (b0 ^ b1));
  }
};

// Amounts equal to the width or larger shift everything out; C++ leaves them undefined, hence the two steps.
template <typename T>
struct ShiftLeft {
  static T apply(T a, uint32_t amount) {
    return amount < kBits<T> ? static_cast<T>(static_cast<uint64_t>(a) << (amount & 63u)) : T{0};
  }
};
template <>
struct ShiftLeft<uint32_t> {
  static uint32_t apply(uint32_t a, uint32_t amount) { return amount < 32 ? a << (amount & 31u) : 0; }
};
template <typename T>
struct ShiftRight {
  static T apply(T a, uint32_t amount) {
    if constexpr (T(-1) < T(0)) {
      return static_cast<T>(a >> (amount < kBits<T> ? amount : kBits<T> - 1));
    } else {
      return amount < kBits<T> ? static_cast<T>(a >> (amount & (kBits<T> - 1))) : T{0};
    }
  }
};

template <bool Wrap>
STAGECRAFT_INLINE uint32_t funnel_amount(uint32_t amount) {
  return Wrap ? amount & 31u : amount < 32 ? amount : 32;
}
/// Returns the upper half of b:a shifted left.
template <bool Wrap>
struct FunnelLeft {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t amount) {
    return static_cast<uint32_t>((uint64_t{b} << 32 | a) << funnel_amount<Wrap>(amount) >> 32);
  }
};
/// Returns the lower half of b:a shifted right.
template <bool Wrap>
struct FunnelRight {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t amount) {
    return static_cast<uint32_t>((uint64_t{b} << 32 | a) >> funnel_amount<Wrap>(amount));
  }
};

/// Returns the byte that a selector's low three bits name, or its sign in all bits.
STAGECRAFT_INLINE uint32_t selected_byte(uint32_t a, uint32_t b, uint32_t selector) {
  const uint32_t shift = 8 * (selector & 3u);
  const uint32_t byte = ((selector & 4u) != 0 ? b >> shift : a >> shift) & 0xffu;
  const uint32_t sign = (0u - (byte >> 7)) & 0xffu;
  return (selector & 8u) != 0 ? sign : byte;
}

/// Returns the selectors, a nibble per byte, that a special mode of prmt makes from the low two bits of c (PTX ISA,
/// "prmt").
STAGECRAFT_INLINE uint32_t nibbles_of(Permutation mode, uint32_t c) {
  const uint32_t k = c & 3u;
  switch (mode) {
    case Permutation::f4e: return 0x3210u + 0x1111u * k;  // four bytes from byte k on
    case Permutation::b4e: return k == 0 ? 0x5670u : k == 1 ? 0x6701u : k == 2 ? 0x7012u : 0x0123u;
    case Permutation::rc8: return 0x1111u * k;
    case Permutation::ecl: return k == 0 ? 0x3210u : k == 1 ? 0x3211u : k == 2 ? 0x3222u : 0x3333u;
    case Permutation::ecr: return k == 0 ? 0x0000u : k == 1 ? 0x1110u : k == 2 ? 0x2210u : 0x3210u;
    case Permutation::rc16: return (k & 1u) != 0 ? 0x3232u : 0x1010u;
    default: return c;
  }
}

template <Permutation Mode>
struct Permute {
  static uint32_t apply(uint32_t a, uint32_t b, uint32_t c) {
    const uint32_t nibbles = nibbles_of(Mode, c);
    uint32_t result = 0;
    for (uint32_t k = 0; k < 4; ++k) result |= selected_byte(a, b, nibbles >> (4 * k)) << (8 * k);
    return result;
  }
};

template <typename T>
struct Population {
  static uint32_t apply(T a) {
    if constexpr (sizeof(T) == 4) return static_cast<uint32_t>(__builtin_popcount(a));
    return static_cast<uint32_t>(__builtin_popcountll(a));
  }
};
template <typename T>
STAGECRAFT_INLINE uint32_t leading_zeros(T a) {
  if constexpr (sizeof(T) == 4) return a == 0 ? 32 : static_cast<uint32_t>(__builtin_clz(a));
  return a == 0 ? 64 : static_cast<uint32_t>(__builtin_clzll(a));
}
template <typename T>
struct LeadingZeros {
  static uint32_t apply(T a) { return leading_zeros(a); }
};
/// Returns the position of the highest bit that is not a copy of the sign; all ones when there is none.
template <typename T, typename S, bool Amount>
struct FindLeading {
  static uint32_t apply(T a) {
    const T magnitude = S(-1) < S(0) && static_cast<S>(a) < 0 ? static_cast<T>(~a) : a;
    if (magnitude == 0) return 0xffffffffu;
    const uint32_t zeros = leading_zeros(magnitude);
    return Amount ? zeros : kBits<T> - 1 - zeros;
  }
};
template <typename T>
struct Reverse {
  static T apply(T a) {
    constexpr T kOnes = ~T{0};
    a = (a >> 1 & kOnes / 3) | (a & kOnes / 3) << 1;
    a = (a >> 2 & kOnes / 5) | (a & kOnes / 5) << 2;
    a = (a >> 4 & kOnes / 17) | (a & kOnes / 17) << 4;
    if constexpr (sizeof(T) == 4) return __builtin_bswap32(a);
    return __builtin_bswap64(a);
  }
};

/// Returns a word with the low `length` bits set; `length` may be the width.
template <typename T>
STAGECRAFT_INLINE T ones(uint32_t length) {
  return length >= kBits<T> ? ~T{0} : static_cast<T>((T{1} << (length & (kBits<T> - 1))) - 1);
}

/// Returns where a field begins, or how long it is: the low byte of the operand for 32 bits, all of it for 64 bits
/// (measured on an H200). PTX allows only 0 to 255.
template <typename T>
STAGECRAFT_INLINE uint32_t field_operand(uint32_t value) {
  if constexpr (sizeof(T) == 4) return value & 0xffu;
  return value < 0xffu ? value : 0xffu;
}

/// Computes bfe: `length` bits of a from `start` on; bits beyond the register are copies of the sign (signed) or zero.
template <typename T, typename S>
struct ExtractField {
  static T apply(T a, uint32_t b, uint32_t c) {
    constexpr bool kSigned = S(-1) < S(0);
    constexpr uint32_t kLast = kBits<T> - 1;
    const uint32_t start = field_operand<T>(b), length = field_operand<T>(c);
    const uint32_t end = start + length - 1 < kLast ? start + length - 1 : kLast;
    const T sign = kSigned && length != 0 ? static_cast<T>(0 - (a >> (end & kLast) & 1)) : T{0};
    const T field = start > kLast ? T{0} : static_cast<T>(a >> (start & kLast));
    const uint32_t present = start > kLast ? 0 : length < kBits<T> - start ? length : kBits<T> - start;
    const T mask = ones<T>(present);
    return length == 0 ? T{0} : static_cast<T>((field & mask) | (sign & ~mask));
  }
};

/// Computes bfi: b with `d` bits from bit `c` on replaced by the low bits of a.
template <typename T>
struct InsertField {
  static T apply(T a, T b, uint32_t c, uint32_t d) {
    const uint32_t start = field_operand<T>(c), length = field_operand<T>(d);
    const T mask = start >= kBits<T> ? T{0} : static_cast<T>(ones<T>(length) << (start & (kBits<T> - 1)));
    const T moved = static_cast<T>(a << (start & (kBits<T> - 1)));
    return static_cast<T>((b & ~mask) | (moved & mask));
  }
};

template <bool Wrap>
struct FieldMask {
  static uint32_t apply(uint32_t a, uint32_t b) {
    const uint32_t start = Wrap ? a & 31u : a, length = Wrap ? b & 31u : b;
    return start > 31 ? 0 : ones<uint32_t>(length) << (start & 31u);
  }
};
/// Computes szext: the low b bits of a, extended by sign or zero.
template <typename S, bool Wrap>
struct SignExtend {
  static uint32_t apply(uint32_t a, uint32_t b) {
    const uint32_t length = Wrap ? b & 31u : b;
    if (length == 0) return 0;
    const uint32_t mask = ones<uint32_t>(length);
    const bool negative = S(-1) < S(0) && (a >> ((length < 32 ? length : 32) - 1) & 1u) != 0;
    return (a & mask) | (negative ? ~mask : 0);
  }
};

/// Computes fns: the position of the n-th set bit of `mask`, counted upwards from `base` for n > 0 and downwards for n
/// < 0, where the base itself counts as the first; 0 tests the base. The result is all ones when there is none (PTX
/// ISA, "fns").
struct FindNthSet {
  static uint32_t apply(uint32_t mask, uint32_t base, uint32_t offset) {
    if (base > 31) return 0xffffffffu;
    const auto n = static_cast<int32_t>(offset);
    if (n == 0) return (mask >> base & 1u) != 0 ? base : 0xffffffffu;
    const int32_t step = n > 0 ? 1 : -1;
    uint32_t left = n > 0 ? offset : 0u - offset;
    for (auto position = static_cast<int32_t>(base); position >= 0 && position < 32; position += step) {
      if ((mask >> position & 1u) != 0 && --left == 0) return static_cast<uint32_t>(position);
    }
    return 0xffffffffu;
  }
};

template <typename T>
void put_logic(Catalog& catalog, Type type) {
  catalog.put(Operation::bit_and, type, 0, lane_handlers<And<T>>());
  catalog.put(Operation::bit_or, type, 0, lane_handlers<Or<T>>());
  catalog.put(Operation::bit_xor, type, 0, lane_handlers<Xor<T>>());
  catalog.put(Operation::bit_not, type, 0, lane_handlers<Not<T>>());
  catalog.put(Operation::logical_not, type, 0, lane_handlers<LogicalNot<T>>());
  catalog.put(Operation::shift_left, type, 0, lane_handlers<ShiftLeft<T>>());
}

template <typename T, typename S>
void put_fields(Catalog& catalog, Type bit_type, Type unsigned_type, Type signed_type) {
  catalog.put(Operation::population, bit_type, 0, lane_handlers<Population<T>>());
  catalog.put(Operation::leading_zeros, bit_type, 0, lane_handlers<LeadingZeros<T>>());
  catalog.put(Operation::reverse, bit_type, 0, lane_handlers<Reverse<T>>());
  catalog.put(Operation::insert_field, bit_type, 0, lane_handlers<InsertField<T>>());
  catalog.put(Operation::find_leading, unsigned_type, 0, lane_handlers<FindLeading<T, T, false>>());
  catalog.put(Operation::find_leading, unsigned_type, 1, lane_handlers<FindLeading<T, T, true>>());
  catalog.put(Operation::find_leading, signed_type, 0, lane_handlers<FindLeading<T, S, false>>());
  catalog.put(Operation::find_leading, signed_type, 1, lane_handlers<FindLeading<T, S, true>>());
  catalog.put(Operation::extract_field, unsigned_type, 0, lane_handlers<ExtractField<T, T>>());
  catalog.put(Operation::extract_field, signed_type, 0, lane_handlers<ExtractField<T, S>>());
}

template <Permutation Mode>
void put_permutation(Catalog& catalog) {
  catalog.put(Operation::permute, Type::b32, static_cast<uint16_t>(Mode), lane_handlers<Permute<Mode>>());
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_bits(Catalog& catalog) {
  put_logic<uint16_t>(catalog, Type::b16);
  put_logic<uint32_t>(catalog, Type::b32);
  put_logic<uint64_t>(catalog, Type::b64);
  catalog.put(Operation::lop3, Type::b32, 0, lane_handlers<Lop3>());
  catalog.put(Operation::shift_right, Type::u16, 0, lane_handlers<ShiftRight<uint16_t>>());
  catalog.put(Operation::shift_right, Type::s16, 0, lane_handlers<ShiftRight<int16_t>>());
  catalog.put(Operation::shift_right, Type::u32, 0, lane_handlers<ShiftRight<uint32_t>>());
  catalog.put(Operation::shift_right, Type::s32, 0, lane_handlers<ShiftRight<int32_t>>());
  catalog.put(Operation::shift_right, Type::u64, 0, lane_handlers<ShiftRight<uint64_t>>());
  catalog.put(Operation::shift_right, Type::s64, 0, lane_handlers<ShiftRight<int64_t>>());
  catalog.put(Operation::funnel_left, Type::b32, 0, lane_handlers<FunnelLeft<false>>());
  catalog.put(Operation::funnel_left, Type::b32, 1, lane_handlers<FunnelLeft<true>>());
  catalog.put(Operation::funnel_right, Type::b32, 0, lane_handlers<FunnelRight<false>>());
  catalog.put(Operation::funnel_right, Type::b32, 1, lane_handlers<FunnelRight<true>>());
  put_permutation<Permutation::by_nibble>(catalog);
  put_permutation<Permutation::f4e>(catalog);
  put_permutation<Permutation::b4e>(catalog);
  put_permutation<Permutation::rc8>(catalog);
  put_permutation<Permutation::ecl>(catalog);
  put_permutation<Permutation::ecr>(catalog);
  put_permutation<Permutation::rc16>(catalog);
  put_fields<uint32_t, int32_t>(catalog, Type::b32, Type::u32, Type::s32);
  put_fields<uint64_t, int64_t>(catalog, Type::b64, Type::u64, Type::s64);
  catalog.put(Operation::field_mask, Type::b32, 0, lane_handlers<FieldMask<false>>());
  catalog.put(Operation::field_mask, Type::b32, 1, lane_handlers<FieldMask<true>>());
  catalog.put(Operation::sign_extend, Type::u32, 0, lane_handlers<SignExtend<uint32_t, false>>());
  catalog.put(Operation::sign_extend, Type::u32, 1, lane_handlers<SignExtend<uint32_t, true>>());
  catalog.put(Operation::sign_extend, Type::s32, 0, lane_handlers<SignExtend<int32_t, false>>());
  catalog.put(Operation::sign_extend, Type::s32, 1, lane_handlers<SignExtend<int32_t, true>>());
  catalog.put(Operation::find_nth_set, Type::b32, 0, lane_handlers<FindNthSet>());
}

}  // namespace stagecraft::emulator::machine::alu
