// Vector clocks: what a thread knows to have happened.
//
// A vector clock has one component for each thread of a cluster, and further ones for what is not a thread: each
// mbarrier (how many phases have ended), and the tensor operations and the copies of a thread (how many of them have
// ended). Component c of a thread's clock is the latest time of c that is ordered before what the thread does next.
//
// The same is nearly always known about all lanes of a warp, because they come to a barrier together. So a clock has
// one time for a warp, the earliest of its lanes, and in addition the times of the lanes that are later. Where one lane
// of a warp arrives at mbarriers, that is one time more; where each lane does so at a time of its own, at most 31.
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
    if (!later_.empty()) {
      const auto found = std::lower_bound(later_.begin(), later_.end(), component);
      if (found != later_.end() && *found == component)
        return later_times_[static_cast<size_t>(found - later_.begin())];
    }
    return of_warp(component / machine::kWarpSize);
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
  void join_lanes(const VectorClock& other);
  /// Drops lanes that are no later than the earliest of their warp any more.
  void drop_settled();
  /// Raises the time of one lane of a warp, of which lanes `later_` has those from `begin` to `end`. Returns false
  /// where each lane would be later than the earliest of the warp then.
  bool raise_lane(uint32_t component, size_t begin, size_t end, Time time);
  /// Sets the times of a warp's lanes, of which those in `later_` from `begin` to `end` had one of their own.
  void set_lanes(uint32_t warp, size_t begin, size_t end, const std::array<Time, machine::kWarpSize>& times);

  std::vector<Time> warps_;        ///< the earliest of their lanes
  std::vector<uint32_t> later_;    ///< components of the lanes that are later than that, ascending
  std::vector<Time> later_times_;  ///< their times
  std::vector<Time> others_;
};

/// A clock that many lanes share. It is never changed.
using SharedClock = std::shared_ptr<const VectorClock>;

/// What both clocks say: one of them, if it says all that the other does.
SharedClock joined_clocks(const SharedClock& one, const SharedClock& other);

}  // namespace stagecraft::emulator::checks
