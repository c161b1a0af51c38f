#include "emulator/translation/isolation.hpp"

#include <algorithm>
#include <string>

#include "emulator/instructions/observation.hpp"
#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine {
namespace {

/// Other clusters do not reach it.
bool names_near_memory(const ptx::Instruction& instruction) {
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(), [](const std::string& modifier) {
    return modifier.starts_with("shared") || modifier.starts_with("param") || modifier.starts_with("const") ||
           modifier == "local";
  });
}

bool tells_of_time_or_place(const ptx::Operand& operand) {
  if (operand.kind == ptx::OperandKind::special) {
    const std::string& name = operand.name;
    return name.starts_with("clock") || name.starts_with("globaltimer") || name == "smid";
  }
  return std::any_of(operand.list.begin(), operand.list.end(), tells_of_time_or_place);
}

}  // namespace

bool concerns_other_clusters(const ptx::Instruction& instruction) {
  const std::string& opcode = instruction.opcode;
  if (std::any_of(instruction.operands.begin(), instruction.operands.end(), tells_of_time_or_place)) return true;
  if (opcode == "ld" || opcode == "st" || opcode == "atom" || opcode == "red") {
    return order_of(instruction) != AccessOrder::weak && !names_near_memory(instruction);
  }
  if (opcode == "cp") return ptx::has_modifier(instruction, "reduce") && ptx::has_modifier(instruction, "global");
  return opcode == "clusterlaunchcontrol" || opcode == "multimem";
}

bool builtin_concerns_other_clusters(const std::string& name) { return name != "__assertfail"; }

}  // namespace stagecraft::emulator::machine
