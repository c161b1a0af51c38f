#include "emulator/checks/barrier_interval.hpp"

#include <bit>
#include <memory>

namespace stagecraft::emulator::checks {

using machine::kWarpSize;

BarrierInterval::BarrierInterval() { reset(); }

void BarrierInterval::reset() {
  forget();
  number_ = 1;
  known_ = std::make_shared<VectorClock>();
  pages_.assign(kPages, {});
  under_way_.clear();
}

void BarrierInterval::forget() {
  count_ = scattered_ = 0;
  if (tables_.empty()) return;
  tables_.clear();
  table_numbers_.clear();
}

void BarrierInterval::mark(uint32_t first, uint32_t last, const PastAccess& access, uint32_t interval) {
  const uint32_t end = std::min(last + 1, kPages);
  for (uint32_t page = first; page < end; ++page) {
    uint32_t& latest = last_of(pages_[page], access);
    latest = std::max(latest, interval);
  }
}

void BarrierInterval::note(const PastAccess& access, uint32_t offset, uint32_t bytes) {
  const uint32_t first = offset / kPageBytes, last = (offset + bytes - 1) / kPageBytes;
  if (!access.is_asynchronous()) {
    if (access.writes() || !access.strong()) mark(first, last, access, number_);
    return;
  }
  // It may still be under way behind the next barrier. Of reads, and where it is strong, nobody keeps track of that.
  PastAccess weak = access;
  weak.pc_and_flags &= ~PastAccess::kStrong;
  if (!access.writes() || access.strong()) return mark(first, last, weak, kAlways);
  if (under_way_.size() < kMostUnderWay) {
    under_way_.push_back({weak, first, last});
    return mark(first, last, weak, kUnderWay);
  }
  // So many are those of a kernel whose copies are waited for at mbarriers, of which these barriers tell nothing.
  mark(first, last, weak, kAlways);
  for (const UnderWay& each : under_way_) mark(each.first_page, each.last_page, weak, kAlways);
  under_way_.clear();
}

BarrierInterval::Table& BarrierInterval::table_of(const PastAccess& access, uint32_t page, uint32_t unit) {
  constexpr uint32_t kShape = PastAccess::kRow | PastAccess::kScattered | 7u << PastAccess::kRowShift;
  PastAccess even = access;
  even.pc_and_flags &= ~kShape;
  const auto [found, fresh] =
      table_numbers_.try_emplace(Key{even.agent, even.time, even.pc_and_flags, page, unit}, tables_.size());
  if (fresh) tables_.push_back({even, page, unit, std::vector<machine::LaneMask>(kPageBytes / unit)});
  return tables_[found->second];
}

void BarrierInterval::add_to_tables(const LateAccess& late) {
  const uint32_t first = machine::first_lane(late.lanes);
  const uint32_t step = late.access.is_row() ? late.bytes : 0;
  Offsets row;
  for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) row[lane] = late.begin + (lane - first) * step;
  const Offsets& addresses = late.access.scattered() ? offsets_[late.access.lanes] : row;
  uint32_t bits = late.bytes | kLargestUnit;
  machine::for_each_lane(late.lanes, [&](uint32_t lane) { bits |= addresses[lane]; });
  const auto shift = static_cast<uint32_t>(std::countr_zero(bits));
  uint32_t page = kPages;
  machine::LaneMask* table = nullptr;
  machine::for_each_lane(late.lanes, [&](uint32_t lane) {
    const uint32_t begin = addresses[lane] >> shift, end = begin + (late.bytes >> shift);
    for (uint32_t at = begin; at < end; ++at) {
      const uint32_t unit = at & ((kPageBytes >> shift) - 1);
      if (const uint32_t here = at << shift; here / kPageBytes != page) {
        page = here / kPageBytes;
        table = table_of(late.access, page, 1u << shift).lanes.data();
      }
      table[unit] |= 1u << lane;
    }
  });
}

bool BarrierInterval::compact() {
  if (tables_.size() > kMostTables) return false;
  for (uint32_t i = 0; i < count_; ++i) add_to_tables(late_[i]);
  count_ = scattered_ = 0;
  return true;
}

}  // namespace stagecraft::emulator::checks
