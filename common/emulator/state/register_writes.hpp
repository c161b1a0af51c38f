// Which instructions of a function write a register.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::machine {

/// Calls `visit(i)` for each instruction of the function's body whose first operand names the register, other than as
/// an address: those that write it are among them.
template <typename Visit>
void for_each_write(const ptx::Function& function, ptx::RegisterId reg, const Visit& visit) {
  for (uint32_t i = 0; i < function.body.size(); ++i) {
    const std::vector<ptx::Operand>& operands = function.body[i].operands;
    if (operands.empty() || operands[0].kind == ptx::OperandKind::address) continue;
    bool writes = false;
    ptx::visit_registers(operands[0], [&](ptx::RegisterId named) { writes = writes || named == reg; });
    if (writes) visit(i);
  }
}

}  // namespace stagecraft::emulator::machine
