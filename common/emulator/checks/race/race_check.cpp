#include "emulator/checks/race/race_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <set>

#include "emulator/checks/causes/stale_wait.hpp"
#include "emulator/checks/ordering/warp_addresses.hpp"
#include "emulator/checks/ordering/wording.hpp"
#include "emulator/state/mbarrier_table.hpp"

namespace stagecraft::emulator::checks {

using machine::AccessKind;
using machine::AccessOrder;
using machine::for_each_lane;
using machine::kWarpSize;
using machine::LaneMask;

namespace {

/// The flags of what an instruction of a thread accesses.
uint32_t flags_of(const machine::MemoryAccess& access) {
  return (access.kind != AccessKind::read ? PastAccess::kWrites : 0) |
         (access.order != AccessOrder::weak ? PastAccess::kStrong : 0);
}

/// Notes that a thread, or an operation that writes as threads do, has written here.
void note_thread_write(ClusterRecord& cluster, uint32_t address, uint32_t bytes) {
  const uint32_t rank = address >> machine::kSharedRankShift;
  if (rank >= cluster.memory.size()) return;
  cluster.memory[rank].note_thread_write(address & machine::kSharedOffsetMask, bytes);
}

/// Calls `visit(warp)` with the number of each warp that is remembered to have contributed to a phase of a barrier.
template <typename Visit>
void for_each_contributor(const ClusterOrder& order, const BarrierOrder& barrier, uint64_t phase, Visit visit) {
  barrier.phases.for_each(phase, [&](const PhaseNote& note) {
    if (note.kind == PhaseNote::Kind::wait || note.block == nullptr) return;
    visit(note.block->rank * order.warps_per_block() + note.warp);
  });
}

/// Whether a warp that saw one phase of a barrier twice has done no more than it was let: those who arrive there wait
/// for barriers at which the warp has not arrived more often than they let it, as where it looks twice before it
/// goes on once.
bool keeps_step(const ClusterOrder& order, uint32_t warp, const WaitNote& note, const BarrierOrder& barrier) {
  if (note.phases == 0) return false;
  std::set<uint32_t> others, answers;
  for_each_contributor(order, barrier, note.phases - 1, [&](uint32_t by) {
    if (by != warp) others.insert(by);
  });
  for (const uint32_t other : others) {
    for (const auto& [index, wait] : order.warp(other).waits) answers.insert(index);
  }
  uint64_t answered = 0, let_go = 0;
  for (const uint32_t index : answers) {
    const BarrierOrder& answer = order.barrier(index);
    bool is_own = false, is_begun = false;
    for (uint64_t phase = answer.ends == 0 ? 0 : answer.ends - 1; phase <= answer.ends; ++phase) {
      for_each_contributor(order, answer, phase, [&](uint32_t by) {
        is_own = is_own || by == warp;
        is_begun = is_begun || (by == warp && phase == answer.ends);
      });
    }
    if (is_own) answered += answer.ends + (is_begun ? 1 : 0);
  }
  for (const auto& [index, wait] : order.warp(warp).waits) {
    const BarrierOrder& each = order.barrier(index);
    bool is_theirs = false;
    for_each_contributor(order, each, each.ends == 0 ? 0 : each.ends - 1,
                         [&](uint32_t by) { is_theirs = is_theirs || others.contains(by); });
    if (is_theirs) let_go += each.ends;
  }
  return answered != 0 && answered <= let_go;
}

/// Calls `visit(warp, note, barrier)` for each last wait of a warp that saw the same phase as the one before, though
/// the warp had gone on meanwhile.
template <typename Visit>
void for_each_stale_wait(const ClusterRecord& cluster, Visit visit) {
  const ClusterOrder& order = cluster.order();
  const auto warps = static_cast<uint32_t>(cluster.memory.size()) * order.warps_per_block();
  for (uint32_t warp = 0; warp < warps; ++warp) {
    for (const auto& [index, note] : order.warp(warp).waits) {
      const BarrierOrder& barrier = order.barrier(index);
      if (note.repeated && !keeps_step(order, warp, note, barrier)) visit(warp, note, barrier);
    }
  }
}

}  // namespace

void RaceCheck::cluster_started(ClusterRecord& cluster) {
  const uint32_t slot = cluster.slot();
  if (slot >= intervals_.size()) intervals_.resize(slot + 1);
  if (intervals_[slot] == nullptr) {
    intervals_[slot] = std::make_unique<BarrierInterval>();
  } else {
    intervals_[slot]->reset();
  }
  states_.start(cluster, cluster, *intervals_[slot], report_);
}

void RaceCheck::block_finished(ClusterRecord& cluster, const machine::Block& block) {
  for (const Operation* copy : cluster.order().bulk_copies_not_waited_for(block.rank)) report_.outlived(cluster, *copy);
}

/// Something may be wrong though nothing was found: another stage may have been read.
void RaceCheck::cluster_finished(ClusterRecord& cluster) {
  polls_.clear();  // those who still poll do so again
  for_each_stale_wait(cluster, [&](uint32_t warp, const WaitNote& note, const BarrierOrder& barrier) {
    stale_waits_.try_emplace(
        note.pc, fmt::format("warp {} waits twice for {} of {}{}, so that the second wait passes at once: is a flip of "
                             "the parity (a step) forgotten?",
                             warp % cluster.order().warps_per_block(), spell_phase_seen(note),
                             name_of(cluster, barrier), line_of(cluster, note.pc)));
  });
}

void RaceCheck::add_results(std::vector<machine::WrittenResult>& results) {
  for (auto& [pc, wait] : stale_waits_) results.push_back({fmt::format("stale wait {}", pc), std::move(wait), false});
  stale_waits_.clear();
}

void RaceCheck::cluster_stuck(ClusterRecord& cluster) {
  // Something is wrong for certain now, and a warp that saw the same phase in two rounds says what.
  for_each_stale_wait(cluster, [&](uint32_t warp, const WaitNote& note, const BarrierOrder& barrier) {
    report_stale_wait(findings_, cluster, warp, note, barrier);
  });
}

/// An arrival that announces bytes where no arrival is pending will stop the kernel. A warp that saw one phase twice,
/// as where a step is forgotten, says why it came.
void RaceCheck::barrier_changed(ClusterRecord& cluster, const machine::BarrierEvent& event) {
  if (event.kind != machine::BarrierEventKind::expect_tx || event.fragment == nullptr) return;
  const auto barrier = event.block->mbarriers.live.find(event.offset);
  if (barrier == event.block->mbarriers.live.end() || barrier->second.pending != 0) return;
  if (!cluster.kernel().traits_at(event.fragment->pc).announces_and_arrives) return;
  const ClusterOrder& order = cluster.order();
  const uint32_t warp = order.warp_number(*event.fragment);
  for (const auto& [index, note] : order.warp(warp).waits) {
    if (note.repeated && (note.lanes & event.lanes) != 0) {
      report_stale_wait(findings_, cluster, warp, note, order.barrier(index));
    }
  }
}

void RaceCheck::threads_met(ClusterRecord& cluster, const machine::Rendezvous& event) {
  const bool all_of_cluster = event.of_all && event.block != nullptr && cluster.has_one_block();
  if (event.kind != machine::RendezvousKind::complete || !all_of_cluster) return;
  const ClusterOrder& order = cluster.order();
  const SharedClock& known = order.learnt_at_barrier(event.block->rank, event.number);
  states_[cluster].interval.begin_next(known,
                                       [&](const PastAccess& write) { return order.knows_of_all(write, *known); });
}

/// Defers the check of an access until others come that may race with it; returns false if it must be checked now.
[[gnu::always_inline]] inline bool RaceCheck::defer(State& state, const RecordedAccess& recorded,
                                                    const PastAccess& record) {
  if (record.writes() ? !state.defers_writes : !state.defers_reads) return false;
  if (state.interval.is_full() && !state.interval.compact()) catch_up(state);
  const machine::MemoryAccess& access = recorded.event;
  const WarpOrder& warp = *recorded.warp;
  const SharedClock* known = warp.know_alike(access.lanes) ? &warp.known(machine::first_lane(access.lanes)) : nullptr;
  return state.interval.defer({access.shared, access.lanes, access.bytes}, record, known);
}

void RaceCheck::memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) {
  if (recorded.warp == nullptr) return;
  State& state = states_[cluster];
  const machine::MemoryAccess& access = recorded.event;
  // A weak load is no poll: a compiler may do it once, ahead of the loop.
  if (access.order != AccessOrder::weak && access.kind != AccessKind::write) {
    polls_[access.fragment->warp] = {access.pc, access.lanes, access.shared[machine::first_lane(access.lanes)],
                                     access.bytes};
  }
  if (access.values != nullptr) return check_overlapping_writes(state, recorded);
  const PastAccess record{recorded.warp_number, access.lanes, recorded.warp->time, access.pc | flags_of(access)};
  if (!defer(state, recorded, record)) check_now(state, recorded, record);
}

/// Checks an access that is not deferred.
void RaceCheck::check_now(State& state, const RecordedAccess& recorded, const PastAccess& record) {
  const machine::MemoryAccess& access = recorded.event;
  const WarpOrder& warp = *recorded.warp;
  PresentAccess now{record, recorded.warp_number, 0, nullptr};
  if (access.before != nullptr) now.written = &access;
  for (LaneMask rest = access.lanes; rest != 0;) {
    // Lanes that know the same are checked together.
    const uint32_t first = machine::first_lane(rest);
    LaneMask together = rest;
    if (!warp.know_alike(rest)) {
      for_each_lane(rest, [&](uint32_t lane) {
        if (warp.known(lane) != warp.known(first)) together &= ~(1u << lane);
      });
    }
    now.known = warp.known(first).get();
    now.record.pc_and_flags = record.pc_and_flags;
    rest &= ~check_lanes(state, access, together, now);
  }
}

/// Checks what was deferred.
void RaceCheck::catch_up(State& state) {
  state.interval.for_each([&](const DeferredAccess& deferred, const uint32_t* offsets, const VectorClock& known) {
    Outcomes outcomes;
    PresentAccess now{deferred.access, deferred.access.agent, deferred.lanes, &known};
    now.was_deferred = true;
    if (offsets != nullptr) return check_scattered(state, offsets, deferred.bytes, now, outcomes);
    const auto lanes = static_cast<uint32_t>(std::popcount(deferred.lanes));
    const uint32_t span = deferred.access.is_row() ? lanes * deferred.bytes : deferred.bytes;
    check_range(state, deferred.begin, span, deferred.bytes, now, outcomes);
  });
  state.interval.forget();
}

/// Checks lanes that know the same: those that access the same block's memory as the first of them. Returns these.
LaneMask RaceCheck::check_lanes(State& state, const machine::MemoryAccess& access, LaneMask lanes, PresentAccess& now) {
  const WarpAddresses addresses(access.shared, lanes, access.bytes);
  const uint32_t rank = addresses.begin >> machine::kSharedRankShift;
  if (!addresses.are_in_one_block()) {
    LaneMask here = lanes;
    for_each_lane(lanes, [&](uint32_t lane) {
      if (access.shared[lane] >> machine::kSharedRankShift != rank) here &= ~(1u << lane);
    });
    return check_lanes(state, access, here, now);
  }
  if (rank >= state.cluster.memory.size()) return lanes;
  Outcomes outcomes;
  now.record.lanes = now.lanes = lanes;
  if (!addresses.is_one_place() && !addresses.is_row()) {
    check_scattered(state, access.shared, access.bytes, now, outcomes);
    return lanes;
  }
  uint32_t span = access.bytes;
  if (addresses.is_row()) {
    addresses.make_row(now.record);
    span += addresses.bytes_after_first();
  }
  check_range(state, addresses.begin, span, access.bytes, now, outcomes);
  if (now.record.writes()) note_thread_write(state.cluster, addresses.begin, span);
  return lanes;
}

/// Checks lanes whose addresses are neither one place nor a row.
void RaceCheck::check_scattered(State& state, const uint32_t* addresses, uint32_t bytes, PresentAccess& now,
                                Outcomes& outcomes) {
  const LaneMask lanes = now.lanes;
  const uint32_t first = machine::first_lane(lanes);
  ShadowMemory& shadow = state.cluster.memory[addresses[first] >> machine::kSharedRankShift];
  // A lane that continues the one before, or accesses the same place, is in one range with it.
  std::array<uint32_t, kWarpSize> before;
  before[0] = 0;
  std::copy_n(addresses, kWarpSize - 1, before.begin() + 1);
  LaneMask joined = 0, rising = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t distance = addresses[lane] - before[lane];
    joined |= static_cast<uint32_t>((distance == bytes) | (distance == 0)) << lane;
    rising |= static_cast<uint32_t>(distance - bytes <= machine::kSharedOffsetMask) << lane;
  }
  const LaneMask starts = lanes & ~(joined & lanes << 1);
  Scatter places;
  places.lanes = lanes;
  places.bytes = bytes;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    places.offsets[lane] = addresses[lane] & machine::kSharedOffsetMask;
  }
  places.disjoint = are_neighbours(lanes) && (lanes & ~rising & ~(1u << first)) == 0;
  now.record.lanes = shadow.keep(places);
  now.record.pc_and_flags |= PastAccess::kScattered;
  for_each_lane(starts, [&](uint32_t lane) {
    const LaneMask later = lane + 1 == kWarpSize ? 0 : (starts | ~lanes) >> (lane + 1) << (lane + 1);
    const uint32_t last = later == 0 ? kWarpSize - 1 : machine::first_lane(later) - 1;
    const uint32_t span = addresses[last] + bytes - addresses[lane];
    check_range(state, addresses[lane], span, bytes, now, outcomes);
    if (now.record.writes()) note_thread_write(state.cluster, addresses[lane], span);
  });
  shadow.drop(now.record);
}

void RaceCheck::check_overlapping_writes(State& state, const RecordedAccess& recorded) {
  const machine::MemoryAccess& access = recorded.event;
  // Byte by byte: the lanes that write it, and whether they agree.
  struct Writers {
    LaneMask lanes = 0;
    std::byte value{};
    bool agree = true;
  };
  std::map<uint32_t, Writers> bytes;
  for_each_lane(access.lanes, [&](uint32_t lane) {
    for (uint32_t i = 0; i < access.bytes; ++i) {
      Writers& writers = bytes[access.shared[lane] + i];
      const std::byte value = access.values[lane * machine::kAccessBytes + i];
      if (writers.lanes == 0) writers.value = value;
      writers.agree = writers.agree && writers.value == value;
      writers.lanes |= 1u << lane;
    }
  });
  const uint32_t number = recorded.warp_number;
  const WarpOrder& warp = *recorded.warp;
  PresentAccess now{{number, 0, warp.time, access.pc | PastAccess::kWrites}, number, 0, nullptr};
  if (access.before != nullptr) now.written = &access;
  for (auto byte = bytes.begin(); byte != bytes.end();) {
    // Runs of bytes with the same writers.
    const uint32_t start = byte->first;
    const LaneMask lanes = byte->second.lanes;
    uint32_t end = start;
    for (; byte != bytes.end() && byte->first == end && byte->second.lanes == lanes; ++byte, ++end) {
      if (byte->second.agree) continue;
      now.record.lanes = lanes;
      report_.race_in_instruction(state.cluster, now.record, lanes, end);
    }
    bool same_clock = true;
    const SharedClock& known = warp.known(machine::first_lane(lanes));
    for_each_lane(lanes, [&](uint32_t lane) { same_clock = same_clock && warp.known(lane) == known; });
    // Where the lanes know different things, the first one stands for all: they agree on the value, and that they are
    // many must not count as a race among them.
    now.record.lanes = lanes;
    now.lanes = same_clock ? lanes : 1u << machine::first_lane(lanes);
    now.known = known.get();
    Outcomes outcomes;
    check_range(state, start, end - start, end - start, now, outcomes);
    note_thread_write(state.cluster, start, end - start);
  }
}

/// Checks an access of a range after the deferred ones that it may race with.
/// @param unit  bytes that a lane touches at once
void RaceCheck::check_range(State& state, uint32_t address, uint32_t bytes, uint32_t unit, const PresentAccess& now,
                            Outcomes& outcomes) {
  const uint32_t rank = address >> machine::kSharedRankShift;
  if (rank >= state.cluster.memory.size()) return;
  const uint32_t offset = address & machine::kSharedOffsetMask;
  const bool may_defer = state.defers_reads && !now.was_deferred;
  const bool catches_up = may_defer && state.interval.concerns(offset, bytes);
  if (catches_up) catch_up(state);
  if (may_defer) state.interval.note(now.record, offset, bytes);
  if (catches_up || outcomes.rank != rank) outcomes = {};
  outcomes.rank = rank;
  state.histories.check(rank, offset, bytes, unit, now, outcomes);
}

void RaceCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  const machine::AsyncOperation& operation = issued.event;
  State& state = states_[cluster];
  const uint32_t number = state.order.warp_number(*operation.fragment);
  PresentAccess now{{PastAccess::kAsynchronous | issued.index, 1u << operation.lane, 0, operation.fragment->pc},
                    number,
                    1u << operation.lane,
                    state.order.known(number, operation.lane).get(),
                    operation.what,
                    issued.together ? &*issued.together : nullptr};
  Outcomes outcomes;
  for (const machine::SharedRange& range : operation.reads) {
    check_range(state, range.address, range.bytes, range.bytes, now, outcomes);
  }
  now.record.pc_and_flags |= PastAccess::kWrites | (operation.updates ? PastAccess::kStrong : 0);
  outcomes = {};
  if (operation.generic_proxy) {
    for (const machine::SharedRange& range : operation.writes) note_thread_write(cluster, range.address, range.bytes);
  }
  for (const machine::SharedRange& range : operation.writes) {
    check_range(state, range.address, range.bytes, range.bytes, now, outcomes);
  }
}

}  // namespace stagecraft::emulator::checks
