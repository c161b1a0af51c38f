// Logic, shifts, fields and permutation.
#include <fmt/format.h>

#include "emulator/instructions/alu/timing_classes.hpp"
#include "emulator/instructions/alu/translators.hpp"
#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

void emit_logic_on_predicates(Translation& t, uint64_t combination, bool inverted) {
  const bool unary = combination == 0;
  require_operands(t, unary ? 2 : 3, unary ? 2 : 3);
  const Translation::Predicate a = t.predicate(t.operand(1));
  const Translation::Predicate b = unary ? a : t.predicate(t.operand(2));
  const uint64_t immediate =
      (inverted ? ~a.flip : a.flip) | combination << kCombineShift | (b.flip != 0 ? uint64_t{kNegatePredicate} : 0);
  const RegisterOffset destination = t.destination(size_t{0}, Type::pred);
  emit_op(t, require_handlers(t, Operation::predicate_logic, Type::pred),
          {destination, a.offset, b.offset, kNoRegister}, immediate);
}

void translate_logic(Translation& t, Operation operation, uint64_t combination) {
  const Type type = t.modifiers.require_type({Type::pred, Type::b16, Type::b32, Type::b64});
  if (type == Type::pred) return emit_logic_on_predicates(t, combination, false);
  emit_plain(t, require_handlers(t, operation, type), type, {type, type});
}
void translate_and(Translation& t) { translate_logic(t, Operation::bit_and, 1); }
void translate_or(Translation& t) { translate_logic(t, Operation::bit_or, 2); }
void translate_xor(Translation& t) { translate_logic(t, Operation::bit_xor, 3); }

void translate_not(Translation& t) {
  const Type type = t.modifiers.require_type({Type::pred, Type::b16, Type::b32, Type::b64});
  if (type == Type::pred) return emit_logic_on_predicates(t, 0, true);
  emit_plain(t, require_handlers(t, Operation::bit_not, type), type, {type});
}
void translate_cnot(Translation& t) {
  const Type type = t.modifiers.require_type({Type::b16, Type::b32, Type::b64});
  emit_plain(t, require_handlers(t, Operation::logical_not, type), type, {type});
}

/// lop3.b32 d, a, b, c, table; or lop3.BoolOp.b32 d|p, a, b, c, table, q, where p = (d != 0) BoolOp q.
void translate_lop3(Translation& t) {
  t.modifiers.require("b32");
  const auto combination = t.modifiers.take_one_of({"or", "and"});
  const size_t operands = combination ? 6 : 5;
  require_operands(t, operands, operands);
  const int64_t table = t.integer(t.operand(4), "the look-up table of lop3");
  if (table < 0 || table > 255) t.illegal(fmt::format("the look-up table of lop3 is {}; it must be in 0..255", table));
  const ptx::Operand& result = t.operand(0);
  const bool pair = result.kind == ptx::OperandKind::pair;
  if (pair != combination.has_value() || (pair && result.list.size() != 2)) {
    t.illegal("lop3 has a predicate destination (d|p) exactly when it has .or or .and");
  }
  const Vectors vectors{exact_destination(t, pair ? result.list[0] : result, Type::b32), exact_source(t, 1, Type::b32),
                        exact_source(t, 2, Type::b32), exact_source(t, 3, Type::b32)};
  if (!pair) return emit_op(t, require_handlers(t, Operation::lop3, Type::b32), vectors, static_cast<uint64_t>(table));

  const Translation::Predicate q = t.predicate(t.operand(5));
  const RegisterOffset p = t.destination(result.list[1], Type::pred);
  const RegisterOffset zero = t.constant(0, 4);
  emit_op(t, require_handlers(t, Operation::lop3, Type::b32), vectors, static_cast<uint64_t>(table));
  const uint64_t tail = kNoSecondDestination | uint64_t{*combination == "and" ? 1u : 2u} << kCombineShift |
                        (q.flip != 0 ? uint64_t{kNegatePredicate} : 0);
  emit_op(t, require_handlers(t, Operation::compare_ne, Type::u32), {p, vectors.destination, zero, q.offset}, tail);
}

void translate_shl(Translation& t) {
  const Type type = t.modifiers.require_type({Type::b16, Type::b32, Type::b64});
  emit_plain(t, require_handlers(t, Operation::shift_left, type), type, {type, Type::u32});
}
void translate_shr(Translation& t) {
  const Type type = t.modifiers.require_type(
      {Type::b16, Type::b32, Type::b64, Type::u16, Type::u32, Type::u64, Type::s16, Type::s32, Type::s64});
  emit_plain(t, require_handlers(t, Operation::shift_right, unsigned_for_bits(type)), type, {type, Type::u32});
}

void translate_shf(Translation& t) {
  t.modifiers.require("b32");
  const bool left = t.modifiers.require_one_of({"l", "r"}) == "l";
  const bool wrap = t.modifiers.require_one_of({"clamp", "wrap"}) == "wrap";
  const Operation operation = left ? Operation::funnel_left : Operation::funnel_right;
  emit_plain(t, require_handlers(t, operation, Type::b32, wrap ? 1 : 0), Type::b32, {Type::b32, Type::b32, Type::u32});
}

void translate_prmt(Translation& t) {
  t.modifiers.require("b32");
  auto mode = Permutation::by_nibble;
  if (const auto name = t.modifiers.take_one_of({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"})) {
    mode = *name == "f4e"   ? Permutation::f4e
           : *name == "b4e" ? Permutation::b4e
           : *name == "rc8" ? Permutation::rc8
           : *name == "ecl" ? Permutation::ecl
           : *name == "ecr" ? Permutation::ecr
                            : Permutation::rc16;
  }
  emit_plain(t, require_handlers(t, Operation::permute, Type::b32, static_cast<unsigned>(mode)), Type::b32,
             {Type::b32, Type::b32, Type::b32});
}

void translate_count(Translation& t, Operation operation) {
  const Type type = t.modifiers.require_type({Type::b32, Type::b64});
  emit_plain(t, require_handlers(t, operation, type), Type::u32, {type});
}
void translate_popc(Translation& t) { translate_count(t, Operation::population); }
void translate_clz(Translation& t) { translate_count(t, Operation::leading_zeros); }

void translate_bfind(Translation& t) {
  const bool amount = t.modifiers.take("shiftamt");
  const Type type = t.modifiers.require_type({Type::u32, Type::u64, Type::s32, Type::s64});
  emit_plain(t, require_handlers(t, Operation::find_leading, type, amount ? 1 : 0), Type::u32, {type});
}
void translate_brev(Translation& t) {
  const Type type = t.modifiers.require_type({Type::b32, Type::b64});
  emit_plain(t, require_handlers(t, Operation::reverse, type), type, {type});
}
/// The position and the length of a field, if they are constants.
void check_field(Translation& t, size_t position) {
  for (size_t index = position; index < position + 2; ++index) {
    const ptx::Operand& operand = t.operand(index);
    if (operand.kind == ptx::OperandKind::integer && operand.bits > 255) {
      t.illegal(fmt::format("the {} of the field is {}; legal are 0 to 255", index == position ? "position" : "length",
                            static_cast<int64_t>(operand.bits)));
    }
  }
}

void translate_bfe(Translation& t) {
  check_field(t, 2);
  const Type type = t.modifiers.require_type({Type::u32, Type::u64, Type::s32, Type::s64});
  emit_plain(t, require_handlers(t, Operation::extract_field, type), type, {type, Type::u32, Type::u32});
}

void translate_bfi(Translation& t) {
  const Type type = t.modifiers.require_type({Type::b32, Type::b64});
  require_operands(t, 5, 5);
  check_field(t, 3);
  const Vectors vectors{exact_destination(t, size_t{0}, type), exact_source(t, 1, type), exact_source(t, 2, type),
                        exact_source(t, 3, Type::u32)};
  const RegisterOffset length = exact_source(t, 4, Type::u32);
  emit_op(t, require_handlers(t, Operation::insert_field, type), vectors, length);
}

void translate_bmsk(Translation& t) {
  const bool wrap = t.modifiers.require_one_of({"clamp", "wrap"}) == "wrap";
  t.modifiers.require("b32");
  emit_plain(t, require_handlers(t, Operation::field_mask, Type::b32, wrap ? 1 : 0), Type::b32, {Type::u32, Type::u32});
}
void translate_szext(Translation& t) {
  const bool wrap = t.modifiers.require_one_of({"clamp", "wrap"}) == "wrap";
  const Type type = t.modifiers.require_type({Type::u32, Type::s32});
  emit_plain(t, require_handlers(t, Operation::sign_extend, type, wrap ? 1 : 0), type, {type, Type::u32});
}
void translate_fns(Translation& t) {
  t.modifiers.require("b32");
  emit_plain(t, require_handlers(t, Operation::find_nth_set, Type::b32), Type::b32, {Type::b32, Type::b32, Type::s32});
}

}  // namespace

void add_bit_translators(InstructionSet& set) {
  set.add("and", translate_and, computing(Computation::conjunction), class_of_logic);
  set.add("or", translate_or, computing(Computation::disjunction), class_of_logic);
  set.add("xor", translate_xor, computing(Computation::exclusive_disjunction), class_of_logic);
  set.add("not", translate_not, computing(Computation::complement), class_of_logic);
  set.add("cnot", translate_cnot, kOrdinary, class_of_logic);
  set.add("lop3", translate_lop3, kOrdinary, class_of_logic);
  set.add("shl", translate_shl, computing(Computation::left_shift), class_of_logic);
  set.add("shr", translate_shr, computing(Computation::right_shift), class_of_logic);
  set.add("shf", translate_shf, kOrdinary, class_of_logic);
  set.add("prmt", translate_prmt, kOrdinary, class_of_logic);
  set.add("popc", translate_popc, kOrdinary, InstructionClass::special);
  set.add("clz", translate_clz, kOrdinary, InstructionClass::special);
  set.add("bfind", translate_bfind, kOrdinary, InstructionClass::special);
  set.add("brev", translate_brev, kOrdinary, InstructionClass::special);
  set.add("bfe", translate_bfe, kOrdinary, class_of_logic);
  set.add("bfi", translate_bfi, kOrdinary, class_of_logic);
  set.add("bmsk", translate_bmsk, kOrdinary, class_of_logic);
  set.add("szext", translate_szext, kOrdinary, class_of_logic);
  set.add("fns", translate_fns, kOrdinary, InstructionClass::special);
}

}  // namespace stagecraft::emulator::machine::alu
