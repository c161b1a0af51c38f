// What GlobalMemoryCheck asks about the order of two accesses: whether the present one knows that a past one is over.
#include <algorithm>
#include <utility>

#include "emulator/checks/global_memory/global_memory_check.hpp"

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::LaneMask;
using machine::MemoryScope;

namespace {

/// Those of the lanes that a clock knows up to this time.
LaneMask lanes_known(const VectorClock& clock, uint32_t warp, LaneMask lanes, Time time) {
  if (clock.of_warp(warp) >= time) return lanes;
  LaneMask known = 0;
  for_each_lane(lanes, [&](uint32_t lane) {
    known |= (clock.at(ThreadKnowledge::component_of(warp, lane)) >= time ? 1u : 0u) << lane;
  });
  return known;
}

}  // namespace

bool GlobalMemoryCheck::are_both_strong(const Present& now, const GlobalRecord& past) const {
  if (!past.is(GlobalRecord::kStrong) || !now.record.is(GlobalRecord::kStrong)) return false;
  const MemoryScope least = std::min(past.scope, now.record.scope);
  if (least >= MemoryScope::device || !history_->is_of_current_work(past.cluster)) return true;
  if (past.cluster != now.state.number) return false;
  const uint32_t warps = now.order.warps_per_block();
  return least == MemoryScope::cluster || past.agent / warps == now.warp / warps;
}

void GlobalMemoryCheck::begin_access(Present& now) {
  WarpState& warp = now.state.warps[now.warp];
  const WarpOrder& order = now.order.warp(now.warp);
  now.access = ++warp.accesses;
  if (!order.know_alike(now.lanes)) {
    now.knowledge = now.access;
    return;
  }
  const SharedClock& known = order.known(machine::first_lane(now.lanes));
  if (warp.known != known || warp.known_lanes != now.lanes || warp.version != now.state.notes.version()) {
    warp.known = known;
    warp.known_lanes = now.lanes;
    warp.version = now.state.notes.version();
    warp.knowledge = now.access;
  }
  now.knowledge = warp.knowledge;
}

/// Whether the asynchronous proxy may not see what an access has written.
bool GlobalMemoryCheck::needs_proxy_fence(const GlobalRecord& past) const {
  if (past.is(GlobalRecord::kAsyncProxy) || !past.is(GlobalRecord::kWrites)) return false;
  if (history_->is_of_current_work(past.cluster)) return true;
  const uint32_t work = history_->cluster(past.cluster).work;
  // At the end of a kernel that the launch waits for everything is visible to all.
  return history_->work(work).is_kernel && !history_->is_before_wait(work);
}

bool GlobalMemoryCheck::find_out_all(Present& now, uint32_t past) {
  WarpState& warp = now.state.warps[now.warp];
  Answer& answer = warp.answers[past % warp.answers.size()];
  const GlobalRecord& record = history_->record(past);
  // The end of an operation may come to be known without anybody's learning anything.
  const bool is_operation = record.is(GlobalRecord::kAsync) || record.is(GlobalRecord::kBulkStore);
  answer = {past, false, !needs_proxy_fence(record), is_operation ? now.access : now.knowledge};
  // Here a lane's own access is no exception, because which lanes are concerned depends on the byte.
  if (record.cluster == now.state.number && record.agent == now.warp && !record.is(GlobalRecord::kAsync)) {
    answer.is_ordered = record.time != GlobalRecord::kNotEnded && now.order.warp(now.warp).know_alike(now.lanes) &&
                        knows_lanes(*now.order.known(now.warp, machine::first_lane(now.lanes)), record.agent,
                                    record.lanes, record.time);
  } else {
    answer.is_ordered = knows(now, record, record.lanes, now.lanes);
  }
  return answer.is_ordered;
}

bool GlobalMemoryCheck::knows(Present& now, const GlobalRecord& past, LaneMask past_lanes, LaneMask lanes) {
  // Calls `condition` with what each lane knows about other clusters.
  const auto each_lane = [&](auto&& condition) {
    SharedForeign last;
    for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
      SharedForeign known = now.state.notes.known(now.order, now.warp, machine::first_lane(rest));
      if (known == nullptr) return false;
      if (known == last) continue;
      if (!condition(*known)) return false;
      last = std::move(known);
    }
    return true;
  };
  if (!history_->is_of_current_work(past.cluster)) {
    const uint32_t work = history_->cluster(past.cluster).work;
    if (history_->is_before_wait(work)) return true;
    if (!history_->is_before(history_->work(work))) return false;
    return each_lane([](const Foreign& known) { return known.dependencies; });
  }
  if (past.is(GlobalRecord::kBulkStore) && past.time == GlobalRecord::kNotEnded) return false;
  if (past.cluster == now.state.number) {
    PastAccess access{past.agent, past_lanes, past.time, 0};
    if (past.is(GlobalRecord::kAsync)) access.agent |= PastAccess::kAsynchronous;
    if (past.is(GlobalRecord::kWrites)) access.pc_and_flags |= PastAccess::kWrites;
    bool known = true;
    const bool alike = now.order.warp(now.warp).know_alike(lanes);
    for (LaneMask rest = lanes; rest != 0 && known;) {
      const LaneMask together = alike ? rest : rest & (~rest + 1);
      rest &= ~together;
      known = now.order.knows(access, now.warp, together, *now.order.known(now.warp, machine::first_lane(together)));
    }
    if (known) return true;
  }
  if (now.state.notes.is_empty()) return false;
  uint32_t component = 0;
  Time time = past.time;
  if (past.is(GlobalRecord::kAsync)) {
    component = past.agent;
    if (!past.is(GlobalRecord::kResolved)) {
      const auto running = running_.find(past.cluster);
      if (running == running_.end()) return false;
      const Operation& operation = running->second->order().operation(past.agent);
      component = operation.component;
      time = operation.time == 0 ? GlobalRecord::kNotEnded : operation.time;
    }
  }
  return each_lane([&](const Foreign& known) {
    const VectorClock* const clock = known.find(past.cluster);
    if (clock == nullptr) return false;
    return past.is(GlobalRecord::kAsync) ? clock->at(component) >= time
                                         : knows_lanes(*clock, past.agent, past_lanes, time);
  });
}

/// Whether some of these lanes, or threads that they know, have read the bytes with a strong access since the last
/// write, and so have seen what it wrote.
bool GlobalMemoryCheck::has_observed(Present& now, const GlobalCell& cell, LaneMask lanes) {
  return std::any_of(cell.reads.begin(), cell.reads.end(), [&](GlobalEntry read) {
    if (read.record() == 0) return false;
    const GlobalRecord& record = history_->record(read.record());
    if (!record.is(GlobalRecord::kStrong) || record.is(GlobalRecord::kAsync)) return false;
    const LaneMask readers = read.lanes_of(0, 1, record.lanes);
    const bool own = record.cluster == now.state.number && record.agent == now.warp && (lanes & ~readers) == 0;
    return own || knows(now, record, readers & (~readers + 1), lanes);
  });
}

/// Whether some of these lanes, or threads that they know, have looked at what the last atomic of the bytes returned,
/// which came after a past write of them.
bool GlobalMemoryCheck::has_observed_later(Present& now, const GlobalCell& cell, GlobalEntry past, LaneMask lanes) {
  if (cell.write.record() == past.record()) return false;
  const GlobalRecord& record = history_->record(cell.write.record());
  if (!record.is(GlobalRecord::kObserves)) return false;
  const LaneMask observers = cell.write.lanes_of(0, 1, record.lanes);
  const bool own = record.cluster == now.state.number && record.agent == now.warp && (lanes & ~observers) == 0;
  return own || knows(now, record, observers & (~observers + 1), lanes);
}

bool GlobalMemoryCheck::has_read_before(const Present& now, const GlobalCell& cell, LaneMask lanes) const {
  if (now.record.is(GlobalRecord::kStrong) || now.event == nullptr) return false;
  const uint32_t line = history_->site(now.record.site).line_number;
  return std::any_of(cell.reads.begin(), cell.reads.end(), [&](GlobalEntry read) {
    if (read.record() == 0) return false;
    const GlobalRecord& record = history_->record(read.record());
    return record.cluster == now.state.number && record.agent == now.warp && !record.is(GlobalRecord::kAsync) &&
           (read.lanes_of(0, 1, record.lanes) & lanes) != 0 && history_->site(record.site).line_number == line;
  });
}

/// Whether for each of the lanes a fence follows what it did, and comes before the present access. Lanes that fence
/// apart have a fence each.
bool GlobalMemoryCheck::is_fenced(Present& now, const GlobalRecord& past, LaneMask past_lanes) {
  const auto knows_fence = [&](uint32_t cluster, const ProxyFence& fence) {
    if (cluster == now.state.number && fence.warp == now.warp && (fence.lanes & now.lanes) != 0) return true;
    GlobalRecord substitute{.cluster = cluster, .agent = fence.warp, .time = fence.time};
    return knows(now, substitute, fence.lanes & (~fence.lanes + 1), now.lanes);
  };
  const bool same_work = history_->is_of_current_work(past.cluster);
  const auto covered_by = [&](uint32_t cluster, const ProxyFence& fence, LaneMask lanes) -> LaneMask {
    if (!same_work) return fence.foreign != nullptr && fence.foreign->dependencies ? lanes : 0;
    LaneMask covered = 0;
    if (cluster == past.cluster) {
      if (fence.warp == past.agent && fence.time > past.time) covered = lanes & fence.lanes;
      covered |= lanes_known(*fence.known, past.agent, lanes & ~covered, past.time);
    }
    const VectorClock* const clock = fence.foreign == nullptr ? nullptr : fence.foreign->find(past.cluster);
    if (clock != nullptr) covered |= lanes_known(*clock, past.agent, lanes & ~covered, past.time);
    return covered;
  };
  LaneMask open = past_lanes;
  for (const uint32_t cluster : {past.cluster, now.state.number}) {
    const auto found = proxy_fences_.find(cluster);
    if (found == proxy_fences_.end()) continue;
    for (const auto& [who, fences] : found->second) {
      for (auto fence = fences.rbegin(); fence != fences.rend() && open != 0; ++fence) {
        const LaneMask covered = covered_by(cluster, *fence, open);
        if (covered != 0 && knows_fence(cluster, *fence)) open &= ~covered;
      }
    }
  }
  return open == 0;
}

}  // namespace stagecraft::emulator::checks
