// What a thread knows to have happened.
//
// A vector clock has a component per thread of a cluster, and further ones for what is not a thread: each mbarrier (the
// phases it has ended), the tensor operations and the copies of a thread (how many of them have ended). Component c of
// a thread's clock is the latest time of c that is ordered before what the thread does next.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace stagecraft::emulator::checks {

using Time = uint32_t;

class VectorClock {
 public:
  VectorClock() = default;
  explicit VectorClock(size_t components) : times_(components, 0) {}

  Time at(uint32_t component) const { return component < times_.size() ? times_[component] : 0; }
  void raise(uint32_t component, Time time) {
    if (component >= times_.size()) times_.resize(component + 1, 0);
    times_[component] = std::max(times_[component], time);
  }
  void join(const VectorClock& other) {
    if (other.times_.size() > times_.size()) times_.resize(other.times_.size(), 0);
    Time* const mine = times_.data();
    const Time* const theirs = other.times_.data();
    for (size_t i = 0, count = other.times_.size(); i < count; ++i) mine[i] = std::max(mine[i], theirs[i]);
  }
  /// Whether `other` knows all that this one knows.
  bool is_within(const VectorClock& other) const {
    const size_t common = std::min(times_.size(), other.times_.size());
    uint32_t more = 0;
    for (size_t i = 0; i < common; ++i) more |= times_[i] > other.times_[i] ? 1u : 0u;
    for (size_t i = common; i < times_.size(); ++i) more |= times_[i] != 0 ? 1u : 0u;
    return more == 0;
  }
  /// The earliest of `count` components from `first` on.
  Time earliest(uint32_t first, uint32_t count) const {
    if (first + count > times_.size()) return 0;
    return *std::min_element(times_.begin() + first, times_.begin() + first + count);
  }

 private:
  std::vector<Time> times_;
};

/// Many lanes know the same: a clock that is shared is never changed.
using SharedClock = std::shared_ptr<const VectorClock>;

}  // namespace stagecraft::emulator::checks
