#include "emulator/checks/race/history_check.hpp"

#include <algorithm>
#include <bit>

namespace stagecraft::emulator::checks {

using machine::LaneMask;

namespace {

/// Reads by one warp that a history may hold before it is resolved, which merges them.
constexpr uint32_t kMostAlike = 8;
/// A search for reads that need not be kept costs more than keeping a few.
constexpr size_t kFew = 8;

}  // namespace

void HistoryCheck::check(uint32_t rank, uint32_t offset, uint32_t bytes, uint32_t unit, const PresentAccess& now,
                         Outcomes& outcomes) {
  ShadowMemory& shadow = cluster_.memory[rank];
  shadow.update(offset, bytes, unit, [&](Cells& cells) {
    if (const uint32_t known = outcomes.of(cells.history); known != Outcomes::kNone) return known;
    const uint32_t count = cells.count, before = cells.history;
    lanes_decide_ = false;
    const uint32_t after = now.record.writes() ? write(rank, cells, now, outcomes.begun) : read(rank, cells, now);
    const bool resolved = cells.count != count || shadow.history(after).resolved;
    if (!resolved && !lanes_decide_) outcomes.add(before, after);
    return after;
  });
}

/// Whether an earlier access, which not all lanes know to be over, races with the present one in one of these cells. A
/// race is reported.
bool HistoryCheck::find_race(uint32_t rank, const PastAccess& before, const Cells& cells, const PresentAccess& now) {
  const ShadowMemory& shadow = cluster_.memory[rank];
  if (shadow.is_by_same_threads(before, now.record)) return false;
  lanes_decide_ = true;
  for (uint32_t i = 0; i < cells.count; ++i) {
    const uint32_t offset = cells.offset + i * cells.bytes;
    const PastAccess past = shadow.at(before, offset);
    PresentAccess here = now;
    here.record = shadow.at(now.record, offset);
    if (!now.record.is_even()) here.lanes = here.record.lanes;
    if (order_.knows(past, here.warp, here.lanes, *here.known)) continue;
    const bool is_of_warp = !past.writes() && past.agent == here.record.agent;
    if (is_of_warp && order_.is_exchanged_before(past, here.record.time, here.lanes, cluster_.kernel())) continue;
    report_.race(cluster_, past, here, rank << machine::kSharedRankShift | offset);
    return true;
  }
  return false;
}

/// Whether to know the end of `now` is to know that of `before`: operations of one queue end in the order of issue.
bool HistoryCheck::is_superseded(const PastAccess& before, const PastAccess& now) const {
  if (!before.is_asynchronous() || !now.is_asynchronous()) return false;
  const Operation &first = order_.operation(before.operation()), &second = order_.operation(now.operation());
  return first.component == second.component && first.time != 0 && first.time <= second.time;
}

/// Whether a read races with the writes before it.
void HistoryCheck::check_read(uint32_t rank, const Cells& cells, const PresentAccess& now) {
  const History& before = cluster_.memory[rank].history(cells.history);
  races(rank, before.write, cells, now);
  if (!before.has_unordered_writes) return;
  for (size_t i = 0; i < before.reads.size(); ++i) {
    if (before.reads[i].writes() && races(rank, before.reads[i], cells, now)) return;
  }
}

/// Returns the history that the cells have after a read.
uint32_t HistoryCheck::read(uint32_t rank, Cells& cells, const PresentAccess& now) {
  ShadowMemory& shadow = cluster_.memory[rank];
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
  check_read(rank, cells, now);
  // A cell that is visited alone need not share its history with others.
  resolves = resolves || alike >= kMostAlike || (alike != 0 && cells.count == 1);
  if (resolves) cells.count = 1;
  const uint32_t after = resolves ? shadow.own_resolved(cells) : shadow.own(cells);
  const size_t size = shadow.history(after).reads.size();
  const bool replaces = alike != 0 && !resolves;
  if (size == 1 || (size >= kFew && std::has_single_bit(size)) || replaces) {
    shadow.drop_reads(after, [&](const PastAccess& read) {
      if (read.writes() || read.strong() != record.strong()) return false;
      return is_superseded(read, record) || order_.knows_of_all(read, *now.known) ||
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

/// Returns the history that the cells have after a write.
/// @param begun  the history that this access has begun elsewhere, if any
uint32_t HistoryCheck::write(uint32_t rank, Cells& cells, const PresentAccess& now, uint32_t& begun) {
  ShadowMemory& shadow = cluster_.memory[rank];
  const History& before = shadow.history(cells.history);
  // An access that is not ordered before a strong write still matters to later weak accesses. And a weak access that
  // is ordered before it matters to later strong writes, which need not be ordered after this one.
  const auto outlasts = [&](const PastAccess& access) {
    return now.record.strong() && !access.strong() && cluster_.has_one_block() &&
           !order_.knows_of_all(access, interval_.known());
  };
  const auto matters = [&](const PastAccess& access) {
    return access.agent != PastAccess::kNobody && (!order_.knows_of_all(access, *now.known) || outlasts(access));
  };
  bool racing = races(rank, before.write, cells, now);
  // Other warps may race too, and need a stronger barrier than the lanes of one.
  bool across_warps = racing && before.write.agent != now.record.agent;
  for (size_t i = 0; i < before.reads.size() && !across_warps; ++i) {
    if (!races(rank, before.reads[i], cells, now)) continue;
    racing = true;
    across_warps = before.reads[i].agent != now.record.agent;
  }
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
    return matters(access) && (!order_.knows(access, now.warp, lanes, *now.known) || outlasts(access));
  });
  return after;
}

}  // namespace stagecraft::emulator::checks
