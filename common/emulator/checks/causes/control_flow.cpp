#include "emulator/checks/causes/control_flow.hpp"

#include <algorithm>

namespace stagecraft::emulator::checks {

namespace {

using Instruction = ptx::Instruction;

const std::vector<Instruction>* body_of(const machine::Kernel& kernel, uint32_t pc) {
  if (pc >= kernel.places.size() || kernel.places[pc].function == nullptr) return nullptr;
  const std::vector<Instruction>& body = kernel.places[pc].function->body;
  return kernel.places[pc].instruction < body.size() ? &body : nullptr;
}

/// Which instructions of the function can be executed after one, without passing any for which `stops` is true. Nothing
/// where that is not understood.
/// @param stops  of the index of an instruction; one that stops is reached itself
template <typename Stops>
std::optional<std::vector<bool>> reached_from(const machine::Kernel& kernel, uint32_t pc, const Stops& stops) {
  const std::vector<Instruction>* body = body_of(kernel, pc);
  if (body == nullptr) return std::nullopt;
  const ptx::Function& function = *kernel.places[pc].function;
  std::vector<bool> reached(body->size(), false);
  std::vector<uint32_t> open{kernel.places[pc].instruction};
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    const auto next = successors(kernel, function, at);
    if (!next) return std::nullopt;
    for (const uint32_t each : *next) {
      if (each >= body->size() || reached[each]) continue;
      reached[each] = true;
      if (!stops(each)) open.push_back(each);
    }
  }
  return reached;
}

bool nowhere(uint32_t) { return false; }

}  // namespace

std::optional<std::vector<uint32_t>> successors(const machine::Kernel& kernel, const ptx::Function& function,
                                                uint32_t at) {
  const Instruction& instruction = function.body[at];
  const bool leaves = kernel.traits.at(&function)[at].flow == machine::Flow::leaves;
  std::vector<uint32_t> next;
  if (leaves && !instruction.operands.empty()) {
    const auto target = std::find_if(instruction.operands.begin(), instruction.operands.end(),
                                     [](const auto& operand) { return operand.kind == ptx::OperandKind::label; });
    if (target == instruction.operands.end()) return std::nullopt;  // one of a table
    next.push_back(target->label);
  }
  if (!leaves || instruction.guarded) next.push_back(at + 1);
  return next;
}

bool is_passed_by(const machine::Kernel& kernel, uint32_t pc, uint32_t other_pc) {
  if (body_of(kernel, pc) == nullptr || body_of(kernel, pc) != body_of(kernel, other_pc)) return false;
  const uint32_t one = kernel.places[pc].instruction, other = kernel.places[other_pc].instruction;
  const auto leads = [&](uint32_t from_pc, uint32_t from, uint32_t to) {
    const auto after = reached_from(kernel, from_pc, nowhere);
    const auto again = reached_from(kernel, from_pc, [&](uint32_t each) { return each == to; });
    return after && again && (*after)[to] && !(*again)[from];
  };
  return leads(pc, one, other) && !leads(other_pc, other, one);
}

bool has_later_wait(const machine::Kernel& kernel, uint32_t pc) {
  const auto after = reached_from(kernel, pc, nowhere);
  if (!after) return false;
  const std::string own = kernel.describe_source(pc);
  for (uint32_t other = 0; other < kernel.places.size(); ++other) {
    const std::vector<Instruction>* body = body_of(kernel, other);
    if (body == nullptr || body != body_of(kernel, pc)) continue;
    const uint32_t instruction = kernel.places[other].instruction;
    if ((*after)[instruction] && kernel.traits_at(other).polls && kernel.describe_source(other) != own) return true;
  }
  return false;
}

bool may_come_before(const machine::Kernel& kernel, std::optional<uint32_t> pc, uint32_t to_pc, uint32_t other_pc,
                     bool meeting_stops) {
  if (!pc) {
    const auto is_entry = [&](const machine::OpPlace& place) { return place.function == kernel.entry; };
    const auto start = std::find_if(kernel.places.begin(), kernel.places.end(), is_entry);
    if (start == kernel.places.end()) return false;
    pc = static_cast<uint32_t>(start - kernel.places.begin());
  }
  const std::vector<Instruction>* body = body_of(kernel, *pc);
  if (body == nullptr || body != body_of(kernel, to_pc) || body != body_of(kernel, other_pc)) return false;
  const std::vector<machine::InstructionTraits>& traits = kernel.traits.at(kernel.places[*pc].function);
  const uint32_t other = kernel.places[other_pc].instruction;
  const auto reached = reached_from(
      kernel, *pc, [&](uint32_t each) { return each == other || (meeting_stops && traits[each].meets_block); });
  return reached && (*reached)[kernel.places[to_pc].instruction];
}

std::optional<std::vector<uint32_t>> next_block_barriers(const machine::Kernel& kernel, uint32_t pc) {
  const std::vector<Instruction>* body = body_of(kernel, pc);
  if (body == nullptr) return std::nullopt;
  const std::vector<machine::InstructionTraits>& traits = kernel.traits.at(kernel.places[pc].function);
  const auto after = reached_from(kernel, pc, [&](uint32_t each) { return traits[each].meets_block; });
  if (!after) return std::nullopt;
  std::vector<uint32_t> barriers;
  for (uint32_t other = 0; other < kernel.places.size(); ++other) {
    if (body_of(kernel, other) != body) continue;
    const uint32_t instruction = kernel.places[other].instruction;
    if ((*after)[instruction] && traits[instruction].meets_block) barriers.push_back(other);
  }
  return barriers;
}

bool may_come_to_barrier(const machine::Kernel& kernel, uint32_t pc, uint32_t number) {
  const auto after = reached_from(kernel, pc, nowhere);
  // From a function that was called, threads return to where this does not follow them.
  if (!after || kernel.places[pc].function != kernel.entry) return true;
  const std::vector<machine::InstructionTraits>& traits = kernel.traits.at(kernel.places[pc].function);
  const std::vector<Instruction>& body = *body_of(kernel, pc);
  for (size_t at = 0; at < body.size(); ++at) {
    if (!(*after)[at]) continue;
    if (traits[at].flow == machine::Flow::calls) return true;
    if (!traits[at].meets_block) continue;
    // The number is the first operand, or follows the result of a reduction.
    const auto is_other = [&](const ptx::Operand& operand) {
      return operand.kind == ptx::OperandKind::integer && operand.bits != number;
    };
    if (body[at].operands.empty() || !is_other(body[at].operands.front())) return true;
  }
  return false;
}

}  // namespace stagecraft::emulator::checks
