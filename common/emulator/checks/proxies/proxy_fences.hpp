// The fences that make what threads did visible to the asynchronous units: fence.proxy.async.
//
// A thread's loads and stores access shared memory through the generic proxy; TMA and the tensor core use
// the asynchronous one. A write through one proxy is visible through the other when a fence is executed between them on
// the path that orders them (PTX ISA, "Causality order"): after the write, by a thread that knows of it, and before the
// operation is issued, so that the issuing thread knows of the fence. The usual place is the writing thread, before the
// barrier.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "emulator/checks/ordering/happens_before.hpp"

namespace stagecraft::emulator::checks {

class ProxyFences {
 public:
  /// Lanes of a warp that knew the same when they executed a fence.
  struct Fence {
    uint32_t warp;
    machine::LaneMask lanes;
    Time time;  ///< by which others know of it
    uint32_t pc;
    SharedClock known;  ///< what these lanes knew
  };

  explicit ProxyFences(uint32_t warps) : fences_(warps) {}

  /// Lanes of a warp have executed a fence, which the order has been fed with.
  void add(const ClusterOrder& order, uint32_t warp, machine::LaneMask lanes, uint32_t pc);

  /// Whether fences make a past write visible to what lane `lane` of `warp` does now. The write is one of threads, or
  /// of an operation that writes as threads do.
  bool cover(const ClusterOrder& order, const PastAccess& write, uint32_t warp, uint32_t lane) const;

  /// Returns a fence of the writer's warp that came after its write and was not executed by all lanes that wrote; null
  /// for none.
  const Fence* partial(const PastAccess& write) const;

 private:
  struct Reader;
  bool cover_operation(const Operation& writer, const Reader& reader) const;
  machine::LaneMask uncovered_by_own_fences(const PastAccess& write, const Reader& reader) const;

  std::vector<std::deque<Fence>> fences_;  ///< by warp; the latest
};

}  // namespace stagecraft::emulator::checks
