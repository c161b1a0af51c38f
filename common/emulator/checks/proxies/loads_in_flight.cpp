#include "emulator/checks/proxies/loads_in_flight.hpp"

#include <algorithm>
#include <numeric>

namespace stagecraft::emulator::checks {

using machine::InstructionTraits;
using ptx::Instruction;
using ptx::OperandKind;
using ptx::RegisterId;

namespace {

constexpr uint32_t kWord = 64;

bool has(const std::vector<uint64_t>& bits, uint32_t number) {
  return (bits[number / kWord] >> number % kWord & 1) != 0;
}

void set(std::vector<uint64_t>& bits, uint32_t number) { bits[number / kWord] |= uint64_t{1} << number % kWord; }

bool is_load(const Instruction& instruction, const InstructionTraits& traits) {
  return traits.memory == machine::MemoryUse::loads && traits.order == machine::AccessOrder::weak &&
         !instruction.operands.empty();
}

bool may_arrive(const InstructionTraits& traits) { return traits.synchronises && !traits.reads_first; }

/// Whether an instruction counts as waiting for all loads (LoadsInFlight::is_unread).
bool waits_for_all(const InstructionTraits& traits) {
  const bool meets = traits.synchronises && traits.reads_first;
  const bool multiplies = traits.result_guard != nullptr;
  return meets || multiplies || traits.flow == machine::Flow::calls || traits.fence == machine::FenceKind::memory;
}

bool has_result(const Instruction& instruction, const InstructionTraits& traits) {
  if (traits.reads_first || instruction.operands.empty()) return false;
  const OperandKind kind = instruction.operands[0].kind;
  return kind == OperandKind::reg || kind == OperandKind::vector || kind == OperandKind::pair;
}

template <typename Visit>
void visit_sources(const Instruction& instruction, const InstructionTraits& traits, const Visit& visit) {
  if (instruction.guarded) visit(instruction.guard);
  for (size_t i = has_result(instruction, traits) ? 1 : 0; i < instruction.operands.size(); ++i) {
    ptx::visit_registers(instruction.operands[i], visit);
  }
}

bool copies(const InstructionTraits& traits) { return traits.computes == machine::Computation::copy; }

}  // namespace

bool LoadsInFlight::State::join(const State& other) {
  bool news = false;
  for (size_t i = 0; i < executed.size(); ++i) {
    news = news || (other.executed[i] & ~executed[i]) != 0 || (other.used[i] & ~used[i]) != 0;
    executed[i] |= other.executed[i];
    used[i] |= other.used[i];
  }
  return news;
}

LoadsInFlight::LoadsInFlight(const ptx::Function& function, const std::vector<InstructionTraits>& traits)
    : graph_(function, traits), traits_(traits) {
  number_loads();
  const State nothing{Bits((loads_.size() + kWord - 1) / kWord), Bits((loads_.size() + kWord - 1) / kWord)};
  before_.assign(graph_.blocks.size(), nothing);
  watched_ = nothing.used;
  if (loads_.empty() || std::none_of(traits.begin(), traits.end(), may_arrive)) return;
  std::vector<bool> is_open(graph_.blocks.size(), true);
  for (bool goes_on = true; goes_on;) {
    goes_on = false;
    for (uint32_t block = 0; block < graph_.blocks.size(); ++block) {
      if (!is_open[block]) continue;
      is_open[block] = false;
      State state = before_[block];
      for (uint32_t i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i) step(state, i);
      for (const uint32_t to : graph_.blocks[block].successors) {
        if (before_[to].join(state)) is_open[to] = goes_on = true;
      }
    }
  }
  for (uint32_t i = 0; i < traits.size(); ++i) {
    if (!may_arrive(traits[i])) continue;
    const State& state = state_at(i);
    for (size_t word = 0; word < watched_.size(); ++word) watched_[word] |= state.executed[word] & ~state.used[word];
  }
}

void LoadsInFlight::number_loads() {
  const std::vector<Instruction>& body = graph_.function.body;
  // Registers between which values are copied, which costs the chip no wait, count as one.
  std::vector<uint32_t> joined(graph_.function.registers.size());
  std::iota(joined.begin(), joined.end(), 0);
  const auto root_of = [&](RegisterId reg) {
    while (joined[reg] != reg) reg = joined[reg] = joined[joined[reg]];
    return reg;
  };
  for (uint32_t i = 0; i < body.size(); ++i) {
    if (is_load(body[i], traits_[i])) loads_.push_back(i);
    if (!copies(traits_[i]) || body[i].operands.size() != 2) continue;
    ptx::visit_registers(body[i].operands[0], [&](RegisterId to) {
      ptx::visit_registers(body[i].operands[1], [&](RegisterId from) { joined[root_of(to)] = root_of(from); });
    });
  }
  std::vector<std::vector<uint32_t>> of_root(joined.size());
  for (uint32_t number = 0; number < loads_.size(); ++number) {
    ptx::visit_registers(body[loads_[number]].operands[0],
                         [&](RegisterId reg) { of_root[root_of(reg)].push_back(number); });
  }
  of_.resize(joined.size());
  for (RegisterId reg = 0; reg < joined.size(); ++reg) of_[reg] = of_root[root_of(reg)];
}

void LoadsInFlight::step(State& state, uint32_t index) const {
  const Instruction& instruction = graph_.function.body[index];
  const InstructionTraits& traits = traits_[index];
  if (waits_for_all(traits)) state.used = state.executed;
  if (!copies(traits)) {
    visit_sources(instruction, traits, [&](RegisterId reg) {
      for (const uint32_t load : of_[reg]) {
        if (has(state.executed, load)) set(state.used, load);
      }
    });
  }
  if (!is_load(instruction, traits)) return;
  const auto number = static_cast<uint32_t>(std::lower_bound(loads_.begin(), loads_.end(), index) - loads_.begin());
  set(state.executed, number);
  if (!instruction.guarded) state.used[number / kWord] &= ~(uint64_t{1} << number % kWord);
}

const LoadsInFlight::State& LoadsInFlight::state_at(uint32_t index) const {
  const auto [found, fresh] = asked_.try_emplace(index);
  if (!fresh) return found->second;
  const auto after = std::upper_bound(graph_.blocks.begin(), graph_.blocks.end(), index,
                                      [](uint32_t i, const auto& block) { return i < block.begin; });
  const auto block = static_cast<size_t>(after - graph_.blocks.begin()) - 1;
  found->second = before_[block];
  for (uint32_t i = graph_.blocks[block].begin; i < index; ++i) step(found->second, i);
  return found->second;
}

bool LoadsInFlight::is_unread(uint32_t load, uint32_t at) const {
  const auto number = std::lower_bound(loads_.begin(), loads_.end(), load) - loads_.begin();
  const State& state = state_at(at);
  return has(state.executed, static_cast<uint32_t>(number)) && !has(state.used, static_cast<uint32_t>(number));
}

bool LoadsInFlight::is_unread_at_arrival(uint32_t load) const {
  const auto found = std::lower_bound(loads_.begin(), loads_.end(), load);
  return found != loads_.end() && *found == load && has(watched_, static_cast<uint32_t>(found - loads_.begin()));
}

UnreadLoads::UnreadLoads(const machine::Kernel& kernel) : kernel_(kernel), watched_(kernel.code.size()) {
  const auto copies_in_bulk = [](const InstructionTraits& traits) {
    return traits.copies == machine::Copies::bulk || traits.copies == machine::Copies::tiles;
  };
  if (!kernel.has_instruction(copies_in_bulk)) return;
  for (uint32_t pc = 0; pc < kernel.code.size(); ++pc) {
    const machine::OpPlace& place = kernel.places[pc];
    if (place.function == nullptr || place.instruction >= place.function->body.size()) continue;
    if (kernel.unread_loads.contains(pc)) continue;  // ptxas leaves it out
    auto found = functions_.find(place.function);
    if (found == functions_.end()) {
      found = functions_.try_emplace(place.function, *place.function, kernel.traits.at(place.function)).first;
    }
    watched_[pc] = found->second.is_unread_at_arrival(place.instruction);
    any_ = any_ || watched_[pc];
  }
}

bool UnreadLoads::is_unread(uint32_t load_pc, uint32_t at_pc) const {
  const machine::OpPlace &load = kernel_.places[load_pc], &at = kernel_.places[at_pc];
  if (load.function != at.function || at.instruction >= at.function->body.size()) return false;
  return functions_.at(load.function).is_unread(load.instruction, at.instruction);
}

}  // namespace stagecraft::emulator::checks
