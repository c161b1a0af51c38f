#include "emulator/instructions/alu/timing_classes.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine::alu {

namespace {

bool has_one_of(const ptx::Instruction& instruction, std::initializer_list<std::string_view> names) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view name) { return ptx::has_modifier(instruction, name); });
}

bool of_doubles(const ptx::Instruction& instruction) { return ptx::has_modifier(instruction, "f64"); }
bool of_floats(const ptx::Instruction& instruction) { return has_one_of(instruction, {"f32", "f32x2"}); }
bool of_halves(const ptx::Instruction& instruction) {
  return has_one_of(instruction, {"f16", "f16x2", "bf16", "bf16x2"});
}
bool of_wide_integers(const ptx::Instruction& instruction) { return has_one_of(instruction, {"s64", "u64", "b64"}); }
/// Rounded exactly as IEEE 754 says, which no one instruction of the chip does.
bool is_exact(const ptx::Instruction& instruction) { return has_one_of(instruction, {"rn", "rz", "rm", "rp"}); }

InstructionClass class_of_arithmetic(const ptx::Instruction& instruction, InstructionClass narrow,
                                     InstructionClass wide) {
  if (of_doubles(instruction)) return InstructionClass::float64;
  if (of_halves(instruction)) return InstructionClass::half;
  if (of_floats(instruction)) return InstructionClass::float32;
  return of_wide_integers(instruction) || ptx::has_modifier(instruction, "wide") ? wide : narrow;
}

InstructionClass class_of_approximation(const ptx::Instruction& instruction) {
  const bool scales = of_floats(instruction) && !ptx::has_modifier(instruction, "ftz");
  return scales ? InstructionClass::special_scaled : InstructionClass::special;
}

}  // namespace

InstructionClass class_of_sum(const ptx::Instruction& instruction) {
  return class_of_arithmetic(instruction, InstructionClass::add, InstructionClass::add_wide);
}

InstructionClass class_of_product(const ptx::Instruction& instruction) {
  return class_of_arithmetic(instruction, InstructionClass::multiply, InstructionClass::multiply_wide);
}

InstructionClass class_of_logic(const ptx::Instruction& instruction) {
  return of_doubles(instruction) ? InstructionClass::float64 : InstructionClass::logic;
}

InstructionClass class_of_division(const ptx::Instruction& instruction) {
  if (of_doubles(instruction)) return InstructionClass::divide_double;
  if (of_floats(instruction)) {
    if (is_exact(instruction)) return InstructionClass::divide_float;
    if (ptx::has_modifier(instruction, "full")) return InstructionClass::divide_full;
    return InstructionClass::special_product;
  }
  if (instruction.operands.back().kind == ptx::OperandKind::integer) {
    const uint64_t divisor = instruction.operands.back().bits;
    return (divisor & (divisor - 1)) == 0 ? InstructionClass::logic : InstructionClass::multiply_wide;
  }
  const bool has_sign = has_one_of(instruction, {"s16", "s32", "s64"});
  if (of_wide_integers(instruction)) {
    return has_sign ? InstructionClass::divide_wide_signed : InstructionClass::divide_wide;
  }
  return has_sign ? InstructionClass::divide_signed : InstructionClass::divide;
}

InstructionClass class_of_reciprocal(const ptx::Instruction& instruction) {
  if (of_doubles(instruction)) {
    return is_exact(instruction) ? InstructionClass::reciprocal_double : InstructionClass::special;
  }
  return is_exact(instruction) ? InstructionClass::reciprocal_float : class_of_approximation(instruction);
}

InstructionClass class_of_root(const ptx::Instruction& instruction) {
  if (of_doubles(instruction)) return InstructionClass::root_double;
  return is_exact(instruction) ? InstructionClass::root_float : class_of_approximation(instruction);
}

InstructionClass class_of_exponential(const ptx::Instruction& instruction) {
  return class_of_approximation(instruction);
}

InstructionClass class_of_conversion(const ptx::Instruction& instruction) {
  if (has_one_of(instruction, {"e4m3x2", "e5m2x2"})) return InstructionClass::convert;
  if (of_halves(instruction)) return InstructionClass::convert_half;
  if (!of_floats(instruction) && !of_doubles(instruction)) {
    return InstructionClass::free;  // between integers: a part of what uses them
  }
  const bool to_float = instruction.modifiers.size() > 1 && instruction.modifiers.back() != "f32" &&
                        instruction.modifiers.back() != "f64" && !of_wide_integers(instruction) &&
                        !of_doubles(instruction);
  return to_float ? InstructionClass::convert_to_float : InstructionClass::convert;
}

}  // namespace stagecraft::emulator::machine::alu
