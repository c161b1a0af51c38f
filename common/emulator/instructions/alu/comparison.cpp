// Comparisons into predicates and masks, selection, and logic on predicates. Compiled once per x86-64 level.
#include "emulator/instructions/alu/lane_loops.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

// How values of each format are made comparable: `order` maps to a number that compares as the value does (with -0
// equal to +0), and `is_number` says whether there is an order at all.

template <typename T>
struct IntegerFormat {
  using Storage = T;
  STAGECRAFT_INLINE static T order(T value) { return value; }
  STAGECRAFT_INLINE static bool is_number(T) { return true; }
};

template <typename T, bool Flush>
struct FloatFormat {
  using Storage = T;
  STAGECRAFT_INLINE static T order(T value) {
    if constexpr (Flush) {
      const uint32_t magnitude = bits_as<uint32_t>(value) & 0x7fffffffu;
      return magnitude < 0x00800000u ? T{0} : value;
    }
    return value;
  }
  STAGECRAFT_INLINE static bool is_number(T value) { return value == value; }
};

/// Sixteen-bit floats are ordered as sign-magnitude integers. `Infinity` is the pattern of infinity, `Normal` that of
/// the least number that is not flushed.
template <uint16_t Infinity, uint16_t Normal>
struct HalfFormat {
  using Storage = uint16_t;
  STAGECRAFT_INLINE static int16_t order(uint16_t bits) {
    uint16_t magnitude = bits & 0x7fffu;
    magnitude = magnitude < Normal ? 0 : magnitude;
    return static_cast<int16_t>((bits & 0x8000u) != 0 ? -magnitude : magnitude);
  }
  STAGECRAFT_INLINE static bool is_number(uint16_t bits) { return (bits & 0x7fffu) <= Infinity; }
};
using F16 = HalfFormat<0x7c00, 0>;
using F16Flushed = HalfFormat<0x7c00, 0x0400>;
using Bf16 = HalfFormat<0x7f80, 0>;
using Bf16Flushed = HalfFormat<0x7f80, 0x0080>;

struct Equal {
  template <typename T>
  STAGECRAFT_INLINE static bool holds(T a, T b) {
    return a == b;
  }
};
struct NotEqual {
  template <typename T>
  STAGECRAFT_INLINE static bool holds(T a, T b) {
    return a != b;
  }
};
struct Less {
  template <typename T>
  STAGECRAFT_INLINE static bool holds(T a, T b) {
    return a < b;
  }
};
struct LessOrEqual {
  template <typename T>
  STAGECRAFT_INLINE static bool holds(T a, T b) {
    return a <= b;
  }
};
struct Number {
  template <typename T>
  STAGECRAFT_INLINE static bool holds(T, T) {
    return true;
  }
};

/// Whether the relation is true; it never is when an operand is NaN.
template <typename Relation, typename Format>
STAGECRAFT_INLINE bool related(typename Format::Storage a, typename Format::Storage b) {
  // There are no branches, so that the loop becomes vector code.
  const int holds = Relation::holds(Format::order(a), Format::order(b));
  const int numbers = int{Format::is_number(a)} & int{Format::is_number(b)};
  return (holds & numbers) != 0;
}

STAGECRAFT_INLINE LaneMask combine(LaneMask value, LaneMask predicate, uint64_t how) {
  switch (how) {
    case 1: return value & predicate;
    case 2: return value | predicate;
    case 3: return value ^ predicate;
    default: return value;
  }
}

/// Writes the result of a comparison, and of its negation (or of the second half of a pair), as the tail says.
STAGECRAFT_INLINE void finish_comparison(std::byte* registers, const Op& op, LaneMask value, LaneMask second,
                                         LaneMask mask) {
  const uint64_t tail = op.immediate;
  if (tail != kNoSecondDestination) {
    const uint64_t how = tail >> kCombineShift & 3u;
    LaneMask predicate = 0;
    if (how != 0) predicate = *lanes<LaneMask>(registers, op.c) ^ ((tail & kNegatePredicate) != 0 ? kAllLanes : 0);
    if ((tail & kNegateComparison) != 0) {
      value = ~value;
      second = ~second;
    }
    const auto other = static_cast<RegisterOffset>(tail);
    if (other != kNoRegister) write_predicate(registers, other, combine(second, predicate, how), mask);
    value = combine(value, predicate, how);
  }
  write_predicate(registers, op.destination, value, mask);
}

template <typename Relation, typename Format>
STAGECRAFT_INLINE LaneMask compare_lanes(const std::byte* registers, RegisterOffset left, RegisterOffset right) {
  using T = typename Format::Storage;
  const auto* a = reinterpret_cast<const typename Aliased<T>::type*>(registers + left);
  const auto* b = reinterpret_cast<const typename Aliased<T>::type*>(registers + right);
  alignas(64) uint8_t truth[32];
  STAGECRAFT_LANES
  for (int i = 0; i < 32; ++i) truth[i] = related<Relation, Format>(a[i], b[i]) ? 0xff : 0;
  return gather_mask(truth);
}

template <typename Relation, typename Format>
Outcome run_compare(Fragment& fragment, const Op& op, LaneMask mask) {
  const LaneMask value = compare_lanes<Relation, Format>(fragment.registers, op.a, op.b);
  finish_comparison(fragment.registers, op, value, ~value, mask);
  return Outcome::next;
}

/// f16x2 and bf16x2: the lower halves give the first predicate, the upper halves the second.
template <typename Relation, typename Format>
Outcome run_compare_pair(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto* a = lanes<uint16_t>(fragment.registers, op.a);
  const auto* b = lanes<uint16_t>(fragment.registers, op.b);
  alignas(64) uint8_t low[32], high[32];
  STAGECRAFT_LANES
  for (int i = 0; i < 32; ++i) {
    low[i] = related<Relation, Format>(a[2 * i], b[2 * i]) ? 0xff : 0;
    high[i] = related<Relation, Format>(a[2 * i + 1], b[2 * i + 1]) ? 0xff : 0;
  }
  finish_comparison(fragment.registers, op, gather_mask(low), gather_mask(high), mask);
  return Outcome::next;
}

/// Returns bits 16-31 of the immediate where the relation (negated if bit 0) is true, otherwise zero.
template <typename Relation, typename Format>
struct Mask {
  static uint16_t apply(uint16_t a, uint16_t b, Immediate how) {
    const bool holds = related<Relation, Format>(a, b) != ((how.value & 1u) != 0);
    return holds ? static_cast<uint16_t>(how.value >> 16) : uint16_t{0};
  }
};

template <typename T>
Outcome run_select(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* d = lanes<T>(fragment.registers, op.destination);
  const auto* a = lanes<T>(fragment.registers, op.a);
  const auto* b = lanes<T>(fragment.registers, op.b);
  const LaneMask choice = *lanes<LaneMask>(fragment.registers, op.c) ^ static_cast<LaneMask>(op.immediate);
  alignas(64) T chosen[32];
  spread<T, 1>(choice, chosen);
  if (mask == kAllLanes) {
    STAGECRAFT_LANES
    for (int i = 0; i < 32; ++i) d[i] = static_cast<T>((a[i] & chosen[i]) | (b[i] & ~chosen[i]));
  } else {
    alignas(64) T select[32];
    spread<T, 1>(mask, select);
    STAGECRAFT_LANES
    for (int i = 0; i < 32; ++i) {
      blend<T>(d[i], static_cast<T>((a[i] & chosen[i]) | (b[i] & ~chosen[i])), select[i]);
    }
  }
  return Outcome::next;
}

Outcome run_predicate_logic(Fragment& fragment, const Op& op, LaneMask mask) {
  const LaneMask a = *lanes<LaneMask>(fragment.registers, op.a) ^ static_cast<LaneMask>(op.immediate);
  const LaneMask b =
      *lanes<LaneMask>(fragment.registers, op.b) ^ ((op.immediate & kNegatePredicate) != 0 ? kAllLanes : 0);
  const LaneMask value = combine(a, b, op.immediate >> kCombineShift & 3u);
  write_predicate(fragment.registers, op.destination, value, mask);
  return Outcome::next;
}

enum class Property : uint16_t { finite, infinite, number, notanumber, normal, subnormal };

/// Computes testp on the magnitude's bits.
template <typename U, U Infinity, U Normal, Property Tested>
Outcome run_test(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto* a = lanes<U>(fragment.registers, op.a);
  alignas(64) uint8_t truth[32];
  STAGECRAFT_LANES
  for (int i = 0; i < 32; ++i) {
    const U magnitude = a[i] & (~U{0} >> 1);
    bool holds = false;
    if constexpr (Tested == Property::finite) holds = magnitude < Infinity;
    if constexpr (Tested == Property::infinite) holds = magnitude == Infinity;
    if constexpr (Tested == Property::number) holds = magnitude <= Infinity;
    if constexpr (Tested == Property::notanumber) holds = magnitude > Infinity;
    // Zero counts as normal (measured on an H200).
    if constexpr (Tested == Property::normal) holds = (magnitude >= Normal && magnitude < Infinity) || magnitude == 0;
    if constexpr (Tested == Property::subnormal) holds = magnitude != 0 && magnitude < Normal;
    truth[i] = holds ? 0xff : 0;
  }
  write_predicate(fragment.registers, op.destination, gather_mask(truth), mask);
  return Outcome::next;
}

/// Returns the magnitude of b with the sign of a (in this order in PTX).
template <typename U>
struct CopySign {
  static U apply(U a, U b) {
    constexpr U kSign = static_cast<U>(~(~U{0} >> 1));
    return (a & kSign) | (b & ~kSign);
  }
};

template <typename Format>
void put_relations(Catalog& catalog, Type type, uint16_t variant) {
  catalog.put(Operation::compare_eq, type, variant, both(run_compare<Equal, Format>));
  catalog.put(Operation::compare_ne, type, variant, both(run_compare<NotEqual, Format>));
  catalog.put(Operation::compare_lt, type, variant, both(run_compare<Less, Format>));
  catalog.put(Operation::compare_le, type, variant, both(run_compare<LessOrEqual, Format>));
}

template <typename Format>
void put_float_relations(Catalog& catalog, Type type, uint16_t variant) {
  put_relations<Format>(catalog, type, variant);
  catalog.put(Operation::compare_number, type, variant, both(run_compare<Number, Format>));
}

template <typename Format>
void put_half_relations(Catalog& catalog, Type type, Type pair_type, uint16_t variant) {
  put_float_relations<Format>(catalog, type, variant);
  catalog.put(Operation::compare_eq, pair_type, variant, both(run_compare_pair<Equal, Format>));
  catalog.put(Operation::compare_ne, pair_type, variant, both(run_compare_pair<NotEqual, Format>));
  catalog.put(Operation::compare_lt, pair_type, variant, both(run_compare_pair<Less, Format>));
  catalog.put(Operation::compare_le, pair_type, variant, both(run_compare_pair<LessOrEqual, Format>));
  catalog.put(Operation::compare_number, pair_type, variant, both(run_compare_pair<Number, Format>));
  catalog.put(Operation::mask_eq, pair_type, variant, lane_handlers<Mask<Equal, Format>, 2>());
  catalog.put(Operation::mask_ne, pair_type, variant, lane_handlers<Mask<NotEqual, Format>, 2>());
  catalog.put(Operation::mask_lt, pair_type, variant, lane_handlers<Mask<Less, Format>, 2>());
  catalog.put(Operation::mask_le, pair_type, variant, lane_handlers<Mask<LessOrEqual, Format>, 2>());
  catalog.put(Operation::mask_number, pair_type, variant, lane_handlers<Mask<Number, Format>, 2>());
}

template <typename U, U Infinity, U Normal>
void put_tests(Catalog& catalog, Type type) {
  const auto put = [&](Property property, Handler handler) {
    catalog.put(Operation::test_property, type, static_cast<uint16_t>(property), both(handler));
  };
  put(Property::finite, run_test<U, Infinity, Normal, Property::finite>);
  put(Property::infinite, run_test<U, Infinity, Normal, Property::infinite>);
  put(Property::number, run_test<U, Infinity, Normal, Property::number>);
  put(Property::notanumber, run_test<U, Infinity, Normal, Property::notanumber>);
  put(Property::normal, run_test<U, Infinity, Normal, Property::normal>);
  put(Property::subnormal, run_test<U, Infinity, Normal, Property::subnormal>);
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_comparison(Catalog& catalog) {
  put_relations<IntegerFormat<uint16_t>>(catalog, Type::u16, 0);
  put_relations<IntegerFormat<int16_t>>(catalog, Type::s16, 0);
  put_relations<IntegerFormat<uint32_t>>(catalog, Type::u32, 0);
  put_relations<IntegerFormat<int32_t>>(catalog, Type::s32, 0);
  put_relations<IntegerFormat<uint64_t>>(catalog, Type::u64, 0);
  put_relations<IntegerFormat<int64_t>>(catalog, Type::s64, 0);
  put_float_relations<FloatFormat<float, false>>(catalog, Type::f32, kPlain);
  put_float_relations<FloatFormat<float, true>>(catalog, Type::f32, kFlush);
  put_float_relations<FloatFormat<double, false>>(catalog, Type::f64, kPlain);
  put_half_relations<F16>(catalog, Type::f16, Type::f16x2, kPlain);
  put_half_relations<F16Flushed>(catalog, Type::f16, Type::f16x2, kFlush);
  put_half_relations<Bf16>(catalog, Type::bf16, Type::bf16x2, kPlain);
  put_half_relations<Bf16Flushed>(catalog, Type::bf16, Type::bf16x2, kFlush);

  catalog.put(Operation::select, Type::b16, 0, both(run_select<uint16_t>));
  catalog.put(Operation::select, Type::b32, 0, both(run_select<uint32_t>));
  catalog.put(Operation::select, Type::b64, 0, both(run_select<uint64_t>));
  catalog.put(Operation::predicate_logic, Type::pred, 0, both(run_predicate_logic));
  catalog.put(Operation::copy_sign, Type::f32, 0, lane_handlers<CopySign<uint32_t>>());
  catalog.put(Operation::copy_sign, Type::f64, 0, lane_handlers<CopySign<uint64_t>>());
  put_tests<uint32_t, 0x7f800000u, 0x00800000u>(catalog, Type::f32);
  put_tests<uint64_t, 0x7ff0000000000000u, 0x0010000000000000u>(catalog, Type::f64);
}

}  // namespace stagecraft::emulator::machine::alu
