#include "emulator/checks/causes/asked_once.hpp"

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "emulator/checks/causes/control_flow.hpp"

namespace stagecraft::emulator::checks {

namespace {

using Instruction = ptx::Instruction;

/// Whether a loop that asks again may have it: it computes, sleeps or reads a clock.
bool may_be_between_questions(const Instruction& instruction) {
  constexpr std::string_view kOther[] = {"ld",    "st",      "atom",     "red",  "cp",    "bar", "barrier", "call",
                                         "wgmma", "tcgen05", "mbarrier", "shfl", "redux", "ret", "exit",    "brx"};
  return std::find(std::begin(kOther), std::end(kOther), instruction.opcode) == std::end(kOther);
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
    const auto next = successors(body, at);
    if (!next) continue;
    branches = branches || (instruction.opcode == "bra" && instruction.guarded);
    open.insert(open.end(), next->begin(), next->end());
  }
  return branches;
}

}  // namespace stagecraft::emulator::checks
