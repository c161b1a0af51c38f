// Which loops of a function may wait for what other threads do.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/translation/flow_graph.hpp"

namespace stagecraft::emulator::machine {

/// Decides which loops may wait for other threads: whether a loop goes on depends on something observed in it (a strong
/// load, an atomic, a poll), through registers or through branches.
class PollingLoops {
 public:
  PollingLoops(const FlowGraph& graph, const std::vector<InstructionTraits>& traits, bool calls_observe)
      : graph_(graph), traits_(traits), calls_observe_(calls_observe) {}
  /// @param loop  its blocks, ascending.
  /// @param head  the one by which it is entered.
  bool may_wait(const std::vector<uint32_t>& loop, uint32_t head) const;

 private:
  bool observes(uint32_t instruction) const;

  const FlowGraph& graph_;
  const std::vector<InstructionTraits>& traits_;
  bool calls_observe_;
};

}  // namespace stagecraft::emulator::machine
