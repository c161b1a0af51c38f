#include "emulator/checks/ordering/thread_knowledge.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::kAllLanes;
using machine::kWarpSize;
using machine::LaneMask;

namespace {

/// Calls `visit(known, lanes)` for each set of lanes that share one clock.
template <typename Visit>
void for_each_clock(const WarpOrder& warp, LaneMask lanes, Visit&& visit) {
  if (warp.know_alike(lanes)) return visit(warp.known(machine::first_lane(lanes)), lanes);
  while (lanes != 0) {
    const SharedClock known = warp.known(machine::first_lane(lanes));
    LaneMask same = 0;
    for_each_lane(lanes, [&](uint32_t lane) { same |= (warp.known(lane) == known ? 1u : 0u) << lane; });
    lanes &= ~same;
    visit(known, same);
  }
}

}  // namespace

bool WarpOrder::know_the_same(LaneMask lanes) const {
  const SharedClock& first = known_[machine::first_lane(lanes)];
  bool same = true;
  for_each_lane(lanes, [&](uint32_t lane) { same = same && known_[lane] == first; });
  return same;
}

void WarpOrder::learn(LaneMask lanes, const SharedClock& clock) {
  if ((existing & ~lanes) == 0) {
    alike_ = true;
    known_[0] = clock;
    return;
  }
  if (alike_) std::fill(known_.begin() + 1, known_.end(), SharedClock(known_[0]));
  alike_ = false;
  for_each_lane(lanes, [&](uint32_t lane) { known_[lane] = clock; });
  if (!know_alike(existing)) return;
  alike_ = true;
  known_[0] = clock;
}

ThreadKnowledge::ThreadKnowledge(uint32_t blocks, uint32_t warps_per_block, uint32_t threads_per_block)
    : warps_(size_t{blocks} * warps_per_block) {
  auto known = std::make_shared<VectorClock>();
  for (uint32_t warp = 0; warp < warps_.size(); ++warp) {
    const uint32_t threads = std::min(threads_per_block - warp % warps_per_block * kWarpSize, kWarpSize);
    warps_[warp].existing = kAllLanes >> (kWarpSize - threads);
    // A thread that does not exist does nothing that others could fail to know.
    if (threads < kWarpSize) known->raise(warp, ~warps_[warp].existing, std::numeric_limits<Time>::max());
  }
  for (WarpOrder& warp : warps_) warp.learn(kAllLanes, known);
}

Time ThreadKnowledge::publish(uint32_t number) {
  WarpOrder& warp = warps_[number];
  if (!warp.accessed) return warp.time - 1;
  warp.accessed = false;
  return warp.time++;
}

void ThreadKnowledge::mark(uint32_t number) {
  publish(number);
  warps_[number].accessed = true;
}

SharedClock ThreadKnowledge::knowledge_of(uint32_t number, uint32_t lane) const {
  const WarpOrder& warp = warps_[number];
  if (!warp.has_copies) return warp.known(lane);
  Gathering gathered;
  gathered.join(warp.known(lane));
  release_copies(number, 1u << lane, gathered);
  return std::make_shared<VectorClock>(std::move(gathered.clock));
}

void ThreadKnowledge::release(uint32_t number, LaneMask lanes, Gathering& target) {
  const Time time = publish(number);
  for_each_clock(warps_[number], lanes, [&](const SharedClock& known, LaneMask) { target.join(known); });
  target.clock.raise(number, lanes, time);
  release_copies(number, lanes, target);
}

void ThreadKnowledge::release_copies(uint32_t number, LaneMask lanes, Gathering& target) const {
  if (!warps_[number].has_copies) return;
  for_each_lane(lanes, [&](uint32_t lane) {
    const auto [begin, end] = own_copies_.equal_range(component_of(number, lane));
    for (auto each = begin; each != end; ++each) target.clock.raise(each->second, waited(each->second));
  });
}

void ThreadKnowledge::release_fenced(uint32_t number, LaneMask lanes, Gathering& target) {
  const WarpOrder& warp = warps_[number];
  for_each_lane(lanes, [&](uint32_t lane) {
    if (warp.fenced[lane] == nullptr) return;
    target.join(warp.fenced[lane]);
    target.clock.raise(component_of(number, lane), warp.fenced_time[lane]);
    release_copies(number, 1u << lane, target);
  });
}

void ThreadKnowledge::release_executed(uint32_t number, LaneMask lanes, bool relaxed, Gathering& target) const {
  const WarpOrder& warp = warps_[number];
  if (relaxed ? !warp.handed_over.is_set() : !warp.executed.is_set()) return;
  for_each_lane(lanes, [&](uint32_t lane) {
    const SharedClock& known = relaxed ? warp.handed_over[lane] : warp.executed[lane];
    if (known == nullptr) return;
    target.join(known);
    if (relaxed) target.clock.raise(component_of(number, lane), warp.handed_over_time[lane]);
  });
}

void ThreadKnowledge::acquire(uint32_t number, LaneMask lanes, const SharedClock& source, Learners* learners) {
  if (source == nullptr) return;
  WarpOrder& warp = warps_[number];
  for_each_clock(warp, lanes, [&](const SharedClock& known, LaneMask same) {
    SharedClock now = learners == nullptr ? nullptr : learners->find(known);
    if (now == nullptr) {
      now = joined_clocks(known, source);
      if (learners != nullptr) learners->add(known, now);
    }
    if (now != known) warp.learn(same, now);
  });
  if (warp.executed.is_set()) learn_executed(number, lanes, source);
}

void ThreadKnowledge::acquire_at_fence(uint32_t number, LaneMask lanes, const SharedClock& source) {
  if (source == nullptr) return;
  WarpOrder& warp = warps_[number];
  for_each_lane(lanes, [&](uint32_t lane) {
    SharedClock& pending = warp.pending.at(lane);
    pending = pending == nullptr ? source : joined_clocks(pending, source);
  });
}

void ThreadKnowledge::learn_executed(uint32_t number, LaneMask lanes, const SharedClock& source) {
  if (source == nullptr) return;
  WarpOrder& warp = warps_[number];
  SharedClock before, after;  // of the previous lane, because the next one often knows the very same
  for_each_lane(lanes, [&](uint32_t lane) {
    const SharedClock executed = known_executed(number, lane);
    if (executed != before) {
      before = executed;
      after = joined_clocks(executed, source);
    }
    if (after == warp.known(lane)) {
      if (warp.executed.is_set()) warp.executed.at(lane) = nullptr;
      return;
    }
    warp.executed.at(lane) = after;
  });
}

void ThreadKnowledge::warp_met(uint32_t number, LaneMask lanes) {
  WarpOrder& warp = warps_[number];
  if (std::has_single_bit(lanes)) return;
  // When nothing was done since the last meeting, there is nothing to learn.
  const SharedClock& first = warp.known(machine::first_lane(lanes));
  const SharedClock& executed_by_first = warp.executed[machine::first_lane(lanes)];
  if (warp.know_alike(lanes) && !warp.accessed &&
      first->at(component_of(number, machine::first_lane(lanes))) == warp.time - 1) {
    bool all = true;
    for_each_lane(lanes, [&](uint32_t lane) { all = all && first->at(component_of(number, lane)) == warp.time - 1; });
    for_each_lane(lanes, [&](uint32_t lane) { all = all && warp.executed[lane] == executed_by_first; });
    if (all) return;
  }
  Gathering gathered, executed;
  release(number, lanes, gathered);
  release_executed(number, lanes, false, executed);
  const SharedClock known = std::make_shared<VectorClock>(std::move(gathered.clock));
  warp.learn(lanes, known);
  if (executed.is_empty()) return;
  executed.join(known);
  const SharedClock all_executed = std::make_shared<VectorClock>(std::move(executed.clock));
  for_each_lane(lanes, [&](uint32_t lane) { warp.executed.at(lane) = all_executed; });
}

void ThreadKnowledge::fence(uint32_t number, LaneMask lanes) {
  WarpOrder& warp = warps_[number];
  const Time time = publish(number);
  if (warp.pending.is_set()) {
    for_each_lane(lanes, [&](uint32_t lane) {
      const SharedClock pending = std::exchange(warp.pending.at(lane), nullptr);
      acquire(number, 1u << lane, pending);
    });
  }
  for_each_lane(lanes, [&](uint32_t lane) {
    warp.fenced.at(lane) = warp.known(lane);
    warp.fenced_time.at(lane) = time;
  });
}

void ThreadKnowledge::hand_over(uint32_t number, LaneMask lanes) {
  WarpOrder& warp = warps_[number];
  mark(number);
  for_each_lane(lanes, [&](uint32_t lane) {
    warp.handed_over.at(lane) = known_executed(number, lane);
    warp.handed_over_time.at(lane) = warp.time;
  });
}

void ThreadKnowledge::wait_for_own_copies(uint32_t number, uint32_t lane, uint32_t component, Time ended) {
  if (ended != 0 && waited(component) == 0) own_copies_.emplace(component_of(number, lane), component);
  waited_.raise(component, ended);
  warps_[number].accessed = true;  // there is something new to release
  warps_[number].has_copies = true;
}

}  // namespace stagecraft::emulator::checks
