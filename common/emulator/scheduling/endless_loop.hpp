// Recognises loops that cannot end: polls of memory that no thread will write.
//
// A sleeping wait that nothing can end is noticed at once, because then nothing is ready. A loop over ordinary loads is
// always ready, or sleeps for a limited time only. But what a warp does next depends only on its registers, its program
// counters, its local memory, and what others do. While nothing is done that others could see (stores, atomics that
// change something, arrivals, operations of the engines, readings of a clock), a warp that comes back to an earlier
// state will come back to it for ever. When each warp does so, or sleeps until another one wakes it, nothing will ever
// end. Lanes that took different paths must all have run meanwhile: one that waits for its turn could do something. So
// a loop that could end is never reported; a loop that counts, stores, or reads the clock does not repeat, and is not
// found.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "emulator/scheduling/warp_snapshot.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Watches one cluster for repeated states.
class EndlessLoopDetector {
 public:
  /// Must be called after each turn of a warp, with the grid's count of effects. Returns true when every warp of the
  /// cluster has come back to an earlier state since the count last changed, or sleeps until another one wakes it.
  bool repeats(const Cluster& cluster, const Warp& warp, uint64_t effects);

 private:
  struct WarpRecord {
    uint64_t turns = 0;          ///< since the last effect
    uint64_t next_snapshot = 0;  ///< doubles, so that a loop of any length is caught (Brent's algorithm)
    bool repeated = false;
    WarpSnapshot snapshot;
  };

  uint64_t effects_ = ~uint64_t{0};
  uint64_t turns_ = 0;  ///< of the cluster since the last effect
  std::unordered_map<const Warp*, WarpRecord> warps_;
};

}  // namespace stagecraft::emulator::machine
