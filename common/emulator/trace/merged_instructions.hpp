// Which PTX instructions are no machine instruction of their own, because ptxas makes them a part of a neighbour.
#pragma once

#include <vector>

#include "emulator/state/instruction_traits.hpp"

namespace stagecraft::emulator::trace {

/// Says for each instruction of a function whether another one does its work. The rules, after what ptxas 13.0 makes of
/// tests/silicon/rows_and_grids.cu for sm_90a:
///
/// * The upper or the lower half of a 64-bit value is one of its two registers: shifts by 32 and masks of a half.
/// * Logic of up to three operands is one LOP3, a sum of up to three of 32 bits one IADD3.
/// * A sum with a shifted operand is a LEA; a sum of 64 bits with a product of two of 32 is an IMAD.WIDE.
/// * What combines two predicates is a part of the comparison that sets one of them.
/// * A sum of 32 bits of which the minimum or maximum is taken is a VIADDMNMX.
///
/// In all but the first, nothing else may use the intermediate value, and no label may lie between: in a loop it would
/// be computed once, before it.
/// @param traits  of the instructions of its body.
std::vector<bool> merged_instructions(const ptx::Function& function,
                                      const std::vector<machine::InstructionTraits>& traits);

}  // namespace stagecraft::emulator::trace
