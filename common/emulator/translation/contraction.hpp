// Products and sums that the compiler of the chip makes one operation.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "emulator/ptx/module.hpp"
#include "emulator/state/instruction_traits.hpp"

namespace stagecraft::emulator::machine {

/// What to execute in place of some instructions of a function, by their index in its body.
struct Contractions {
  std::unordered_set<uint32_t> products;                                   ///< not executed
  std::unordered_map<uint32_t, std::vector<ptx::Instruction>> operations;  ///< executed in place of a sum
};

/// Finds `mul` and `add` or `sub` without a rounding modifier that become an `fma`, with one rounding.
///
/// PTX permits it ("add", "sub", "mul": "mul/add sequences with no rounding modifiers may be optimized to use
/// fused-multiply-add instructions"), and nvcc leaves it to ptxas: a * b - c is a `mul` and a `sub` in its PTX. To give
/// the results of the chip, this does what ptxas 13.0 was seen to do for sm_90a: it fuses in one basic block, with the
/// same type and .ftz, when only sums use the product. When two products are added, the first operand is fused. A
/// product of two registers is not fused across a division or a root that is more than one instruction on the chip.
/// @param traits  of the instructions of its body.
Contractions find_contractions(const ptx::Function& function, std::span<const InstructionTraits> traits);

}  // namespace stagecraft::emulator::machine
