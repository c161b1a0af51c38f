#include "emulator/checks/global_memory/global_memory_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "emulator/checks/global_memory/lane_pattern.hpp"

namespace stagecraft::emulator::checks {

using machine::AccessKind;
using machine::AccessOrder;
using machine::AsyncCompletion;
using machine::for_each_lane;
using machine::kAllLanes;
using machine::LaneMask;
using machine::MemoryScope;

namespace {

/// The part of a cell that a lane accesses, which is one of those that do.
struct LanePart {
  uint32_t begin, bytes;
};
LanePart part_of(GlobalEntry entry, uint32_t lane, uint32_t cell_bytes) {
  if (entry.width() == GlobalEntry::kTogether) return {0, cell_bytes};
  const int64_t first = (int64_t{lane} - entry.lane()) * (int64_t{1} << entry.width()) - entry.first_byte();
  const int64_t begin = std::max<int64_t>(first, 0);
  const int64_t end = std::min<int64_t>(first + (int64_t{1} << entry.width()), cell_bytes);
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin)};
}

}  // namespace

GlobalMemoryCheck::State& GlobalMemoryCheck::state_of(ClusterRecord& cluster) {
  State& state = states_[cluster];
  history_->keep_to_limit();
  if (state.forgotten != history_->times_forgotten()) {
    // Numbers of records that are kept here may mean nothing any more.
    state.forgotten = history_->times_forgotten();
    for (WarpState& warp : state.warps) {
      warp.records = {};
      warp.answers = {};
    }
    const auto is_forgotten = [this](uint32_t number) { return number < history_->first_record(); };
    for (auto& [component, stores] : state.bulk_stores) {
      std::erase_if(stores.open, is_forgotten);
      for (std::vector<uint32_t>& group : stores.groups) std::erase_if(group, is_forgotten);
    }
    std::erase_if(state.operations, is_forgotten);
  }
  return state;
}

void GlobalMemoryCheck::cluster_started(ClusterRecord& cluster) {
  const machine::Cluster& started = cluster.cluster();
  const uint32_t warps = cluster.order().warps_per_block();
  const uint32_t number = history_->add_cluster({.work = history_->current_work(),
                                                 .warps_per_block = warps,
                                                 .first_block = started.first_block,
                                                 .shape = started.shape});
  states_.start(cluster, number, static_cast<uint32_t>(cluster.memory.size()) * warps);
  states_[cluster].forgotten = history_->times_forgotten();
  running_[number] = &cluster;
}

void GlobalMemoryCheck::cluster_finished(ClusterRecord& cluster) {
  State& state = state_of(cluster);
  running_.erase(state.number);
  for (const uint32_t number : state.operations) {
    GlobalRecord& record = history_->record(number);
    const Operation& operation = cluster.order().operation(record.agent);
    record.flags |= GlobalRecord::kResolved;
    record.agent = operation.component;
    record.time = operation.time == 0 ? GlobalRecord::kNotEnded : operation.time;
  }
}

uint32_t GlobalMemoryCheck::site_of(const machine::Kernel& kernel, uint32_t pc) {
  if (pc >= sites_.size()) sites_.resize(pc + 1);
  uint32_t& site = sites_[pc];
  if (site == 0) {
    std::string instruction = kernel.describe_instruction(pc), line = kernel.describe_source(pc);
    if (line.empty()) line = instruction;
    site = history_->add_site({std::move(line), std::move(instruction)});
  }
  return site;
}

/// Whether the program looks at the old value that an atomic returns. Compilers write an atomic with a result where
/// the program has none.
bool GlobalMemoryCheck::observes(const machine::Kernel& kernel, uint32_t pc) {
  if (pc >= observes_.size()) observes_.resize(pc + 1);
  if (observes_[pc] == 0) {
    const machine::OpPlace& place = kernel.places[pc];
    const std::vector<ptx::Instruction>& body = place.function->body;
    const ptx::Instruction& atomic = body[place.instruction];
    bool used = false;
    if (!atomic.operands.empty() && atomic.operands[0].kind != ptx::OperandKind::address) {
      visit_registers(atomic.operands[0], [&](ptx::RegisterId result) {
        for (const ptx::Instruction& each : body) {
          if (&each == &atomic) continue;
          used = used || (each.guarded && each.guard == result);
          for (const ptx::Operand& operand : each.operands) {
            visit_registers(operand, [&](ptx::RegisterId read) { used = used || read == result; });
          }
        }
      });
    }
    observes_[pc] = used ? 1 : 2;
  }
  return observes_[pc] == 1;
}

uint32_t GlobalMemoryCheck::record_of(Present& now, LaneMask lanes) {
  // Lanes in two groups use a record each, and the instructions of an unrolled loop are a few apart.
  const uint32_t hash = now.pc * 0x9e3779b1u + lanes * 0x85ebca6bu;
  CachedRecord& cached = now.state.warps[now.warp].records[hash >> 26];
  if (cached.record == 0 || cached.pc != now.pc || cached.time != now.record.time || cached.lanes != lanes) {
    const bool is_same_site = cached.record != 0 && cached.pc == now.pc;
    now.record.site = is_same_site ? cached.site : site_of(now.cluster.kernel(), now.pc);
    now.record.lanes = lanes;
    cached = {now.pc, now.record.time, lanes, now.record.site, history_->add_record(now.record)};
  }
  now.record.site = cached.site;
  now.record.lanes = lanes;
  return cached.record;
}

void GlobalMemoryCheck::memory_accessed(ClusterRecord& cluster, const RecordedAccess& recorded) {
  const machine::MemoryAccess& event = recorded.event;
  if (event.global == nullptr) return;
  State& state = state_of(cluster);
  if (event.kind == AccessKind::read && event.order == AccessOrder::weak && log_read(cluster, state, recorded)) return;
  Present now{.cluster = cluster,
              .state = state,
              .order = cluster.order(),
              .record = {},
              .warp = recorded.warp_number,
              .lanes = event.lanes,
              .pc = event.pc,
              .event = &event};
  now.record.cluster = state.number;
  now.record.agent = now.warp;
  now.record.time = recorded.time;
  if (event.kind != AccessKind::read) now.record.flags |= GlobalRecord::kWrites;
  if (event.order != AccessOrder::weak) now.record.flags |= GlobalRecord::kStrong;
  now.record.scope = event.scope;
  if (event.kind == AccessKind::update && observes(cluster.kernel(), event.pc)) {
    now.record.flags |= GlobalRecord::kObserves;
  }
  begin_access(now);

  // Lanes that follow each other, or that access one place, are checked together.
  const auto width = static_cast<uint8_t>(std::countr_zero(event.bytes));
  const LanePattern pattern = pattern_of(event.global, event.bytes);
  uint32_t row_record = 0;  // of all lanes that follow each other
  const bool is_scattered =
      ((pattern.follows | pattern.repeats) & event.lanes) == 0 && !std::has_single_bit(event.lanes);
  if (is_scattered) {
    check_scattered(now, event, width);
  } else {
    for_each_group(
        event.global, event.lanes, pattern,
        [&](LaneMask lanes, uint64_t address) {
          now.number = record_of(now, lanes);
          check_run(now, address, event.bytes, GlobalEntry{now.number});
        },
        [&](uint32_t first, uint32_t count, uint64_t address) {
          if (row_record == 0) row_record = record_of(now, kAllLanes);
          now.number = row_record;
          now.record.lanes = kAllLanes;
          check_run(now, address, uint64_t{count} * event.bytes, {now.number, static_cast<uint8_t>(first), width});
        });
  }
  if (event.order != AccessOrder::weak) synchronise(now);
}

/// Whether other lanes of the warp have just issued the same bulk store by the same instruction; remembers this one.
bool GlobalMemoryCheck::is_same_store(State& state, const machine::AsyncOperation& event, uint32_t warp, Time time) {
  const auto are_equal = [](const auto& some, const auto& others) {
    return std::ranges::equal(some, others, [](const auto& one, const auto& other) {
      return one.address == other.address && one.bytes == other.bytes;
    });
  };
  SameStore& last = state.last_store;
  const machine::LaneMask lane = 1u << event.lane;
  const bool is_same = last.warp == warp && last.pc == event.fragment->pc && last.time == time && last.lanes != 0 &&
                       (last.lanes & lane) == 0 && are_equal(last.reads, event.reads) &&
                       are_equal(last.global, event.global);
  if (is_same) {
    last.lanes |= lane;
  } else {
    last = {warp, event.fragment->pc, time, lane, event.reads, event.global};
  }
  return is_same;
}

void GlobalMemoryCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  const machine::AsyncOperation& event = issued.event;
  if (event.tensor_map != 0 && !acquired_maps_.contains(event.tensor_map)) check_map(cluster, event);
  if (event.global.empty()) return;
  const bool stores = event.completion == AsyncCompletion::bulk_group;
  if (!stores && event.target != 0) return;  // the targets of a multicast share one read
  State& state = state_of(cluster);
  const uint32_t warp = cluster.order().warp_number(*event.fragment);
  Present now{.cluster = cluster,
              .state = state,
              .order = cluster.order(),
              .record = {},
              .warp = warp,
              .lanes = 1u << event.lane,
              .pc = event.fragment->pc,
              .what = event.what,
              .ranges = &event.global};
  now.record.cluster = state.number;
  now.record.lanes = now.lanes;
  now.record.issuer = warp;
  now.record.site = site_of(cluster.kernel(), now.pc);
  if (!event.generic_proxy) now.record.flags |= GlobalRecord::kAsyncProxy;
  if (stores) {
    now.record.flags |= GlobalRecord::kWrites | GlobalRecord::kBulkStore;
    now.record.agent = warp;
    now.record.time = GlobalRecord::kNotEnded;
    now.is_same_store = is_same_store(state, event, warp, now.order.warp(warp).time);
    if (event.updates) {
      now.record.flags |= GlobalRecord::kStrong;
      now.record.scope = MemoryScope::device;
    }
  } else {
    now.record.flags |= GlobalRecord::kAsync;
    now.record.agent = issued.index;
  }
  now.number = history_->add_record(now.record);
  begin_access(now);
  if (stores) {
    state.bulk_stores[ThreadKnowledge::component_of(warp, event.lane)].open.push_back(now.number);
  } else {
    state.operations.push_back(now.number);
  }
  for (const machine::GlobalRange& range : event.global) {
    if (range.bytes != 0) check_run(now, range.address, range.bytes, GlobalEntry{now.number});
  }
}

void GlobalMemoryCheck::group_changed(ClusterRecord& cluster, const machine::GroupEvent& event) {
  if (!event.bulk) return;
  State& state = state_of(cluster);
  const uint32_t warp = cluster.order().warp_number(*event.fragment);
  const auto found = state.bulk_stores.find(ThreadKnowledge::component_of(warp, event.lane));
  if (found == state.bulk_stores.end()) return;
  BulkStores& stores = found->second;
  if (event.kind == machine::GroupEventKind::commit) {
    stores.groups.push_back(std::exchange(stores.open, {}));
    return;
  }
  if (event.read_only) return;
  while (stores.groups.size() > event.keep) {
    // Who knows of what the thread does from now on knows that they have ended.
    for (const uint32_t number : stores.groups.front()) {
      history_->record(number).time = cluster.order().warp(warp).time;
    }
    stores.groups.pop_front();
  }
}

/// Takes note of an access that comes after all that it could race with, as nearly every one does. Returns false, and
/// has done nothing, where more has to be looked at.
[[gnu::always_inline]] inline bool GlobalMemoryCheck::pass_cell(Present& now, const GlobalAllocation& allocation,
                                                                GlobalCell& cell, GlobalSector& sector, uint32_t mask,
                                                                GlobalEntry entry) {
  // Nobody has written here since the same lanes read it, at the same instruction and the same time of their warp.
  if (cell.reads[0] == entry) return true;
  const bool writes = now.record.is(GlobalRecord::kWrites);
  if (writes && cell.reads[0].record() != 0) return false;
  const bool needs_value = now.event != nullptr ? now.event->kind != AccessKind::write : !writes;
  if (needs_value && allocation.tracks_writes && (mask & ~sector.written) != 0) return false;
  const uint32_t past = cell.write.record();
  const bool strong = now.record.is(GlobalRecord::kStrong);
  if (cell.write.hides()) {
    // What an earlier launch has kept is not there any more, and makes room for that of this one.
    const bool is_kept =
        past >= history_->first_record() && history_->is_of_current_work(history_->record(past).cluster);
    if (!is_kept || !writes || !strong || !cell.write.keeps_no_more()) return false;
  }
  if (past != now.passed && past != 0 && (!writes || past != now.number)) {
    if (!passes(now, past)) return false;
    now.passed = past;
    now.hides_passed = writes && strong && outlasts(now, past);
    now.passed_observes = now.hides_passed && history_->record(past).is(GlobalRecord::kObserves);
  }
  if (!writes) {
    note_read(now, cell, entry);
    return true;
  }
  const bool keeps_no_more = strong && cell.write.keeps_no_more();
  if (now.hides_passed && past == now.passed && (!keeps_no_more || now.passed_observes)) return false;
  cell.write = keeps_no_more ? entry.like(cell.write.hides(), true) : entry;
  cell.reads = {};
  sector.written |= mask;
  return true;
}

/// Whether a write that a strong one replaces matters to accesses that come after that: if it is a weak one, to other
/// strong ones; else to those who know of the new one only. One that has observed what came before ends that.
bool GlobalMemoryCheck::outlasts(const Present& now, uint32_t past) const {
  const GlobalRecord& record = history_->record(past);
  if (!history_->is_of_current_work(record.cluster)) return false;
  if (!record.is(GlobalRecord::kStrong) || record.is(GlobalRecord::kObserves)) return true;
  const Answer* const answer = find_answer(now, past);
  return answer == nullptr || !answer->is_ordered;
}

/// What a cell keeps of a write. Where the write is strong, those that it replaces are kept elsewhere.
GlobalEntry GlobalMemoryCheck::replacing(Present& now, const GlobalCell& cell, uint64_t address, uint32_t bytes,
                                         GlobalEntry entry) {
  const uint32_t past = cell.write.record();
  const bool was_observed = past != 0 && history_->record(past).is(GlobalRecord::kObserves);
  if (!now.record.is(GlobalRecord::kStrong) || was_observed) {
    if (cell.write.hides()) hidden_.drop(address);
    return entry;
  }
  entry = entry.like(cell.write.hides(), cell.write.keeps_no_more());
  if (past == 0 || past == now.number || entry.keeps_no_more() || !outlasts(now, past)) return entry;
  const GlobalRecord& record = history_->record(past);
  const bool strong = record.is(GlobalRecord::kStrong);
  const bool same_lanes = strong && record.cluster == now.state.number && record.agent == now.warp &&
                          record.lanes == now.record.lanes && cell.write.has_pattern_of(entry) &&
                          !record.is(GlobalRecord::kBulkStore);
  if (same_lanes) return entry;
  const LaneMask lanes = cell.write.lanes_of(0, bytes, record.lanes);
  return hidden_.add(
      address,
      {cell.write.like(false, false), record.cluster, record.agent, lanes, static_cast<uint8_t>(bytes), strong},
      cell.write, entry);
}

/// Whether an access cannot race with a past write, and needs no fence after it.
inline bool GlobalMemoryCheck::passes(Present& now, uint32_t past) {
  if (now.record.is(GlobalRecord::kStrong) && are_both_strong(now, history_->record(past))) return true;
  if (!knows_all(now, past)) return false;
  return !now.record.is(GlobalRecord::kAsyncProxy) || find_answer(now, past)->is_visible;
}

[[gnu::always_inline]] inline void GlobalMemoryCheck::note_read(Present& now, GlobalCell& cell, GlobalEntry entry) {
  GlobalEntry& first = cell.reads[0];
  GlobalEntry& last = cell.reads[1];
  if (first.record() != now.asked && first.record() != 0 && first.record() != entry.record()) {
    now.asked = first.record();
    now.is_asked_known = knows_all(now, first.record());
  }
  if (first.record() == 0 || first.record() == entry.record() || now.is_asked_known) {
    first = entry;
    if (last.record() != 0 && knows_all(now, last.record())) last = {};
  } else {
    last = entry;
  }
}

/// Checks bytes that one cell describes.
/// @param offset  of the bytes, which are in the sector of `place`
[[gnu::always_inline]] inline void GlobalMemoryCheck::check_bytes(Present& now, const Place& place, GlobalCell& cell,
                                                                  uint64_t offset, uint32_t bytes, GlobalEntry entry) {
  const uint32_t mask = bytes == kSectorBytes ? ~0u : ((1u << bytes) - 1) << offset % kSectorBytes;
  if (pass_cell(now, *place.allocation, cell, *place.sector, mask, entry)) return;
  check_cell(now, *place.allocation, cell, *place.sector, offset, bytes, entry);
}

/// Checks bytes of one sector, or of a part of it.
[[gnu::always_inline]] inline void GlobalMemoryCheck::check_part(Present& now, const Place& place, uint32_t bytes,
                                                                 GlobalEntry entry) {
  const auto check = [&](GlobalCell & cell, uint64_t at, uint32_t count, GlobalSector&) __attribute__((always_inline)) {
    check_bytes(now, place, cell, at, count, entry.moved(static_cast<uint32_t>(at - place.offset)));
  };
  for_each_cell_of_sector(history_->shadow(), *place.sector, place.offset, bytes, now.record.is(GlobalRecord::kWrites),
                          check);
}

void GlobalMemoryCheck::check_run(Present& now, uint64_t address, uint64_t bytes, GlobalEntry entry) {
  const machine::DeviceMemory& memory = *now.cluster.cluster().grid->memory;
  GlobalShadow& shadow = history_->shadow();
  Place place{};
  for (uint32_t here = 0; bytes != 0; address += here, bytes -= here) {
    if (place.allocation == nullptr || address - place.allocation->address >= place.allocation->size) {
      place.allocation = shadow.find(memory, address);
      if (place.allocation == nullptr) return;
    }
    place.offset = address - place.allocation->address;
    place.sector = &sector_of(*place.allocation, place.offset);
    const uint64_t inside = std::min(kSectorBytes - place.offset % kSectorBytes, place.allocation->size - place.offset);
    here = static_cast<uint32_t>(std::min(inside, bytes));
    check_part(now, place, here, entry);
    entry = entry.moved(here);
  }
}

/// Checks lanes each of which accesses a place of its own. What is remembered of these places is fetched ahead: the
/// host's memory would be waited for with each lane.
void GlobalMemoryCheck::check_scattered(Present& now, const machine::MemoryAccess& event, uint8_t width) {
  const machine::DeviceMemory& memory = *now.cluster.cluster().grid->memory;
  GlobalShadow& shadow = history_->shadow();
  now.number = record_of(now, kAllLanes);
  std::array<Place, machine::kWarpSize> places;
  GlobalAllocation* allocation = nullptr;
  bool are_in_sectors = true;
  for_each_lane(event.lanes, [&](uint32_t lane) {
    places[lane].sector = nullptr;  // it is checked in another way, or not at all
    const uint64_t address = event.global[lane];
    if (allocation == nullptr || address - allocation->address >= allocation->size) {
      allocation = shadow.find(memory, address);
      if (allocation == nullptr) return;
    }
    const uint64_t offset = address - allocation->address;
    const uint64_t left = std::min(kSectorBytes - offset % kSectorBytes, allocation->size - offset);
    are_in_sectors = are_in_sectors && event.bytes <= left;
    if (event.bytes > left) return;
    places[lane] = {allocation, &sector_of(*allocation, offset), offset};
    __builtin_prefetch(places[lane].sector);
  });
  // Cells stay where they are, because a lane splits only what has no cell for it, unless it looks at another page.
  std::array<GlobalCell*, machine::kWarpSize> cells;
  for_each_lane(event.lanes, [&](uint32_t lane) {
    const Place& place = places[lane];
    GlobalCell* const cell =
        place.sector == nullptr ? nullptr : shadow.fetch_part(*place.sector, place.offset, event.bytes);
    cells[lane] = are_in_sectors ? cell : nullptr;
  });
  for_each_lane(event.lanes, [&](uint32_t lane) {
    const Place& place = places[lane];
    const GlobalEntry entry{now.number, static_cast<uint8_t>(lane), width};
    if (cells[lane] != nullptr) return check_bytes(now, place, *cells[lane], place.offset, event.bytes, entry);
    if (place.sector == nullptr) return check_run(now, event.global[lane], event.bytes, entry);
    check_part(now, place, event.bytes, entry);
  });
}

void GlobalMemoryCheck::check_cell(Present& now, GlobalAllocation& allocation, GlobalCell& cell, GlobalSector& sector,
                                   uint64_t offset, uint32_t bytes, GlobalEntry entry) {
  const uint64_t address = allocation.address + offset;
  hold_against(now, allocation, cell, cell.write, offset, bytes, entry);
  if (cell.write.hides()) {
    bool is_any_open = false;
    hidden_.for_each(address, bytes, [&](GlobalEntry past, const HiddenWrite&) {
      if (past.record() < history_->first_record()) return;
      hold_against(now, allocation, cell, past, offset, bytes, entry);
      is_any_open = is_any_open || now.record.is(GlobalRecord::kStrong) || !knows_all(now, past.record());
    });
    // Those of an earlier launch are forgotten, and those that all know make room for later ones.
    if (!is_any_open) {
      hidden_.drop(address);
      cell.write = cell.write.like(false, false);
    }
  }
  const uint32_t mask = bytes == kSectorBytes ? ~0u : ((1u << bytes) - 1) << offset % kSectorBytes;
  if (now.record.is(GlobalRecord::kWrites)) {
    // An atomic reads too.
    if (now.event != nullptr && now.event->kind == AccessKind::update && allocation.tracks_writes &&
        (mask & ~sector.written) != 0) {
      check_written(now, allocation, sector, offset, bytes, entry);
    }
    if (cell.reads[0].record() != 0) {
      if (has_read_before(now, cell, entry.lanes_of(0, bytes, now.record.lanes))) {
        history_->record(now.number).flags |= GlobalRecord::kReadBefore;
        now.record.flags |= GlobalRecord::kReadBefore;
      }
      for (const GlobalEntry read : cell.reads) hold_against(now, allocation, cell, read, offset, bytes, entry);
    }
    cell = {replacing(now, cell, address, bytes, entry), {}};
    sector.written |= mask;
    return;
  }
  if (allocation.tracks_writes && (mask & ~sector.written) != 0) {
    check_written(now, allocation, sector, offset, bytes, entry);
  }
  note_read(now, cell, entry);
}

void GlobalMemoryCheck::hold_against(Present& now, GlobalAllocation& allocation, const GlobalCell& cell,
                                     GlobalEntry past, uint64_t offset, uint32_t bytes, GlobalEntry entry) {
  if (past.record() == 0) return;
  const Answer* const answer = find_answer(now, past.record());
  if (answer != nullptr && answer->is_ordered && !now.record.is(GlobalRecord::kAsyncProxy)) return;
  // Lanes that write to one place in one instruction.
  if (past.record() == now.number && now.record.is(GlobalRecord::kWrites)) return;
  const GlobalRecord& record = history_->record(past.record());
  if (!record.is(GlobalRecord::kWrites) && !now.record.is(GlobalRecord::kWrites)) return;
  const bool by_thread = !record.is(GlobalRecord::kAsync) && !record.is(GlobalRecord::kBulkStore);
  const bool own_warp = record.cluster == now.state.number && record.agent == now.warp && by_thread;
  if (own_warp && now.event != nullptr && past.has_pattern_of(entry) &&
      (past.width() != GlobalEntry::kTogether || std::has_single_bit(record.lanes | now.record.lanes))) {
    return;
  }
  if (are_both_strong(now, record)) return;
  LaneMask racing = 0, past_racing = 0;
  const LaneMask lanes = entry.lanes_of(0, bytes, now.record.lanes);
  if (!knows_all(now, past.record())) {
    for_each_lane(lanes, [&](uint32_t lane) {
      const LanePart part = part_of(entry, lane, bytes);
      const LaneMask past_lanes = past.lanes_of(part.begin, part.bytes, record.lanes);
      if (knows(now, record, past_lanes, 1u << lane)) return;
      racing |= 1u << lane;
      past_racing |= past_lanes;
    });
  }
  if (racing == 0) {
    const bool needs_fence = now.record.is(GlobalRecord::kAsyncProxy) && needs_proxy_fence(record);
    if (needs_fence) check_proxy(now, allocation, record, past.lanes_of(0, bytes, record.lanes), offset, bytes);
    return;
  }
  if (record.is(GlobalRecord::kStrong) && record.is(GlobalRecord::kWrites) &&
      (has_observed(now, cell, racing) || has_observed_later(now, cell, past, racing))) {
    return;
  }
  report_race(now, allocation, record, past_racing, racing, offset, bytes);
}

}  // namespace stagecraft::emulator::checks
