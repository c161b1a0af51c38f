#include "emulator/trace/instruction_classes.hpp"

#include <algorithm>
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "emulator/trace/joined_loads.hpp"
#include "emulator/trace/merged_instructions.hpp"

namespace stagecraft::emulator::trace {
namespace {

using timing::InstructionClass;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has(const ptx::Instruction& instruction, std::initializer_list<std::string_view> modifiers) {
  return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(),
                     [&](const std::string& modifier) { return is_one_of(modifier, modifiers); });
}

bool is_f64(const ptx::Instruction& instruction) { return has(instruction, {"f64"}); }
bool is_half(const ptx::Instruction& instruction) { return has(instruction, {"f16", "f16x2", "bf16", "bf16x2"}); }
bool is_float(const ptx::Instruction& instruction) { return has(instruction, {"f32", "f32x2"}); }

}  // namespace

timing::Code describe_code(const machine::Kernel& kernel) {
  timing::Code code(kernel.code.size());
  const std::vector<PlaceInCode> straight = places_in_code(kernel);
  std::unordered_map<const ptx::Function*, uint32_t> first_register;
  std::unordered_map<const ptx::Function*, std::vector<bool>> merged;
  uint32_t registers = 0;
  for (size_t pc = 0; pc < code.size(); ++pc) {
    timing::Instruction& described = code[pc];
    const machine::OpPlace& place = kernel.places[pc];
    described.kind = InstructionClass::free;
    described.begin = static_cast<uint32_t>(pc);
    described.first = straight[pc].first;
    if (place.function == nullptr || place.instruction >= place.function->body.size()) continue;
    const auto [base, is_new] = first_register.emplace(place.function, registers);
    if (is_new) {
      registers += static_cast<uint32_t>(place.function->registers.size());
      merged.emplace(place.function, merged_instructions(*place.function, kernel.traits.at(place.function)));
    }
    const bool repeated = pc > 0 && kernel.places[pc - 1].function == place.function &&
                          kernel.places[pc - 1].instruction == place.instruction;
    const ptx::Instruction& instruction = place.function->body[place.instruction];
    if (repeated) described.begin = code[pc - 1].begin;
    const bool is_own = !repeated && !straight[pc].predicated && !merged.at(place.function)[place.instruction];
    const machine::InstructionTraits& traits = kernel.traits_at(static_cast<uint32_t>(pc));
    if (is_own) described.kind = traits.timing.of(instruction);
    if (repeated) described.kind = traits.further_operations;
    described.times = traits.machine_instructions;
    described.shared = traits.only_shared || has(instruction, {"shared", "shared::cta", "shared::cluster"});
    // ptxas makes it ATOMS.POPC.INC, which serves the lanes of a word at once.
    described.counts = traits.memory == machine::MemoryUse::updates && has(instruction, {"add"}) &&
                       instruction.operands.back().kind == ptx::OperandKind::integer &&
                       instruction.operands.back().bits == 1;
    described.floating = traits.memory == machine::MemoryUse::updates &&
                         (is_float(instruction) || is_half(instruction) || is_f64(instruction));
    described.depends = traits.fence == machine::FenceKind::grid_dependencies;
    described.joined = straight[pc].joined;
    described.absorbed = straight[pc].leader != PlaceInCode::kNone;
    if (described.absorbed) described.kind = InstructionClass::free;
    described.plain_load =
        traits.memory == machine::MemoryUse::loads &&
        !has(instruction, {"volatile", "relaxed", "acquire", "mmio", "param", "param::entry", "param::func"});
    const uint32_t offset = base->second;
    for (size_t i = 0; i < instruction.operands.size(); ++i) {
      const ptx::Operand& operand = instruction.operands[i];
      if (i == 0 && traits.result_guard != nullptr) continue;  // ready when it is waited for
      const bool written = i == 0 && !traits.reads_first && operand.kind != ptx::OperandKind::address;
      ptx::visit_registers(
          operand, [&](ptx::RegisterId id) { (written ? described.writes : described.reads).push_back(offset + id); });
    }
    if (instruction.guarded) described.reads.push_back(offset + instruction.guard);
    if (described.absorbed) {
      std::vector<uint32_t>& of_leader = code[straight[pc].leader].writes;
      of_leader.insert(of_leader.end(), described.writes.begin(), described.writes.end());
      described.writes.clear();
    }
  }
  std::unordered_set<uint32_t> read;
  for (const timing::Instruction& each : code) read.insert(each.reads.begin(), each.reads.end());
  for (timing::Instruction& each : code) {
    each.returns =
        std::any_of(each.writes.begin(), each.writes.end(), [&](uint32_t result) { return read.contains(result); });
  }
  return code;
}

}  // namespace stagecraft::emulator::trace
