#include "emulator/checks/synchronisation/unused_answer.hpp"

#include <set>
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

/// Whether an instruction does nothing but make its one result of a truth value, or test it.
bool passes_truth_on(const Instruction& instruction, const machine::InstructionTraits& traits) {
  using machine::Computation;
  if (instruction.guarded || instruction.operands.empty()) return false;
  switch (traits.computes) {
    case Computation::copy:
    case Computation::conversion:
    case Computation::conjunction:
    case Computation::disjunction:
    case Computation::exclusive_disjunction:
    case Computation::complement:
    case Computation::predicate:
    case Computation::truth:
    case Computation::selection: return true;
    default: return false;
  }
}

}  // namespace

bool ignores_answer(const machine::Kernel& kernel, uint32_t pc) {
  if (!kernel.traits_at(pc).polls) return false;
  const machine::OpPlace& place = kernel.places[pc];
  const std::vector<Instruction>& body = place.function->body;
  const std::vector<machine::InstructionTraits>& traits = kernel.traits.at(place.function);
  std::set<Register> seen;
  std::vector<Register> open;
  const auto follow = [&](Register reg) {
    if (seen.insert(reg).second) open.push_back(reg);
  };
  visit_registers(body[place.instruction].operands[0], follow);
  while (!open.empty()) {
    const Register reg = open.back();
    open.pop_back();
    for (size_t i = 0; i < body.size(); ++i) {
      if (!reads(body[i], reg)) continue;
      if (!passes_truth_on(body[i], traits[i])) return false;
      visit_registers(body[i].operands[0], follow);
    }
  }
  return true;
}

}  // namespace stagecraft::emulator::checks
