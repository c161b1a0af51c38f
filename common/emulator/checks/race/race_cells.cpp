// An access against the histories of the bytes that it touches: what it races with, and what is remembered of it.
#include <algorithm>
#include <bit>

#include "emulator/checks/race/race.hpp"

namespace stagecraft::emulator::checks {

using machine::LaneMask;

namespace {

/// Reads by one warp that a history may hold before it is resolved, so that they become one.
constexpr uint32_t kMostAlike = 8;
/// To look for reads that need not be kept costs more than to keep a few.
constexpr size_t kFew = 8;

}  // namespace

/// @param unit  bytes that it touches at once
void RaceCheck::check_range(ClusterState& state, uint32_t address, uint32_t bytes, uint32_t unit, const Present& now,
                            Outcomes& outcomes) {
  const uint32_t rank = address >> machine::kSharedRankShift;
  if (rank >= state.shadows.size()) return;
  const uint32_t offset = address & machine::kSharedOffsetMask;
  const bool on_time = state.has_one_block() && !now.was_put_off;
  const bool behind = on_time && state.interval.concerns(offset, bytes);
  if (behind) catch_up(state);
  if (on_time) state.interval.note(now.record, offset, bytes);
  if (behind || outcomes.rank != rank) outcomes = {};
  outcomes.rank = rank;
  state.shadows[rank].update(offset, bytes, unit, [&](Cells& cells) {
    if (const uint32_t known = outcomes.of(cells.history); known != Outcomes::kNone) return known;
    const uint32_t count = cells.count, before = cells.history;
    lanes_decide_ = false;
    const uint32_t after =
        now.record.writes() ? write(state, rank, cells, now, outcomes.begun) : read(state, rank, cells, now);
    const bool resolved = cells.count != count || state.shadows[rank].history(after).resolved;
    if (!resolved && !lanes_decide_) outcomes.add(before, after);
    return after;
  });
}

/// Whether an access before, which not all know to be over, races with what happens now in one of these cells; reports
/// it.
bool RaceCheck::find_race(ClusterState& state, uint32_t rank, const PastAccess& before, const Cells& cells,
                          const Present& now) {
  const ShadowMemory& shadow = state.shadows[rank];
  if (shadow.is_by_same_threads(before, now.record)) return false;
  lanes_decide_ = true;
  for (uint32_t i = 0; i < cells.count; ++i) {
    const uint32_t offset = cells.offset + i * cells.bytes;
    const PastAccess past = shadow.at(before, offset);
    Present here = now;
    here.record = shadow.at(now.record, offset);
    if (!now.record.is_even()) here.lanes = here.record.lanes;
    if (state.order.knows(past, here.warp, here.lanes, *here.known)) continue;
    report(state, past, here, rank << machine::kSharedRankShift | offset);
    return true;
  }
  return false;
}

/// Later operations of one queue end after earlier ones: knowing the end of the later is enough.
bool RaceCheck::is_superseded(const ClusterState& state, const PastAccess& before, const PastAccess& now) {
  if (!before.is_asynchronous() || !now.is_asynchronous()) return false;
  const Operation &first = state.order.operation(before.operation()), &second = state.order.operation(now.operation());
  return first.component == second.component && first.time != 0 && first.time <= second.time;
}

/// Whether a read races with the writes before it.
void RaceCheck::check_read(ClusterState& state, uint32_t rank, const Cells& cells, const Present& now) {
  const History& before = state.shadows[rank].history(cells.history);
  races(state, rank, before.write, cells, now);
  if (!before.has_unordered_writes) return;
  for (size_t i = 0; i < before.reads.size(); ++i) {
    if (before.reads[i].writes() && races(state, rank, before.reads[i], cells, now)) return;
  }
}

/// The history that the cells have after a read.
uint32_t RaceCheck::read(ClusterState& state, uint32_t rank, Cells& cells, const Present& now) {
  ShadowMemory& shadow = state.shadows[rank];
  const History& before = shadow.history(cells.history);
  const PastAccess& record = now.record;
  bool resolves = before.resolved;
  if (resolves) cells.count = 1;
  const PastAccess here = resolves ? shadow.at(record, cells.offset) : record;
  uint32_t alike = 0;
  if ((before.readers & History::bit_of(record)) != 0) {
    for (const PastAccess& read : before.reads) {
      if (!read.is_like(record)) continue;
      // The common case: a reader that has read this since it last synchronised.
      if (read.time == record.time && shadow.covers(read, here, cells)) return cells.history;
      ++alike;
    }
  }
  check_read(state, rank, cells, now);
  // A cell that is looked at by itself need not be kept together with others.
  resolves = resolves || alike >= kMostAlike || (alike != 0 && cells.count == 1);
  if (resolves) cells.count = 1;
  const uint32_t after = resolves ? shadow.own_resolved(cells) : shadow.own(cells);
  const size_t size = shadow.history(after).reads.size();
  const bool replaces = alike != 0 && !resolves;
  if (size == 1 || (size >= kFew && std::has_single_bit(size)) || replaces) {
    shadow.drop_reads(after, [&](const PastAccess& read) {
      if (read.writes() || read.strong() != record.strong()) return false;
      return is_superseded(state, read, record) || state.order.knows_of_all(read, *now.known) ||
             (replaces && read.is_like(record) && read.time != record.time && shadow.covers(record, read, cells));
    });
  }
  if (resolves) {
    shadow.add_resolved_read(after, shadow.at(record, cells.offset));
  } else {
    shadow.add_read(after, record);
  }
  return after;
}

/// The history that the cells have after a write.
/// @param begun  one that this access has begun elsewhere
uint32_t RaceCheck::write(ClusterState& state, uint32_t rank, Cells& cells, const Present& now, uint32_t& begun) {
  ShadowMemory& shadow = state.shadows[rank];
  const History& before = shadow.history(cells.history);
  // What a strong write is not ordered after still matters to weak accesses to come. And a weak access that it is
  // ordered after matters to strong writes to come, which need not be ordered after this one.
  const auto outlasts = [&](const PastAccess& access) {
    return now.record.strong() && !access.strong() && state.has_one_block() &&
           !state.order.knows_of_all(access, state.interval.known());
  };
  const auto matters = [&](const PastAccess& access) {
    return access.agent != PastAccess::kNobody && (!state.order.knows_of_all(access, *now.known) || outlasts(access));
  };
  bool racing = races(state, rank, before.write, cells, now);
  for (size_t i = 0; i < before.reads.size() && !racing; ++i) racing = races(state, rank, before.reads[i], cells, now);
  if (!now.record.strong() ||
      (!matters(before.write) && std::none_of(before.reads.begin(), before.reads.end(), matters))) {
    if (begun == Outcomes::kNone) begun = shadow.begin(cells, now.record);
    return begun;
  }
  cells.count = 1;
  const uint32_t after = shadow.own_resolved(cells);
  const PastAccess record = shadow.at(now.record, cells.offset);
  const LaneMask lanes = now.record.is_even() ? now.lanes : record.lanes;
  shadow.add_resolved_write(after, record, [&](const PastAccess& access) {
    return matters(access) && (!state.order.knows(access, now.warp, lanes, *now.known) || outlasts(access));
  });
  return after;
}

}  // namespace stagecraft::emulator::checks
