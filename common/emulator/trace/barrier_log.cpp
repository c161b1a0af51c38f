#include "emulator/trace/barrier_log.hpp"

#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::trace {

using machine::BarrierEventKind;

int32_t BarrierLog::number_of(const machine::Block& block, uint32_t offset) {
  const auto [place, is_new] = numbers_.emplace(std::pair(block.rank, offset), static_cast<uint32_t>(barriers_.size()));
  if (is_new) {
    const std::string name = block.cluster->grid->kernel->name_of_barrier(offset);
    barriers_.push_back({block.rank, offset, name});
  }
  return static_cast<int32_t>(place->second);
}

void BarrierLog::add(const machine::BarrierEvent& event, int32_t warp) {
  if (event.kind == BarrierEventKind::reinitialise || steps_.size() >= kMostSteps) return;
  const auto found = event.block->mbarriers.live.find(event.offset);
  if (found == event.block->mbarriers.live.end()) return;
  const machine::Mbarrier& barrier = found->second;
  BarrierStep step;
  step.kind = event.kind;
  step.at = machine::time_of(*event.block->cluster);
  step.barrier = static_cast<uint32_t>(number_of(*event.block, event.offset));
  step.amount = event.amount;
  step.warp = warp;
  step.pc = event.fragment == nullptr ? 0 : event.fragment->pc;
  step.operation = event.operation;
  step.phase = event.phase;
  step.pending = barrier.pending;
  step.bytes = barrier.transaction;
  if (event.kind ==
      BarrierEventKind::phase_complete) {  // announced before the barrier is made ready for the next phase
    ++step.phase;
    step.pending = barrier.expected;
  }
  // The lanes of a warp arrive one after another, in one instruction.
  if (!steps_.empty() && event.kind == BarrierEventKind::arrive && warp >= 0) {
    BarrierStep& last = steps_.back();
    if (last.kind == step.kind && last.barrier == step.barrier && last.warp == warp && last.pc == step.pc &&
        last.at == step.at && last.phase == step.phase) {
      last.amount += step.amount;
      last.pending = step.pending;
      return;
    }
  }
  steps_.push_back(step);
}

}  // namespace stagecraft::emulator::trace
