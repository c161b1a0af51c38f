#include "emulator/checks/race/race.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace stagecraft::emulator::checks {

using machine::AccessKind;
using machine::AccessOrder;
using machine::for_each_lane;
using machine::kWarpSize;
using machine::LaneMask;

namespace {

constexpr uint32_t kValueBytes = 32;  // per lane, in MemoryAccess::values

}  // namespace

void RaceCheck::grid_started(machine::Grid& grid) {
  grid_ = &grid;
  clusters_.clear();
  spare_.clear();
  latest_ = nullptr;
  findings_.start(*grid.kernel);
}

void RaceCheck::grid_finished(machine::Grid&) {
  clusters_.clear();
  spare_.clear();
  latest_ = nullptr;
}

void RaceCheck::block_started(machine::Block& block) {
  if (block.rank != 0) return;
  const machine::LaunchRequest& request = *block.cluster->grid->request;
  const auto threads = static_cast<uint32_t>(request.block.count());
  const auto blocks = static_cast<uint32_t>(request.cluster.count());
  if (spare_.empty()) spare_.push_back({std::vector<ShadowMemory>(blocks), {}});
  clusters_[block.cluster] = std::make_unique<ClusterState>(*block.cluster, std::move(spare_.back()), blocks,
                                                            (threads + kWarpSize - 1) / kWarpSize, threads);
  spare_.pop_back();
  latest_ = nullptr;
}

void RaceCheck::block_finished(machine::Block& block) {
  ClusterState* state = state_of(block.cluster);
  if (state == nullptr) return;
  for (const Operation* copy : state->order.bulk_copies_not_waited_for(block.rank)) report_outlived(*state, *copy);
  if (++state->finished_blocks < state->shadows.size()) return;
  for (ShadowMemory& shadow : state->shadows) shadow.clear();
  state->interval.reset();
  spare_.push_back({std::move(state->shadows), std::move(state->interval)});
  clusters_.erase(block.cluster);
  latest_ = nullptr;
}

RaceCheck::ClusterState* RaceCheck::state_of(const machine::Cluster* cluster) {
  if (latest_ != nullptr && latest_->cluster == cluster) return latest_;
  const auto found = clusters_.find(cluster);
  latest_ = found == clusters_.end() ? nullptr : found->second.get();
  return latest_;
}

void RaceCheck::warp_synchronised(machine::Fragment& fragment, LaneMask lanes) {
  if (ClusterState* state = state_of(&fragment.cluster())) {
    state->order.warp_met(state->order.warp_number(fragment), lanes);
  }
}

void RaceCheck::fence(machine::Fragment& fragment, LaneMask lanes, machine::FenceKind kind) {
  ClusterState* state = state_of(&fragment.cluster());
  if (state == nullptr) return;
  note_fence(*state, fragment, lanes, kind);
  if (kind != machine::FenceKind::memory && kind != machine::FenceKind::mbarrier_init) return;
  state->order.fence(state->order.warp_number(fragment), lanes);
}

void RaceCheck::rendezvous(const machine::Rendezvous& event) {
  ClusterState* state = state_of(event.cluster);
  if (state == nullptr) return;
  state->order.rendezvous(event);
  const bool of_cluster = event.of_all && event.block != nullptr && state->has_one_block();
  if (event.kind != machine::RendezvousKind::complete || !of_cluster) return;
  const SharedClock& known = state->order.learnt_at_barrier(event.block->rank, event.number);
  state->interval.begin_next(known, [&](const PastAccess& write) { return state->order.knows_of_all(write, *known); });
}

void RaceCheck::group(const machine::GroupEvent& event) {
  if (ClusterState* state = state_of(&event.fragment->cluster())) state->order.group(event);
}

void RaceCheck::warpgroup_issued(const machine::WarpgroupIssue& event) {
  if (ClusterState* state = state_of(&event.fragment->cluster())) state->order.warpgroup_issued(event);
}

void RaceCheck::warpgroup_waited(const machine::WarpgroupWait& event) {
  if (ClusterState* state = state_of(&event.fragment->cluster())) state->order.warpgroup_waited(event);
}

void RaceCheck::tensor(const machine::TensorEvent& event) {
  if (ClusterState* state = state_of(&event.fragment->cluster())) {
    check_quarter(*state, event);
    // The store of the address is the whole warp's: any of its lanes may read it, or tell others of it.
    if (event.kind == machine::TensorEventKind::allocate) {
      state->order.warp_met(state->order.warp_number(*event.fragment), event.lanes);
    }
    report_tensor(*state, state->tensor_memory.event(state->order, event));
  }
}

void RaceCheck::barrier(const machine::BarrierEvent& event) {
  ClusterState* state = state_of(event.block->cluster);
  if (state == nullptr) return;
  if (event.fragment != nullptr && event.kind != machine::BarrierEventKind::init) check_initialised(*state, event);
  if (event.kind == machine::BarrierEventKind::arrive && event.fragment != nullptr) check_overrun(*state, event);
  state->order.barrier(event);
}

void RaceCheck::check_overrun(ClusterState& state, const machine::BarrierEvent& event) {
  // Lanes that arrive in one instruction do so at once: when some of them end the phase, nobody can have waited for it
  // before the others arrive.
  const BarrierOrder& barrier = state.order.barrier(state.order.barrier_index(event.block->rank, event.offset));
  const bool same_instruction = barrier.arrival_clock == event.fragment->warp->clock &&
                                barrier.arrival_pc == event.fragment->pc &&
                                barrier.arrival_warp == state.order.warp_number(*event.fragment);
  if (!same_instruction || barrier.ends == barrier.arrival_ends || barrier.arrival_clock == 0) return;
  report_overrun(state, event, barrier);
}

void RaceCheck::check_initialised(ClusterState& state, const machine::BarrierEvent& event) {
  const uint32_t index = state.order.find_barrier(event.block->rank, event.offset);
  if (index == ClusterOrder::kNoBarrier) return;
  const BarrierOrder& barrier = state.order.barrier(index);
  if (barrier.initialised.agent == PastAccess::kNobody || event.lanes == 0) return;
  const uint32_t warp = state.order.warp_number(*event.fragment);
  bool known = true;
  for_each_lane(event.lanes, [&](uint32_t lane) {
    known = known && state.order.knows(barrier.initialised, warp, 1u << lane, *state.order.warp(warp).known(lane));
  });
  if (!known) report_uninitialised(state, *event.fragment, event.lanes, barrier);
}

void RaceCheck::cluster_stuck(machine::Cluster& cluster, machine::Diagnostic&) {
  ClusterState* state = state_of(&cluster);
  if (state == nullptr) return;
  report_uncommitted(*state);
  // Something is wrong for certain now; a warp that saw the same phase in two rounds says what.
  const uint32_t warps = static_cast<uint32_t>(state->shadows.size()) * state->order.warps_per_block();
  for (uint32_t warp = 0; warp < warps; ++warp) {
    for (const auto& [index, note] : state->order.warp(warp).waits) {
      if (note.repeated) report_stale(*state, warp, note, state->order.barrier(index));
    }
  }
}

void RaceCheck::access(const machine::MemoryAccess& access) {
  ClusterState* state = state_of(&access.fragment->cluster());
  if (state == nullptr) return;
  if (access.order != AccessOrder::weak) state->order.strong_access(access);
  if (access.shared == nullptr) return;
  // What cooperative groups do in their scratch memory is the toolkit's own affair, and no program can mend it: among
  // the warps of a tile they order it, but lanes of one warp read there after no more than a shuffle.
  const uint32_t first_address = access.shared[machine::first_lane(access.lanes)];
  if ((first_address & machine::kSharedOffsetMask) < machine::kSharedReservedBytes) return;
  const uint32_t number = state->order.warp_number(*access.fragment);
  WarpOrder& warp = state->order.warp(number);
  warp.accessed = true;
  if (access.values != nullptr) return check_overlapping_writes(*state, access, number);

  const uint32_t flags = (access.kind != AccessKind::read ? PastAccess::kWrites : 0) |
                         (access.order != AccessOrder::weak ? PastAccess::kStrong : 0);
  Present now{{number, access.lanes, warp.time, access.pc | flags}, number, 0, nullptr};
  now.changes_nothing = access.changes_nothing;
  if (put_off(*state, access, now.record)) return;
  for (LaneMask rest = access.lanes; rest != 0;) {
    // Those that know the same are looked at together.
    const uint32_t first = machine::first_lane(rest);
    LaneMask together = rest;
    if (!warp.know_alike(rest)) {
      for_each_lane(rest, [&](uint32_t lane) {
        if (warp.known(lane) != warp.known(first)) together &= ~(1u << lane);
      });
    }
    now.known = warp.known(first).get();
    now.record.pc_and_flags = access.pc | flags;
    rest &= ~check_lanes(*state, access, together, now);
  }
}

/// Whether an access need not be looked at until others come that may race with it.
bool RaceCheck::put_off(ClusterState& state, const machine::MemoryAccess& access, const PastAccess& record) {
  // What is written is to be known at once where asynchronous operations may need a fence behind it.
  if (!state.has_one_block() || (record.writes() && grid_->kernel->has_async_proxy)) return false;
  if (state.interval.is_full() && !state.interval.compact()) catch_up(state);
  const WarpOrder& warp = state.order.warp(record.agent);
  const SharedClock* known = warp.know_alike(access.lanes) ? &warp.known(machine::first_lane(access.lanes)) : nullptr;
  return state.interval.put_off({access.shared, access.lanes, access.bytes}, record, known);
}

/// Looks at what was put off.
void RaceCheck::catch_up(ClusterState& state) {
  state.interval.for_each([&](const LateAccess& late, const uint32_t* offsets, const VectorClock& known) {
    Outcomes outcomes;
    Present now{late.access, late.access.agent, late.lanes, &known};
    now.was_put_off = true;
    if (offsets != nullptr) return check_scattered(state, offsets, late.bytes, now, outcomes);
    const auto lanes = static_cast<uint32_t>(std::popcount(late.lanes));
    const uint32_t span = late.access.is_row() ? lanes * late.bytes : late.bytes;
    check_range(state, late.begin, span, late.bytes, now, outcomes);
  });
  state.interval.forget();
}

/// Of lanes that know the same; those that access the same block's memory as the first of them, which it returns.
LaneMask RaceCheck::check_lanes(ClusterState& state, const machine::MemoryAccess& access, LaneMask lanes,
                                Present& now) {
  const WarpAddresses addresses(access.shared, lanes, access.bytes);
  const uint32_t rank = addresses.begin >> machine::kSharedRankShift;
  if (addresses.elsewhere >> machine::kSharedRankShift != 0) {
    LaneMask here = lanes;
    for_each_lane(lanes, [&](uint32_t lane) {
      if (access.shared[lane] >> machine::kSharedRankShift != rank) here &= ~(1u << lane);
    });
    return check_lanes(state, access, here, now);
  }
  if (rank >= state.shadows.size()) return lanes;
  Outcomes outcomes;
  now.record.lanes = now.lanes = lanes;
  if (!addresses.is_one_place() && !addresses.is_row()) {
    check_scattered(state, access.shared, access.bytes, now, outcomes);
    return lanes;
  }
  uint32_t span = access.bytes;
  if (addresses.is_row()) {
    addresses.make_row(now.record);
    span += addresses.bytes_behind_first();
  }
  check_range(state, addresses.begin, span, access.bytes, now, outcomes);
  if (now.record.writes()) note_thread_write(state, addresses.begin, span);
  return lanes;
}

/// Of lanes whose addresses are neither one nor a row.
void RaceCheck::check_scattered(ClusterState& state, const uint32_t* addresses, uint32_t bytes, Present& now,
                                Outcomes& outcomes) {
  const LaneMask lanes = now.lanes;
  const uint32_t first = machine::first_lane(lanes);
  ShadowMemory& shadow = state.shadows[addresses[first] >> machine::kSharedRankShift];
  // Lanes that continue the one before, and those that do the same as it, are one range with it.
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
    const LaneMask behind = lane + 1 == kWarpSize ? 0 : (starts | ~lanes) >> (lane + 1) << (lane + 1);
    const uint32_t last = behind == 0 ? kWarpSize - 1 : machine::first_lane(behind) - 1;
    const uint32_t span = addresses[last] + bytes - addresses[lane];
    check_range(state, addresses[lane], span, bytes, now, outcomes);
    if (now.record.writes()) note_thread_write(state, addresses[lane], span);
  });
  shadow.drop(now.record);
}

void RaceCheck::check_overlapping_writes(ClusterState& state, const machine::MemoryAccess& access, uint32_t number) {
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
      const std::byte value = access.values[lane * kValueBytes + i];
      if (writers.lanes == 0) writers.value = value;
      writers.agree = writers.agree && writers.value == value;
      writers.lanes |= 1u << lane;
    }
  });
  const WarpOrder& warp = state.order.warp(number);
  Present now{{number, 0, warp.time, access.pc | PastAccess::kWrites}, number, 0, nullptr};
  now.changes_nothing = access.changes_nothing;
  for (auto byte = bytes.begin(); byte != bytes.end();) {
    // Runs of bytes with the same writers.
    const uint32_t start = byte->first;
    const LaneMask lanes = byte->second.lanes;
    uint32_t end = start;
    for (; byte != bytes.end() && byte->first == end && byte->second.lanes == lanes; ++byte, ++end) {
      if (byte->second.agree) continue;
      now.record.lanes = lanes;
      report_same_instruction(state, now.record, lanes, end);
    }
    bool same_clock = true;
    const SharedClock& known = warp.known(machine::first_lane(lanes));
    for_each_lane(lanes, [&](uint32_t lane) { same_clock = same_clock && warp.known(lane) == known; });
    // Lanes with different knowledge are looked at one after the other, as if they wrote in turn; that they are many
    // must not count against them, so the first one's record stands for all.
    now.record.lanes = lanes;
    now.lanes = same_clock ? lanes : 1u << machine::first_lane(lanes);
    now.known = known.get();
    Outcomes outcomes;
    check_range(state, start, end - start, end - start, now, outcomes);
    note_thread_write(state, start, end - start);
  }
}

void RaceCheck::issued(const machine::AsyncOperation& operation) {
  ClusterState* state = state_of(&operation.fragment->cluster());
  if (state == nullptr) return;
  const uint32_t number = state->order.warp_number(*operation.fragment);
  const SharedClock known = state->order.warp(number).known(operation.lane);
  const bool collective = operation.completion == machine::AsyncCompletion::warpgroup;
  const VectorClock together = collective ? state->order.take_warpgroup_issue(*operation.fragment) : VectorClock();
  const uint32_t index = state->order.issue(operation);
  check_proxies(*state, operation);
  report_tensor(*state, state->tensor_memory.issued(state->order, operation, index));
  note_commits(*state, operation);
  Present now{{PastAccess::kAsynchronous | index, 1u << operation.lane, 0, operation.fragment->pc},
              number,
              1u << operation.lane,
              known.get(),
              operation.what,
              collective ? &together : nullptr};
  Outcomes outcomes;
  for (const machine::SharedRange& range : operation.reads) {
    check_range(*state, range.address, range.bytes, range.bytes, now, outcomes);
  }
  now.record.pc_and_flags |= PastAccess::kWrites | (operation.updates ? PastAccess::kStrong : 0);
  outcomes = {};
  if (operation.generic_proxy) {
    for (const machine::SharedRange& range : operation.writes) note_thread_write(*state, range.address, range.bytes);
  }
  for (const machine::SharedRange& range : operation.writes) {
    check_range(*state, range.address, range.bytes, range.bytes, now, outcomes);
  }
}

}  // namespace stagecraft::emulator::checks
