// Which instructions of a function write a register.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::machine {

/// Calls `visit(register)` for each register that an instruction's first operand names, other than as an address: those
/// that it writes are among them.
template <typename Visit>
void for_each_written(const ptx::Instruction& instruction, const Visit& visit) {
  const std::vector<ptx::Operand>& operands = instruction.operands;
  if (!operands.empty() && operands[0].kind != ptx::OperandKind::address) ptx::visit_registers(operands[0], visit);
}

/// Calls `visit(i)` for each instruction of the function's body that may write the register.
template <typename Visit>
void for_each_write(const ptx::Function& function, ptx::RegisterId reg, const Visit& visit) {
  for (uint32_t i = 0; i < function.body.size(); ++i) {
    bool writes = false;
    for_each_written(function.body[i], [&](ptx::RegisterId written) { writes = writes || written == reg; });
    if (writes) visit(i);
  }
}

}  // namespace stagecraft::emulator::machine
