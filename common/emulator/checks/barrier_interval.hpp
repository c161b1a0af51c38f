// What the threads of a block do between two barriers of all of them, as far as it need not be looked at yet.
//
// At such a barrier every thread learns of all that was done before it. So an access can race with others of its
// interval only; and with none when they are all reads there, or all strong. Such accesses are put off. One that may
// race with them has them looked at first (RaceCheck::catch_up); otherwise the next barrier forgets them. That is so
// for most of what most kernels do. It is decided by pages of shared memory.
//
// Only for clusters of one block: the threads of others would not have come to the barrier.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "emulator/checks/shadow_memory.hpp"

namespace stagecraft::emulator::checks {

/// An access that was put off.
struct LateAccess {
  PastAccess access;  ///< `lanes` as in histories, but of a scattered one the number of its offsets
  uint32_t begin;     ///< where its first lane is
  uint32_t bytes;     ///< of each lane
  machine::LaneMask lanes;
};

class BarrierInterval {
 public:
  using Offsets = std::array<uint32_t, machine::kWarpSize>;  ///< of the lanes; of those that take no part: anything

  BarrierInterval();
  /// Of a block that begins.
  void reset();
  /// All threads have met, and know that. `is_over(write)` says whether they know an asynchronous one to be over.
  template <typename IsOver>
  void begin_next(SharedClock known, IsOver&& is_over);
  /// What all threads have known from the beginning.
  const VectorClock& known() const { return *known_; }

  /// Room for an access of these bytes, to be filled in; null when it may race.
  LateAccess* put_off(const PastAccess& access, uint32_t offset, uint32_t bytes);
  /// Room for the offsets of the latest one, which is scattered.
  Offsets& offsets_of(LateAccess& late);
  bool is_full() const { return count_ == kMostLate; }
  /// Makes room without forgetting anything; whether it could.
  bool compact();

  /// Whether something that was put off may have been in these bytes.
  bool concerns(uint32_t offset, uint32_t bytes) const {
    if (count_ == 0 && tables_.empty()) return false;
    const uint32_t end = std::min((offset + bytes - 1) / kPageBytes + 1, kPages);
    for (uint32_t page = offset / kPageBytes; page < end; ++page) {
      if (pages_[page].put_off == number_) return true;
    }
    return false;
  }
  /// Calls `visit(late, offsets)` for all that was put off, the earliest of a thread first; `offsets` of scattered
  /// ones.
  template <typename Visit>
  void for_each(Visit&& visit) const;
  void forget();

  /// Takes note of an access that was not put off.
  void note(const PastAccess& access, uint32_t offset, uint32_t bytes);

 private:
  static constexpr uint32_t kPageBytes = ShadowMemory::kPageBytes;
  static constexpr uint32_t kPages = 256;  // a block has 228 KiB, and the start of the window
  static constexpr uint32_t kMostLate = 4096, kMostUnderWay = 4096, kMostTables = 1024;
  static constexpr uint32_t kLargestUnit = 4;
  static constexpr uint32_t kUnderWay = 0xfffffffeu, kAlways = 0xffffffffu;

  /// The last interval with an access of each kind. Of asynchronous ones: kUnderWay, kAlways.
  struct Page {
    uint32_t weak_read = 0, weak_write = 0, strong_write = 0;
    uint32_t put_off = 0;
  };
  struct UnderWay {
    PastAccess write;
    uint32_t first_page, last_page;
  };
  /// Which lanes of a warp accessed which bytes of a page, in one instruction at one time of the warp.
  struct Table {
    PastAccess access;
    uint32_t page;
    uint32_t unit;                         ///< bytes that were always accessed together: 1, 2 or 4
    std::vector<machine::LaneMask> lanes;  ///< of each unit of the page
  };

  static uint32_t& last_of(Page& page, const PastAccess& access) {
    if (access.writes()) return access.strong() ? page.strong_write : page.weak_write;
    return access.strong() ? page.put_off : page.weak_read;  // a strong read is in nobody's way
  }
  void mark(uint32_t first, uint32_t last, const PastAccess& access, uint32_t interval);
  Table& table_of(const PastAccess& access, uint32_t page, uint32_t unit);
  void add_to_tables(const LateAccess& late);

  uint32_t number_ = 1;
  SharedClock known_;
  uint32_t count_ = 0, scattered_ = 0;  ///< of what was put off, and of those with offsets
  std::vector<Page> pages_;
  std::vector<LateAccess> late_;
  std::vector<Offsets> offsets_;
  std::vector<Table> tables_;  ///< of what was put off before
  using Key = std::tuple<uint32_t, Time, uint32_t, uint32_t, uint32_t>;
  std::map<Key, size_t> table_numbers_;  ///< by agent, time, instruction, page and unit
  std::vector<UnderWay> under_way_;      ///< asynchronous writes of which not all threads knew at the last barrier
};

[[gnu::always_inline]] inline LateAccess* BarrierInterval::put_off(const PastAccess& access, uint32_t offset,
                                                                   uint32_t bytes) {
  const uint32_t first = offset / kPageBytes, last = (offset + bytes - 1) / kPageBytes;
  if (last >= kPages || is_full()) return nullptr;
  uint32_t conflict = 0;
  for (uint32_t page = first; page <= last; ++page) {
    const Page& here = pages_[page];
    conflict = std::max(conflict, here.weak_write);
    if (access.writes()) conflict = std::max(conflict, here.weak_read);
    if (!access.strong()) conflict = std::max(conflict, here.strong_write);
  }
  if (conflict >= number_) return nullptr;
  for (uint32_t page = first; page <= last; ++page) {
    last_of(pages_[page], access) = number_;
    pages_[page].put_off = number_;
  }
  if (count_ == late_.size()) late_.resize(std::max<size_t>(64, 2 * count_));
  return &late_[count_++];
}

inline BarrierInterval::Offsets& BarrierInterval::offsets_of(LateAccess& late) {
  if (scattered_ == offsets_.size()) offsets_.resize(std::max<size_t>(64, 2 * offsets_.size()));
  late.access.lanes = scattered_;
  return offsets_[scattered_++];
}

template <typename IsOver>
void BarrierInterval::begin_next(SharedClock known, IsOver&& is_over) {
  forget();
  ++number_;
  known_ = std::move(known);
  if (under_way_.empty()) return;
  std::erase_if(under_way_, [&](const UnderWay& each) { return is_over(each.write); });
  for (Page& page : pages_) page.weak_write = page.weak_write == kUnderWay ? 0 : page.weak_write;
  for (const UnderWay& each : under_way_) mark(each.first_page, each.last_page, each.write, kUnderWay);
}

template <typename Visit>
void BarrierInterval::for_each(Visit&& visit) const {
  for (const Table& table : tables_) {
    for (uint32_t i = 0; i < table.lanes.size(); ++i) {
      if (table.lanes[i] == 0) continue;
      LateAccess late{table.access, table.page * kPageBytes + i * table.unit, table.unit, table.lanes[i]};
      late.access.lanes = late.lanes;
      visit(late, nullptr);
    }
  }
  for (const LateAccess& late : std::span(late_.data(), count_)) {
    visit(late, late.access.scattered() ? offsets_[late.access.lanes].data() : nullptr);
  }
}

}  // namespace stagecraft::emulator::checks
