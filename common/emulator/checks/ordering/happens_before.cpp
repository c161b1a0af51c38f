#include "emulator/checks/ordering/happens_before.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

namespace stagecraft::emulator::checks {

using machine::AccessKind;
using machine::AccessOrder;
using machine::AsyncCompletion;
using machine::BarrierEventKind;
using machine::FenceKind;
using machine::for_each_lane;
using machine::kAllLanes;
using machine::LaneMask;
using machine::RendezvousKind;
using machine::TensorEventKind;

namespace {

constexpr size_t kCommitsKept = 8;
constexpr uint32_t kOfCluster = 0xffffffffu;

uint64_t location_key(bool shared, uint64_t address) { return address << 1 | (shared ? 1u : 0u); }

uint64_t place_key(uint32_t rank, uint32_t offset) { return uint64_t{rank} << 32 | offset; }

SharedClock shared_clock(VectorClock clock) { return std::make_shared<VectorClock>(std::move(clock)); }

}  // namespace

uint32_t ClusterOrder::barrier_index(uint32_t rank, uint32_t offset) {
  if (const uint32_t known = find_barrier(rank, offset); known != kNoBarrier) return known;
  const auto index = static_cast<uint32_t>(barriers_.size());
  barrier_indices_[place_key(rank, offset)] = index;
  barriers_.emplace_back();
  barriers_.back().rank = rank;
  barriers_.back().offset = offset;
  barriers_.back().component = components_++;
  return index;
}

uint32_t ClusterOrder::find_barrier(uint32_t rank, uint32_t offset) const {
  uint32_t& latest = latest_barriers_[(offset / machine::kMbarrierBytes + 4 * rank) % latest_barriers_.size()];
  if (latest < barriers_.size() && barriers_[latest].rank == rank && barriers_[latest].offset == offset) return latest;
  const auto found = barrier_indices_.find(place_key(rank, offset));
  if (found == barrier_indices_.end()) return kNoBarrier;
  return latest = found->second;
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
    return own && operation.time != 0 && threads_.waited(operation.component) >= operation.time;
  }
  LaneMask others = past.lanes;
  if (past.agent == warp) {
    if (std::has_single_bit(lanes)) {
      others &= ~lanes;
    } else if (past.writes() && (lanes & ~past.lanes) == 0) {
      // Several lanes wrote the same value here in one instruction, and each of them relies on what it wrote itself.
      return true;
    }
  }
  for (; others != 0; others &= others - 1) {
    if (known.at(ThreadKnowledge::component_of(past.agent, machine::first_lane(others))) < past.time) return false;
  }
  return true;
}

void ClusterOrder::strong_access(const machine::MemoryAccess& access) {
  const uint32_t number = warp_number(*access.fragment);
  const WarpOrder& warp = threads_.warp(number);
  const bool releases = access.order == AccessOrder::release || access.order == AccessOrder::acquire_release;
  const bool acquires = access.order == AccessOrder::acquire || access.order == AccessOrder::acquire_release;
  const bool reads = access.kind != AccessKind::write, writes = access.kind != AccessKind::read;
  const bool hands_over = warp.fenced.is_set() || warp.handed_over.is_set() || warp.executed.is_set();
  if (locations_.empty() && !(writes && (releases || hands_over))) return;
  for_each_lane(access.lanes, [&](uint32_t lane) {
    const uint64_t key =
        access.shared != nullptr ? location_key(true, access.shared[lane]) : location_key(false, access.global[lane]);
    const auto found = locations_.find(key);
    const Location before = found == locations_.end() ? Location{} : found->second;
    if (reads && before.released != nullptr) {
      if (acquires) {
        threads_.acquire(number, 1u << lane, before.released);
      } else {
        threads_.acquire_at_fence(number, 1u << lane, before.released);
      }
    }
    // As with a relaxed arrival: what is released without a fence is known to be executed all the same.
    if (reads && !acquires) threads_.learn_executed(number, 1u << lane, before.released);
    if (reads) threads_.learn_executed(number, 1u << lane, before.executed);
    if (!writes) return;
    Gathering released, executed;
    // An update continues the release sequence of the write it replaces; a plain write ends it.
    if (access.kind == AccessKind::update && before.released != nullptr) released.join(before.released);
    if (access.kind == AccessKind::update && before.executed != nullptr) executed.join(before.executed);
    if (releases) {
      threads_.release(number, 1u << lane, released);
    } else {
      threads_.release_fenced(number, 1u << lane, released);
    }
    threads_.release_executed(number, 1u << lane, !releases, executed);
    locations_[key] = {shared_clock(std::move(released.clock)),
                       executed.is_empty() ? nullptr : shared_clock(std::move(executed.clock))};
  });
}

RecordedAccess ClusterOrder::global_accessed(const machine::MemoryAccess& access) {
  const uint32_t number = warp_number(*access.fragment);
  WarpOrder& warp = threads_.warp(number);
  warp.accessed = true;
  const Time time = warp.time;
  if (access.order != AccessOrder::weak) {
    strong_access(access);
    threads_.publish(number);  // who learns of it by its value does not learn of what follows
  }
  return {access, nullptr, number, time};
}

void ClusterOrder::warp_synchronised(const machine::Fragment& fragment, LaneMask lanes) {
  threads_.warp_met(warp_number(fragment), lanes);
}

void ClusterOrder::lanes_exchanged(const machine::Fragment& fragment, LaneMask lanes) {
  if (!fragment.grid().kernel->exchanged_loads.contains(fragment.pc)) return;
  const uint32_t number = warp_number(fragment);
  threads_.publish(number);  // begins a new time
  threads_.warp(number).exchanges.push_back({threads_.warp(number).time - 1, fragment.pc, lanes});
}

bool ClusterOrder::is_exchanged_before(const PastAccess& load, Time time, LaneMask lanes,
                                       const machine::Kernel& kernel) const {
  const auto& exchanges = threads_.warp(load.agent).exchanges;
  return std::any_of(exchanges.begin(), exchanges.end(), [&](const ExchangeNote& exchange) {
    if (exchange.time < load.time || exchange.time >= time || ((load.lanes | lanes) & ~exchange.lanes) != 0) {
      return false;
    }
    const std::vector<uint32_t>& loads = kernel.exchanged_loads.at(exchange.pc);
    return std::binary_search(loads.begin(), loads.end(), load.pc());
  });
}

void ClusterOrder::fence_executed(const machine::Fragment& fragment, LaneMask lanes, FenceKind kind) {
  const uint32_t number = warp_number(fragment);
  switch (kind) {
    case FenceKind::memory:
    case FenceKind::mbarrier_init: threads_.fence(number, lanes); break;
    case FenceKind::proxy_async:
    case FenceKind::proxy_async_shared:
    case FenceKind::proxy_async_global:
    case FenceKind::grid_dependencies: threads_.mark(number); break;  // others learn of the fence by its time
    case FenceKind::other: break;
  }
}

void ClusterOrder::tensor_memory_changed(const machine::TensorEvent& event) {
  const uint32_t number = warp_number(*event.fragment);
  switch (event.kind) {
    // The store of the address is the whole warp's: any of its lanes may read it, or pass it on to others.
    case TensorEventKind::allocate: threads_.warp_met(number, event.lanes); break;
    case TensorEventKind::deallocate:
    case TensorEventKind::load:
    case TensorEventKind::store: threads_.warp(number).accessed = true; break;
    case TensorEventKind::wait_load:
    case TensorEventKind::wait_store: threads_.mark(number); break;  // others learn of the end by its time
    case TensorEventKind::fence_before: threads_.hand_over(number, event.lanes); break;
    case TensorEventKind::fence_after: break;
  }
}

void ClusterOrder::threads_met(const machine::Rendezvous& event) {
  const uint32_t rank = event.block == nullptr ? kOfCluster : event.block->rank;
  const bool of_cluster = event.block == nullptr;
  Meeting& meeting = meetings_[{rank, event.number}];
  if (event.kind == RendezvousKind::complete) return complete(meeting, event);
  const uint32_t number = warp_number(*event.fragment);
  WarpOrder& warp = threads_.warp(number);
  switch (event.kind) {
    case RendezvousKind::arrive:
      if (of_cluster) warp.cluster_arrived = meeting.phases + 1;
      ++warp.meeting_count;
      threads_.release(number, event.lanes, meeting.open);
      threads_.release_executed(number, event.lanes, false, meeting.open_executed);
      break;
    case RendezvousKind::arrive_relaxed:
      if (of_cluster) warp.cluster_arrived = meeting.phases + 1;
      threads_.release_fenced(number, event.lanes, meeting.open);
      threads_.release_executed(number, event.lanes, true, meeting.open_executed);
      break;
    case RendezvousKind::pass:
      if (of_cluster) warp.cluster_passed = meeting.phases;
      threads_.acquire(number, event.lanes, meeting.completed);
      threads_.learn_executed(number, event.lanes, meeting.executed);
      break;
    case RendezvousKind::exit: threads_.release(number, event.lanes, exits_[rank]); break;
    case RendezvousKind::complete: break;
  }
}

void ClusterOrder::complete(Meeting& meeting, const machine::Rendezvous& event) {
  if (event.of_all) {
    for (const auto& [rank, exited] : exits_) {
      if (event.block == nullptr || rank == event.block->rank) meeting.open.clock.join(exited.clock);
    }
  }
  meeting.completed = shared_clock(std::move(meeting.open.clock));
  meeting.executed = meeting.open_executed.is_empty() ? nullptr : shared_clock(std::move(meeting.open_executed.clock));
  meeting.open = {};
  meeting.open_executed = {};
  ++meeting.phases;
}

void ClusterOrder::barrier_changed(const machine::BarrierEvent& event) {
  const uint32_t index = barrier_index(event.block->rank, event.offset);
  BarrierOrder& barrier = barriers_[index];
  barrier.phases.add(event);
  switch (event.kind) {
    case BarrierEventKind::init: return initialise(index, event);
    case BarrierEventKind::arrive:
      return event.fragment != nullptr ? arrive(index, event) : arrive(barrier, event.operation);
    case BarrierEventKind::complete_tx: return complete_copy(barrier, event.operation);
    case BarrierEventKind::phase_complete:
      barrier.open.clock.raise(barrier.component, ++barrier.ends);
      barrier.completed = shared_clock(barrier.open.clock);
      barrier.learners = {};
      if (!barrier.open_executed.is_empty()) barrier.executed = shared_clock(barrier.open_executed.clock);
      return;
    case BarrierEventKind::wait: return wait(index, event);
    case BarrierEventKind::expect_tx:
    case BarrierEventKind::reinitialise:
    case BarrierEventKind::invalidate: return;
  }
}

void ClusterOrder::initialise(uint32_t index, const machine::BarrierEvent& event) {
  const uint32_t number = warp_number(*event.fragment);
  WarpOrder& warp = threads_.warp(number);
  warp.accessed = true;
  barriers_[index].initialised = {number, event.lanes, warp.time, event.fragment->pc};
  barriers_[index].initialised_after = warp.cluster_arrived;
  for (WarpOrder& each : threads_.warps()) each.waits.erase(index);
}

void ClusterOrder::arrive(uint32_t index, const machine::BarrierEvent& event) {
  BarrierOrder& barrier = barriers_[index];
  const uint32_t number = warp_number(*event.fragment);
  WarpOrder& warp = threads_.warp(number);
  warp.accessed = true;  // so that this arrival has a time of its own, by which reports know it
  if (event.semantics.relaxed) {
    threads_.release_fenced(number, event.lanes, barrier.open);
  } else {
    threads_.release(number, event.lanes, barrier.open);
  }
  threads_.release_executed(number, event.lanes, event.semantics.relaxed, barrier.open_executed);
  ++warp.arrival_count;
  barrier.has_remote_arrivals = barrier.has_remote_arrivals || event.fragment->block().rank != event.block->rank;
  barrier.arrival_warp = number;
  barrier.arrival_pc = event.fragment->pc;
  barrier.arrival_clock = event.fragment->warp->clock;
  barrier.arrival_ends = barrier.ends;
  warp.arrivals.push_back({index, event.fragment->pc, warp.time - 1, event.lanes, warp.arrival_count, barrier.ends,
                           event.semantics.relaxed});
}

/// An arrival by an operation: cp.async.mbarrier.arrive or tcgen05.commit.
void ClusterOrder::arrive(BarrierOrder& barrier, uint64_t operation_number) {
  const auto found = pending_operations_.find(operation_number);
  if (found == pending_operations_.end()) return;
  std::erase(barrier.under_way, found->second);
  const Operation& operation = operations_[found->second];
  barrier.open.join(operation.known);
  if (operation.time != 0) barrier.open.clock.raise(operation.component, operation.time);
  if (operation.completion != AsyncCompletion::tensor_arrive) return;
  barrier.commits.push_back({barrier.ends, found->second});
  if (barrier.commits.size() > kCommitsKept) barrier.commits.pop_front();
}

/// A copy has brought its bytes: it has ended for those that see the present phase end.
void ClusterOrder::complete_copy(BarrierOrder& barrier, uint64_t operation_number) {
  const auto found = pending_operations_.find(operation_number);
  if (operation_number == 0 || found == pending_operations_.end()) return;
  Operation& operation = operations_[found->second];
  barrier.open.join(operation.known);
  operation.known = nullptr;
  operation.component = barrier.component;
  operation.time = barrier.ends + 1;
  std::erase(barrier.under_way, found->second);
  pending_operations_.erase(found);
}

void ClusterOrder::wait(uint32_t index, const machine::BarrierEvent& event) {
  BarrierOrder& barrier = barriers_[index];
  const uint32_t number = warp_number(*event.fragment);
  note_wait(number, index, event);
  if (event.phase == 0) return;  // it was for the phase before the first, in which nobody arrived
  if (event.semantics.relaxed) {
    threads_.acquire_at_fence(number, event.lanes, barrier.completed);
    threads_.learn_executed(number, event.lanes, barrier.completed);
  } else {
    threads_.acquire(number, event.lanes, barrier.completed, &barrier.learners);
  }
  threads_.learn_executed(number, event.lanes, barrier.executed);
}

void ClusterOrder::note_wait(uint32_t number, uint32_t index, const machine::BarrierEvent& event) {
  WarpOrder& warp = threads_.warp(number);
  const auto [found, fresh] = warp.waits.try_emplace(index);
  WaitNote& note = found->second;
  const bool again = !fresh && note.phases == event.phase && (note.lanes & event.lanes) != 0;
  // To look at the same phase twice is nothing; to do so after an arrival somewhere may be a round too many.
  const bool repeated = again && (note.repeated || note.arrivals != warp.arrival_count);
  const bool after_meeting = again && (note.repeated_after_meeting || note.meetings != warp.meeting_count);
  threads_.mark(number);  // begins a new time, which is that of the wait
  note = {event.phase,        event.fragment->pc, event.lanes,   warp.arrival_count,     warp.time,
          warp.meeting_count, repeated,           after_meeting, event.semantics.relaxed};
}

ClusterOrder::Sequence& ClusterOrder::sequence(std::map<ThreadKey, Sequence>& all, ThreadKey thread) {
  const auto [found, fresh] = all.try_emplace(thread);
  if (fresh) found->second.component = components_++;
  return found->second;
}

void ClusterOrder::group_changed(const machine::GroupEvent& event) {
  const uint32_t number = warp_number(*event.fragment);
  const ThreadKey thread = ThreadKnowledge::component_of(number, event.lane);
  Sequence& mine = sequence(event.bulk ? bulk_ : copies_, thread);
  if (event.kind == machine::GroupEventKind::commit) {
    mine.groups.push_back(mine.issued);
    return;
  }
  if (mine.groups.size() <= event.keep) return;
  const size_t ended = mine.groups.size() - event.keep;
  threads_.wait_for_own_copies(number, event.lane, mine.component, mine.groups[ended - 1]);
  mine.groups.erase(mine.groups.begin(), mine.groups.begin() + static_cast<std::ptrdiff_t>(ended));
}

std::vector<const Operation*> ClusterOrder::bulk_copies_not_waited_for(uint32_t rank) const {
  std::vector<const Operation*> copies;
  const ThreadKey first = ThreadKnowledge::component_of(rank * warps_per_block_, 0);
  const ThreadKey last = ThreadKnowledge::component_of((rank + 1) * warps_per_block_, 0);
  for (auto each = bulk_.lower_bound(first); each != bulk_.end() && each->first < last; ++each) {
    const Sequence& mine = each->second;
    const Time ended = threads_.waited(mine.component);
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
  threads_.release(warp_number(*event.fragment), kAllLanes, open[place]);
}

void ClusterOrder::warpgroup_waited(const machine::WarpgroupWait& event) {
  const uint32_t number = warp_number(*event.fragment);
  VectorClock ended;
  ended.raise(sequence(warpgroups_, warpgroup_of(*event.fragment)).component, event.ended);
  threads_.acquire(number, kAllLanes, shared_clock(std::move(ended)));
  threads_.warp(number).accessed = true;  // there is something new to release
}

IssuedOperation ClusterOrder::operation_issued(const machine::AsyncOperation& event) {
  IssuedOperation issued{event, static_cast<uint32_t>(operations_.size()), std::nullopt};
  if (event.completion == AsyncCompletion::warpgroup) {
    std::deque<Gathering>& open = warpgroup_issues_[warpgroup_of(*event.fragment)];
    issued.together = std::move(open.front().clock);
    open.pop_front();
  }
  const uint32_t number = warp_number(*event.fragment);
  WarpOrder& warp = threads_.warp(number);
  Operation operation;
  operation.warp = number;
  operation.lane = event.lane;
  operation.pc = event.fragment->pc;
  operation.issued = warp.time;
  operation.what = event.what;
  operation.completion = event.completion;
  operation.generic_proxy = event.generic_proxy;
  operation.layout = event.layout;
  operation.known = warp.known(event.lane);
  warp.accessed = true;
  // A commit releases what a wait was for, as an arrival does.
  if (event.completion == AsyncCompletion::tensor_arrive) ++warp.arrival_count;
  set_end(operation, event, ThreadKnowledge::component_of(number, event.lane), issued.index);
  operations_.push_back(std::move(operation));
  return issued;
}

/// Returns the barrier that an operation completes on or arrives at.
BarrierOrder& ClusterOrder::expect_at_barrier(const machine::AsyncOperation& event, uint32_t index) {
  BarrierOrder& barrier =
      barriers_[barrier_index(event.barrier >> machine::kSharedRankShift, event.barrier & machine::kSharedOffsetMask)];
  barrier.under_way.push_back(index);
  return barrier;
}

/// Says by what the end of an operation will be known.
void ClusterOrder::set_end(Operation& operation, const machine::AsyncOperation& event, ThreadKey thread,
                           uint32_t index) {
  // It is one more of its sequence, and an arrival that comes later has what its own issuer knew.
  const auto continue_sequence = [&](Sequence& mine) {
    operation.component = mine.component;
    operation.time = ++mine.issued;
    operation.known = nullptr;
  };
  // It stands for all of the sequence so far, and arrives at its barrier later.
  const auto end_sequence = [&](const Sequence& mine) {
    operation.component = mine.component;
    operation.time = mine.issued;
    pending_operations_[event.number] = index;
    if (event.has_barrier) expect_at_barrier(event, index);
  };
  switch (event.completion) {
    case AsyncCompletion::mbarrier: {
      BarrierOrder& barrier = expect_at_barrier(event, index);
      barrier.is_for_copies = true;
      operation.barrier = barrier_index(barrier.rank, barrier.offset);
      operation.phase = barrier.ends;
      pending_operations_[event.number] = index;
      break;
    }
    case AsyncCompletion::bulk_group: continue_sequence(sequence(bulk_, thread)); break;
    case AsyncCompletion::copy_group: continue_sequence(sequence(copies_, thread)); break;
    case AsyncCompletion::tensor_pipe: continue_sequence(sequence(tensor_, thread)); break;
    case AsyncCompletion::warpgroup: continue_sequence(sequence(warpgroups_, warpgroup_of(*event.fragment))); break;
    case AsyncCompletion::copies_arrive: end_sequence(sequence(copies_, thread)); break;
    case AsyncCompletion::tensor_arrive: end_sequence(sequence(tensor_, thread)); break;
  }
}

}  // namespace stagecraft::emulator::checks
