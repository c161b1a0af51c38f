// Floating-point arithmetic in every width, and the approximations.
#include <fmt/format.h>

#include <array>

#include "emulator/instructions/alu/timing_classes.hpp"
#include "emulator/instructions/alu/translators.hpp"
#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

bool is_half(Type type) {
  return type == Type::f16 || type == Type::f16x2 || type == Type::bf16 || type == Type::bf16x2;
}
bool is_f16(Type type) { return type == Type::f16 || type == Type::f16x2; }

/// The modifiers of one operation on halves, as variant and immediate of the catalog. Halves round to nearest only.
struct HalfModifiers {
  uint64_t flags = 0;
  unsigned variant() const { return flags != 0 ? unsigned{kFlagged} : unsigned{kPlain}; }
};

void emit_half(Translation& t, Operation operation, Type type, int sources, HalfModifiers modifiers) {
  const Handlers handlers = require_handlers(t, operation, type, modifiers.variant());
  if (sources == 1) {
    emit_plain(t, handlers, type, {type}, modifiers.flags);
  } else if (sources == 2) {
    emit_plain(t, handlers, type, {type, type}, modifiers.flags);
  } else {
    emit_plain(t, handlers, type, {type, type, type}, modifiers.flags);
  }
}

/// Takes .ftz and .sat, which only f16 has.
HalfModifiers take_half_modifiers(Translation& t, Type type) {
  HalfModifiers modifiers;
  t.modifiers.take("rn");
  if (is_f16(type) && t.modifiers.take("ftz")) modifiers.flags |= kHalfFlush;
  if (is_f16(type) && t.modifiers.take("sat")) modifiers.flags |= kHalfSaturate;
  return modifiers;
}

/// Rounding, .ftz and .sat of f32, f32x2 and f64.
struct FloatModifiers {
  RoundingMode mode = RoundingMode::nearest;
  unsigned variant = 0;
};
FloatModifiers take_float_modifiers(Translation& t, Type type) {
  FloatModifiers modifiers;
  modifiers.mode = take_rounding(t).value_or(RoundingMode::nearest);
  modifiers.variant = rounding_variant(modifiers.mode);
  if (type != Type::f64 && t.modifiers.take("ftz")) modifiers.variant |= kFlush;
  if (type == Type::f32 && t.modifiers.take("sat")) modifiers.variant |= kSaturate;
  return modifiers;
}

/// Converts a 16-bit source of a mixed-precision instruction to f32, by an Op of its own.
RegisterOffset widened_source(Translation& t, size_t index, Type narrow) {
  const RegisterOffset source = exact_source(t, index, narrow);
  const RegisterOffset wide = t.scratch(4);
  emit_op(t, require_handlers(t, Operation::float_to_float, Type::f32, static_cast<unsigned>(narrow)),
          {wide, source, kNoRegister, kNoRegister});
  return wide;
}

Type require_float_type(Translation& t, bool pairs) {
  if (!pairs) return t.modifiers.require_type({Type::f32, Type::f64});
  return t.modifiers.require_type(
      {Type::f16, Type::f16x2, Type::bf16, Type::bf16x2, Type::f32, Type::f32x2, Type::f64});
}

}  // namespace

void translate_floating_sum(Translation& t, Operation operation) {
  const Type type = require_float_type(t, true);
  if (is_half(type)) return emit_half(t, operation, type, 2, take_half_modifiers(t, type));
  if (type == Type::f32) {
    // add.f32.bf16 d, a, c: only a is narrow.
    if (const auto narrow = t.modifiers.take_type({Type::f16, Type::bf16})) {
      const RoundingMode mode = take_rounding(t).value_or(RoundingMode::nearest);
      const unsigned variant = rounding_variant(mode) | (t.modifiers.take("sat") ? unsigned{kSaturate} : 0);
      require_operands(t, 3, 3);
      const RegisterOffset a = widened_source(t, 1, *narrow);
      const Vectors vectors{exact_destination(t, size_t{0}, type), a, exact_source(t, 2, type), kNoRegister};
      return emit_op(t, require_handlers(t, operation, type, variant), vectors, static_cast<uint64_t>(mode));
    }
  }
  const FloatModifiers modifiers = take_float_modifiers(t, type);
  emit_plain(t, require_handlers(t, operation, type, modifiers.variant), type, {type, type},
             static_cast<uint64_t>(modifiers.mode));
}

void translate_floating_product(Translation& t) {
  const Type type = require_float_type(t, true);
  if (is_half(type)) return emit_half(t, Operation::multiply, type, 2, take_half_modifiers(t, type));
  const FloatModifiers modifiers = take_float_modifiers(t, type);
  emit_plain(t, require_handlers(t, Operation::multiply, type, modifiers.variant), type, {type, type},
             static_cast<uint64_t>(modifiers.mode));
}

void translate_fused(Translation& t, bool is_fma) {
  const Type type = require_float_type(t, is_fma);
  if (!t.modifiers.has("rn") && !t.modifiers.has("rz") && !t.modifiers.has("rm") && !t.modifiers.has("rp")) {
    t.unsupported("it needs .rn, .rz, .rm or .rp");
  }
  if (is_half(type)) {
    HalfModifiers modifiers = take_half_modifiers(t, type);
    if (!is_f16(type) && t.modifiers.take("rz")) modifiers.flags |= kHalfTowardZero;
    if (t.modifiers.take("oob")) modifiers.flags |= kHalfOutOfBounds;
    if ((modifiers.flags & kHalfSaturate) == 0 && t.modifiers.take("relu")) modifiers.flags |= kHalfRelu;
    return emit_half(t, Operation::multiply_add, type, 3, modifiers);
  }
  if (type == Type::f32 && is_fma) {
    if (const auto narrow = t.modifiers.take_type({Type::f16, Type::bf16})) {
      const RoundingMode mode = take_rounding(t).value_or(RoundingMode::nearest);
      const unsigned variant = rounding_variant(mode) | (t.modifiers.take("sat") ? unsigned{kSaturate} : 0);
      require_operands(t, 4, 4);
      const RegisterOffset a = widened_source(t, 1, *narrow), b = widened_source(t, 2, *narrow);
      const Vectors vectors{exact_destination(t, size_t{0}, type), a, b, exact_source(t, 3, type)};
      return emit_op(t, require_handlers(t, Operation::multiply_add, type, variant), vectors,
                     static_cast<uint64_t>(mode));
    }
  }
  const FloatModifiers modifiers = take_float_modifiers(t, type);
  emit_plain(t, require_handlers(t, Operation::multiply_add, type, modifiers.variant), type, {type, type, type},
             static_cast<uint64_t>(modifiers.mode));
}

void translate_floating_quotient(Translation& t) {
  const Type type = require_float_type(t, false);
  if (type == Type::f32) {
    const unsigned flush = t.modifiers.take("ftz") ? unsigned{kFlush} : 0;
    if (t.modifiers.take("approx")) {
      return emit_plain(t, require_handlers(t, Operation::divide_approximate, type, flush), type, {type, type});
    }
    if (t.modifiers.take("full")) {
      return emit_plain(t, require_handlers(t, Operation::divide_full, type, flush), type, {type, type});
    }
    const std::optional<RoundingMode> mode = take_rounding(t);
    if (!mode) t.unsupported("div.f32 needs .approx, .full, .rn, .rz, .rm or .rp");
    return emit_plain(t, require_handlers(t, Operation::divide, type, flush | rounding_variant(*mode)), type,
                      {type, type}, static_cast<uint64_t>(*mode));
  }
  const std::optional<RoundingMode> mode = take_rounding(t);
  if (!mode) t.unsupported("div.f64 needs .rn, .rz, .rm or .rp");
  emit_plain(t, require_handlers(t, Operation::divide, type, rounding_variant(*mode)), type, {type, type},
             static_cast<uint64_t>(*mode));
}

void translate_floating_sign(Translation& t, Operation operation) {
  const Type type = t.modifiers.require_type({Type::f16, Type::f16x2, Type::bf16, Type::bf16x2, Type::f32, Type::f64});
  if (is_half(type)) {
    HalfModifiers modifiers;
    if (is_f16(type) && t.modifiers.take("ftz")) modifiers.flags |= kHalfFlush;
    return emit_half(t, operation, type, 1, modifiers);
  }
  const unsigned flush = type == Type::f32 && t.modifiers.take("ftz") ? unsigned{kFlush} : 0;
  emit_plain(t, require_handlers(t, operation, type, flush), type, {type});
}

void translate_floating_extreme(Translation& t, Operation operation, Operation operation3) {
  const Type type = t.modifiers.require_type({Type::f16, Type::f16x2, Type::bf16, Type::bf16x2, Type::f32, Type::f64});
  if (type == Type::f64) return emit_plain(t, require_handlers(t, operation, type), type, {type, type});

  const bool three = t.operand_count() == 4 && type == Type::f32;
  const bool flush = (type == Type::f32 || is_f16(type)) && t.modifiers.take("ftz");
  const bool nan = t.modifiers.take("NaN");
  bool xor_sign = false;
  if (!three && t.modifiers.take("xorsign")) {
    t.modifiers.require("abs");
    xor_sign = true;
  }
  if (is_half(type)) {
    HalfModifiers modifiers;
    if (flush) modifiers.flags |= kHalfFlush;
    if (nan) modifiers.flags |= kHalfNan;
    if (xor_sign) modifiers.flags |= kHalfXorSign;
    return emit_half(t, operation, type, 2, modifiers);
  }
  const unsigned variant =
      (flush ? unsigned{kFlush} : 0) | (nan ? unsigned{kNan} : 0) | (xor_sign ? unsigned{kXorSign} : 0);
  const Handlers handlers = require_handlers(t, three ? operation3 : operation, type, variant);
  if (three && t.modifiers.take("abs")) {
    require_operands(t, 4, 4);
    const RegisterOffset destination = exact_destination(t, 0, type);
    std::array<RegisterOffset, 3> magnitudes;
    for (size_t i = 0; i < magnitudes.size(); ++i) {
      const RegisterOffset source = exact_source(t, i + 1, type);
      emit_op(t, require_handlers(t, Operation::absolute, type), {magnitudes[i] = t.scratch(4), source});
    }
    return emit_op(t, handlers, {destination, magnitudes[0], magnitudes[1], magnitudes[2]});
  }
  if (three) return emit_plain(t, handlers, type, {type, type, type});
  emit_plain(t, handlers, type, {type, type});
}

namespace {

/// Translates rcp and sqrt: .approx{.ftz}.f32, rounded f32 and f64, and for rcp the gross .approx.ftz.f64. ptxas 13.0
/// also accepts .ftz with a rounded rcp.f64, and makes the same machine code as without.
void translate_reciprocal_or_root(Translation& t, Operation operation) {
  const Type type = require_float_type(t, false);
  if (t.modifiers.take("approx")) {
    if (type == Type::f64) {
      if (operation != Operation::reciprocal) t.unsupported("sqrt.approx exists for .f32 only");
      t.modifiers.require("ftz");
      return emit_plain(t, require_handlers(t, Operation::reciprocal_gross, type), type, {type});
    }
    const unsigned flush = t.modifiers.take("ftz") ? unsigned{kFlush} : 0;
    const Operation approximate =
        operation == Operation::reciprocal ? Operation::reciprocal_approximate : Operation::root_approximate;
    return emit_plain(t, require_handlers(t, approximate, type, flush), type, {type});
  }
  const std::optional<RoundingMode> mode = take_rounding(t);
  if (!mode) t.unsupported("it needs .approx, .rn, .rz, .rm or .rp");
  const bool has_flush = type == Type::f32 || operation == Operation::reciprocal;
  const bool flushes = has_flush && t.modifiers.take("ftz") && type == Type::f32;
  const unsigned flush = flushes ? unsigned{kFlush} : 0;
  emit_plain(t, require_handlers(t, operation, type, flush | rounding_variant(*mode)), type, {type},
             static_cast<uint64_t>(*mode));
}
void translate_rcp(Translation& t) { translate_reciprocal_or_root(t, Operation::reciprocal); }
void translate_sqrt(Translation& t) { translate_reciprocal_or_root(t, Operation::square_root); }
InstructionTraits root_traits(const ptx::Instruction& instruction) {
  return arithmetic_traits(instruction, {"rn", "rz", "rm", "rp"});
}

void translate_rsqrt(Translation& t) {
  t.modifiers.require("approx");
  const Type type = require_float_type(t, false);
  const bool flush = t.modifiers.take("ftz");
  if (type == Type::f64) {
    const Operation operation = flush ? Operation::reciprocal_root_gross : Operation::reciprocal_root;
    return emit_plain(t, require_handlers(t, operation, type), type, {type});
  }
  emit_plain(t, require_handlers(t, Operation::reciprocal_root, type, flush ? unsigned{kFlush} : 0), type, {type});
}

InstructionTraits reciprocal_root_traits(const ptx::Instruction& instruction) {
  return ptx::has_modifier(instruction, "ftz") ? kOrdinary : arithmetic_traits(instruction, {"f64"});
}

void translate_approximation(Translation& t, Operation operation) {
  t.modifiers.require("approx");
  const unsigned flush = t.modifiers.take("ftz") ? unsigned{kFlush} : 0;
  const Type type = t.modifiers.require_type({Type::f32});
  emit_plain(t, require_handlers(t, operation, type, flush), type, {type});
}
void translate_sin(Translation& t) { translate_approximation(t, Operation::sine); }
void translate_cos(Translation& t) { translate_approximation(t, Operation::cosine); }
void translate_lg2(Translation& t) { translate_approximation(t, Operation::logarithm2); }

void translate_ex2(Translation& t) {
  t.modifiers.require("approx");
  const Type type = t.modifiers.require_type({Type::f32, Type::f16, Type::f16x2, Type::bf16, Type::bf16x2});
  if (is_half(type)) {
    HalfModifiers modifiers;
    if (!is_f16(type)) {
      t.modifiers.require("ftz");
      modifiers.flags |= kHalfFlush;
    }
    return emit_half(t, Operation::exponential2, type, 1, modifiers);
  }
  const unsigned flush = t.modifiers.take("ftz") ? unsigned{kFlush} : 0;
  emit_plain(t, require_handlers(t, Operation::exponential2, type, flush), type, {type});
}

void translate_tanh(Translation& t) {
  t.modifiers.require("approx");
  const Type type = t.modifiers.require_type({Type::f32, Type::f16, Type::f16x2, Type::bf16, Type::bf16x2});
  emit_plain(t, require_handlers(t, Operation::hyperbolic_tangent, type), type, {type});
}

}  // namespace

void add_floating_translators(InstructionSet& set) {
  set.add("rcp", translate_rcp, root_traits, class_of_reciprocal);
  set.add("sqrt", translate_sqrt, root_traits, class_of_root);
  set.add("rsqrt", translate_rsqrt, reciprocal_root_traits, class_of_root);
  set.add("sin", translate_sin, kOrdinary, InstructionClass::special_product);
  set.add("cos", translate_cos, kOrdinary, InstructionClass::special_product);
  set.add("lg2", translate_lg2, kOrdinary, class_of_exponential);
  set.add("ex2", translate_ex2, kOrdinary, class_of_exponential);
  set.add("tanh", translate_tanh, kOrdinary, InstructionClass::special);
}

}  // namespace stagecraft::emulator::machine::alu
