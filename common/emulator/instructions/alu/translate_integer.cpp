// add, sub, mul, mad, div and the rest of the integer instructions. Opcodes that floating point shares are dispatched
// here.
#include <fmt/format.h>

#include "emulator/instructions/alu/timing_classes.hpp"
#include "emulator/instructions/alu/translators.hpp"
#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

std::optional<Type> take_integer_type(Translation& t) {
  return t.modifiers.take_type({Type::u16, Type::u32, Type::u64, Type::s16, Type::s32, Type::s64});
}
/// Takes u16x2 or s16x2, which are 64 elements of the catalog's u16 or s16.
std::optional<Type> take_pair_type(Translation& t) {
  const auto name = t.modifiers.take_one_of({"u16x2", "s16x2"});
  if (!name) return std::nullopt;
  return *name == "u16x2" ? Type::u16 : Type::s16;
}

Type wide_of(Translation& t, Type type) {
  switch (type) {
    case Type::u16: return Type::u32;
    case Type::s16: return Type::s32;
    case Type::u32: return Type::u64;
    case Type::s32: return Type::s64;
    default: t.unsupported("`.wide` has no 64-bit form: the product would need 128 bits");
  }
}

/// Emits an operation whose operands all have the type.
void emit_same(Translation& t, Operation operation, Type type, int sources, unsigned variant = 0) {
  const Handlers handlers = require_handlers(t, operation, type, variant);
  const Type width = (variant & kPair) != 0 ? Type::b32 : type;
  if (sources == 1) {
    emit_plain(t, handlers, width, {width});
  } else if (sources == 2) {
    emit_plain(t, handlers, width, {width, width});
  } else {
    emit_plain(t, handlers, width, {width, width, width});
  }
}

/// Emits an operation with the carry flag: `in` reads it, `out` writes it.
void emit_carry(Translation& t, Operation operation, Type type, bool in, bool out, int sources) {
  const Handlers handlers = require_handlers(t, operation, type, (in ? 1u : 0u) | (out ? 2u : 0u));
  const RegisterOffset flag = t.carry_flag();
  if (sources == 2) {
    emit_plain(t, handlers, type, {type, type}, flag);
  } else {
    emit_plain(t, handlers, type, {type, type, type}, flag);
  }
}

void translate_sum(Translation& t, Operation plain, Operation saturating, Operation carrying) {
  if (const std::optional<Type> type = take_integer_type(t)) {
    if (t.modifiers.take("cc")) return emit_carry(t, carrying, *type, false, true, 2);
    if (t.modifiers.take("sat")) return emit_same(t, saturating, *type, 2);
    return emit_same(t, plain, *type, 2);
  }
  if (plain == Operation::add) {
    if (const std::optional<Type> type = take_pair_type(t)) return emit_same(t, plain, *type, 2, kPair);
  }
  translate_floating_sum(t, plain);
}
void translate_add(Translation& t) { translate_sum(t, Operation::add, Operation::add_saturate, Operation::add_carry); }
void translate_sub(Translation& t) { translate_sum(t, Operation::sub, Operation::sub_saturate, Operation::sub_carry); }

void translate_sum_with_carry(Translation& t, Operation operation) {
  const bool out = t.modifiers.take("cc");
  const Type type = t.modifiers.require_type({Type::u32, Type::s32, Type::u64, Type::s64});
  emit_carry(t, operation, type, true, out, 2);
}
void translate_addc(Translation& t) { translate_sum_with_carry(t, Operation::add_carry); }
void translate_subc(Translation& t) { translate_sum_with_carry(t, Operation::sub_carry); }

void translate_mul(Translation& t) {
  const std::optional<Type> type = take_integer_type(t);
  if (!type) return translate_floating_product(t);
  const std::string_view part = t.modifiers.require_one_of({"lo", "hi", "wide"});
  if (part == "lo") return emit_same(t, Operation::mul_lo, *type, 2);
  if (part == "hi") return emit_same(t, Operation::mul_hi, *type, 2);
  const Type wide = wide_of(t, *type);
  emit_plain(t, require_handlers(t, Operation::mul_wide, *type), wide, {*type, *type});
}

void translate_fma(Translation& t) { translate_fused(t, true); }

void translate_mad(Translation& t) {
  const std::optional<Type> type = take_integer_type(t);
  if (!type) return translate_fused(t, false);
  const std::string_view part = t.modifiers.require_one_of({"lo", "hi", "wide"});
  if (part == "wide") {
    const Type wide = wide_of(t, *type);
    return emit_plain(t, require_handlers(t, Operation::mad_wide, *type), wide, {*type, *type, wide});
  }
  const bool low = part == "lo";
  if (t.modifiers.take("cc")) {
    return emit_carry(t, low ? Operation::mad_lo_carry : Operation::mad_hi_carry, *type, false, true, 3);
  }
  if (!low && t.modifiers.take("sat")) return emit_same(t, Operation::mad_hi_saturate, *type, 3);
  emit_same(t, low ? Operation::mad_lo : Operation::mad_hi, *type, 3);
}

void translate_madc(Translation& t) {
  const Type type = t.modifiers.require_type({Type::u32, Type::s32, Type::u64, Type::s64});
  const bool low = t.modifiers.require_one_of({"lo", "hi"}) == "lo";
  const bool out = t.modifiers.take("cc");
  emit_carry(t, low ? Operation::mad_lo_carry : Operation::mad_hi_carry, type, true, out, 3);
}

void translate_mul24(Translation& t) {
  const Type type = t.modifiers.require_type({Type::u32, Type::s32});
  const bool low = t.modifiers.require_one_of({"lo", "hi"}) == "lo";
  emit_same(t, low ? Operation::mul24_lo : Operation::mul24_hi, type, 2);
}
void translate_mad24(Translation& t) {
  const Type type = t.modifiers.require_type({Type::u32, Type::s32});
  const bool low = t.modifiers.require_one_of({"lo", "hi"}) == "lo";
  if (!low && t.modifiers.take("sat")) return emit_same(t, Operation::mad24_hi_saturate, type, 3);
  emit_same(t, low ? Operation::mad24_lo : Operation::mad24_hi, type, 3);
}

void translate_div(Translation& t) {
  if (const std::optional<Type> type = take_integer_type(t)) return emit_same(t, Operation::divide, *type, 2);
  translate_floating_quotient(t);
}
void translate_rem(Translation& t) {
  const Type type = t.modifiers.require_type({Type::u16, Type::u32, Type::u64, Type::s16, Type::s32, Type::s64});
  emit_same(t, Operation::remainder, type, 2);
}
InstructionTraits division_traits(const ptx::Instruction& instruction) {
  return arithmetic_traits(instruction, {"rn", "rz", "rm", "rp", "s64", "u64"});
}

void translate_sign(Translation& t, Operation operation) {
  if (const auto type = t.modifiers.take_type({Type::s16, Type::s32, Type::s64})) {
    return emit_same(t, operation, *type, 1);
  }
  translate_floating_sign(t, operation);
}
void translate_abs(Translation& t) { translate_sign(t, Operation::absolute); }
void translate_neg(Translation& t) { translate_sign(t, Operation::negate); }

void translate_extreme(Translation& t, Operation plain, Operation relu, Operation plain3) {
  if (const std::optional<Type> type = take_integer_type(t)) {
    return emit_same(t, *type == Type::s32 && t.modifiers.take("relu") ? relu : plain, *type, 2);
  }
  if (const std::optional<Type> type = take_pair_type(t)) {
    return emit_same(t, *type == Type::s16 && t.modifiers.take("relu") ? relu : plain, *type, 2, kPair);
  }
  translate_floating_extreme(t, plain, plain3);
}
void translate_min(Translation& t) {
  translate_extreme(t, Operation::minimum, Operation::minimum_relu, Operation::minimum3);
}
void translate_max(Translation& t) {
  translate_extreme(t, Operation::maximum, Operation::maximum_relu, Operation::maximum3);
}

void translate_sad(Translation& t) {
  const Type type = t.modifiers.require_type({Type::u16, Type::u32, Type::u64, Type::s16, Type::s32, Type::s64});
  emit_same(t, Operation::sad, type, 3);
}

void translate_dot(Translation& t, Operation operation) {
  unsigned variant = 0;
  if (operation == Operation::dp2a) variant |= t.modifiers.require_one_of({"lo", "hi"}) == "hi" ? 4u : 0u;
  // There are two types, of a and of b, in this order.
  variant |= t.modifiers.require_type({Type::u32, Type::s32}) == Type::s32 ? 1u : 0u;
  variant |= t.modifiers.require_type({Type::u32, Type::s32}) == Type::s32 ? 2u : 0u;
  emit_same(t, operation, Type::u32, 3, variant);
}
void translate_dp4a(Translation& t) { translate_dot(t, Operation::dp4a); }
void translate_dp2a(Translation& t) { translate_dot(t, Operation::dp2a); }

}  // namespace

void add_integer_translators(InstructionSet& set) {
  set.add("add", translate_add, computing(Computation::sum), class_of_sum);
  set.add("sub", translate_sub, computing(Computation::difference), class_of_sum);
  set.add("addc", translate_addc, kOrdinary, class_of_sum);
  set.add("subc", translate_subc, kOrdinary, class_of_sum);
  set.add("mul", translate_mul, computing(Computation::product), class_of_product);
  set.add("mad", translate_mad, computing(Computation::product_sum), class_of_product);
  set.add("madc", translate_madc, kOrdinary, class_of_product);
  set.add("fma", translate_fma, kOrdinary, class_of_product);
  set.add("mul24", translate_mul24, kOrdinary, class_of_product);
  set.add("mad24", translate_mad24, kOrdinary, class_of_product);
  set.add("div", translate_div, division_traits, class_of_division);
  set.add("rem", translate_rem, division_traits, class_of_division);
  set.add("abs", translate_abs, kOrdinary, class_of_logic);
  set.add("neg", translate_neg, kOrdinary, class_of_sum);
  set.add("min", translate_min, computing(Computation::extreme), class_of_logic);
  set.add("max", translate_max, computing(Computation::extreme), class_of_logic);
  set.add("sad", translate_sad, kOrdinary, class_of_logic);
  set.add("dp4a", translate_dp4a, kOrdinary, class_of_logic);
  set.add("dp2a", translate_dp2a, kOrdinary, class_of_logic);
}

}  // namespace stagecraft::emulator::machine::alu
