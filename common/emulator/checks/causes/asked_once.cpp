#include "emulator/checks/causes/asked_once.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

namespace stagecraft::emulator::checks {

namespace {

using Instruction = ptx::Instruction;

/// Whether it may stand in a loop that asks again: it computes, sleeps or reads a clock.
bool may_be_between_questions(const Instruction& instruction) {
  constexpr std::string_view kOther[] = {"ld",    "st",      "atom",     "red",  "cp",    "bar", "barrier", "call",
                                         "wgmma", "tcgen05", "mbarrier", "shfl", "redux", "ret", "exit",    "brx"};
  return std::find(std::begin(kOther), std::end(kOther), instruction.opcode) == std::end(kOther);
}

const ptx::Operand* target_of(const Instruction& instruction) {
  for (const ptx::Operand& operand : instruction.operands) {
    if (operand.kind == ptx::OperandKind::label) return &operand;
  }
  return nullptr;
}

}  // namespace

bool is_asked_once(const machine::Kernel& kernel, uint32_t pc) {
  if (pc >= kernel.places.size() || kernel.places[pc].function == nullptr) return false;
  const std::vector<Instruction>& body = kernel.places[pc].function->body;
  const uint32_t wait = kernel.places[pc].instruction;
  if (wait >= body.size() || body[wait].opcode != "mbarrier" || body[wait].modifiers.empty()) return false;
  if (body[wait].modifiers.front() != "try_wait" && body[wait].modifiers.front() != "test_wait") return false;
  std::set<uint32_t> seen;
  std::vector<uint32_t> open{wait + 1};
  bool branches = false;
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (at == wait) return false;
    if (at >= body.size() || !seen.insert(at).second) continue;
    const Instruction& instruction = body[at];
    if (!may_be_between_questions(instruction)) continue;
    if (const ptx::Operand* target = target_of(instruction); target != nullptr && instruction.opcode == "bra") {
      open.push_back(target->label);
      branches = branches || instruction.guarded;
      if (!instruction.guarded) continue;
    }
    open.push_back(at + 1);
  }
  return branches;
}

}  // namespace stagecraft::emulator::checks
