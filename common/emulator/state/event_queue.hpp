// What will happen in a cluster, ordered by virtual time: events, and the ends of sleeps.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::machine {

/// Virtual time in cycles of the chip's clock since the launch.
using Cycle = uint64_t;

struct Block;
struct Fragment;

/// Which warp was executing which instruction: the place of a fault, kept for asynchronous work from its issue on.
struct Origin {
  const Block* block = nullptr;
  uint32_t warp = 0;
  uint32_t pc = 0;
  LaneMask lanes = 0;
};

/// When something happens in a cluster. Among equal times, the one scheduled first comes first.
struct Moment {
  Cycle time;
  uint64_t sequence;
  auto operator<=>(const Moment&) const = default;
};

/// Something that will happen in a cluster, with an effect that other warps can see.
struct Event {
  Moment when;
  std::function<void()> action;
  Origin origin;
  const void* in_order = nullptr;  ///< events with the same one happen in the order of their scheduling; null: free
};

/// The events of a cluster by time. Unlike std::priority_queue it moves events out instead of copying them: an action
/// owns what a copy engine needs, and every bulk copy is one.
class EventQueue {
 public:
  bool empty() const { return heap_.empty(); }
  const Moment& next() const { return heap_.front().when; }
  void push(Event event) {
    heap_.push_back(std::move(event));
    std::push_heap(heap_.begin(), heap_.end(), is_later);
  }
  /// All that are to come, in no order.
  const std::vector<Event>& all() const { return heap_; }
  /// Takes the one at this index of `all`.
  Event take(size_t index) {
    Event event = std::move(heap_[index]);
    heap_.erase(heap_.begin() + static_cast<std::ptrdiff_t>(index));
    std::make_heap(heap_.begin(), heap_.end(), is_later);
    return event;
  }
  Event take() {
    std::pop_heap(heap_.begin(), heap_.end(), is_later);
    Event first = std::move(heap_.back());
    heap_.pop_back();
    return first;
  }

 private:
  static bool is_later(const Event& left, const Event& right) { return left.when > right.when; }
  std::vector<Event> heap_;
};

/// The sleeps of a cluster that have a time limit, the soonest first. There are few at a time, but nearly all end
/// before their limit and then leave this list; a queue of events would have to keep them until their time comes.
class TimeLimits {
 public:
  bool empty() const { return limits_.empty(); }
  bool precede(const EventQueue& events) const {
    return !empty() && (events.empty() || limits_.front().when < events.next());
  }
  Cycle next_time() const { return limits_.front().when.time; }
  Fragment& next() const { return *limits_.front().fragment; }
  void add(Moment when, Fragment& fragment) {
    const auto place = std::upper_bound(limits_.begin(), limits_.end(), when,
                                        [](const Moment& left, const Limit& right) { return left < right.when; });
    limits_.insert(place, {when, &fragment});
  }
  void remove(const Fragment& fragment) {
    limits_.erase(
        std::find_if(limits_.begin(), limits_.end(), [&](const Limit& limit) { return limit.fragment == &fragment; }));
  }

 private:
  struct Limit {
    Moment when;
    Fragment* fragment;
  };
  std::vector<Limit> limits_;
};

}  // namespace stagecraft::emulator::machine
