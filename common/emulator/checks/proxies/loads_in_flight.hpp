// Which loads nothing has waited for yet, as far as the registers of a function say.
//
// A load brings its values some time after it was issued, and a thread goes on until an instruction needs one of them.
// What comes in between, an arrival at an mbarrier above all, can overtake it.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "emulator/state/instruction_traits.hpp"
#include "emulator/state/kernel.hpp"
#include "emulator/translation/flow_graph.hpp"

namespace stagecraft::emulator::checks {

class LoadsInFlight {
 public:
  LoadsInFlight(const ptx::Function& function, const std::vector<machine::InstructionTraits>& traits);

  /// Whether nothing has waited for the values of a load when another instruction is executed, on no path between the
  /// two. Both are indices in Function::body. A copy of a register waits for nothing. A barrier of the block, a memory
  /// fence, a call and wgmma count as waiting for all loads: nobody has seen one of them overtake a load.
  bool is_unread(uint32_t load, uint32_t at) const;
  /// Whether that is so at an instruction that may arrive at an mbarrier.
  bool is_unread_at_arrival(uint32_t load) const;

 private:
  using Bits = std::vector<uint64_t>;  ///< a bit for each load
  struct State {
    Bits executed, used;
    /// Adds what is known on another path; returns whether that was new.
    bool join(const State& other);
  };

  void number_loads();
  void step(State& state, uint32_t index) const;
  const State& state_at(uint32_t index) const;

  const machine::FlowGraph graph_;
  const std::vector<machine::InstructionTraits>& traits_;
  std::vector<uint32_t> loads_;              ///< indices in Function::body, rising
  std::vector<std::vector<uint32_t>> of_;    ///< by register: the loads whose values, or copies of them, it may hold
  std::vector<State> before_;                ///< by block
  Bits watched_;                             ///< is_unread_at_arrival
  mutable std::map<uint32_t, State> asked_;  ///< by instruction
};

/// The same for all functions of a kernel, by Ops.
class UnreadLoads {
 public:
  explicit UnreadLoads(const machine::Kernel& kernel);
  /// Whether the kernel has bulk copies into shared memory, and loads that an arrival may overtake.
  bool any() const { return any_; }
  bool may_be_overtaken(uint32_t load_pc) const { return watched_[load_pc]; }
  bool is_unread(uint32_t load_pc, uint32_t at_pc) const;

 private:
  const machine::Kernel& kernel_;
  std::map<const ptx::Function*, LoadsInFlight> functions_;
  std::vector<bool> watched_;  ///< by pc
  bool any_ = false;
};

}  // namespace stagecraft::emulator::checks
