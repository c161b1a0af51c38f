// How a write is decided to be covered by fences. A fence F covers a write W for a reader R when two things hold:
//
//   1. F comes after W: the lanes that executed F knew of W then. For a lane's own fence that follows from the times of
//      its warp; for another one from the clock that was kept with F.
//   2. R comes after F: R executed F itself, or R's clock has reached the time of F in a lane that executed it.
//
// A write by several lanes is one write for each of them, and each needs a fence that covers it, not all the same one.
// So the lanes that are not covered yet are kept as a mask: first each lane's own fences are tried, which is the usual
// case and needs no clock of a fence; then, for the lanes that remain, all fences of all warps. An asynchronous
// operation that writes as threads do is one write, and all fences are tried.
#include "emulator/checks/proxies/proxy_fences.hpp"

#include <algorithm>

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::kWarpSize;
using machine::LaneMask;

namespace {

// Fences kept for each warp. A write that an older fence made visible is covered by the younger ones as well, as far as
// the reading thread knows of them; to go wrong, it would have to be that many fences behind.
constexpr size_t kFencesKept = 256;

}  // namespace

/// The thread that issues what reads.
struct ProxyFences::Reader {
  uint32_t warp, lane;
  const VectorClock& known;

  /// Whether it comes after the fence, as one of `lanes` executed it.
  bool comes_after(const Fence& fence, LaneMask lanes) const {
    if (fence.warp == warp && (lanes >> lane & 1) != 0) return true;
    for (; lanes != 0; lanes &= lanes - 1) {
      if (known.at(fence.warp * kWarpSize + machine::first_lane(lanes)) >= fence.time) return true;
    }
    return false;
  }
};

void ProxyFences::add(const ClusterOrder& order, uint32_t number, LaneMask lanes, uint32_t pc) {
  const WarpOrder& warp = order.warp(number);
  std::deque<Fence>& fences = fences_[number];
  while (lanes != 0) {
    const uint32_t first = machine::first_lane(lanes);
    const SharedClock known = order.knowledge_of(number, first);
    LaneMask same = 1u << first;
    // Copies that a lane has waited for are its own knowledge: then no two lanes know the same.
    if (!warp.has_copies) {
      for_each_lane(lanes, [&](uint32_t lane) { same |= (warp.known(lane) == known ? 1u : 0u) << lane; });
    }
    lanes &= ~same;
    fences.push_back({number, same, warp.time, pc, known});
  }
  while (fences.size() > kFencesKept) fences.pop_front();
}

bool ProxyFences::cover(const ClusterOrder& order, const PastAccess& write, uint32_t warp, uint32_t lane) const {
  const Reader reader{warp, lane, *order.known(warp, lane)};
  if (write.is_asynchronous()) return cover_operation(order.operation(write.operation()), reader);
  LaneMask uncovered = uncovered_by_own_fences(write, reader);
  // The lanes not covered yet whose write a fence comes after.
  const auto known_at = [&](const Fence& fence) {
    LaneMask known = 0;
    for_each_lane(uncovered, [&](uint32_t each) {
      if (fence.known->at(write.agent * kWarpSize + each) >= write.time) known |= 1u << each;
    });
    return known;
  };
  for (auto fences = fences_.begin(); fences != fences_.end() && uncovered != 0; ++fences) {
    for (auto fence = fences->rbegin(); fence != fences->rend() && uncovered != 0; ++fence) {
      const LaneMask known = known_at(*fence);
      if (known != 0 && reader.comes_after(*fence, fence->lanes)) uncovered &= ~known;
    }
  }
  return uncovered == 0;
}

bool ProxyFences::cover_operation(const Operation& writer, const Reader& reader) const {
  if (writer.time == 0) return false;  // it has not ended
  const auto covers = [&](const Fence& fence) {
    return fence.known->at(writer.component) >= writer.time && reader.comes_after(fence, fence.lanes);
  };
  return std::any_of(fences_.begin(), fences_.end(), [&](const std::deque<Fence>& fences) {
    return std::any_of(fences.rbegin(), fences.rend(), covers);
  });
}

LaneMask ProxyFences::uncovered_by_own_fences(const PastAccess& write, const Reader& reader) const {
  LaneMask uncovered = write.lanes;
  const std::deque<Fence>& own = fences_[write.agent];
  for (auto fence = own.rbegin(); fence != own.rend() && write.time < fence->time && uncovered != 0; ++fence) {
    for_each_lane(uncovered & fence->lanes, [&](uint32_t each) {
      if (reader.comes_after(*fence, 1u << each)) uncovered &= ~(1u << each);
    });
  }
  return uncovered;
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
