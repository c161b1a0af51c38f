#include "emulator/checks/race.hpp"

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
  latest_ = nullptr;
  findings_.start(*grid.kernel);
}

void RaceCheck::grid_finished(machine::Grid&) {
  clusters_.clear();
  latest_ = nullptr;
}

void RaceCheck::block_started(machine::Block& block) {
  if (block.rank != 0) return;
  const machine::LaunchRequest& request = *block.cluster->grid->request;
  const auto threads = static_cast<uint32_t>(request.block.count());
  clusters_[block.cluster] = std::make_unique<ClusterState>(
      *block.cluster, static_cast<uint32_t>(request.cluster.count()), (threads + kWarpSize - 1) / kWarpSize, threads);
  latest_ = nullptr;
}

void RaceCheck::block_finished(machine::Block& block) {
  ClusterState* state = state_of(block.cluster);
  if (state == nullptr) return;
  for (const Operation* copy : state->order.bulk_copies_not_waited_for(block.rank)) report_outlived(*state, *copy);
  if (++state->finished_blocks < state->shadows.size()) return;
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
  if (ClusterState* state = state_of(event.cluster)) state->order.rendezvous(event);
}

void RaceCheck::group(const machine::GroupEvent& event) {
  if (ClusterState* state = state_of(&event.fragment->cluster())) state->order.group(event);
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
    known = known && state.order.knows(barrier.initialised, warp, 1u << lane, *state.order.warp(warp).known[lane]);
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
  if (!access.shared) return;
  // What cooperative groups do in their scratch memory is the toolkit's own affair, and no program can mend it: among
  // the warps of a tile they order it, but lanes of one warp read there after no more than a shuffle.
  const uint64_t first_address = access.addresses[machine::first_lane(access.lanes)];
  if ((first_address & machine::kSharedOffsetMask) < machine::kSharedReservedBytes) return;
  const uint32_t number = state->order.warp_number(*access.fragment);
  WarpOrder& warp = state->order.warp(number);
  warp.accessed = true;
  if (access.values != nullptr) return check_overlapping_writes(*state, access, number);

  const uint32_t flags = (access.kind != AccessKind::read ? PastAccess::kWrites : 0) |
                         (access.order != AccessOrder::weak ? PastAccess::kStrong : 0);
  Present now{{number, 0, warp.time, access.pc | flags}, number, 0, nullptr};
  LaneMask lanes = access.lanes;
  while (lanes != 0) {
    // Neighbours that access the same place and know the same are one.
    const uint32_t first = machine::first_lane(lanes);
    const uint64_t address = access.addresses[first];
    const VectorClock* known = warp.known[first].get();
    LaneMask together = 0;
    uint32_t lane = first;
    for (; lane < kWarpSize && (lanes >> lane & 1) != 0; ++lane) {
      if (access.addresses[lane] != address || warp.known[lane].get() != known) break;
      together |= 1u << lane;
    }
    lanes &= ~together;
    now.record.lanes = now.lanes = together;
    now.known = known;
    check_range(*state, address, access.bytes, now);
    if (now.record.writes()) note_thread_write(*state, static_cast<uint32_t>(address), access.bytes);
  }
}

void RaceCheck::check_overlapping_writes(ClusterState& state, const machine::MemoryAccess& access, uint32_t number) {
  // Byte by byte: the lanes that write it, and whether they agree.
  struct Writers {
    LaneMask lanes = 0;
    std::byte value{};
    bool agree = true;
  };
  std::map<uint64_t, Writers> bytes;
  for_each_lane(access.lanes, [&](uint32_t lane) {
    for (uint32_t i = 0; i < access.bytes; ++i) {
      Writers& writers = bytes[access.addresses[lane] + i];
      const std::byte value = access.values[lane * kValueBytes + i];
      if (writers.lanes == 0) writers.value = value;
      writers.agree = writers.agree && writers.value == value;
      writers.lanes |= 1u << lane;
    }
  });
  const WarpOrder& warp = state.order.warp(number);
  Present now{{number, 0, warp.time, access.pc | PastAccess::kWrites}, number, 0, nullptr};
  for (auto byte = bytes.begin(); byte != bytes.end();) {
    // Runs of bytes with the same writers.
    const uint64_t start = byte->first;
    const LaneMask lanes = byte->second.lanes;
    uint64_t end = start;
    for (; byte != bytes.end() && byte->first == end && byte->second.lanes == lanes; ++byte, ++end) {
      if (byte->second.agree) continue;
      now.record.lanes = lanes;
      report_same_instruction(state, now.record, lanes, static_cast<uint32_t>(end));
    }
    bool same_clock = true;
    const SharedClock& known = warp.known[machine::first_lane(lanes)];
    for_each_lane(lanes, [&](uint32_t lane) { same_clock = same_clock && warp.known[lane] == known; });
    // Lanes with different knowledge are looked at one after the other, as if they wrote in turn; that they are many
    // must not count against them, so the first one's record stands for all.
    now.record.lanes = lanes;
    now.lanes = same_clock ? lanes : 1u << machine::first_lane(lanes);
    now.known = known.get();
    check_range(state, start, static_cast<uint32_t>(end - start), now);
    note_thread_write(state, static_cast<uint32_t>(start), static_cast<uint32_t>(end - start));
  }
}

void RaceCheck::issued(const machine::AsyncOperation& operation) {
  ClusterState* state = state_of(&operation.fragment->cluster());
  if (state == nullptr) return;
  const uint32_t number = state->order.warp_number(*operation.fragment);
  const SharedClock known = state->order.warp(number).known[operation.lane];
  const uint32_t index = state->order.issue(operation);
  check_proxies(*state, operation);
  report_tensor(*state, state->tensor_memory.issued(state->order, operation, index));
  note_commits(*state, operation);
  Present now{{PastAccess::kAsynchronous | index, 1u << operation.lane, 0, operation.fragment->pc},
              number,
              1u << operation.lane,
              known.get(),
              operation.what};
  for (const machine::SharedRange& range : operation.reads) check_range(*state, range.address, range.bytes, now);
  now.record.pc_and_flags |= PastAccess::kWrites | (operation.updates ? PastAccess::kStrong : 0);
  now.has_case = false;
  if (operation.generic_proxy) {
    for (const machine::SharedRange& range : operation.writes) note_thread_write(*state, range.address, range.bytes);
  }
  for (const machine::SharedRange& range : operation.writes) check_range(*state, range.address, range.bytes, now);
}

void RaceCheck::check_range(ClusterState& state, uint64_t address, uint32_t bytes, const Present& now) {
  const auto rank = static_cast<uint32_t>(address >> machine::kSharedRankShift);
  if (rank >= state.shadows.size()) return;
  ShadowMemory& shadow = state.shadows[rank];
  auto offset = static_cast<uint32_t>(address) & machine::kSharedOffsetMask;
  const uint32_t base = rank << machine::kSharedRankShift;
  while (bytes > 0) {
    const uint32_t inside = offset % ShadowMemory::kCellBytes;
    const uint32_t count = std::min(bytes, ShadowMemory::kCellBytes - inside);
    ShadowCell& cell = shadow.cell(offset);
    if (now.has_case && count == ShadowMemory::kCellBytes) {
      // As long as the cells are in the case of the one before.
      const uint32_t most = std::min(bytes, ShadowMemory::kPageBytes - offset % ShadowMemory::kPageBytes);
      ShadowCell *each = &cell, *const end = each + most / ShadowMemory::kCellBytes;
      while (each != end && *each == now.cell_before) *each++ = now.cell_after;
      const auto done = static_cast<uint32_t>(each - &cell) * ShadowMemory::kCellBytes;
      offset += done;
      bytes -= done;
      if (done != 0) continue;
    }
    if (count == ShadowMemory::kCellBytes && cell.write.agent != PastAccess::kByBytes) {
      const ShadowCell before = cell;
      check_single(state, shadow, cell, now, base + offset);
      // A list of reads is one cell's own.
      now.has_case = now.record.is_asynchronous() && before.read.agent != PastAccess::kSeveral &&
                     cell.read.agent != PastAccess::kSeveral;
      now.cell_before = before;
      now.cell_after = cell;
    } else {
      check_cell(state, shadow, cell, ((1u << count) - 1) << inside, now, base + offset - inside);
    }
    offset += count;
    bytes -= count;
  }
}

void RaceCheck::check_cell(ClusterState& state, ShadowMemory& shadow, ShadowCell& cell, uint32_t bytes,
                           const Present& now, uint32_t address) {
  // Until accesses of single bytes differ, the cell stands for all four.
  auto& each = shadow.bytes_of(cell);
  for (uint32_t byte = 0; byte < ShadowMemory::kCellBytes; ++byte) {
    if ((bytes >> byte & 1) != 0) check_single(state, shadow, each[byte], now, address + byte);
  }
}

/// Later operations of one queue end after earlier ones: knowing the end of the later is enough.
bool RaceCheck::is_superseded(const ClusterState& state, const PastAccess& before, const PastAccess& now) {
  if (!before.is_asynchronous() || !now.is_asynchronous()) return false;
  const Operation &first = state.order.operation(before.operation()), &second = state.order.operation(now.operation());
  return first.component == second.component && first.time != 0 && first.time <= second.time;
}

void RaceCheck::add_read(ClusterState& state, std::vector<PastAccess>& reads, const Present& now, uint32_t address) {
  const PastAccess& record = now.record;
  constexpr uint32_t kFlags = ~PastAccess::kPcMask;
  for (PastAccess& before : reads) {
    if (before.writes()) {
      if ((before.strong() && record.strong()) || state.order.knows(before, now.warp, now.lanes, *now.known)) continue;
      return report(state, before, now, address);
    }
    if (before.agent != record.agent || ((before.pc_and_flags ^ record.pc_and_flags) & kFlags) != 0) continue;
    if (before.time == record.time) {
      before.lanes |= record.lanes;
      return;
    }
    if (before.lanes == record.lanes && std::has_single_bit(record.lanes)) {  // the same thread, later
      before = record;
      return;
    }
  }
  // Reads that happened before this one need not be kept. To look for them costs more than to keep a few, so that is
  // done when the list has doubled.
  constexpr size_t kFew = 8;
  if (reads.size() >= kFew && std::has_single_bit(reads.size())) {
    std::erase_if(reads, [&](const PastAccess& before) {
      return !before.writes() && before.strong() == record.strong() &&
             (is_superseded(state, before, record) || state.order.knows(before, now.warp, now.lanes, *now.known));
    });
  }
  reads.push_back(record);
}

void RaceCheck::check_single(ClusterState& state, ShadowMemory& shadow, ShadowCell& cell, const Present& now,
                             uint32_t address) {
  const PastAccess& record = now.record;
  const auto harmless = [&](const PastAccess& before) {
    return (before.strong() && record.strong()) ||
           (before.agent == PastAccess::kNobody || state.order.knows(before, now.warp, now.lanes, *now.known));
  };
  const auto same_time = [&](const PastAccess& before) {
    return before.agent == record.agent && before.time == record.time &&
           ((before.pc_and_flags ^ record.pc_and_flags) & ~PastAccess::kPcMask) == 0;
  };

  if (!record.writes()) {
    // The common case: a reader that has read this since it last synchronised.
    if (same_time(cell.read) && (record.lanes & ~cell.read.lanes) == 0) return;
    if (!harmless(cell.write)) report(state, cell.write, now, address);
    if (cell.read.agent == PastAccess::kNobody) {
      cell.read = record;
      return;
    }
    if (cell.read.agent != PastAccess::kSeveral) {
      if (same_time(cell.read)) {
        cell.read.lanes |= record.lanes;
        return;
      }
      if (cell.read.writes()) {
        if (!harmless(cell.read)) report(state, cell.read, now, address);
      } else if (cell.read.strong() == record.strong() &&
                 (is_superseded(state, cell.read, record) ||
                  state.order.knows(cell.read, now.warp, now.lanes, *now.known))) {
        cell.read = record;
        return;
      }
      shadow.make_several(cell).push_back(record);
      return;
    }
    add_read(state, shadow.several(cell.read), now, address);
    return;
  }

  bool racing = false;
  const auto look_at = [&](const PastAccess& before) {
    if (racing || harmless(before)) return;
    racing = true;
    report(state, before, now, address);
  };
  look_at(cell.write);
  if (cell.read.agent == PastAccess::kSeveral) {
    const std::vector<PastAccess>& reads = shadow.several(cell.read);
    for (size_t i = 0; i < reads.size(); ++i) look_at(reads[i]);
  } else {
    look_at(cell.read);
  }
  if (!record.strong()) {
    shadow.clear_reads(cell);
    cell.write = record;
    return;
  }
  // What a strong write is not ordered after still matters to weak accesses to come.
  const auto keep = [&](const PastAccess& before) {
    return before.agent != PastAccess::kNobody && !state.order.knows(before, now.warp, now.lanes, *now.known);
  };
  if (same_time(cell.write)) {
    cell.write.lanes |= record.lanes;
    return;
  }
  const PastAccess old_write = cell.write;
  cell.write = record;
  if (!keep(old_write) && cell.read.agent == PastAccess::kNobody) return;
  std::vector<PastAccess>& others =
      cell.read.agent == PastAccess::kSeveral ? shadow.several(cell.read) : shadow.make_several(cell);
  std::erase_if(others, [&](const PastAccess& before) { return !keep(before); });
  if (keep(old_write)) others.push_back(old_write);
  if (others.empty()) shadow.clear_reads(cell);
}

}  // namespace stagecraft::emulator::checks
