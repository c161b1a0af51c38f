#include "emulator/checks/race/barrier_interval.hpp"

#include <bit>
#include <memory>

namespace stagecraft::emulator::checks {

BarrierInterval::BarrierInterval() { reset(); }

void BarrierInterval::reset() {
  clocks_.assign(1, std::make_shared<VectorClock>());
  forget();
  number_ = 1;
  for (Page& page : pages_) {
    page.checked = page.deferred = 0;
    page.failures = 0;
  }
  under_way_.clear();
}

void BarrierInterval::forget() {
  count_ = scattered_ = 0;
  if (clocks_.size() > 1) {
    clocks_.resize(1);
    latest_clocks_.clear();
  }
  if (tables_.empty()) return;
  tables_.clear();
  table_numbers_.clear();
}

void BarrierInterval::mark(uint32_t first, uint32_t last, uint32_t interval) {
  const uint32_t end = std::min(last + 1, kPages);
  for (uint32_t page = first; page < end; ++page) {
    pages_[page].checked = std::max(pages_[page].checked, interval);
  }
}

void BarrierInterval::note(const PastAccess& access, uint32_t offset, uint32_t bytes) {
  const uint32_t first = offset / kPageBytes, last = (offset + bytes - 1) / kPageBytes;
  if (!access.is_asynchronous()) return mark(first, last, number_);
  // In a kernel with asynchronous operations that read shared memory, no write is deferred.
  if (!access.writes()) return;
  // It may still be under way after the next barrier.
  if (under_way_.size() < kMostUnderWay) {
    under_way_.push_back({access, first, last});
    return mark(first, last, kUnderWay);
  }
  // So many occur in a kernel whose copies are waited for at mbarriers, about which these barriers say nothing.
  mark(first, last, kAlways);
  for (const UnderWay& each : under_way_) mark(each.first_page, each.last_page, kAlways);
  under_way_.clear();
}

/// Takes note of the first access of a page in an interval, and of all accesses where there is a ledger.
bool BarrierInterval::note_in_ledger(uint32_t number, const WarpAddresses& addresses, const PastAccess& access,
                                     const SharedClock* known) {
  Page& page = pages_[number];
  const auto alignment = static_cast<uint8_t>(std::countr_zero(addresses.bits | addresses.bytes | kLargestUnit));
  const bool weak_write = access.writes() && !access.strong();
  if (page.deferred != number_) {
    page.deferred = number_;
    page.in_ledger = weak_write || page.mixed;
    page.weak_reads = !access.strong();
    page.strong_writes = access.writes();
    if (!page.in_ledger) return true;
    if (page.failures == kMostFailures) {
      page.in_ledger = false;
      return !weak_write;
    }
    page.unit_shift = std::min(page.unit_shift, alignment);
    if (page.ledger == nullptr) page.ledger = std::make_unique<PageLedger>();
    page.ledger->begin(kPageBytes, page.unit_shift);
  }
  page.unit_shift = std::min(page.unit_shift, alignment);
  bool right = known != nullptr && page.unit_shift == page.ledger->shift();
  if (right) {
    const LedgerEntry entry{access.agent, access.writes(), access.time, (*known)->of_warp(access.agent)};
    right = page.ledger->note(addresses, number * kPageBytes, kPageBytes, entry);
  }
  page.failures = static_cast<uint8_t>(page.failures + (right ? 0 : 1));
  return right;
}

uint32_t BarrierInterval::number_of(uint32_t warp, const SharedClock& clock) {
  if (warp >= latest_clocks_.size()) latest_clocks_.resize(warp + 1);
  Latest& latest = latest_clocks_[warp];
  if (latest.clock != clock.get()) {
    latest = {clock.get(), static_cast<uint32_t>(clocks_.size())};
    clocks_.push_back(clock);
  }
  return latest.number;
}

BarrierInterval::Table& BarrierInterval::table_of(const DeferredAccess& deferred, uint32_t page, uint32_t unit) {
  constexpr uint32_t kShape = PastAccess::kRow | PastAccess::kScattered | 7u << PastAccess::kRowShift;
  PastAccess even = deferred.access;
  even.pc_and_flags &= ~kShape;
  const Key key{even.agent, even.time, deferred.clock, even.pc_and_flags, page, unit};
  const auto [found, fresh] = table_numbers_.try_emplace(key, tables_.size());
  if (fresh) tables_.push_back({even, deferred.clock, page, unit, std::vector<machine::LaneMask>(kPageBytes / unit)});
  return tables_[found->second];
}

void BarrierInterval::add_to_tables(const DeferredAccess& deferred) {
  const uint32_t first = machine::first_lane(deferred.lanes);
  const uint32_t step = deferred.access.is_row() ? deferred.bytes : 0;
  Offsets row;
  for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) row[lane] = deferred.begin + (lane - first) * step;
  const Offsets& addresses = deferred.access.scattered() ? offsets_[deferred.access.lanes] : row;
  uint32_t bits = deferred.bytes | kLargestUnit;
  machine::for_each_lane(deferred.lanes, [&](uint32_t lane) { bits |= addresses[lane]; });
  const auto shift = static_cast<uint32_t>(std::countr_zero(bits));
  uint32_t page = kPages;
  machine::LaneMask* table = nullptr;
  machine::for_each_lane(deferred.lanes, [&](uint32_t lane) {
    const uint32_t begin = addresses[lane] >> shift, end = begin + (deferred.bytes >> shift);
    for (uint32_t at = begin; at < end; ++at) {
      const uint32_t unit = at & ((kPageBytes >> shift) - 1);
      if (const uint32_t here = at << shift; here / kPageBytes != page) {
        page = here / kPageBytes;
        table = table_of(deferred, page, 1u << shift).lanes.data();
      }
      table[unit] |= 1u << lane;
    }
  });
}

bool BarrierInterval::compact() {
  if (tables_.size() > kMostTables) return false;
  for (uint32_t i = 0; i < count_; ++i) add_to_tables(deferred_[i]);
  count_ = scattered_ = 0;
  return true;
}

}  // namespace stagecraft::emulator::checks
