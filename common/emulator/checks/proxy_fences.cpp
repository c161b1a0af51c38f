#include "emulator/checks/proxy_fences.hpp"

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::kWarpSize;
using machine::LaneMask;

namespace {

// Of a warp. A write that was made visible by an older fence than these is covered by the younger ones as well, as far
// as the thread that relies on it knows of them: it would have to be that many fences behind.
constexpr size_t kFencesKept = 256;

}  // namespace

void ProxyFences::fence(ClusterOrder& order, uint32_t warp, LaneMask lanes, uint32_t pc) {
  const Time time = order.mark(warp);
  std::deque<Fence>& fences = fences_[warp];
  while (lanes != 0) {
    const SharedClock known = order.knowledge_of(warp, machine::first_lane(lanes));
    LaneMask same = 1u << machine::first_lane(lanes);
    if (!order.warp(warp).has_copies) {
      for_each_lane(lanes, [&](uint32_t lane) { same |= (order.warp(warp).known[lane] == known ? 1u : 0u) << lane; });
    }
    lanes &= ~same;
    fences.push_back({warp, same, time, pc, known});
  }
  while (fences.size() > kFencesKept) fences.pop_front();
}

bool ProxyFences::cover(const ClusterOrder& order, const PastAccess& write, uint32_t warp, uint32_t lane) const {
  const VectorClock& known = *order.known(warp, lane);
  LaneMask uncovered = write.is_asynchronous() ? 1 : write.lanes;
  const auto look = [&](const Fence& fence) {
    LaneMask visible = 0;  // lanes whose fence is known
    for_each_lane(fence.lanes, [&](uint32_t each) {
      const bool own = fence.warp == warp && each == lane;
      visible |= (own || known.at(fence.warp * kWarpSize + each) >= fence.time ? 1u : 0u) << each;
    });
    if (visible == 0) return;
    if (write.is_asynchronous()) {
      const Operation& operation = order.operation(write.operation());
      if (operation.time != 0 && fence.known->at(operation.component) >= operation.time) uncovered = 0;
      return;
    }
    if (write.agent == fence.warp && write.time < fence.time) uncovered &= ~visible;
    for_each_lane(uncovered, [&](uint32_t each) {
      if (fence.known->at(write.agent * kWarpSize + each) >= write.time) uncovered &= ~(1u << each);
    });
  };
  const auto look_at = [&](uint32_t number) {
    const std::deque<Fence>& fences = fences_[number];
    for (auto fence = fences.rbegin(); fence != fences.rend() && uncovered != 0; ++fence) look(*fence);
  };
  const uint32_t first = write.is_asynchronous() ? order.operation(write.operation()).warp : write.agent;
  look_at(first);
  for (uint32_t number = 0; number < fences_.size() && uncovered != 0; ++number) {
    if (number != first) look_at(number);
  }
  return uncovered == 0;
}

const ProxyFences::Fence* ProxyFences::partial(const PastAccess& write) const {
  if (write.is_asynchronous()) return nullptr;
  const std::deque<Fence>& fences = fences_[write.agent];
  for (auto fence = fences.rbegin(); fence != fences.rend(); ++fence) {
    if (fence->time > write.time && (write.lanes & ~fence->lanes) != 0) return &*fence;
  }
  return nullptr;
}

}  // namespace stagecraft::emulator::checks
