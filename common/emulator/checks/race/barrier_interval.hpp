// Accesses that need not be checked yet: what the threads of a block do between two barriers of all of them.
//
// At such a barrier every thread learns of all that was done before it. So an access can race only with others of its
// interval. It can race with none of them where all are reads, or all are strong, or each thread works on what is its
// own (page_ledger.hpp). Checks of such accesses are deferred. When an access comes that may race with them, they are
// checked first (RaceCheck::catch_up); otherwise the next barrier forgets them. That is what happens to most accesses
// of most kernels. It is decided for pages of shared memory.
//
// Only clusters of one block defer: the threads of other blocks would not have come to the barrier.
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

#include "emulator/checks/ordering/shadow_memory.hpp"
#include "emulator/checks/ordering/warp_addresses.hpp"
#include "emulator/checks/race/page_ledger.hpp"

namespace stagecraft::emulator::checks {

/// An access whose check is deferred.
struct DeferredAccess {
  PastAccess access;  ///< `lanes` as in histories, or for a scattered one the number of its offsets
  uint32_t begin;     ///< address of its first lane
  uint32_t bytes;     ///< of each lane
  machine::LaneMask lanes;
  uint32_t clock;  ///< number of the clock that they had
};

class BarrierInterval {
 public:
  using Offsets = std::array<uint32_t, machine::kWarpSize>;  ///< by lane; undefined for lanes that do not take part

  BarrierInterval();
  /// Forgets everything, for a block that starts.
  void reset();
  /// All threads have met, and know `known`. `is_over(write)` says whether they know that an asynchronous write is
  /// over.
  template <typename IsOver>
  void begin_next(SharedClock known, IsOver&& is_over);
  /// What all threads have known from the beginning of the interval.
  const VectorClock& known() const { return *clocks_.front(); }

  /// Defers the check of an access; returns false when it may race.
  /// @param known  what all of its lanes know; null when they differ
  bool defer(const WarpAddresses& addresses, const PastAccess& access, const SharedClock* known);
  bool is_full() const { return count_ == kMostDeferred; }
  /// Makes room without forgetting anything. Returns whether it could.
  bool compact();

  /// Whether a deferred access may have been in these bytes.
  bool concerns(uint32_t offset, uint32_t bytes) const {
    if (count_ == 0 && tables_.empty()) return false;
    const uint32_t end = std::min((offset + bytes - 1) / kPageBytes + 1, kPages);
    for (uint32_t page = offset / kPageBytes; page < end; ++page) {
      if (pages_[page].deferred == number_) return true;
    }
    return false;
  }
  /// Calls `visit(deferred, offsets, known)` for all deferred accesses, those of a thread in their order; `offsets` is
  /// null for one that is not scattered.
  template <typename Visit>
  void for_each(Visit&& visit) const;
  /// Forgets the deferred accesses.
  void forget();

  /// Takes note of an access whose check is not deferred.
  void note(const PastAccess& access, uint32_t offset, uint32_t bytes);

 private:
  static constexpr uint32_t kPageBytes = ShadowMemory::kPageBytes;
  static constexpr uint32_t kPages = 256;  // a block has 228 KiB, and the start of the window
  static constexpr uint32_t kMostDeferred = 4096, kMostUnderWay = 4096, kMostTables = 1024;
  static constexpr uint8_t kLargestShift = 2, kMostFailures = 4;
  static constexpr uint32_t kLargestUnit = 1u << kLargestShift;
  static constexpr uint32_t kUnderWay = 0xfffffffeu, kAlways = 0xffffffffu;

  struct Page {
    uint32_t checked = 0;   ///< the last interval in which some access was checked at once; kUnderWay or kAlways
    uint32_t deferred = 0;  ///< the last interval in which some check was deferred
    // In that interval:
    bool weak_reads = false, strong_writes = false;  ///< both are set by a weak write as well
    bool in_ledger = false;
    // In all intervals:
    bool mixed = false;                  ///< reads and writes have met
    uint8_t failures = 0;                ///< how often the ledger could not say that there is no race
    uint8_t unit_shift = kLargestShift;  ///< log2 of the ledger's unit
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
  bool can_defer(uint32_t number, const WarpAddresses& addresses, const PastAccess& access, const SharedClock* known);
  bool note_in_ledger(uint32_t number, const WarpAddresses& addresses, const PastAccess& access,
                      const SharedClock* known);
  uint32_t number_of(uint32_t warp, const SharedClock& clock);
  Table& table_of(const DeferredAccess& deferred, uint32_t page, uint32_t unit);
  void add_to_tables(const DeferredAccess& deferred);

  uint32_t number_ = 1;
  std::vector<SharedClock> clocks_;  ///< the first: what all threads have known from the beginning
  struct Latest {
    const VectorClock* clock = nullptr;
    uint32_t number = 0;
  };
  std::vector<Latest> latest_clocks_;   ///< by warp
  uint32_t count_ = 0, scattered_ = 0;  ///< of deferred accesses, and of scattered ones among them
  std::array<Page, kPages> pages_;
  std::vector<DeferredAccess> deferred_;
  std::vector<Offsets> offsets_;
  std::vector<Table> tables_;  ///< deferred accesses that were compacted
  using Key = std::tuple<uint32_t, Time, uint32_t, uint32_t, uint32_t, uint32_t>;
  std::map<Key, size_t> table_numbers_;  ///< by agent, time, clock, instruction, page and unit
  std::vector<UnderWay> under_way_;  ///< asynchronous writes that not all threads knew to be over at the last barrier
};

/// Whether an access can have no race in one page, which takes note of it.
[[gnu::always_inline]] inline bool BarrierInterval::can_defer(uint32_t number, const WarpAddresses& addresses,
                                                              const PastAccess& access, const SharedClock* known) {
  Page& page = pages_[number];
  if (page.checked >= number_) return false;
  if (page.deferred != number_ || page.in_ledger) return note_in_ledger(number, addresses, access, known);
  page.weak_reads |= !access.strong();
  page.strong_writes |= access.writes();
  if (access.writes() && !access.strong()) page.weak_reads = true;
  if (!page.weak_reads || !page.strong_writes) return true;
  page.mixed = true;
  return false;
}

[[gnu::always_inline]] inline bool BarrierInterval::defer(const WarpAddresses& addresses, const PastAccess& access,
                                                          const SharedClock* known) {
  const uint32_t first = addresses.lowest / kPageBytes;
  const uint32_t last = (addresses.highest + addresses.bytes - 1) / kPageBytes;
  if (last >= kPages) return false;
  bool in_ledger = false;
  for (uint32_t page = first; page <= last; ++page) {
    if (!can_defer(page, addresses, access, known)) return false;
    in_ledger |= pages_[page].in_ledger;
  }
  PastAccess kept = access;
  if (addresses.is_row()) {
    addresses.make_row(kept);
  } else if (!addresses.is_one_place()) {
    if (scattered_ == offsets_.size()) offsets_.resize(std::max<size_t>(64, 2 * offsets_.size()));
    kept.pc_and_flags |= PastAccess::kScattered;
    kept.lanes = scattered_;
    std::copy_n(addresses.addresses, machine::kWarpSize, offsets_[scattered_++].begin());
  }
  if (count_ == deferred_.size()) deferred_.resize(std::max<size_t>(64, 2 * count_));
  deferred_[count_++] = {kept, addresses.begin, addresses.bytes, addresses.lanes,
                         in_ledger ? number_of(access.agent, *known) : 0};
  return true;
}

template <typename IsOver>
void BarrierInterval::begin_next(SharedClock known, IsOver&& is_over) {
  forget();
  ++number_;
  clocks_.front() = std::move(known);
  if (under_way_.empty()) return;
  std::erase_if(under_way_, [&](const UnderWay& each) { return is_over(each.write); });
  for (Page& page : pages_) page.checked = page.checked == kUnderWay ? 0 : page.checked;
  for (const UnderWay& each : under_way_) mark(each.first_page, each.last_page, kUnderWay);
}

template <typename Visit>
void BarrierInterval::for_each(Visit&& visit) const {
  for (const Table& table : tables_) {
    for (uint32_t i = 0; i < table.lanes.size(); ++i) {
      if (table.lanes[i] == 0) continue;
      DeferredAccess deferred{table.access, table.page * kPageBytes + i * table.unit, table.unit, table.lanes[i],
                              table.clock};
      deferred.access.lanes = deferred.lanes;
      visit(deferred, nullptr, *clocks_[deferred.clock]);
    }
  }
  for (const DeferredAccess& deferred : std::span(deferred_.data(), count_)) {
    visit(deferred, deferred.access.scattered() ? offsets_[deferred.access.lanes].data() : nullptr,
          *clocks_[deferred.clock]);
  }
}

}  // namespace stagecraft::emulator::checks
