#include "emulator/checks/proxies/proxy_fences.hpp"

#include <algorithm>

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
      for_each_lane(lanes, [&](uint32_t lane) { same |= (order.warp(warp).known(lane) == known ? 1u : 0u) << lane; });
    }
    lanes &= ~same;
    fences.push_back({warp, same, time, pc, known});
  }
  while (fences.size() > kFencesKept) fences.pop_front();
}

bool ProxyFences::cover(const ClusterOrder& order, const PastAccess& write, uint32_t warp, uint32_t lane) const {
  const VectorClock& known = *order.known(warp, lane);
  // Whether the thread knows of the fence of one of these lanes.
  const auto is_visible = [&](const Fence& fence, LaneMask lanes) {
    if (fence.warp == warp && (lanes >> lane & 1) != 0) return true;
    for (; lanes != 0; lanes &= lanes - 1) {
      if (known.at(fence.warp * kWarpSize + machine::first_lane(lanes)) >= fence.time) return true;
    }
    return false;
  };
  if (write.is_asynchronous()) {
    const Operation& operation = order.operation(write.operation());
    if (operation.time == 0) return false;
    const auto covers = [&](const Fence& fence) {
      return fence.known->at(operation.component) >= operation.time && is_visible(fence, fence.lanes);
    };
    return std::any_of(fences_.begin(), fences_.end(), [&](const std::deque<Fence>& fences) {
      return std::any_of(fences.rbegin(), fences.rend(), covers);
    });
  }
  // The usual fence is the writing lanes' own.
  LaneMask uncovered = write.lanes;
  const std::deque<Fence>& own = fences_[write.agent];
  for (auto fence = own.rbegin(); fence != own.rend() && write.time < fence->time && uncovered != 0; ++fence) {
    for_each_lane(uncovered & fence->lanes, [&](uint32_t each) {
      if (is_visible(*fence, 1u << each)) uncovered &= ~(1u << each);
    });
  }
  // Another one counts when its thread knew of the write.
  for (auto fences = fences_.begin(); fences != fences_.end() && uncovered != 0; ++fences) {
    for (auto fence = fences->rbegin(); fence != fences->rend() && uncovered != 0; ++fence) {
      LaneMask written = 0;
      for_each_lane(uncovered, [&](uint32_t each) {
        if (fence->known->at(write.agent * kWarpSize + each) >= write.time) written |= 1u << each;
      });
      if (written != 0 && is_visible(*fence, fence->lanes)) uncovered &= ~written;
    }
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
