// What in a loop depends on certain instructions of it.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "emulator/translation/flow_graph.hpp"

namespace stagecraft::emulator::machine {

/// Follows dependences through registers, and through branches to the blocks that some lanes then skip.
class LoopDependences {
 public:
  /// @param loop   its blocks, ascending.
  /// @param head   the one by which it is entered.
  /// @param steps  after which an answer that is not found is taken for yes: hostile text could take for ever.
  LoopDependences(const FlowGraph& graph, const std::vector<uint32_t>& loop, uint32_t head, uint64_t steps)
      : graph_(graph), loop_(loop), head_(head), steps_left_(steps) {}

  /// Whether some branch out of the loop depends on an instruction that `begins` a dependence, given by its index in
  /// Function::body.
  bool decide_the_end(const std::function<bool(uint32_t)>& begins);

 private:
  bool in_loop(uint32_t block) const;
  /// Whether lanes may leave the loop at the end of a block, by a branch or by an exit that not all take.
  bool may_leave(uint32_t block) const;
  bool reads_dependent(uint32_t instruction) const;
  /// Adds what depends on an instruction that depends.
  void follow(uint32_t block, uint32_t instruction);
  /// Returns the blocks that follow in this turn of the loop.
  std::set<uint32_t> leads_to(uint32_t from);

  const FlowGraph& graph_;
  const std::vector<uint32_t>& loop_;
  uint32_t head_;
  uint64_t steps_left_;
  std::set<ptx::RegisterId> registers_;
  std::set<uint32_t> blocks_;   // that some lanes skip for a reason that depends
  std::set<uint32_t> decided_;  // whose last instruction depends and parts the lanes
  bool changed_ = true;
};

}  // namespace stagecraft::emulator::machine
