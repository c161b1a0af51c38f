// The fences that make what threads did known to the asynchronous units: fence.proxy.async.
//
// A thread's loads and stores go through the generic proxy to shared memory; the copy engine and the tensor core go
// through the asynchronous one. A write through the one is seen through the other when a fence stands between them on
// the way that orders them (PTX ISA, "Causality order"): after the write, in a thread that knows of it, and before the
// operation is issued, by a thread that knows of the fence. The usual place is the writing thread, before the barrier.
#pragma once

#include <deque>
#include <vector>

#include "emulator/checks/ordering/happens_before.hpp"

namespace stagecraft::emulator::checks {

class ProxyFences {
 public:
  explicit ProxyFences(uint32_t warps) : fences_(warps) {}

  /// Lanes of a warp execute a fence.
  void fence(ClusterOrder& order, uint32_t warp, machine::LaneMask lanes, uint32_t pc);

  /// Whether fences stand between a past write and what lane `lane` of `warp` does now. The write is one of threads, or
  /// of an operation that writes as they do.
  bool cover(const ClusterOrder& order, const PastAccess& write, uint32_t warp, uint32_t lane) const;

  /// A fence of the writer's warp that came after its write and was not executed by all lanes that wrote; null: none.
  struct Fence {
    uint32_t warp;
    machine::LaneMask lanes;
    Time time;  ///< by which others know of it
    uint32_t pc;
    SharedClock known;  ///< to these lanes at the fence
  };
  const Fence* partial(const PastAccess& write) const;

 private:
  std::vector<std::deque<Fence>> fences_;  ///< by warp; the latest
};

}  // namespace stagecraft::emulator::checks
