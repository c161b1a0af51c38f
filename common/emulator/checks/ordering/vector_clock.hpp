// What a thread knows to have happened.
//
// A vector clock has a component per thread of a cluster, and further ones for what is not a thread: each mbarrier (the
// phases it has ended), the tensor operations and the copies of a thread (how many of them have ended). Component c of
// a thread's clock is the latest time of c that is ordered before what the thread does next.
//
// Of the lanes of a warp one nearly always knows the same, because they come to a barrier together. So a clock has one
// time for a warp, and the times of its lanes only where they differ.
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
  /// Components from here on are no threads; below, component `warp * kWarpSize + lane` is one.
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
  /// The earliest of a warp's lanes.
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
  /// Of some lanes of a warp.
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
  /// The times of a warp's lanes one by one; made when it has but one time.
  Lanes& take_apart(uint32_t warp);
  /// Takes note of the earliest of these lanes; whether all are the same.
  bool settle(const Lanes& lanes);

  std::vector<Time> warps_;   ///< the earliest of their lanes
  std::vector<Lanes> apart_;  ///< of the warps whose lanes differ, in order
  std::vector<Time> others_;
};

/// Many lanes know the same: a clock that is shared is never changed.
using SharedClock = std::shared_ptr<const VectorClock>;

}  // namespace stagecraft::emulator::checks
