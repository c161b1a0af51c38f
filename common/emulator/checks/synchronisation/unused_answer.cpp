#include "emulator/checks/synchronisation/unused_answer.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace stagecraft::emulator::checks {

namespace {

using Instruction = ptx::Instruction;
using Register = ptx::RegisterId;

bool reads(const Instruction& instruction, Register reg) {
  if (instruction.guarded && instruction.guard == reg) return true;
  bool found = false;
  const auto look = [&](Register each) { found = found || each == reg; };
  // The first operand is where results go, except where it is an address.
  for (size_t i = 0; i < instruction.operands.size(); ++i) {
    const bool result = i == 0 && (instruction.operands[0].kind == ptx::OperandKind::reg ||
                                   instruction.operands[0].kind == ptx::OperandKind::pair);
    if (!result) visit_registers(instruction.operands[i], look);
  }
  return found;
}

/// Whether an instruction does nothing but compute its one result.
bool only_computes(const Instruction& instruction) {
  constexpr std::string_view kOpcodes[] = {"selp", "setp", "mov", "cvt", "and", "or", "xor", "not", "set"};
  return !instruction.guarded && !instruction.operands.empty() &&
         std::find(std::begin(kOpcodes), std::end(kOpcodes), instruction.opcode) != std::end(kOpcodes);
}

}  // namespace

bool ignores_answer(const machine::Kernel& kernel, uint32_t pc) {
  if (pc >= kernel.places.size() || kernel.places[pc].function == nullptr) return false;
  const std::vector<Instruction>& body = kernel.places[pc].function->body;
  const Instruction& wait = body.at(kernel.places[pc].instruction);
  if (wait.opcode != "mbarrier" || wait.modifiers.empty() || wait.operands.empty()) return false;
  if (wait.modifiers.front() != "try_wait" && wait.modifiers.front() != "test_wait") return false;
  std::set<Register> seen;
  std::vector<Register> open;
  const auto follow = [&](Register reg) {
    if (seen.insert(reg).second) open.push_back(reg);
  };
  visit_registers(wait.operands[0], follow);
  while (!open.empty()) {
    const Register reg = open.back();
    open.pop_back();
    for (const Instruction& instruction : body) {
      if (!reads(instruction, reg)) continue;
      if (!only_computes(instruction)) return false;
      visit_registers(instruction.operands[0], follow);
    }
  }
  return true;
}

}  // namespace stagecraft::emulator::checks
