// Who accessed which bytes of a block's shared memory last.
//
// Bytes that have seen the same accesses share one *history*; a byte itself has only the number of its history. So a
// warp that reads a row of a tile, or a copy that fills the tile, changes one history or a few, and not one for every
// word. The access of a warp is kept whole: which of its lanes touched which bytes is computed where it matters.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "emulator/checks/ordering/past_access.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// Where the lanes of a warp access shared memory in one instruction, when it is neither one place nor a row.
struct Scatter {
  machine::LaneMask lanes = 0;
  uint32_t bytes = 0;     ///< of each lane
  bool disjoint = false;  ///< no two lanes are known to access the same byte
  uint32_t users = 0;     ///< accesses in histories that refer to it
  std::array<uint32_t, machine::kWarpSize> offsets;

  machine::LaneMask at(uint32_t offset) const;
  /// Whether the lanes `some` access the same places in both.
  bool is_same(const Scatter& other, machine::LaneMask some) const;
};

/// What is remembered of some bytes: the last write, and the reads since then. Strong writes that are not ordered
/// before the last one (which is no race among strong ones) are kept with the reads.
struct History {
  PastAccess write;
  std::vector<PastAccess> reads;
  uint64_t readers = 0;               ///< bit i is set if an agent whose number is i modulo 64 may have read
  bool has_unordered_writes = false;  ///< some of `reads` are writes
  bool resolved = false;              ///< all accesses are even, and those of one instruction at one time are merged
  uint32_t cells = 0;                 ///< number of cells with this history

  static uint64_t bit_of(const PastAccess& access) { return uint64_t{1} << (access.agent & 63); }
};

/// Neighbouring cells with one history. A cell is as many bytes as were always accessed together, 16 at most.
struct Cells {
  uint32_t history;
  uint32_t offset;  ///< of the first byte
  uint32_t count, bytes;
};

/// One block's shared memory. A page is created when it is first touched.
class ShadowMemory {
 public:
  static constexpr uint32_t kPageBytes = 1024;

  ShadowMemory();
  /// Forgets all accesses. The allocated memory stays for the next block.
  void clear();

  /// Calls `visit(cells)` for all cells of a range; neighbours with one history are visited together. `visit` returns
  /// the history that they have from now on. It may lower the count of the cells that it has dealt with: the rest is
  /// visited next.
  /// @param unit  bytes that a lane touches at once: no cell is larger
  template <typename Visit>
  void update(uint32_t offset, uint32_t bytes, uint32_t unit, Visit&& visit);

  /// Calls `visit(write, offset)` for the last writes of a range; neighbours with the same one are visited together.
  template <typename Visit>
  void for_each_write(uint32_t offset, uint32_t bytes, Visit&& visit) const;

  /// Notes that threads, or operations that write as threads do, have written here. Most pages are written by copies
  /// only.
  void note_thread_write(uint32_t offset, uint32_t bytes);
  bool is_written_by_threads(uint32_t offset) const {
    const uint32_t page = offset / kPageBytes;
    return page < pages_.size() && pages_[page].written_by_threads;
  }

  /// All bytes that have been accessed are below this offset.
  uint32_t bytes() const { return static_cast<uint32_t>(pages_.size()) * kPageBytes; }
  const History& history(uint32_t number) const { return histories_[number]; }
  /// Returns a history like that of `cells` that no other cells have, which the functions below may change.
  uint32_t own(const Cells& cells) {
    return histories_[cells.history].cells == cells.count ? cells.history : copy(cells.history);
  }
  /// Does the same, with the accesses as the first of the cells has seen them.
  uint32_t own_resolved(const Cells& cells);
  /// Returns a history that begins with a write: that of `cells`, if no other cells have it, or a new one.
  uint32_t begin(const Cells& cells, const PastAccess& write);
  void add_read(uint32_t number, const PastAccess& read) {
    History& history = histories_[number];
    use(read);
    history.reads.push_back(read);
    history.readers |= History::bit_of(read);
  }
  /// Drops the reads for which `is_over(read)` is true.
  template <typename IsOver>
  void drop_reads(uint32_t history, IsOver&& is_over);
  /// Add a read, which may continue an earlier one, or a strong write to a resolved history.
  void add_resolved_read(uint32_t history, const PastAccess& read);
  template <typename Matters>
  void add_resolved_write(uint32_t history, const PastAccess& write, Matters&& matters);

  /// Stores a scatter, with one user; `drop` releases it. Returns its number.
  uint32_t keep(const Scatter& scatter) {
    if (free_scatters_.empty()) add_scatters();
    const uint32_t number = free_scatters_.back();
    free_scatters_.pop_back();
    scatters_[number] = scatter;
    scatters_[number].users = 1;
    return number;
  }
  void drop(const PastAccess& access) {
    if (access.scattered() && --scatters_[access.lanes].users == 0) free_scatters_.push_back(access.lanes);
  }
  /// Returns an access as the byte at `offset` has seen it: with the lanes that accessed that byte.
  PastAccess at(PastAccess access, uint32_t offset) const {
    if (access.is_even()) return access;
    access.lanes = access.is_row() ? access.lane_in_row(offset) : scatters_[access.lanes].at(offset);
    access.pc_and_flags &= ~(PastAccess::kRow | PastAccess::kScattered | 7u << PastAccess::kRowShift);
    return access;
  }
  /// Whether in each of the cells all lanes of `part` are also lanes of `whole`.
  bool covers(const PastAccess& whole, const PastAccess& part, const Cells& cells) const;
  /// Whether each byte that `now` accesses was, as far as is known, accessed by the very same thread in `before`, and
  /// by no other.
  bool is_by_same_threads(const PastAccess& before, const PastAccess& now) const;

 private:
  static constexpr uint32_t kLargestCell = 16;

  struct Page {
    static constexpr uint32_t kUntouched = 0xffffffffu;
    uint32_t cell_shift = kUntouched;  ///< log2 of a cell's bytes; a division would cost as much as all the rest
    std::vector<uint32_t> histories;   ///< of the cells
    bool written_by_threads = false;
  };

  Page& page(uint32_t number) {
    if (number >= pages_.size()) pages_.resize(number + 1);
    return pages_[number];
  }
  /// Makes a page's cells so small that an access touches each of them as a whole or not at all.
  void divide(Page& page, uint32_t cell_shift);
  uint32_t make();
  uint32_t copy(uint32_t history);
  void add_scatters();
  void leave(uint32_t history, uint32_t cells);
  void use(const PastAccess& access) {
    if (access.scattered()) ++scatters_[access.lanes].users;
  }
  void forget_accesses(History& history);
  static uint32_t length_of_run(const uint32_t* first, const uint32_t* end);

  std::vector<Page> pages_;
  std::vector<History> histories_;  ///< the first is the one of cells that nobody has accessed
  std::vector<uint32_t> free_histories_;
  std::vector<Scatter> scatters_;
  std::vector<uint32_t> free_scatters_;
};

inline uint32_t ShadowMemory::length_of_run(const uint32_t* first, const uint32_t* end) {
  constexpr uint32_t kBlock = 16;
  const uint32_t history = *first;
  const uint32_t* cell = first;
  for (; static_cast<size_t>(end - cell) >= kBlock; cell += kBlock) {
    uint32_t differ = 0;
    for (uint32_t i = 0; i < kBlock; ++i) differ |= cell[i] ^ history;
    if (differ != 0) break;
  }
  while (cell != end && *cell == history) ++cell;
  return static_cast<uint32_t>(cell - first);
}

template <typename Visit>
void ShadowMemory::update(uint32_t offset, uint32_t bytes, uint32_t unit, Visit&& visit) {
  while (bytes > 0) {
    Page& here = page(offset / kPageBytes);
    const uint32_t inside = offset % kPageBytes;
    const uint32_t count = std::min(bytes, kPageBytes - inside);
    // The largest power of two that divides all of them.
    const auto shift = static_cast<uint32_t>(std::countr_zero(inside | count | unit | kLargestCell));
    if (shift < here.cell_shift) divide(here, shift);
    uint32_t* cell = here.histories.data() + (inside >> here.cell_shift);
    uint32_t* const end = cell + (count >> here.cell_shift);
    while (cell != end) {
      const auto number = static_cast<uint32_t>(cell - here.histories.data());
      Cells cells{*cell, (number << here.cell_shift) + offset - inside, length_of_run(cell, end),
                  1u << here.cell_shift};
      const uint32_t after = visit(cells);
      if (after != cells.history) {
        std::fill_n(cell, cells.count, after);
        histories_[after].cells += cells.count;
        leave(cells.history, cells.count);
      }
      cell += cells.count;
    }
    offset += count;
    bytes -= count;
  }
}

template <typename Visit>
void ShadowMemory::for_each_write(uint32_t offset, uint32_t bytes, Visit&& visit) const {
  PastAccess last;
  const auto look_at = [&](const PastAccess& write, uint32_t at) {
    if (write == last) return;
    last = write;
    if (write.agent != PastAccess::kNobody) visit(write, at);
  };
  const uint32_t end = offset + bytes;
  for (uint32_t number = offset / kPageBytes; number < pages_.size() && number * kPageBytes < end; ++number) {
    const Page& here = pages_[number];
    if (here.cell_shift == Page::kUntouched) continue;
    const uint32_t base = number * kPageBytes;
    const uint32_t first = std::max(offset, base) - base, last = std::min(end - base, kPageBytes);
    uint32_t last_history = 0xffffffffu;
    const uint32_t cell_bytes = 1u << here.cell_shift;
    for (uint32_t at = first & (0u - cell_bytes); at < last; at += cell_bytes) {
      const uint32_t history = here.histories[at >> here.cell_shift];
      const PastAccess& write = histories_[history].write;
      if (history == last_history && write.is_even()) continue;
      last_history = history;
      look_at(this->at(write, base + at), std::max(base + at, offset));
    }
  }
}

template <typename IsOver>
void ShadowMemory::drop_reads(uint32_t number, IsOver&& is_over) {
  History& history = histories_[number];
  std::erase_if(history.reads, [&](const PastAccess& read) {
    const bool over = is_over(read);
    if (over) drop(read);
    return over;
  });
  if (history.reads.empty()) history.readers = 0;
}

/// @param matters  `matters(access)` says whether an earlier access must be kept, because it is not ordered before
template <typename Matters>
void ShadowMemory::add_resolved_write(uint32_t number, const PastAccess& write, Matters&& matters) {
  History& history = histories_[number];
  if (history.write.is_same_except_lanes(write)) {
    history.write.lanes |= write.lanes;
    return;
  }
  const PastAccess before = history.write;
  history.write = write;
  std::erase_if(history.reads, [&](const PastAccess& each) { return !matters(each); });
  if (matters(before)) {
    history.reads.push_back(before);
    history.readers |= History::bit_of(before);
    history.has_unordered_writes = true;
  }
}

}  // namespace stagecraft::emulator::checks
