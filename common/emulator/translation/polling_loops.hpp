// Which loops of a function may wait for what other threads do, and how.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/translation/flow_graph.hpp"

namespace stagecraft::emulator::machine {

/// What decides how often a loop is repeated, through registers or through branches.
enum class LoopEnd {
  computed,  ///< nothing that other threads do
  read,      ///< memory that weak loads read: it may wait for others, if these go first, or search
  slept,     ///< what is observed in it by a strong load, an atomic or a poll, and it sleeps in between
  observed,  ///< the same, without sleeping
};

/// Decides which loops may wait for other threads.
class PollingLoops {
 public:
  PollingLoops(const FlowGraph& graph, const std::vector<InstructionTraits>& traits, bool calls_observe)
      : graph_(graph), traits_(traits), calls_observe_(calls_observe) {}
  /// @param loop  its blocks, ascending.
  /// @param head  the one by which it is entered.
  LoopEnd end_of(const std::vector<uint32_t>& loop, uint32_t head) const;

 private:
  bool observes(uint32_t instruction) const;

  const FlowGraph& graph_;
  const std::vector<InstructionTraits>& traits_;
  bool calls_observe_;
};

}  // namespace stagecraft::emulator::machine
