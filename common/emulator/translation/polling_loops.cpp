#include "emulator/translation/polling_loops.hpp"

#include <algorithm>

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

/// Steps for each instruction of a loop; real loops take few.
constexpr uint64_t kMostSteps = 256;

}  // namespace

bool PollingLoops::observes(uint32_t instruction) const {
  const InstructionTraits& traits = traits_[instruction];
  return traits.order != AccessOrder::weak || traits.polls || (calls_observe_ && traits.flow == Flow::calls);
}

bool PollingLoops::may_wait(const std::vector<uint32_t>& loop, uint32_t head) const {
  uint64_t instructions = 0;
  bool any = false, calls = false;
  for (const uint32_t block : loop) {
    for (uint32_t i = graph_.blocks[block].begin; i < graph_.blocks[block].end; ++i) {
      ++instructions;
      any = any || observes(i);
      calls = calls || (calls_observe_ && traits_[i].flow == Flow::calls);
    }
  }
  if (!any) return false;
  return LoopDependences(graph_, loop, head, kMostSteps * instructions).decide_the_end([&](uint32_t i) {
    return observes(i) || (calls && reads_a_call_area(graph_.function, i));
  });
}

}  // namespace stagecraft::emulator::machine
