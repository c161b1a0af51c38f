#include "emulator/checks/ordering/happens_before.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace stagecraft::emulator::checks {

using machine::AccessKind;
using machine::AccessOrder;
using machine::AsyncCompletion;
using machine::BarrierEventKind;
using machine::for_each_lane;
using machine::kAllLanes;
using machine::kWarpSize;
using machine::LaneMask;
using machine::RendezvousKind;

namespace {

constexpr size_t kArrivalsKept = 32;
constexpr size_t kCommitsKept = 8;
constexpr uint32_t kOfCluster = 0xffffffffu;

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

uint64_t location_key(bool shared, uint64_t address) { return address << 1 | (shared ? 1u : 0u); }

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

ClusterOrder::ClusterOrder(uint32_t blocks, uint32_t warps_per_block, uint32_t threads_per_block)
    : warps_per_block_(warps_per_block), warps_(size_t{blocks} * warps_per_block) {
  auto known = std::make_shared<VectorClock>();
  for (uint32_t warp = 0; warp < warps_.size(); ++warp) {
    const uint32_t threads = std::min(threads_per_block - warp % warps_per_block * kWarpSize, kWarpSize);
    warps_[warp].existing = kAllLanes >> (kWarpSize - threads);
    // Threads that do not exist have nothing that one could fail to know.
    if (threads < kWarpSize) known->raise(warp, ~warps_[warp].existing, std::numeric_limits<Time>::max());
  }
  for (WarpOrder& warp : warps_) warp.learn(kAllLanes, known);
}

uint32_t ClusterOrder::barrier_index(uint32_t rank, uint32_t offset) {
  const auto [found, fresh] = barrier_indices_.try_emplace({rank, offset}, static_cast<uint32_t>(barriers_.size()));
  if (fresh) {
    barriers_.emplace_back();
    barriers_.back().rank = rank;
    barriers_.back().offset = offset;
    barriers_.back().component = components_++;
  }
  return found->second;
}

uint32_t ClusterOrder::find_barrier(uint32_t rank, uint32_t offset) const {
  const auto found = barrier_indices_.find({rank, offset});
  return found == barrier_indices_.end() ? kNoBarrier : found->second;
}

const Operation* ClusterOrder::commit_of(uint32_t barrier, Time phase) const {
  const std::deque<CommitNote>& commits = barriers_[barrier].commits;
  const auto last =
      std::find_if(commits.rbegin(), commits.rend(), [&](const CommitNote& note) { return note.phase == phase; });
  return last == commits.rend() ? nullptr : &operations_[last->operation];
}

bool ClusterOrder::knows(const PastAccess& past, uint32_t warp, LaneMask lanes, const VectorClock& known) const {
  if (knows_of_all(past, known)) return true;
  if (past.is_asynchronous()) {
    const Operation& operation = operations_[past.operation()];
    const bool own = operation.warp == warp && lanes == 1u << operation.lane;
    return own && operation.time != 0 && waited(operation.component) >= operation.time;
  }
  LaneMask others = past.lanes;
  if (past.agent == warp) {
    if (std::has_single_bit(lanes)) {
      others &= ~lanes;
    } else if (past.writes() && (lanes & ~past.lanes) == 0) {
      // Several lanes wrote the same value here in one instruction, and each of them goes on with what it wrote.
      return true;
    }
  }
  for (; others != 0; others &= others - 1) {
    if (known.at(component_of(past.agent, machine::first_lane(others))) < past.time) return false;
  }
  return true;
}

Time ClusterOrder::publish(WarpOrder& warp) {
  if (!warp.accessed) return warp.time - 1;
  warp.accessed = false;
  return warp.time++;
}

Time ClusterOrder::mark(uint32_t number) {
  WarpOrder& warp = warps_[number];
  publish(warp);
  warp.accessed = true;
  return warp.time;
}

SharedClock ClusterOrder::knowledge_of(uint32_t number, uint32_t lane) {
  const WarpOrder& warp = warps_[number];
  if (!warp.has_copies) return warp.known(lane);
  Gathering gathered;
  gathered.join(warp.known(lane));
  release_copies(number, 1u << lane, gathered);
  return std::make_shared<VectorClock>(std::move(gathered.clock));
}

void ClusterOrder::release(uint32_t number, LaneMask lanes, Gathering& target) {
  WarpOrder& warp = warps_[number];
  const Time time = publish(warp);
  for_each_clock(warp, lanes, [&](const SharedClock& known, LaneMask) { target.join(known); });
  target.clock.raise(number, lanes, time);
  release_copies(number, lanes, target);
}

void ClusterOrder::release_copies(uint32_t number, LaneMask lanes, Gathering& target) {
  if (!warps_[number].has_copies) return;
  for (const auto* all : {&bulk_, &copies_}) {
    for_each_lane(lanes, [&](uint32_t lane) {
      const auto found = all->find(component_of(number, lane));
      if (found == all->end()) return;
      const uint32_t component = found->second.component;
      if (waited(component) != 0) target.clock.raise(component, waited(component));
    });
  }
}

void ClusterOrder::release_fenced(uint32_t number, LaneMask lanes, Gathering& target) {
  WarpOrder& warp = warps_[number];
  for_each_lane(lanes, [&](uint32_t lane) {
    if (warp.fenced[lane] == nullptr) return;
    target.join(warp.fenced[lane]);
    target.clock.raise(component_of(number, lane), warp.fenced_time[lane]);
    release_copies(number, 1u << lane, target);
  });
}

void ClusterOrder::acquire(uint32_t number, LaneMask lanes, const SharedClock& source) {
  if (source == nullptr) return;
  WarpOrder& warp = warps_[number];
  for_each_clock(warp, lanes, [&](const SharedClock& known, LaneMask same) {
    if (known == source || source->is_within(*known)) return;
    SharedClock now = source;
    if (!known->is_within(*source)) {
      auto both = std::make_shared<VectorClock>(*known);
      both->join(*source);
      now = std::move(both);
    }
    warp.learn(same, now);
  });
  if (warp.executed.is_set()) learn_executed(number, lanes, source);
}

Time ClusterOrder::hand_over(uint32_t number, LaneMask lanes) {
  WarpOrder& warp = warps_[number];
  const Time time = mark(number);
  for_each_lane(lanes, [&](uint32_t lane) {
    warp.handed_over.at(lane) = known_executed(number, lane);
    warp.handed_over_time.at(lane) = time;
  });
  return time;
}

/// What an arrival tells of execution beside what it releases.
void ClusterOrder::release_executed(uint32_t number, LaneMask lanes, bool relaxed, Gathering& target) {
  const WarpOrder& warp = warps_[number];
  if (relaxed ? !warp.handed_over.is_set() : !warp.executed.is_set()) return;
  for_each_lane(lanes, [&](uint32_t lane) {
    const SharedClock& known = relaxed ? warp.handed_over[lane] : warp.executed[lane];
    if (known == nullptr) return;
    target.join(known);
    if (relaxed) target.clock.raise(component_of(number, lane), warp.handed_over_time[lane]);
  });
}

void ClusterOrder::learn_executed(uint32_t number, LaneMask lanes, const SharedClock& source) {
  if (source == nullptr) return;
  WarpOrder& warp = warps_[number];
  SharedClock before, after;  // of the lane before: the next often knows the very same
  for_each_lane(lanes, [&](uint32_t lane) {
    const SharedClock executed = known_executed(number, lane);
    if (executed != before) {
      before = after = executed;
      if (!source->is_within(*executed)) {
        auto both = std::make_shared<VectorClock>(*executed);
        both->join(*source);
        after = std::move(both);
      }
    }
    if (after == warp.known(lane)) return;
    warp.executed.at(lane) = after;
  });
}

void ClusterOrder::acquire_at_fence(uint32_t number, LaneMask lanes, const SharedClock& source) {
  if (source == nullptr) return;
  WarpOrder& warp = warps_[number];
  for_each_lane(lanes, [&](uint32_t lane) {
    SharedClock& pending = warp.pending.at(lane);
    if (pending == nullptr || pending->is_within(*source)) {
      pending = source;
    } else if (!source->is_within(*pending)) {
      auto both = std::make_shared<VectorClock>(*pending);
      both->join(*source);
      pending = std::move(both);
    }
  });
}

void ClusterOrder::warp_met(uint32_t number, LaneMask lanes) {
  WarpOrder& warp = warps_[number];
  if (std::has_single_bit(lanes)) return;
  // When nothing was done since the last meeting, there is nothing to tell.
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

void ClusterOrder::fence(uint32_t number, LaneMask lanes) {
  WarpOrder& warp = warps_[number];
  const Time time = publish(warp);
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

void ClusterOrder::rendezvous(const machine::Rendezvous& event) {
  const uint32_t rank = event.block == nullptr ? kOfCluster : event.block->rank;
  Meeting& meeting = meetings_[{rank, event.number}];
  const bool arrives = event.kind == RendezvousKind::arrive || event.kind == RendezvousKind::arrive_relaxed;
  if (event.block == nullptr && arrives) warps_[warp_number(*event.fragment)].cluster_arrived = meeting.phases + 1;
  switch (event.kind) {
    case RendezvousKind::arrive:
      ++warps_[warp_number(*event.fragment)].meeting_count;
      release(warp_number(*event.fragment), event.lanes, meeting.open);
      release_executed(warp_number(*event.fragment), event.lanes, false, meeting.open_executed);
      break;
    case RendezvousKind::arrive_relaxed:
      release_fenced(warp_number(*event.fragment), event.lanes, meeting.open);
      release_executed(warp_number(*event.fragment), event.lanes, true, meeting.open_executed);
      break;
    case RendezvousKind::complete:
      if (event.of_all) {
        for (const auto& [of_rank, exited] : exits_) {
          if (event.block == nullptr || of_rank == rank) meeting.open.clock.join(exited.clock);
        }
      }
      meeting.completed = std::make_shared<VectorClock>(std::move(meeting.open.clock));
      meeting.open = {};
      meeting.executed = meeting.open_executed.is_empty()
                             ? nullptr
                             : std::make_shared<VectorClock>(std::move(meeting.open_executed.clock));
      meeting.open_executed = {};
      ++meeting.phases;
      break;
    case RendezvousKind::pass:
      if (event.block == nullptr) warps_[warp_number(*event.fragment)].cluster_passed = meeting.phases;
      acquire(warp_number(*event.fragment), event.lanes, meeting.completed);
      learn_executed(warp_number(*event.fragment), event.lanes, meeting.executed);
      break;
    case RendezvousKind::exit: release(warp_number(*event.fragment), event.lanes, exits_[rank]); break;
  }
}

void ClusterOrder::note_wait(uint32_t number, uint32_t index, const machine::BarrierEvent& event) {
  WarpOrder& warp = warps_[number];
  const auto [found, fresh] = warp.waits.try_emplace(index);
  WaitNote& note = found->second;
  const bool again = !fresh && note.phases == event.phase && (note.lanes & event.lanes) != 0;
  // A second look at the same phase is nothing; one after the warp has arrived somewhere may be a round too many.
  const bool repeated = again && (note.repeated || note.arrivals != warp.arrival_count);
  const bool after_meeting = again && (note.repeated_after_meeting || note.meetings != warp.meeting_count);
  publish(warp);  // begins a new time
  note = {event.phase, event.fragment->pc, event.lanes, warp.arrival_count,
          warp.time,   warp.meeting_count, repeated,    after_meeting};
}

void ClusterOrder::barrier(const machine::BarrierEvent& event) {
  const uint32_t index = barrier_index(event.block->rank, event.offset);
  BarrierOrder& barrier = barriers_[index];
  const uint32_t number = event.fragment == nullptr ? 0 : warp_number(*event.fragment);
  switch (event.kind) {
    case BarrierEventKind::init: {
      WarpOrder& warp = warps_[number];
      warp.accessed = true;
      barrier.initialised = {number, event.lanes, warp.time, event.fragment->pc};
      barrier.initialised_after = warp.cluster_arrived;
      for (WarpOrder& each : warps_) each.waits.erase(index);
      break;
    }
    case BarrierEventKind::arrive:
      if (event.fragment != nullptr) {
        WarpOrder& warp = warps_[number];
        warp.accessed = true;  // so that this arrival has a time of its own, by which reports know it
        if (event.relaxed) {
          release_fenced(number, event.lanes, barrier.open);
        } else {
          release(number, event.lanes, barrier.open);
        }
        release_executed(number, event.lanes, event.relaxed, barrier.open_executed);
        ++warp.arrival_count;
        barrier.arrival_warp = number;
        barrier.arrival_pc = event.fragment->pc;
        barrier.arrival_clock = event.fragment->warp->clock;
        barrier.arrival_ends = barrier.ends;
        warp.arrivals.push_back({index, event.fragment->pc, warp.time - 1, event.lanes, warp.arrival_count});
        if (warp.arrivals.size() > kArrivalsKept) warp.arrivals.erase(warp.arrivals.begin());
      } else if (const auto found = pending_operations_.find(event.operation); found != pending_operations_.end()) {
        const Operation& operation = operations_[found->second];
        barrier.open.join(operation.known);
        if (operation.time != 0) barrier.open.clock.raise(operation.component, operation.time);
        if (operation.completion == AsyncCompletion::tensor_arrive) {
          barrier.commits.push_back({barrier.ends, found->second});
          if (barrier.commits.size() > kCommitsKept) barrier.commits.pop_front();
        }
      }
      break;
    case BarrierEventKind::complete_tx:
      if (const auto found = pending_operations_.find(event.operation);
          event.operation != 0 && found != pending_operations_.end()) {
        Operation& operation = operations_[found->second];
        barrier.open.join(operation.known);
        operation.known = nullptr;
        operation.component = barrier.component;
        operation.time = barrier.ends + 1;
        pending_operations_.erase(found);
      }
      break;
    case BarrierEventKind::phase_complete:
      barrier.open.clock.raise(barrier.component, ++barrier.ends);
      barrier.completed = std::make_shared<VectorClock>(barrier.open.clock);
      if (!barrier.open_executed.is_empty()) {
        barrier.executed = std::make_shared<VectorClock>(barrier.open_executed.clock);
      }
      break;
    case BarrierEventKind::wait:
      note_wait(number, index, event);
      if (event.phase == 0) break;  // for the phase before the first, in which nobody arrived
      if (event.relaxed) {
        acquire_at_fence(number, event.lanes, barrier.completed);
        learn_executed(number, event.lanes, barrier.completed);
      } else {
        acquire(number, event.lanes, barrier.completed);
      }
      learn_executed(number, event.lanes, barrier.executed);
      break;
    case BarrierEventKind::expect_tx:
    case BarrierEventKind::invalidate: break;
  }
}

Sequence& ClusterOrder::sequence(std::map<ThreadKey, Sequence>& all, ThreadKey thread) {
  const auto [found, fresh] = all.try_emplace(thread);
  if (fresh) found->second.component = components_++;
  return found->second;
}

void ClusterOrder::group(const machine::GroupEvent& event) {
  const uint32_t number = warp_number(*event.fragment);
  Sequence& mine = sequence(event.bulk ? bulk_ : copies_, component_of(number, event.lane));
  if (event.kind == machine::GroupEventKind::commit) {
    mine.groups.push_back(mine.issued);
    return;
  }
  if (mine.groups.size() <= event.keep) return;
  const size_t ended = mine.groups.size() - event.keep;
  const Time time = mine.groups[ended - 1];
  mine.groups.erase(mine.groups.begin(), mine.groups.begin() + static_cast<std::ptrdiff_t>(ended));
  waited_.raise(mine.component, time);
  warps_[number].accessed = true;  // there is something new to tell
  warps_[number].has_copies = true;
}

std::vector<const Operation*> ClusterOrder::bulk_copies_not_waited_for(uint32_t rank) const {
  std::vector<const Operation*> copies;
  const ThreadKey first = component_of(rank * warps_per_block_, 0);
  const ThreadKey last = component_of((rank + 1) * warps_per_block_, 0);
  for (auto each = bulk_.lower_bound(first); each != bulk_.end() && each->first < last; ++each) {
    const Sequence& mine = each->second;
    const Time ended = waited(mine.component);
    if (ended == mine.issued) continue;
    const auto found = std::find_if(operations_.begin(), operations_.end(), [&](const Operation& operation) {
      return operation.completion == AsyncCompletion::bulk_group && operation.component == mine.component &&
             operation.time == ended + 1;
    });
    if (found != operations_.end()) copies.push_back(&*found);
  }
  return copies;
}

void ClusterOrder::warpgroup_issued(const machine::WarpgroupIssue& event) {
  const ThreadKey key = warpgroup_of(*event.fragment);
  std::deque<Gathering>& open = warpgroup_issues_[key];
  const size_t place = event.number - sequence(warpgroups_, key).issued - 1;
  if (place >= open.size()) open.resize(place + 1);
  release(warp_number(*event.fragment), kAllLanes, open[place]);
}

VectorClock ClusterOrder::take_warpgroup_issue(const machine::Fragment& fragment) {
  std::deque<Gathering>& open = warpgroup_issues_[warpgroup_of(fragment)];
  VectorClock together = std::move(open.front().clock);
  open.pop_front();
  return together;
}

void ClusterOrder::warpgroup_waited(const machine::WarpgroupWait& event) {
  const uint32_t number = warp_number(*event.fragment);
  WarpOrder& warp = warps_[number];
  const uint32_t component = sequence(warpgroups_, warpgroup_of(*event.fragment)).component;
  VectorClock ended;
  ended.raise(component, event.ended);
  acquire(number, machine::kAllLanes, std::make_shared<VectorClock>(std::move(ended)));
  warp.accessed = true;  // there is something new to tell
}

void ClusterOrder::strong_access(const machine::MemoryAccess& access) {
  const uint32_t number = warp_number(*access.fragment);
  WarpOrder& warp = warps_[number];
  const bool releases = access.order == AccessOrder::release || access.order == AccessOrder::acquire_release;
  const bool acquires = access.order == AccessOrder::acquire || access.order == AccessOrder::acquire_release;
  const bool reads = access.kind != AccessKind::write, writes = access.kind != AccessKind::read;
  if (locations_.empty() && !(writes && (releases || warp.fenced.is_set()))) return;
  for_each_lane(access.lanes, [&](uint32_t lane) {
    const uint64_t key =
        access.shared != nullptr ? location_key(true, access.shared[lane]) : location_key(false, access.global[lane]);
    const auto found = locations_.find(key);
    const SharedClock before = found == locations_.end() ? nullptr : found->second;
    if (reads && before != nullptr) {
      if (acquires) {
        acquire(number, 1u << lane, before);
      } else {
        acquire_at_fence(number, 1u << lane, before);
      }
    }
    if (!writes) return;
    Gathering released;
    // An update continues the release sequence of the write it replaces; a plain write ends it.
    if (access.kind == AccessKind::update && before != nullptr) released.join(before);
    if (releases) {
      release(number, 1u << lane, released);
    } else {
      release_fenced(number, 1u << lane, released);
    }
    locations_[key] = std::make_shared<VectorClock>(std::move(released.clock));
  });
}

uint32_t ClusterOrder::issue(const machine::AsyncOperation& issued) {
  const uint32_t number = warp_number(*issued.fragment);
  const ThreadKey thread = component_of(number, issued.lane);
  Operation operation;
  operation.warp = number;
  operation.lane = issued.lane;
  operation.pc = issued.fragment->pc;
  operation.issued = warps_[number].time;
  warps_[number].accessed = true;
  operation.what = issued.what;
  operation.completion = issued.completion;
  operation.generic_proxy = issued.generic_proxy;
  operation.layout = issued.layout;
  operation.known = warps_[number].known(issued.lane);
  const auto index = static_cast<uint32_t>(operations_.size());
  const auto follow = [&](std::map<ThreadKey, Sequence>& all, bool adds) {
    Sequence& mine = sequence(all, thread);
    if (adds) ++mine.issued;
    operation.component = mine.component;
    operation.time = mine.issued;
  };
  switch (issued.completion) {
    case AsyncCompletion::mbarrier:
      operation.barrier =
          barrier_index(issued.barrier >> machine::kSharedRankShift, issued.barrier & machine::kSharedOffsetMask);
      barriers_[operation.barrier].is_for_copies = true;
      operation.phase = barriers_[operation.barrier].ends;
      pending_operations_[issued.number] = index;
      break;
    case AsyncCompletion::bulk_group: follow(bulk_, true); break;
    case AsyncCompletion::copy_group: follow(copies_, true); break;
    case AsyncCompletion::tensor_pipe: follow(tensor_, true); break;
    case AsyncCompletion::warpgroup: {
      Sequence& mine = sequence(warpgroups_, warpgroup_of(*issued.fragment));
      operation.component = mine.component;
      operation.time = ++mine.issued;
      break;
    }
    case AsyncCompletion::copies_arrive:
      follow(copies_, false);
      pending_operations_[issued.number] = index;
      break;
    case AsyncCompletion::tensor_arrive:
      follow(tensor_, false);
      pending_operations_[issued.number] = index;
      break;
  }
  if (issued.completion == AsyncCompletion::bulk_group || issued.completion == AsyncCompletion::copy_group ||
      issued.completion == AsyncCompletion::tensor_pipe || issued.completion == AsyncCompletion::warpgroup) {
    operation.known = nullptr;  // its arrival, if one comes, has its own
  }
  operations_.push_back(std::move(operation));
  return index;
}

}  // namespace stagecraft::emulator::checks
