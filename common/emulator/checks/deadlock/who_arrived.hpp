// Who has arrived at an mbarrier in a phase that does not end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "emulator/checks/deadlock/sleepers.hpp"

namespace stagecraft::emulator::checks {

/// What the lanes of one warp have done at an mbarrier in one phase, at one instruction.
struct Came {
  const machine::Block* block = nullptr;
  uint32_t warp = 0;
  machine::LaneMask lanes = 0;
  uint32_t pc = 0;
  bool by_operation = false;  ///< which they have issued, such as tcgen05.commit
  uint64_t amount = 0;        ///< arrivals
  uint32_t times = 0;         ///< how often the instruction was executed

  bool is_same_warp(const Came& other) const {
    return block == other.block && warp == other.warp && by_operation == other.by_operation;
  }
};

/// Those who arrived in a phase, in order. Empty where not all of them are remembered.
/// @param amount  arrivals that there were
std::vector<Came> who_came(const BarrierHistory& history, uint64_t phase, uint64_t amount);

/// "warps 1-2 [all lanes] at ring.cu:44 and the tcgen05.commit of warp 3 [lane 0] at ring.cu:50"; empty for nobody, or
/// where they are too many to be said.
std::string describe_came(const std::vector<Came>& came, const machine::Cluster& cluster);

/// "full[0] was initialised at ring.cu:19 for 96 arrivals per phase, and 64 came, by ..."
std::string describe_partial_phase(const Sleepers& sleepers, const machine::Fragment& waiter);

/// Where threads arrived several times in a phase that waits for one arrival of each of more threads; empty: it is not
/// so.
std::string describe_repeated_arrivals(const Sleepers& sleepers, const machine::Fragment& waiter, uint64_t phase);

}  // namespace stagecraft::emulator::checks
