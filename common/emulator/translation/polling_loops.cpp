#include "emulator/translation/polling_loops.hpp"

#include <algorithm>
#include <functional>

#include "emulator/translation/loop_dependences.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// Whether an instruction reads a .param variable of the function: what a call returned.
bool reads_a_call_area(const ptx::Function& function, uint32_t instruction) {
  const auto& operands = function.body[instruction].operands;
  return std::any_of(operands.begin(), operands.end(), [&](const ptx::Operand& operand) {
    if (operand.kind != ptx::OperandKind::address || operand.list.empty()) return false;
    const ptx::Operand& base = operand.list[0];
    return base.kind == ptx::OperandKind::symbol && base.symbol_kind == ptx::SymbolKind::local_variable &&
           function.variables.at(base.symbol).space == ptx::Space::param;
  });
}

/// Whether an instruction reads memory to which other threads may write.
bool reads_memory(const ptx::Instruction& instruction) {
  const auto& operands = instruction.operands;
  const bool names_an_address = std::any_of(operands.begin() + (operands.empty() ? 0 : 1), operands.end(),
                                            [](const auto& each) { return each.kind == ptx::OperandKind::address; });
  return names_an_address &&
         std::none_of(instruction.modifiers.begin(), instruction.modifiers.end(),
                      [](const auto& each) { return each == "local" || each == "param" || each == "const"; });
}

/// Steps for each instruction of a loop; real loops take few.
constexpr uint64_t kMostSteps = 256;

}  // namespace

bool PollingLoops::observes(uint32_t instruction) const {
  const InstructionTraits& traits = traits_[instruction];
  return traits.order != AccessOrder::weak || traits.polls || (calls_observe_ && traits.flow == Flow::calls);
}

LoopEnd PollingLoops::end_of(const std::vector<uint32_t>& loop, uint32_t head) const {
  uint64_t instructions = 0;
  bool observed = false, read = false, sleeps = false, calls = false;
  for (const uint32_t block : loop) {
    for (uint32_t i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i) {
      ++instructions;
      observed = observed || observes(i);
      read = read || reads_memory(graph_.function.body[i]);
      sleeps = sleeps || traits_[i].sleeps;
      calls = calls || (calls_observe_ && traits_[i].flow == Flow::calls);
    }
  }
  const auto depends = [&](const std::function<bool(uint32_t)>& begins) {
    return LoopDependences(graph_, loop, head, kMostSteps * instructions).decide_the_end(begins);
  };
  if (observed &&
      depends([&](uint32_t i) { return observes(i) || (calls && reads_a_call_area(graph_.function, i)); })) {
    return sleeps ? LoopEnd::slept : LoopEnd::observed;
  }
  if (read && depends([&](uint32_t i) { return reads_memory(graph_.function.body[i]); })) return LoopEnd::read;
  return LoopEnd::computed;
}

}  // namespace stagecraft::emulator::machine
