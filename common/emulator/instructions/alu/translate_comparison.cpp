// setp, set, selp, slct, testp.
#include <fmt/format.h>

#include "emulator/instructions/alu/timing_classes.hpp"
#include "emulator/instructions/alu/translators.hpp"
#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

/// A PTX comparison as one of the catalog's, possibly with operands swapped or the result negated.
struct Comparison {
  Operation operation = Operation::compare_eq;
  bool swap = false;
  bool negate = false;
};

bool is_bits(Type type) { return type == Type::b16 || type == Type::b32 || type == Type::b64; }
bool is_packed(Type type) { return type == Type::f16x2 || type == Type::bf16x2; }

Comparison comparison_of(Translation& t, std::string_view name, Type type) {
  const bool integral = is_bits(type) || is_integer(type);
  const auto refuse = [&](std::string_view legal) {
    t.unsupported(fmt::format(".{} does not apply to .{}; legal are {}", name, ptx::name_of(type), legal));
  };
  if (name == "eq") return {Operation::compare_eq};
  if (name == "ne") return {Operation::compare_ne};
  if (is_bits(type)) refuse(".eq, .ne");
  if (name == "lt") return {Operation::compare_lt};
  if (name == "le") return {Operation::compare_le};
  if (name == "gt") return {Operation::compare_lt, true};
  if (name == "ge") return {Operation::compare_le, true};
  if (name == "lo" || name == "ls" || name == "hi" || name == "hs") {
    if (!integral || is_signed(type)) refuse(".eq, .ne, .lt, .le, .gt, .ge");
    if (name == "lo") return {Operation::compare_lt};
    if (name == "ls") return {Operation::compare_le};
    if (name == "hi") return {Operation::compare_lt, true};
    return {Operation::compare_le, true};
  }
  if (integral) refuse(".eq, .ne, .lt, .le, .gt, .ge (and .lo, .ls, .hi, .hs for unsigned types)");
  // These are true when an operand is NaN too: they are the negation of the opposite ordered comparison.
  if (name == "equ") return {Operation::compare_ne, false, true};
  if (name == "neu") return {Operation::compare_eq, false, true};
  if (name == "ltu") return {Operation::compare_le, true, true};
  if (name == "leu") return {Operation::compare_lt, true, true};
  if (name == "gtu") return {Operation::compare_le, false, true};
  if (name == "geu") return {Operation::compare_lt, false, true};
  if (name == "num") return {Operation::compare_number};
  return {Operation::compare_number, false, true};  // nan
}

std::string_view take_comparison(Translation& t) {
  return t.modifiers.require_one_of({"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu",
                                     "leu", "gtu", "geu", "num", "nan"});
}

/// Takes .and, .or or .xor. Returns its code in ComparisonTail; 0 for none.
uint64_t take_combination(Translation& t) {
  const auto name = t.modifiers.take_one_of({"and", "or", "xor"});
  return !name ? 0 : *name == "and" ? 1 : *name == "or" ? 2 : 3;
}

/// Takes .ftz, which exists for f32 and f16 only.
unsigned take_flush(Translation& t, Type type) {
  const bool can = type == Type::f32 || type == Type::f16 || type == Type::f16x2;
  return can && t.modifiers.take("ftz") ? unsigned{kFlush} : 0;
}

Type require_compared_type(Translation& t) {
  return t.modifiers.require_type({Type::b16, Type::b32, Type::b64, Type::u16, Type::u32, Type::u64, Type::s16,
                                   Type::s32, Type::s64, Type::f16, Type::f16x2, Type::bf16, Type::bf16x2, Type::f32,
                                   Type::f64});
}

/// Emits the comparison of operands 1 and 2 into `p` (and `q`), combined with operand 3 if `combination` is not 0.
void emit_comparison(Translation& t, Comparison how, Type type, unsigned flush, uint64_t combination, RegisterOffset p,
                     RegisterOffset q) {
  require_operands(t, combination != 0 ? 4 : 3, combination != 0 ? 4 : 3);
  const RegisterOffset first = exact_source(t, 1, type), second = exact_source(t, 2, type);
  Translation::Predicate extra{kNoRegister, 0};
  if (combination != 0) extra = t.predicate(t.operand(3));
  const uint64_t tail = uint64_t{q} | combination << kCombineShift | (how.negate ? uint64_t{kNegateComparison} : 0) |
                        (extra.flip != 0 ? uint64_t{kNegatePredicate} : 0);
  const Handlers handlers = require_handlers(t, how.operation, unsigned_for_bits(type), flush);
  emit_op(t, handlers, {p, how.swap ? second : first, how.swap ? first : second, extra.offset}, tail);
}

void translate_setp(Translation& t) {
  const std::string_view name = take_comparison(t);
  const uint64_t combination = take_combination(t);
  const Type type = require_compared_type(t);
  const unsigned flush = take_flush(t, type);
  const Comparison how = comparison_of(t, name, type);
  const Operand& result = t.operand(0);
  RegisterOffset p = kNoRegister, q = kNoRegister;
  if (result.kind == OperandKind::pair && result.list.size() == 2) {
    p = t.destination(result.list[0], Type::pred);
    q = t.destination(result.list[1], Type::pred);
  } else {
    p = t.destination(result, Type::pred);
  }
  emit_comparison(t, how, type, flush, combination, p, q);
}

/// Returns the pattern for "true" of set in its destination type.
uint64_t truth_of(Type type) {
  switch (type) {
    case Type::f32: return 0x3f800000u;
    case Type::f16: return 0x3c00u;
    case Type::f16x2: return 0x3c003c00u;
    case Type::bf16: return 0x3f80u;
    case Type::bf16x2: return 0x3f803f80u;
    case Type::u16:
    case Type::s16: return 0xffffu;
    default: return 0xffffffffu;
  }
}

/// Translates set of packed halves: 16-bit masks, then the predicate, if any.
void translate_packed_set(Translation& t, Type result, Type type, Comparison how, unsigned flush,
                          uint64_t combination) {
  require_operands(t, combination != 0 ? 4 : 3, combination != 0 ? 4 : 3);
  const auto index = static_cast<unsigned>(how.operation) - static_cast<unsigned>(Operation::compare_eq);
  const auto operation = static_cast<Operation>(static_cast<unsigned>(Operation::mask_eq) + index);
  const Handlers handlers = require_handlers(t, operation, type, flush);
  const RegisterOffset first = exact_source(t, 1, type), second = exact_source(t, 2, type);
  const RegisterOffset destination = exact_destination(t, size_t{0}, result);
  const uint64_t truth = truth_of(result);
  const uint64_t immediate = (truth & 0xffffu) << 16 | (how.negate ? 1u : 0u);
  const RegisterOffset masks = combination == 0 ? destination : t.scratch(4);
  emit_op(t, handlers, {masks, how.swap ? second : first, how.swap ? first : second, kNoRegister}, immediate);
  if (combination == 0) return;

  const Translation::Predicate extra = t.predicate(t.operand(3));
  const RegisterOffset all = t.constant(truth, 4);
  RegisterOffset when_true = masks, when_false = masks;
  if (combination == 1) when_false = t.constant(0, 4);
  if (combination == 2) when_true = all;
  if (combination == 3) {
    when_true = t.scratch(4);
    emit_op(t, require_handlers(t, Operation::bit_xor, Type::b32), {when_true, masks, all, kNoRegister});
  }
  emit_op(t, require_handlers(t, Operation::select, Type::b32), {destination, when_true, when_false, extra.offset},
          extra.flip);
}

void translate_set(Translation& t) {
  const std::string_view name = take_comparison(t);
  const uint64_t combination = take_combination(t);
  const Type result = t.modifiers.require_type(
      {Type::u16, Type::s16, Type::u32, Type::s32, Type::f32, Type::f16, Type::f16x2, Type::bf16, Type::bf16x2});
  const Type type = require_compared_type(t);
  const unsigned flush = take_flush(t, type);
  const Comparison how = comparison_of(t, name, type);
  if (is_packed(type)) {
    if (result != type && result != Type::u32 && result != Type::s32) {
      t.unsupported("packed operands give .u32, .s32 or their own type");
    }
    return translate_packed_set(t, result, type, how, flush, combination);
  }
  if (is_packed(result)) {
    t.unsupported("a packed result needs packed operands");
  }
  const uint32_t bytes = ptx::size_of(result);
  const RegisterOffset destination = exact_destination(t, size_t{0}, result);
  const RegisterOffset predicate = t.scratch(4);  // a predicate is the first word
  emit_comparison(t, how, type, flush, combination, predicate, kNoRegister);
  emit_op(t, require_handlers(t, Operation::select, bits_of_size(bytes)),
          {destination, t.constant(truth_of(result), bytes), t.constant(0, bytes), predicate});
}

Type require_selected_type(Translation& t) {
  return t.modifiers.require_type({Type::b16, Type::b32, Type::b64, Type::u16, Type::u32, Type::u64, Type::s16,
                                   Type::s32, Type::s64, Type::f32, Type::f64});
}

void translate_selp(Translation& t) {
  const Type type = require_selected_type(t);
  require_operands(t, 4, 4);
  const Translation::Predicate choice = t.predicate(t.operand(3));
  const Vectors vectors{exact_destination(t, size_t{0}, type), exact_source(t, 1, type), exact_source(t, 2, type),
                        choice.offset};
  emit_op(t, require_handlers(t, Operation::select, bits_of_size(ptx::size_of(type))), vectors, choice.flip);
}

/// Translates slct: a where c >= 0, otherwise b (NaN counts as negative).
void translate_slct(Translation& t) {
  const Type type = require_selected_type(t);
  const Type compared = t.modifiers.require_type({Type::s32, Type::f32});
  const unsigned flush = take_flush(t, compared);
  require_operands(t, 4, 4);
  const Vectors vectors{exact_destination(t, size_t{0}, type), exact_source(t, 1, type), exact_source(t, 2, type),
                        t.scratch(4)};
  const RegisterOffset c = exact_source(t, 3, compared), zero = t.constant(0, 4);
  emit_op(t, require_handlers(t, Operation::compare_le, compared, flush), {vectors.c, zero, c, kNoRegister},
          kNoSecondDestination);
  emit_op(t, require_handlers(t, Operation::select, bits_of_size(ptx::size_of(type))), vectors);
}

void translate_testp(Translation& t) {
  const std::string_view name =
      t.modifiers.require_one_of({"finite", "infinite", "number", "notanumber", "normal", "subnormal"});
  const Type type = t.modifiers.require_type({Type::f32, Type::f64});
  const unsigned property = name == "finite"       ? 0
                            : name == "infinite"   ? 1
                            : name == "number"     ? 2
                            : name == "notanumber" ? 3
                            : name == "normal"     ? 4
                                                   : 5;
  require_operands(t, 2, 2);
  const RegisterOffset a = exact_source(t, 1, type);
  emit_op(t, require_handlers(t, Operation::test_property, type, property),
          {t.destination(size_t{0}, Type::pred), a, kNoRegister, kNoRegister});
}

void translate_copysign(Translation& t) {
  const Type type = t.modifiers.require_type({Type::f32, Type::f64});
  emit_plain(t, require_handlers(t, Operation::copy_sign, type), type, {type, type});
}

}  // namespace

void add_comparison_translators(InstructionSet& set) {
  set.add("setp", translate_setp, computing(Computation::predicate), class_of_logic);
  set.add("set", translate_set, computing(Computation::truth), class_of_logic);
  set.add("selp", translate_selp, computing(Computation::selection), class_of_logic);
  set.add("slct", translate_slct, kOrdinary, class_of_logic);
  set.add("testp", translate_testp, kOrdinary, class_of_logic);
  set.add("copysign", translate_copysign, kOrdinary, class_of_logic);
}

}  // namespace stagecraft::emulator::machine::alu
