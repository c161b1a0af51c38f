#include "emulator/checks/ordering/happens_before.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

namespace stagecraft::emulator::checks {

using machine::AccessKind;
using machine::AccessOrder;
using machine::BarrierEventKind;
using machine::FenceKind;
using machine::for_each_lane;
using machine::LaneMask;
using machine::RendezvousKind;
using machine::TensorEventKind;

namespace {

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

bool ClusterOrder::knows_an_operation_of(uint32_t rank, const VectorClock& known) const {
  return std::any_of(operations_.begin(), operations_.end(), [&](const Operation& operation) {
    return operation.warp / warps_per_block_ == rank && operation.time != 0 &&
           known.at(operation.component) >= operation.time;
  });
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
      if (!of_cluster) {
        warp.meetings[warp.next_meeting++ % warp.meetings.size()] = {event.number, event.fragment->pc, meeting.phases,
                                                                     warp.time - 1};
      }
      break;
    case RendezvousKind::arrive_relaxed:
      if (of_cluster) {
        warp.cluster_arrived = meeting.phases + 1;
        threads_.mark(number);  // what the warp did before has an earlier time
        warp.relaxed_arrival = {event.number, event.fragment->pc, meeting.phases, warp.time};
      }
      threads_.release_fenced(number, event.lanes, meeting.open);
      threads_.release_executed(number, event.lanes, true, meeting.open_executed);
      break;
    case RendezvousKind::pass:
      if (of_cluster && warp.cluster_passed == 0) {
        threads_.mark(number);  // begins a new time, by which others learn of the wait
        warp.cluster_passed_at = warp.time;
      }
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
    case BarrierEventKind::complete_tx:
      return event.fragment != nullptr ? complete_bytes(barrier, event) : complete_copy(barrier, event.operation);
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

/// A thread's own mbarrier.complete_tx, which is always relaxed: it releases what a fence before it has.
void ClusterOrder::complete_bytes(BarrierOrder& barrier, const machine::BarrierEvent& event) {
  const uint32_t number = warp_number(*event.fragment);
  threads_.release_fenced(number, event.lanes, barrier.open);
  threads_.release_executed(number, event.lanes, true, barrier.open_executed);
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
  if (event.phase > 0 && barriers_[index].is_for_copies) warp.awaited = {index, static_cast<Time>(event.phase - 1)};
}

}  // namespace stagecraft::emulator::checks
