#include "emulator/checks/barrier_interval.hpp"

#include <bit>
#include <memory>

namespace stagecraft::emulator::checks {

using machine::kWarpSize;

BarrierInterval::BarrierInterval() : late_(kMostLate) { reset(); }

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

BarrierInterval::Table* BarrierInterval::table_of(const PastAccess& access, uint32_t page) {
  constexpr uint32_t kShape = PastAccess::kRow | PastAccess::kScattered | 7u << PastAccess::kRowShift;
  PastAccess even = access;
  even.pc_and_flags &= ~kShape;
  const auto [found, fresh] =
      table_numbers_.try_emplace(Key{even.agent, even.time, even.pc_and_flags, page}, tables_.size());
  if (!fresh) return &tables_[found->second];
  tables_.push_back({even, page});
  return &tables_.back();
}

bool BarrierInterval::add_to_tables(const LateAccess& late) {
  if (late.bytes % kWordBytes != 0 || tables_.size() > kMostTables) return false;
  Table* table = nullptr;
  const auto add = [&](uint32_t address, machine::LaneMask lanes) {
    for (uint32_t at = address; at < address + late.bytes; at += kWordBytes) {
      const uint32_t page = at / kPageBytes;
      if (table == nullptr || table->page != page) table = table_of(late.access, page);
      table->lanes[at % kPageBytes / kWordBytes] |= lanes;
    }
  };
  const uint32_t first = machine::first_lane(late.lanes);
  if (late.begin % kWordBytes != 0) return false;
  if (late.access.is_even()) {
    add(late.begin, late.lanes);
  } else if (late.access.is_row()) {
    machine::for_each_lane(late.lanes,
                           [&](uint32_t lane) { add(late.begin + (lane - first) * late.bytes, 1u << lane); });
  } else {
    const Offsets& offsets = offsets_[late.access.lanes];
    bool aligned = true;
    machine::for_each_lane(late.lanes, [&](uint32_t lane) { aligned = aligned && offsets[lane] % kWordBytes == 0; });
    if (!aligned) return false;
    machine::for_each_lane(late.lanes, [&](uint32_t lane) { add(offsets[lane], 1u << lane); });
  }
  return true;
}

bool BarrierInterval::compact() {
  for (uint32_t i = 0; i < count_; ++i) {
    if (add_to_tables(late_[i])) continue;
    // What is in tables already is there twice now, which changes nothing.
    return false;
  }
  count_ = scattered_ = 0;
  return true;
}

}  // namespace stagecraft::emulator::checks
