#include "emulator/checks/causes/control_flow.hpp"

#include <algorithm>
#include <utility>

#include "emulator/state/register_writes.hpp"

namespace stagecraft::emulator::checks {

namespace {

using Instruction = ptx::Instruction;

const std::vector<Instruction>* body_of(const machine::Kernel& kernel, uint32_t pc) {
  if (pc >= kernel.places.size() || kernel.places[pc].function == nullptr) return nullptr;
  const std::vector<Instruction>& body = kernel.places[pc].function->body;
  return kernel.places[pc].instruction < body.size() ? &body : nullptr;
}

/// Which instructions of the function can be executed from some on, those themselves among them, without passing any
/// for which `stops` is true. Nothing where that is not understood.
/// @param stops  of the index of an instruction; one that stops is reached itself
template <typename Stops>
std::optional<std::vector<bool>> reached_from(const machine::Kernel& kernel, const ptx::Function& function,
                                              std::vector<uint32_t> next, const Stops& stops) {
  std::vector<bool> reached(function.body.size(), false);
  std::vector<uint32_t> open;
  while (true) {
    for (const uint32_t each : next) {
      if (each >= reached.size() || reached[each]) continue;
      reached[each] = true;
      if (!stops(each)) open.push_back(each);
    }
    if (open.empty()) return reached;
    const auto after = successors(kernel, function, open.back());
    if (!after) return std::nullopt;
    open.pop_back();
    next = *after;
  }
}

/// The same, from what follows an instruction.
template <typename Stops>
std::optional<std::vector<bool>> reached_from(const machine::Kernel& kernel, uint32_t pc, const Stops& stops) {
  if (body_of(kernel, pc) == nullptr) return std::nullopt;
  const ptx::Function& function = *kernel.places[pc].function;
  const auto next = successors(kernel, function, kernel.places[pc].instruction);
  return next ? reached_from(kernel, function, *next, stops) : std::nullopt;
}

bool nowhere(uint32_t) { return false; }

/// Which registers of a function are computed from the results of one instruction, those themselves among them.
std::vector<bool> computed_from(const ptx::Function& function, uint32_t instruction) {
  std::vector<bool> computed(function.registers.size(), false);
  bool grew = false;
  const auto note_results = [&](const Instruction& of) {
    machine::for_each_written(of, [&](ptx::RegisterId reg) {
      grew = grew || !computed[reg];
      computed[reg] = true;
    });
  };
  note_results(function.body[instruction]);
  while (std::exchange(grew, false)) {
    for (const Instruction& each : function.body) {
      bool reads = each.guarded && computed[each.guard];
      for (size_t i = 1; i < each.operands.size(); ++i) {
        ptx::visit_registers(each.operands[i], [&](ptx::RegisterId reg) { reads = reads || computed[reg]; });
      }
      if (reads) note_results(each);
    }
  }
  return computed;
}

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

bool decides_way(const machine::Kernel& kernel, uint32_t load_pc, uint32_t to_pc) {
  const std::vector<Instruction>* body = body_of(kernel, load_pc);
  if (body == nullptr || body != body_of(kernel, to_pc)) return false;
  const ptx::Function& function = *kernel.places[to_pc].function;
  const std::vector<machine::InstructionTraits>& traits = kernel.traits.at(&function);
  const uint32_t to = kernel.places[to_pc].instruction;
  const std::vector<bool> computed = computed_from(function, kernel.places[load_pc].instruction);
  for (uint32_t branch = 0; branch < body->size(); ++branch) {
    if (!(*body)[branch].guarded || !computed[(*body)[branch].guard]) continue;
    const auto ways = successors(kernel, function, branch);
    bool leads_there = false, leads_elsewhere = false;
    for (const uint32_t way : ways && ways->size() == 2 ? *ways : std::vector<uint32_t>()) {
      bool meets = false;
      const auto after = reached_from(kernel, function, {way}, [&](uint32_t each) {
        meets = meets || traits[each].meets_block;
        return traits[each].meets_block;
      });
      if (!after) return false;
      ((*after)[to] ? leads_there : leads_elsewhere) |= (*after)[to] || meets;
    }
    if (leads_there && leads_elsewhere) return true;
  }
  return false;
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
