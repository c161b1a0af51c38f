// Vector clocks: what a thread knows to have happened.
//
// A vector clock has one component for each thread of a cluster, and further ones for what is not a thread: each
// mbarrier (how many phases have ended), and the tensor operations and the copies of a thread (how many of them have
// ended). Component c of a thread's clock is the latest time of c that is ordered before what the thread does next.
//
// The same is nearly always known about all lanes of a warp, because they come to a barrier together. So a clock has
// one time for a warp, and the times of its lanes only where they differ.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

using Time = uint32_t;

class VectorClock {
 public:
  /// Components from here on are not threads. Below, component `warp * kWarpSize + lane` is a thread.
  static constexpr uint32_t kFirstOther = 1u << 20;

  Time at(uint32_t component) const {
    if (component >= kFirstOther) {
      const uint32_t other = component - kFirstOther;
      return other < others_.size() ? others_[other] : 0;
    }
    const uint32_t warp = component / machine::kWarpSize;
    if (!apart_.empty()) {
      if (const Lanes* lanes = find(warp)) return lanes->times[component % machine::kWarpSize];
    }
    return of_warp(warp);
  }
  /// The earliest time of a warp's lanes.
  Time of_warp(uint32_t warp) const { return warp < warps_.size() ? warps_[warp] : 0; }

  void raise(uint32_t component, Time time) {
    if (component < kFirstOther) {
      raise(component / machine::kWarpSize, 1u << component % machine::kWarpSize, time);
      return;
    }
    const uint32_t other = component - kFirstOther;
    if (other >= others_.size()) others_.resize(other + 1, 0);
    others_[other] = std::max(others_[other], time);
  }
  /// Raises the times of some lanes of a warp.
  void raise(uint32_t warp, machine::LaneMask lanes, Time time);
  void join(const VectorClock& other);
  /// Whether `other` knows all that this one knows.
  bool is_within(const VectorClock& other) const;

 private:
  struct Lanes {
    uint32_t warp;
    std::array<Time, machine::kWarpSize> times;
  };

  const Lanes* find(uint32_t warp) const {
    const auto found = std::lower_bound(apart_.begin(), apart_.end(), warp,
                                        [](const Lanes& lanes, uint32_t number) { return lanes.warp < number; });
    return found != apart_.end() && found->warp == warp ? &*found : nullptr;
  }
  /// Returns the times of a warp's lanes one by one; they are created if it has only one time.
  Lanes& take_apart(uint32_t warp);
  /// Sets the warp's time to the earliest of these lanes. Returns whether all have the same.
  bool settle(const Lanes& lanes);

  std::vector<Time> warps_;   ///< the earliest of their lanes
  std::vector<Lanes> apart_;  ///< the warps whose lanes differ, in ascending order
  std::vector<Time> others_;
};

/// A clock that many lanes share. It is never changed.
using SharedClock = std::shared_ptr<const VectorClock>;

}  // namespace stagecraft::emulator::checks
