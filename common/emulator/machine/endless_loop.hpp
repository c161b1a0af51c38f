// Recognises loops that cannot end: polls of memory that nobody will write.
//
// A sleeping wait that nobody can end is seen at once, because then nothing is ready. A loop over ordinary loads is
// always ready. But execution is deterministic: when a cluster comes back to a state it was in before (all registers,
// all program counters) and nothing has been done in between that could be seen outside a thread, it will come back
// to it for ever. A loop that counts, or reads the clock, does not repeat, and is not found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/machine/grid.hpp"

namespace stagecraft::emulator::machine {

class EndlessLoopDetector {
 public:
  /// To be called after each turn of a warp. True when the cluster is in exactly the state of an earlier call, and the
  /// grid's count of effects has not changed since.
  bool repeats(const Cluster& cluster, uint64_t effects);

 private:
  struct FragmentState {
    uint32_t warp, pc;
    LaneMask mask;
    bool operator==(const FragmentState&) const = default;
  };
  void take_snapshot(const Cluster& cluster);
  bool matches_snapshot(const Cluster& cluster) const;

  const Cluster* cluster_ = nullptr;
  uint64_t effects_ = 0;
  uint64_t turns_ = 0;          // without an effect
  uint64_t next_snapshot_ = 0;  // doubles, so that a loop of any length is caught (Brent's algorithm)
  std::vector<FragmentState> fragments_;
  std::vector<std::byte> registers_;
};

}  // namespace stagecraft::emulator::machine
