#include "emulator/checks/tensor_memory/tensor_order.hpp"

#include <algorithm>
#include <unordered_map>

namespace stagecraft::emulator::checks {

using machine::for_each_lane;
using machine::kWarpSize;
using machine::LaneMask;
using machine::TensorEventKind;
using machine::TensorRange;

namespace {

bool is_empty(const TensorRange& range) { return range.lanes == 0 || range.columns == 0; }

TensorRange common_part(const TensorRange& a, const TensorRange& b) {
  const uint32_t first = std::max(a.column, b.column);
  const uint32_t end = std::min(a.column + a.columns, b.column + b.columns);
  return {first, end > first ? end - first : 0, a.lanes & b.lanes};
}

/// The parts of `range` outside `inner`, which is inside it.
std::array<TensorRange, 3> rest_of(const TensorRange& range, const TensorRange& inner) {
  const uint32_t end = inner.column + inner.columns;
  return {TensorRange{range.column, range.columns, range.lanes & ~inner.lanes},
          TensorRange{range.column, inner.column - range.column, inner.lanes},
          TensorRange{end, range.column + range.columns - end, inner.lanes}};
}

/// A store is executed when the registers of its values are there: loads that have filled them all have ended.
void drop_ended_loads(const std::unordered_map<uint32_t, std::vector<uint32_t>>& ended_loads, const TensorAccess& store,
                      std::vector<TensorConflict>& conflicts) {
  const auto ended = ended_loads.find(store.pc);
  if (ended == ended_loads.end()) return;
  std::erase_if(conflicts, [&](const TensorConflict& conflict) {
    return conflict.before.kind == TensorAccessKind::load && conflict.before.warp == store.warp &&
           std::find(ended->second.begin(), ended->second.end(), conflict.before.pc) != ended->second.end();
  });
}

bool is_same_reader(const TensorAccess& a, const TensorAccess& b) {
  return a.kind == b.kind && a.warp == b.warp && a.lanes == b.lanes;
}

}  // namespace

Time TensorOrder::end_of(const TensorAccess& access) const {
  const WarpState& warp = warps_[access.warp];
  const std::vector<Wait>& waits = access.kind == TensorAccessKind::load ? warp.load_waits : warp.store_waits;
  const auto found = std::lower_bound(waits.begin(), waits.end(), access.number,
                                      [](const Wait& wait, uint32_t number) { return wait.count < number; });
  return found == waits.end() ? 0 : found->time;
}

/// Asks whether `holds` for what each lane knew at its last fence::after_thread_sync. Where it holds only for what the
/// lane knows now, the fence is missing.
template <typename Holds>
std::optional<TensorFlaw> TensorOrder::require(const ClusterOrder& order, const TensorAccess& now, TensorFlaw otherwise,
                                               Holds holds) const {
  const WarpState& warp = warps_[now.warp];
  std::optional<TensorFlaw> flaw;
  const VectorClock *last_known = nullptr, *last_fenced = nullptr;
  bool known_fails = false;
  for_each_lane(now.lanes, [&](uint32_t lane) {
    const VectorClock* known = order.known_executed(now.warp, lane).get();
    const VectorClock* fenced = warp.fenced[lane].get();
    if (known_fails || (known == last_known && fenced == last_fenced)) return;
    last_known = known;
    last_fenced = fenced;
    if (fenced != nullptr && holds(*fenced)) return;
    known_fails = !holds(*known);
    if (!known_fails && now.kind != TensorAccessKind::release) flaw = TensorFlaw::fence_after;
  });
  return known_fails ? std::optional(otherwise) : flaw;
}

std::optional<TensorFlaw> TensorOrder::flaw_between(const ClusterOrder& order, const TensorAccess& before,
                                                    const TensorAccess& now) const {
  if (before.kind != TensorAccessKind::operation) {
    const Time end = end_of(before);
    if (end == 0) {
      // Stores of one warp to the same cells keep their order.
      const bool stores = before.kind == TensorAccessKind::store && now.kind == TensorAccessKind::store;
      return stores && before.warp == now.warp ? std::nullopt : std::optional(TensorFlaw::not_waited);
    }
    if (before.warp == now.warp) return std::nullopt;
    return require(order, now, TensorFlaw::unordered, [&](const VectorClock& known) {
      // They are operations of the whole warp, and so are their ends: any lane can pass them on after the wait.
      bool any = false;
      for_each_lane(before.lanes, [&](uint32_t lane) { any = any || known.at(before.warp * kWarpSize + lane) >= end; });
      return any;
    });
  }
  const Operation& operation = order.operation(before.number);
  const auto has_ended = [&](const VectorClock& known) { return known.at(operation.component) >= operation.time; };
  if (now.kind != TensorAccessKind::operation) return require(order, now, TensorFlaw::not_ended, has_ended);

  // The tensor unit executes operations in the order of issue, by one thread or by several that hand over.
  if (before.warp == now.warp && before.lanes == now.lanes) return std::nullopt;
  const uint32_t component = before.warp * kWarpSize + machine::first_lane(before.lanes);
  const auto was_handed_over = [&](const VectorClock& known) {
    if (has_ended(known)) return true;
    const auto& fences = warps_[before.warp].fences_before;
    return std::any_of(fences.begin(), fences.end(), [&](const auto& fence) {
      return fence.first > before.time && fence.first <= known.at(component) && (fence.second & before.lanes) != 0;
    });
  };
  const std::optional<TensorFlaw> flaw = require(order, now, TensorFlaw::unordered, was_handed_over);
  if (flaw != TensorFlaw::unordered) return flaw;
  const VectorClock& known = *order.known_executed(now.warp, machine::first_lane(now.lanes));
  return known.at(component) >= before.time ? TensorFlaw::fence_before : TensorFlaw::unordered;
}

void TensorOrder::access(const ClusterOrder& order, uint32_t rank, const TensorRange& range, const TensorAccess& now,
                         std::vector<TensorConflict>& conflicts) {
  std::vector<Region>& regions = regions_[rank];
  const auto look_at = [&](const TensorAccess& before, const TensorRange& where) {
    if (before.kind == TensorAccessKind::nothing || (!before.writes && !now.writes)) return;
    if (const auto flaw = flaw_between(order, before, now)) conflicts.push_back({*flaw, before, now, where, rank});
  };
  const size_t count = regions.size();
  for (size_t i = 0; i < count; ++i) {
    const TensorRange inner = common_part(regions[i].range, range);
    if (is_empty(inner)) continue;
    look_at(regions[i].write, inner);
    if (now.writes) {
      for (const TensorAccess& read : regions[i].reads) look_at(read, inner);
    }
    // The parts outside become regions of their own, with the same accesses.
    for (const TensorRange& outer : rest_of(regions[i].range, inner)) {
      if (is_empty(outer)) continue;
      Region part = regions[i];
      part.range = outer;
      regions.push_back(std::move(part));
    }
    Region& region = regions[i];
    region.range = inner;
    if (now.writes) {
      region.range.columns = 0;  // to be removed
      continue;
    }
    const auto same = std::find_if(region.reads.begin(), region.reads.end(),
                                   [&](const TensorAccess& read) { return is_same_reader(read, now); });
    TensorAccess& read = same != region.reads.end() ? *same : region.reads.emplace_back();
    read = now;
    read.of_nothing = region.write.kind == TensorAccessKind::nothing;
  }
  if (!now.writes) return;
  std::erase_if(regions, [](const Region& region) { return is_empty(region.range); });
  if (now.kind != TensorAccessKind::release) regions.push_back({range, now, {}});
}

/// Whether all of these cells are allocated and nobody has written any of them. With M = 64 a load of right kernels
/// covers cells that the product leaves as they are.
bool TensorOrder::is_unwritten(uint32_t rank, const std::vector<TensorRange>& ranges) const {
  bool any = false;
  for (const TensorRange& range : ranges) {
    for (const Region& region : regions_[rank]) {
      if (is_empty(common_part(region.range, range))) continue;
      if (region.write.kind != TensorAccessKind::nothing) return false;
      any = true;
    }
  }
  return any;
}

/// Finds rows of D that are loaded although the MMA had no such rows of A: each MMA is reported once.
void TensorOrder::find_missing_rows(uint32_t rank, const TensorRange& loaded, std::vector<TensorConflict>& conflicts) {
  for (Region& region : regions_[rank]) {
    TensorAccess& write = region.write;
    const uint32_t lanes = common_part(region.range, loaded).lanes & write.missing.lanes;
    if (is_empty(write.missing) || is_empty(common_part(region.range, loaded)) || lanes == 0) continue;
    TensorRange rows = write.missing;
    rows.lanes = lanes;
    write.missing = {};
    TensorAccess reader = write;
    reader.writes = false;
    conflicts.push_back({TensorFlaw::unwritten_operand, {}, reader, rows, rank});
  }
}

std::vector<TensorConflict> TensorOrder::change(const ClusterOrder& order, const machine::TensorEvent& event) {
  const uint32_t number = order.warp_number(*event.fragment);
  const uint32_t rank = event.fragment->block().rank;
  WarpState& warp = warps_[number];
  std::vector<TensorConflict> conflicts;
  const Time time = order.warp(number).time;
  TensorAccess now{.warp = number, .lanes = event.lanes, .time = time, .pc = event.fragment->pc, .known = {}};
  switch (event.kind) {
    case TensorEventKind::allocate:
      for (const TensorRange& range : event.ranges) regions_[rank].push_back({range, {}, {}});
      return conflicts;
    case TensorEventKind::deallocate:
      now.kind = TensorAccessKind::release;
      now.writes = true;
      break;
    case TensorEventKind::load:
      now.kind = TensorAccessKind::load;
      now.number = ++warp.loads;
      break;
    case TensorEventKind::store:
      now.kind = TensorAccessKind::store;
      now.writes = true;
      now.number = ++warp.stores;
      break;
    case TensorEventKind::wait_load: warp.load_waits.push_back({warp.loads, time}); return conflicts;
    case TensorEventKind::wait_store: warp.store_waits.push_back({warp.stores, time}); return conflicts;
    case TensorEventKind::fence_before: warp.fences_before.emplace_back(time, event.lanes); return conflicts;
    case TensorEventKind::fence_after:
      for_each_lane(event.lanes, [&](uint32_t lane) { warp.fenced[lane] = order.known_executed(number, lane); });
      return conflicts;
  }
  now.known = order.known(number, machine::first_lane(event.lanes));
  if (now.kind == TensorAccessKind::load && is_unwritten(rank, event.ranges)) {
    conflicts.push_back({TensorFlaw::unwritten_load, {}, now, event.ranges.front(), rank});
  }
  for (const TensorRange& range : event.ranges) {
    if (now.kind == TensorAccessKind::load) find_missing_rows(rank, range, conflicts);
    access(order, rank, range, now, conflicts);
  }
  if (now.kind == TensorAccessKind::store) drop_ended_loads(event.fragment->grid().kernel->ended_loads, now, conflicts);
  const bool unfenced = std::any_of(conflicts.begin(), conflicts.end(), [](const TensorConflict& conflict) {
    return conflict.flaw == TensorFlaw::fence_after;
  });
  // A missing fence is reported once; later instructions are treated as if it were there.
  if (unfenced) {
    for_each_lane(event.lanes, [&](uint32_t lane) { warp.fenced[lane] = order.known_executed(number, lane); });
  }
  return conflicts;
}

/// The rows of an A in tensor memory that nobody has written at all, if others are there.
TensorRange TensorOrder::missing_rows(uint32_t rank, const TensorRange& a) const {
  uint32_t written = 0, unwritten = 0;
  for (const Region& region : regions_[rank]) {
    const TensorRange inner = common_part(region.range, a);
    if (is_empty(inner)) continue;
    (region.write.kind != TensorAccessKind::nothing ? written : unwritten) |= inner.lanes;
  }
  return {a.column, a.columns, written == 0 || (written & unwritten) != 0 ? 0 : unwritten};
}

void TensorOrder::operate(const ClusterOrder& order, uint32_t rank, const machine::AsyncOperation& operation,
                          TensorAccess now, std::vector<TensorConflict>& conflicts) {
  const bool has_a = operation.product.m != 0 && !operation.product.a_in_shared;
  const TensorRange missing = has_a ? missing_rows(rank, operation.tensor_reads.front()) : TensorRange{};
  for (size_t i = 0; i < operation.tensor_reads.size(); ++i) {
    const TensorRange& range = operation.tensor_reads[i];
    const bool of_metadata = operation.product.sparse && i + 1 == operation.tensor_reads.size();
    access(order, rank, range, now, conflicts);
    if (i == 0 && !is_empty(missing)) continue;
    for (Region& region : regions_[rank]) {
      const TensorRange inner = common_part(region.range, range);
      if (is_empty(inner) || region.write.kind != TensorAccessKind::nothing || region.reported) continue;
      region.reported = true;
      conflicts.push_back({TensorFlaw::unwritten_operand, {}, now, inner, rank, of_metadata});
    }
    for (const TensorRange& written : operation.tensor_writes) {
      const TensorRange inner = common_part(written, range);
      if (is_empty(inner) || overlap_reported_) continue;
      overlap_reported_ = true;
      conflicts.push_back({TensorFlaw::overlap, {}, now, inner, rank, of_metadata});
    }
  }
  now.writes = true;
  now.missing = missing;
  for (const TensorRange& range : operation.tensor_writes) {
    if (operation.accumulates) {
      for (const Region& region : regions_[rank]) {
        const TensorRange inner = common_part(region.range, range);
        if (is_empty(inner) || region.write.kind != TensorAccessKind::nothing) continue;
        conflicts.push_back({TensorFlaw::unwritten, {}, now, inner, rank});
        break;
      }
    }
    access(order, rank, range, now, conflicts);
  }
}

std::vector<TensorConflict> TensorOrder::issue(const ClusterOrder& order, const IssuedOperation& issued) {
  const machine::AsyncOperation& operation = issued.event;
  std::vector<TensorConflict> conflicts;
  if (operation.tensor_reads.empty() && operation.tensor_writes.empty()) return conflicts;
  const uint32_t number = order.warp_number(*operation.fragment);
  const uint32_t rank = operation.fragment->block().rank;
  const TensorAccess now{.kind = TensorAccessKind::operation,
                         .warp = number,
                         .lanes = 1u << operation.lane,
                         .time = order.warp(number).time,
                         .pc = operation.fragment->pc,
                         .number = issued.index,
                         .known = order.known(number, operation.lane)};
  operate(order, rank, operation, now, conflicts);
  if (operation.of_pair) operate(order, rank ^ 1, operation, now, conflicts);
  for (const TensorConflict& conflict : conflicts) {
    if (conflict.flaw == TensorFlaw::fence_after) {
      warps_[number].fenced[operation.lane] = order.known_executed(number, operation.lane);
    }
  }
  return conflicts;
}

}  // namespace stagecraft::emulator::checks
