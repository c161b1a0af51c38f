// What the threads of a block do between two barriers of all of them, as far as it need not be looked at yet.
//
// At such a barrier every thread learns of all that was done before it. So an access can race with others of its
// interval only; and with none when they are all reads there, or all strong, or each thread works on what is its own
// (page_ledger.hpp). Such accesses are put off. One that may race with them has them looked at first
// (RaceCheck::catch_up); otherwise the next barrier forgets them. That is so for most of what most kernels do. It is
// decided by pages of shared memory.
//
// Only for clusters of one block: the threads of others would not have come to the barrier.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "emulator/checks/ordering/warp_addresses.hpp"
#include "emulator/checks/race/page_ledger.hpp"
#include "emulator/checks/race/shadow_memory.hpp"

namespace stagecraft::emulator::checks {

/// An access that was put off.
struct LateAccess {
  PastAccess access;  ///< `lanes` as in histories, but of a scattered one the number of its offsets
  uint32_t begin;     ///< where its first lane is
  uint32_t bytes;     ///< of each lane
  machine::LaneMask lanes;
  uint32_t clock;  ///< number of what they knew
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
  /// What all threads have known from its beginning.
  const VectorClock& known() const { return *clocks_.front(); }

  /// Puts an access off; false when it may race. `known`: what all of its lanes know; null when they differ.
  bool put_off(const WarpAddresses& addresses, const PastAccess& access, const SharedClock* known);
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
  /// Calls `visit(late, offsets, known)` for all that was put off, the earliest of a thread first; `offsets` of
  /// scattered ones.
  template <typename Visit>
  void for_each(Visit&& visit) const;
  void forget();

  /// Takes note of an access that was not put off.
  void note(const PastAccess& access, uint32_t offset, uint32_t bytes);

 private:
  static constexpr uint32_t kPageBytes = ShadowMemory::kPageBytes;
  static constexpr uint32_t kPages = 256;  // a block has 228 KiB, and the start of the window
  static constexpr uint32_t kMostLate = 4096, kMostUnderWay = 4096, kMostTables = 1024;
  static constexpr uint8_t kLargestShift = 2, kMostFailures = 4;
  static constexpr uint32_t kLargestUnit = 1u << kLargestShift;
  static constexpr uint32_t kUnderWay = 0xfffffffeu, kAlways = 0xffffffffu;

  struct Page {
    uint32_t looked_at = 0;  ///< the last interval in which some access was not put off; kUnderWay or kAlways
    uint32_t put_off = 0;    ///< the last interval in which some was
    // In that interval:
    bool weak_reads = false, strong_writes = false;  ///< both: a weak write, too
    bool in_ledger = false;
    // In all of them:
    bool mixed = false;                  ///< reads and writes have met
    uint8_t failures = 0;                ///< of the ledger
    uint8_t unit_shift = kLargestShift;  ///< for it
    std::unique_ptr<PageLedger> ledger{};
  };
  struct UnderWay {
    PastAccess write;
    uint32_t first_page, last_page;
  };
  /// Which lanes of a warp accessed which bytes of a page, in one instruction at one time of the warp.
  struct Table {
    PastAccess access;
    uint32_t clock;
    uint32_t page;
    uint32_t unit;                         ///< bytes that were always accessed together: 1, 2 or 4
    std::vector<machine::LaneMask> lanes;  ///< of each unit of the page
  };

  void mark(uint32_t first, uint32_t last, uint32_t interval);
  bool may_wait(uint32_t number, const WarpAddresses& addresses, const PastAccess& access, const SharedClock* known);
  bool note_in_ledger(uint32_t number, const WarpAddresses& addresses, const PastAccess& access,
                      const SharedClock* known);
  uint32_t number_of(uint32_t warp, const SharedClock& clock);
  Table& table_of(const LateAccess& late, uint32_t page, uint32_t unit);
  void add_to_tables(const LateAccess& late);

  uint32_t number_ = 1;
  std::vector<SharedClock> clocks_;  ///< the first is what all threads have known from the beginning
  struct Latest {
    const VectorClock* clock = nullptr;
    uint32_t number = 0;
  };
  std::vector<Latest> latest_clocks_;   ///< by warp
  uint32_t count_ = 0, scattered_ = 0;  ///< of what was put off, and of those with offsets
  std::vector<Page> pages_;
  std::vector<LateAccess> late_;
  std::vector<Offsets> offsets_;
  std::vector<Table> tables_;  ///< of what was put off before
  using Key = std::tuple<uint32_t, Time, uint32_t, uint32_t, uint32_t, uint32_t>;
  std::map<Key, size_t> table_numbers_;  ///< by agent, time, clock, instruction, page and unit
  std::vector<UnderWay> under_way_;      ///< asynchronous writes of which not all threads knew at the last barrier
};

/// Whether an access can have no race in one page; takes note of it there.
[[gnu::always_inline]] inline bool BarrierInterval::may_wait(uint32_t number, const WarpAddresses& addresses,
                                                             const PastAccess& access, const SharedClock* known) {
  Page& page = pages_[number];
  if (page.looked_at >= number_) return false;
  if (page.put_off != number_ || page.in_ledger) return note_in_ledger(number, addresses, access, known);
  page.weak_reads |= !access.strong();
  page.strong_writes |= access.writes();
  if (access.writes() && !access.strong()) page.weak_reads = true;
  if (!page.weak_reads || !page.strong_writes) return true;
  page.mixed = true;
  return false;
}

[[gnu::always_inline]] inline bool BarrierInterval::put_off(const WarpAddresses& addresses, const PastAccess& access,
                                                            const SharedClock* known) {
  const uint32_t first = addresses.lowest / kPageBytes;
  const uint32_t last = (addresses.highest + addresses.bytes - 1) / kPageBytes;
  if (last >= kPages) return false;
  bool in_ledger = false;
  for (uint32_t page = first; page <= last; ++page) {
    if (!may_wait(page, addresses, access, known)) return false;
    in_ledger |= pages_[page].in_ledger;
  }
  if (count_ == late_.size()) late_.resize(std::max<size_t>(64, 2 * count_));
  LateAccess& late = late_[count_++];
  late = {access, addresses.begin, addresses.bytes, addresses.lanes, in_ledger ? number_of(access.agent, *known) : 0};
  if (addresses.is_row()) {
    addresses.make_row(late.access);
  } else if (!addresses.is_one_place()) {
    if (scattered_ == offsets_.size()) offsets_.resize(std::max<size_t>(64, 2 * offsets_.size()));
    late.access.pc_and_flags |= PastAccess::kScattered;
    late.access.lanes = scattered_;
    std::copy_n(addresses.addresses, machine::kWarpSize, offsets_[scattered_++].begin());
  }
  return true;
}

template <typename IsOver>
void BarrierInterval::begin_next(SharedClock known, IsOver&& is_over) {
  forget();
  ++number_;
  clocks_.front() = std::move(known);
  if (under_way_.empty()) return;
  std::erase_if(under_way_, [&](const UnderWay& each) { return is_over(each.write); });
  for (Page& page : pages_) page.looked_at = page.looked_at == kUnderWay ? 0 : page.looked_at;
  for (const UnderWay& each : under_way_) mark(each.first_page, each.last_page, kUnderWay);
}

template <typename Visit>
void BarrierInterval::for_each(Visit&& visit) const {
  for (const Table& table : tables_) {
    for (uint32_t i = 0; i < table.lanes.size(); ++i) {
      if (table.lanes[i] == 0) continue;
      LateAccess late{table.access, table.page * kPageBytes + i * table.unit, table.unit, table.lanes[i], table.clock};
      late.access.lanes = late.lanes;
      visit(late, nullptr, *clocks_[late.clock]);
    }
  }
  for (const LateAccess& late : std::span(late_.data(), count_)) {
    visit(late, late.access.scattered() ? offsets_[late.access.lanes].data() : nullptr, *clocks_[late.clock]);
  }
}

}  // namespace stagecraft::emulator::checks
