#include "emulator/machine/isolation.hpp"

#include <algorithm>
#include <string_view>

namespace stagecraft::emulator::machine {
namespace {

bool has(const ptx::Instruction& instruction, std::string_view modifier) {
  return std::find(instruction.modifiers.begin(), instruction.modifiers.end(), modifier) != instruction.modifiers.end();
}

/// Other clusters do not reach it.
bool names_near_memory(const ptx::Instruction& instruction) {
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(), [](const std::string& modifier) {
    return modifier.starts_with("shared") || modifier.starts_with("param") || modifier.starts_with("const") ||
           modifier == "local";
  });
}

bool is_strong(const ptx::Instruction& instruction) {
  constexpr std::string_view kStrong[] = {"volatile", "relaxed", "acquire", "release", "mmio"};
  return std::any_of(std::begin(kStrong), std::end(kStrong),
                     [&](std::string_view order) { return has(instruction, order); });
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
  if (opcode == "atom" || opcode == "red") return !names_near_memory(instruction);
  if (opcode == "ld" || opcode == "st") return is_strong(instruction) && !names_near_memory(instruction);
  if (opcode == "cp") return has(instruction, "reduce") && has(instruction, "global");
  return opcode == "clusterlaunchcontrol" || opcode == "multimem";
}

bool builtin_concerns_other_clusters(const std::string& name) { return name != "__assertfail"; }

}  // namespace stagecraft::emulator::machine
