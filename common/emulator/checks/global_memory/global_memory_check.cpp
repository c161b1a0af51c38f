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
LanePart part_of(const GlobalEntry& entry, uint32_t lane, uint32_t cell_bytes) {
  if (entry.width == GlobalEntry::kTogether) return {0, cell_bytes};
  const int64_t first = (int64_t{lane} - entry.lane) * (int64_t{1} << entry.width) - entry.first_byte;
  const int64_t begin = std::max<int64_t>(first, 0);
  const int64_t end = std::min<int64_t>(first + (int64_t{1} << entry.width), cell_bytes);
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end - begin)};
}

/// Whether both say that the same lane accessed each byte.
bool is_same_pattern(const GlobalEntry& one, const GlobalEntry& other) {
  return one.lane == other.lane && one.width == other.width && one.first_byte == other.first_byte;
}

bool knows_lanes(const VectorClock& clock, uint32_t warp, LaneMask lanes, Time time) {
  if (clock.of_warp(warp) >= time) return true;
  for (LaneMask rest = lanes; rest != 0; rest &= rest - 1) {
    if (clock.at(ThreadKnowledge::component_of(warp, machine::first_lane(rest))) < time) return false;
  }
  return lanes != 0;
}

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

GlobalMemoryCheck::State& GlobalMemoryCheck::state_of(ClusterRecord& cluster) {
  State& state = states_[cluster];
  history_->keep_to_limit();
  if (state.forgotten != history_->times_forgotten()) {
    // The numbers of records that are kept here mean nothing any more.
    state.forgotten = history_->times_forgotten();
    for (WarpState& warp : state.warps) {
      warp.records = {};
      warp.answers = {};
    }
    state.bulk_stores.clear();
    state.operations.clear();
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
  const auto [found, fresh] = sites_.try_emplace(pc, 0);
  if (fresh) {
    std::string instruction = kernel.describe_instruction(pc), line = kernel.describe_source(pc);
    if (line.empty()) line = instruction;
    found->second = history_->add_site({std::move(line), std::move(instruction)});
  }
  return found->second;
}

uint32_t GlobalMemoryCheck::record_of(Present& now, LaneMask lanes) {
  // Lanes in two groups use a record each, and the instructions of an unrolled loop are a few apart.
  const uint32_t hash = now.pc * 0x9e3779b1u + lanes * 0x85ebca6bu;
  CachedRecord& cached = now.state.warps[now.warp].records[hash >> 26];
  if (cached.record == 0 || cached.pc != now.pc || cached.time != now.record.time || cached.lanes != lanes) {
    now.record.site = site_of(now.cluster.kernel(), now.pc);
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
  begin_access(now);

  // Lanes that follow each other, or that access one place, are checked together.
  const auto width = static_cast<uint8_t>(std::countr_zero(event.bytes));
  const auto [follows, repeats] = pattern_of(event.global, event.bytes);
  uint32_t row_record = 0;  // of all lanes that follow each other
  for (LaneMask rest = event.lanes; rest != 0;) {
    const uint32_t first = machine::first_lane(rest);
    const uint64_t address = event.global[first];
    if (((repeats & rest) >> first >> 1 & 1) != 0) {
      const LaneMask together = rest & lanes_at(event.global, address);
      rest &= ~together;
      now.number = record_of(now, together);
      check_run(now, address, event.bytes, {.record = now.number});
      continue;
    }
    const auto count = static_cast<uint32_t>(1 + std::countr_one((follows & rest) >> first >> 1));
    rest &= ~((count == machine::kWarpSize ? ~0u : (1u << count) - 1) << first);
    if (row_record == 0) row_record = record_of(now, kAllLanes);
    now.number = row_record;
    now.record.lanes = kAllLanes;
    check_run(now, address, uint64_t{count} * event.bytes, {now.number, static_cast<uint8_t>(first), width, 0});
  }
  if (event.order != AccessOrder::weak) synchronise(now);
}

void GlobalMemoryCheck::operation_issued(ClusterRecord& cluster, const IssuedOperation& issued) {
  const machine::AsyncOperation& event = issued.event;
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
    if (range.bytes != 0) check_run(now, range.address, range.bytes, {.record = now.number});
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

void GlobalMemoryCheck::check_run(Present& now, uint64_t address, uint64_t bytes, GlobalEntry entry) {
  const machine::DeviceMemory& memory = *now.cluster.cluster().grid->memory;
  GlobalShadow& shadow = history_->shadow();
  while (bytes != 0) {
    GlobalAllocation* const allocation = shadow.find(memory, address);
    if (allocation == nullptr) return;
    const uint64_t offset = address - allocation->address;
    const uint64_t inside = std::min(bytes, allocation->size - offset);
    for_each_cell(shadow, *allocation, offset, inside, now.record.is(GlobalRecord::kWrites),
                  [&](GlobalCell& cell, uint64_t at, uint32_t count, GlobalSector& sector) {
                    check_cell(now, *allocation, cell, sector, at, count,
                               entry.moved(static_cast<uint32_t>(at - offset)));
                  });
    entry = entry.moved(static_cast<uint32_t>(inside));
    address += inside;
    bytes -= inside;
  }
}

void GlobalMemoryCheck::check_cell(Present& now, GlobalAllocation& allocation, GlobalCell& cell, GlobalSector& sector,
                                   uint64_t offset, uint32_t bytes, const GlobalEntry& entry) {
  // Nobody has written here since the same lanes read it, at the same instruction and the same time of their warp.
  if (cell.reads[0] == entry) return;
  hold_against(now, allocation, cell, cell.write, offset, bytes, entry);
  const uint32_t mask = bytes == kSectorBytes ? ~0u : ((1u << bytes) - 1) << offset % kSectorBytes;
  if (now.record.is(GlobalRecord::kWrites)) {
    // An atomic reads too.
    if (now.event != nullptr && now.event->kind == AccessKind::update && allocation.tracks_writes &&
        (mask & ~sector.written) != 0) {
      check_written(now, allocation, sector, offset, bytes, entry);
    }
    if (cell.reads[0].record != 0) {
      if (has_read_before(now, cell, entry.lanes_of(0, bytes, now.record.lanes))) {
        history_->record(now.number).flags |= GlobalRecord::kReadBefore;
        now.record.flags |= GlobalRecord::kReadBefore;
      }
      for (const GlobalEntry& read : cell.reads) hold_against(now, allocation, cell, read, offset, bytes, entry);
    }
    cell.write = entry;
    cell.reads = {};
    sector.written |= mask;
    return;
  }
  if (allocation.tracks_writes && (mask & ~sector.written) != 0) {
    check_written(now, allocation, sector, offset, bytes, entry);
  }
  GlobalEntry& first = cell.reads[0];
  GlobalEntry& last = cell.reads[1];
  if (first.record == 0 || first.record == entry.record || knows_all(now, first.record)) {
    first = entry;
    if (last.record != 0 && knows_all(now, last.record)) last = {};
  } else {
    last = entry;
  }
}

bool GlobalMemoryCheck::are_both_strong(const Present& now, const GlobalRecord& past) const {
  if (!past.is(GlobalRecord::kStrong) || !now.record.is(GlobalRecord::kStrong)) return false;
  const MemoryScope least = std::min(past.scope, now.record.scope);
  if (least >= MemoryScope::device || history_->cluster(past.cluster).work != history_->current_work()) return true;
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

bool GlobalMemoryCheck::knows_all(Present& now, uint32_t past) {
  if (const Answer* known = find_answer(now, past)) return known->is_ordered;
  WarpState& warp = now.state.warps[now.warp];
  Answer& answer = warp.answers[past % warp.answers.size()];
  const GlobalRecord& record = history_->record(past);
  // The end of an operation may come to be known without anybody's learning anything.
  const bool is_operation = record.is(GlobalRecord::kAsync) || record.is(GlobalRecord::kBulkStore);
  answer = {past, false, is_operation ? now.access : now.knowledge};
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
  const uint32_t work = history_->cluster(past.cluster).work;
  if (work != history_->current_work()) {
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
  return std::any_of(cell.reads.begin(), cell.reads.end(), [&](const GlobalEntry& read) {
    if (read.record == 0) return false;
    const GlobalRecord& record = history_->record(read.record);
    if (!record.is(GlobalRecord::kStrong) || record.is(GlobalRecord::kAsync)) return false;
    const LaneMask readers = read.lanes_of(0, 1, record.lanes);
    const bool own = record.cluster == now.state.number && record.agent == now.warp && (lanes & ~readers) == 0;
    return own || knows(now, record, readers & (~readers + 1), lanes);
  });
}

bool GlobalMemoryCheck::has_read_before(const Present& now, const GlobalCell& cell, LaneMask lanes) const {
  if (now.record.is(GlobalRecord::kStrong) || now.event == nullptr) return false;
  const std::string& line = history_->site(now.record.site).line;
  return std::any_of(cell.reads.begin(), cell.reads.end(), [&](const GlobalEntry& read) {
    if (read.record == 0) return false;
    const GlobalRecord& record = history_->record(read.record);
    return record.cluster == now.state.number && record.agent == now.warp && !record.is(GlobalRecord::kAsync) &&
           (read.lanes_of(0, 1, record.lanes) & lanes) != 0 && history_->site(record.site).line == line;
  });
}

void GlobalMemoryCheck::hold_against(Present& now, GlobalAllocation& allocation, const GlobalCell& cell,
                                     const GlobalEntry& past, uint64_t offset, uint32_t bytes,
                                     const GlobalEntry& entry) {
  if (past.record == 0) return;
  const Answer* const answer = find_answer(now, past.record);
  if (answer != nullptr && answer->is_ordered && !now.record.is(GlobalRecord::kAsyncProxy)) return;
  // Lanes that write to one place in one instruction.
  if (past.record == now.number && now.record.is(GlobalRecord::kWrites)) return;
  const GlobalRecord& record = history_->record(past.record);
  if (!record.is(GlobalRecord::kWrites) && !now.record.is(GlobalRecord::kWrites)) return;
  const bool by_thread = !record.is(GlobalRecord::kAsync) && !record.is(GlobalRecord::kBulkStore);
  const bool own_warp = record.cluster == now.state.number && record.agent == now.warp && by_thread;
  if (own_warp && now.event != nullptr && is_same_pattern(past, entry) &&
      (past.width != GlobalEntry::kTogether || std::has_single_bit(record.lanes | now.record.lanes))) {
    return;
  }
  if (are_both_strong(now, record)) return;
  LaneMask racing = 0, past_racing = 0;
  const LaneMask lanes = entry.lanes_of(0, bytes, now.record.lanes);
  if (!knows_all(now, past.record)) {
    for_each_lane(lanes, [&](uint32_t lane) {
      const LanePart part = part_of(entry, lane, bytes);
      const LaneMask past_lanes = past.lanes_of(part.begin, part.bytes, record.lanes);
      if (knows(now, record, past_lanes, 1u << lane)) return;
      racing |= 1u << lane;
      past_racing |= past_lanes;
    });
  }
  if (racing == 0) {
    const bool needs_fence = now.record.is(GlobalRecord::kAsyncProxy) && !record.is(GlobalRecord::kAsyncProxy) &&
                             record.is(GlobalRecord::kWrites);
    if (needs_fence) check_proxy(now, allocation, record, past.lanes_of(0, bytes, record.lanes), offset, bytes);
    return;
  }
  if (record.is(GlobalRecord::kStrong) && record.is(GlobalRecord::kWrites) && has_observed(now, cell, racing)) return;
  report_race(now, allocation, record, past_racing, racing, offset, bytes);
}

/// Whether for each of the lanes a fence follows what it did, and comes before the present access. Lanes that fence
/// apart have a fence each.
bool GlobalMemoryCheck::is_fenced(Present& now, const GlobalRecord& past, LaneMask past_lanes) {
  const auto knows_fence = [&](uint32_t cluster, const ProxyFence& fence) {
    if (cluster == now.state.number && fence.warp == now.warp && (fence.lanes & now.lanes) != 0) return true;
    GlobalRecord stand_in{.cluster = cluster, .agent = fence.warp, .time = fence.time};
    return knows(now, stand_in, fence.lanes & (~fence.lanes + 1), now.lanes);
  };
  const bool same_work = history_->cluster(past.cluster).work == history_->current_work();
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
