// What GlobalMemoryCheck learns from strong accesses and fences: what they release, and who acquires it.
#include <algorithm>
#include <utility>

#include "emulator/checks/global_memory/global_memory_check.hpp"

namespace stagecraft::emulator::checks {

using machine::AccessKind;
using machine::AccessOrder;
using machine::FenceKind;
using machine::for_each_lane;
using machine::LaneMask;
using machine::MemoryScope;

namespace {

constexpr size_t kNarrowKept = 8;
constexpr size_t kProxyFencesKept = 32;  ///< of each group of lanes: a thread may be that many fences ahead

}  // namespace

SharedForeign GlobalMemoryCheck::fenced_by(Present& now, uint32_t lane) {
  WarpState& warp = now.state.warps[now.warp];
  if (!warp.fenced.is_set()) return nullptr;
  Fenced& fenced = warp.fenced.at(lane);
  if (fenced.known == nullptr) return nullptr;
  if (fenced.released == nullptr) {
    auto clock = std::make_shared<VectorClock>(*fenced.known);
    clock->raise(ThreadKnowledge::component_of(now.warp, lane), fenced.time);
    auto own = std::make_shared<Foreign>();
    own->clusters.add(now.state.number, std::move(clock));
    fenced.released = joined(fenced.foreign, own);
  }
  return fenced.released;
}

SharedForeign GlobalMemoryCheck::released_by(Present& now, uint32_t lane) {
  auto clock = std::make_shared<VectorClock>(*now.order.knowledge_of(now.warp, lane));
  clock->raise(ThreadKnowledge::component_of(now.warp, lane), now.record.time);
  auto own = std::make_shared<Foreign>();
  own->clusters.add(now.state.number, std::move(clock));
  return joined(now.state.notes.known(now.order, now.warp, lane), own);
}

SharedForeign GlobalMemoryCheck::read_location(Present& now, const GlobalLocation& location) {
  const uint32_t rank = now.warp / now.order.warps_per_block();
  const bool acquires = now.event->order == AccessOrder::acquire || now.event->order == AccessOrder::acquire_release;
  SharedForeign learnt = location.wide;
  const auto note = [&](NarrowOrder narrow) {
    narrow.acquire_pc = now.pc;
    narrow.acquire_scope = now.event->scope;
    narrow.acquires = acquires;
    std::deque<NarrowOrder>& kept = now.state.narrow;
    if (kept.size() == kNarrowKept) kept.pop_front();
    kept.push_back(narrow);
  };
  if (now.event->scope < MemoryScope::device && learnt != nullptr) {
    learnt->clusters.for_each([&](uint32_t cluster) {
      if (cluster != now.state.number) note({.cluster = cluster, .release_scope = MemoryScope::device});
    });
    learnt = nullptr;
  }
  for (const GlobalLocation::Narrow& narrow : location.narrow) {
    const bool includes = narrow.cluster == now.state.number &&
                          (narrow.rank == rank || std::min(narrow.scope, now.event->scope) >= MemoryScope::cluster);
    if (includes) {
      learnt = joined(learnt, narrow.released);
    } else {
      note({narrow.cluster, narrow.rank, narrow.site, narrow.scope});
    }
  }
  return learnt;
}

void GlobalMemoryCheck::synchronise(Present& now) {
  const machine::MemoryAccess& event = *now.event;
  WarpState& warp = now.state.warps[now.warp];
  const bool releases = event.order == AccessOrder::release || event.order == AccessOrder::acquire_release;
  const bool acquires = event.order == AccessOrder::acquire || event.order == AccessOrder::acquire_release;
  const bool reads = event.kind != AccessKind::write, writes = event.kind != AccessKind::read;
  if (reads) {
    warp.acquires.add({event.global[machine::first_lane(event.lanes)], now.pc, event.lanes, now.record.time,
                       ++handovers_, event.bytes});
  }
  if (locations_.empty() && !(writes && (releases || warp.fenced.is_set()))) return;
  const uint32_t rank = now.warp / now.order.warps_per_block();
  constexpr size_t kReleasesKept = 8;
  for (LaneMask rest = event.lanes; rest != 0;) {
    const uint32_t lane = machine::first_lane(rest);
    const uint64_t address = event.global[lane];
    // Lanes that poll one place learn the same.
    LaneMask lanes = 1u << lane;
    if (!writes)
      for_each_lane(rest, [&](uint32_t each) { lanes |= (event.global[each] == address ? 1u : 0u) << each; });
    rest &= ~lanes;
    const auto found = locations_.find(address);
    if (reads && found != locations_.end()) {
      const SharedForeign learnt = read_location(now, found->second);
      if (acquires) {
        now.state.notes.add(now.warp, lanes, now.record.time, learnt);
      } else if (learnt != nullptr) {
        for_each_lane(lanes, [&](uint32_t each) {
          Pending& pending = warp.pending.at(each);
          pending = {joined(pending.released, learnt), now.pc};
        });
      }
    }
    if (!writes) continue;
    MemoryScope scope = event.scope;
    SharedForeign released = releases ? released_by(now, lane) : fenced_by(now, lane);
    if (!releases && released != nullptr) scope = std::min(scope, warp.fenced[lane].scope);
    // An update continues the release sequence of the write it replaces; a plain write ends it.
    if (event.kind != AccessKind::update && found != locations_.end()) {
      locations_.erase(found);
      releases_.drop(address);
    }
    if (released == nullptr) continue;
    const SharedClock known = now.order.known(now.warp, lane);
    ReleaseNote note{.cluster = now.state.number, .warp = now.warp, .lane = lane, .site = now.record.site};
    note.time = releases ? now.record.time : warp.fenced[lane].time;
    note.released = releases ? known : warp.fenced[lane].known;
    note.known = known;
    note.fence_site = releases ? 0 : site_of(now.cluster.kernel(), warp.fenced[lane].pc);
    note.number = ++handovers_;
    releases_.add(address, note);
    GlobalLocation& location = locations_[address];
    if (scope >= MemoryScope::device) {
      location.wide = joined(location.wide, released);
      continue;
    }
    if (location.narrow.size() == kReleasesKept) location.narrow.erase(location.narrow.begin());
    const uint32_t site = releases ? now.record.site : site_of(now.cluster.kernel(), warp.fenced[lane].pc);
    location.narrow.push_back({now.state.number, rank, site, scope, std::move(released)});
  }
}

void GlobalMemoryCheck::executed_memory_fence(ClusterRecord& cluster, uint32_t number, LaneMask lanes, uint32_t pc) {
  State& state = state_of(cluster);
  WarpState& warp = state.warps[number];
  const ClusterOrder& order = cluster.order();
  const auto scope = static_cast<MemoryScope>(cluster.kernel().observed[pc].scope);
  const Time time = order.warp(number).time - 1;  // what was done before the fence is not later
  if (warp.pending.is_set() && scope >= MemoryScope::device) {
    for (LaneMask rest = lanes; rest != 0;) {
      const SharedForeign released = warp.pending[machine::first_lane(rest)].released;
      LaneMask alike = 0;
      for_each_lane(rest, [&](uint32_t lane) {
        if (warp.pending[lane].released != released) return;
        alike |= 1u << lane;
        warp.pending.at(lane) = {};
      });
      rest &= ~alike;
      state.notes.add(number, alike, time, released);
    }
  }
  for_each_lane(lanes, [&](uint32_t lane) {
    // A narrower fence takes nothing back that a wider one has released.
    Fenced& fenced = warp.fenced.at(lane);
    if (fenced.known != nullptr && fenced.scope > scope && fenced.time == time) return;
    fenced = {time, scope, pc, order.known(number, lane), state.notes.known(order, number, lane), nullptr};
  });
}

void GlobalMemoryCheck::fence_executed(ClusterRecord& cluster, const machine::Fragment& fragment, LaneMask lanes,
                                       FenceKind kind) {
  const ClusterOrder& order = cluster.order();
  const uint32_t number = order.warp_number(fragment);
  State& state = states_[cluster];
  switch (kind) {
    case FenceKind::memory: return executed_memory_fence(cluster, number, lanes, fragment.pc);
    case FenceKind::grid_dependencies: {
      auto ended = std::make_shared<Foreign>();
      ended->dependencies = true;
      history_->note_wait();
      return state.notes.add(number, lanes, order.warp(number).time, ended);
    }
    case FenceKind::proxy_async:
    case FenceKind::proxy_async_global: {
      const bool alike = order.warp(number).know_alike(lanes) && state.notes.is_empty();
      for (LaneMask rest = lanes; rest != 0;) {
        const uint32_t lane = machine::first_lane(rest);
        const LaneMask together = alike ? rest : 1u << lane;
        rest &= ~together;
        std::deque<ProxyFence>& fences = proxy_fences_[state.number][{number, together}];
        if (fences.size() == kProxyFencesKept) fences.pop_front();
        fences.push_back({number, together, order.warp(number).time, order.known(number, lane),
                          state.notes.known(order, number, lane)});
      }
      return;
    }
    case FenceKind::mbarrier_init:
    case FenceKind::proxy_async_shared:
    case FenceKind::other: return;
  }
}

}  // namespace stagecraft::emulator::checks
