// Arithmetic with the carry flag, for numbers longer than a register. Compiled once per x86-64 level.
#include "emulator/instructions/alu/lane_loops.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

/// Computes a + b + carry, and the carry out.
template <typename T>
STAGECRAFT_INLINE T add_with_carry(T a, T b, T carry, uint8_t& out) {
  const T partial = a + b;
  const T result = partial + carry;
  out = partial < a || result < partial ? 0xff : 0;
  return result;
}

template <typename T>
struct AddCarry {
  static constexpr T kStart = 0;  ///< the carry in of an instruction that takes none
  STAGECRAFT_INLINE static T apply(T a, T b, T, T carry, uint8_t& out) { return add_with_carry<T>(a, b, carry, out); }
};
/// Computes a - b with the flag of a + ~b + 1: set when nothing is borrowed. This is visible when a chain of additions
/// continues with the flag of a subtraction, as in nvcc's division of 128-bit integers (measured on an H200).
template <typename T>
struct SubtractCarry {
  static constexpr T kStart = 1;
  STAGECRAFT_INLINE static T apply(T a, T b, T, T carry, uint8_t& out) {
    return add_with_carry<T>(a, static_cast<T>(~b), carry, out);
  }
};
template <typename T>
struct MultiplyAddLowCarry {
  static constexpr T kStart = 0;
  STAGECRAFT_INLINE static T apply(T a, T b, T c, T carry, uint8_t& out) {
    return add_with_carry<T>(a * b, c, carry, out);
  }
};
/// `S` is the type whose sign the product has.
template <typename T, typename S>
struct MultiplyAddHighCarry {
  static constexpr T kStart = 0;
  STAGECRAFT_INLINE static T apply(T a, T b, T c, T carry, uint8_t& out) {
    T high;
    if constexpr (sizeof(T) == 4) {
      high = static_cast<T>(static_cast<uint64_t>(static_cast<int64_t>(static_cast<S>(a)) * static_cast<S>(b)) >> 32);
    } else if constexpr (S(-1) < S(0)) {
      high = static_cast<T>(static_cast<unsigned __int128>(static_cast<__int128>(static_cast<S>(a)) *
                                                           static_cast<__int128>(static_cast<S>(b))) >>
                            64);
    } else {
      high = static_cast<T>((static_cast<unsigned __int128>(a) * b) >> 64);
    }
    return add_with_carry<T>(high, c, carry, out);
  }
};
struct MultiplyAddHighCarryUnsigned32 {
  static constexpr uint32_t kStart = 0;
  STAGECRAFT_INLINE static uint32_t apply(uint32_t a, uint32_t b, uint32_t c, uint32_t carry, uint8_t& out) {
    return add_with_carry<uint32_t>(static_cast<uint32_t>(uint64_t{a} * b >> 32), c, carry, out);
  }
};

template <typename F, typename T, bool HasC, bool In, bool Out>
Outcome run_carry(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* d = lanes<T>(fragment.registers, op.destination);
  const auto* a = lanes<T>(fragment.registers, op.a);
  const auto* b = lanes<T>(fragment.registers, op.b);
  const auto* c = HasC ? lanes<T>(fragment.registers, op.c) : a;
  const auto flag = static_cast<RegisterOffset>(op.immediate);
  const LaneMask carries = In ? *lanes<LaneMask>(fragment.registers, flag) : 0;
  alignas(64) uint8_t out[32];
  alignas(64) T select[32];
  spread<T, 1>(mask, select);
  STAGECRAFT_LANES
  for (int i = 0; i < 32; ++i) {
    const T carry = In ? static_cast<T>(carries >> i & 1u) : F::kStart;
    blend<T>(d[i], F::apply(a[i], b[i], c[i], carry, out[i]), select[i]);
  }
  if constexpr (Out) write_predicate(fragment.registers, flag, gather_mask(out), mask);
  return Outcome::next;
}

template <typename F, typename T, bool HasC>
void put_four(Catalog& catalog, Operation operation, Type type) {
  catalog.put(operation, type, 1, both(run_carry<F, T, HasC, true, false>));
  catalog.put(operation, type, 2, both(run_carry<F, T, HasC, false, true>));
  catalog.put(operation, type, 3, both(run_carry<F, T, HasC, true, true>));
}

template <typename T>
void put_modular(Catalog& catalog, Type unsigned_type, Type signed_type) {
  for (const Type type : {unsigned_type, signed_type}) {
    put_four<AddCarry<T>, T, false>(catalog, Operation::add_carry, type);
    put_four<SubtractCarry<T>, T, false>(catalog, Operation::sub_carry, type);
    put_four<MultiplyAddLowCarry<T>, T, true>(catalog, Operation::mad_lo_carry, type);
  }
}

}  // namespace

void STAGECRAFT_ISA_NAMESPACE::put_carry(Catalog& catalog) {
  put_modular<uint32_t>(catalog, Type::u32, Type::s32);
  put_modular<uint64_t>(catalog, Type::u64, Type::s64);
  put_four<MultiplyAddHighCarryUnsigned32, uint32_t, true>(catalog, Operation::mad_hi_carry, Type::u32);
  put_four<MultiplyAddHighCarry<uint32_t, int32_t>, uint32_t, true>(catalog, Operation::mad_hi_carry, Type::s32);
  put_four<MultiplyAddHighCarry<uint64_t, uint64_t>, uint64_t, true>(catalog, Operation::mad_hi_carry, Type::u64);
  put_four<MultiplyAddHighCarry<uint64_t, int64_t>, uint64_t, true>(catalog, Operation::mad_hi_carry, Type::s64);
}

}  // namespace stagecraft::emulator::machine::alu
