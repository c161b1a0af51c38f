// The classes of arithmetic for the model of the chip's speed, where they depend on types and modifiers.
#pragma once

#include "emulator/ptx/module.hpp"
#include "emulator/state/instruction_traits.hpp"

namespace stagecraft::emulator::machine::alu {

InstructionClass class_of_sum(const ptx::Instruction& instruction);
InstructionClass class_of_product(const ptx::Instruction& instruction);
/// Logic, shifts, comparisons, selections and minima have this one.
InstructionClass class_of_logic(const ptx::Instruction& instruction);
/// Quotients and remainders by a constant that is no register's are a product and shifts.
InstructionClass class_of_division(const ptx::Instruction& instruction);
InstructionClass class_of_reciprocal(const ptx::Instruction& instruction);
/// The root may be the divisor (rsqrt).
InstructionClass class_of_root(const ptx::Instruction& instruction);
/// Logarithms have the same one.
InstructionClass class_of_exponential(const ptx::Instruction& instruction);
InstructionClass class_of_conversion(const ptx::Instruction& instruction);

}  // namespace stagecraft::emulator::machine::alu
