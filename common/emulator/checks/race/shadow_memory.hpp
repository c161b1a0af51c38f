// Who accessed which bytes of a block's shared memory last.
//
// Bytes that have seen the same accesses share one *history*, and of a byte there is only the number of its history. So
// a warp that reads a row of a tile, or a copy that fills the tile, changes one history, or few, and not one for every
// word: an access of a warp is kept whole, and which of its lanes touched which bytes is looked up where it matters.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "emulator/checks/ordering/vector_clock.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// An access that a later one may race with: lanes of a warp at a time of that warp, or an asynchronous operation.
struct PastAccess {
  static constexpr uint32_t kNobody = 0x7fffffffu;
  static constexpr uint32_t kAsynchronous = 0x80000000u;  ///< `agent` holds the number of an operation beside it

  static constexpr uint32_t kStrong = 0x80000000u;
  static constexpr uint32_t kWrites = 0x40000000u;
  // While it is checked and in histories, `lanes` may hold something else, from which those of a byte follow.
  static constexpr uint32_t kRow = 0x20000000u;        ///< the offset where lane 0 is, each lane next to the one before
  static constexpr uint32_t kScattered = 0x10000000u;  ///< the number of a Scatter
  static constexpr uint32_t kRowShift = 25;            ///< three bits of a row: log2 of the bytes of each lane
  static constexpr uint32_t kPcMask = 0x01ffffffu;

  uint32_t agent = kNobody;  ///< number of the warp in the cluster, or an operation
  machine::LaneMask lanes = 0;
  Time time = 0;
  uint32_t pc_and_flags = 0;

  bool operator==(const PastAccess&) const = default;

  bool is_asynchronous() const { return (agent & kAsynchronous) != 0; }
  uint32_t operation() const { return agent & ~kAsynchronous; }
  bool strong() const { return (pc_and_flags & kStrong) != 0; }
  bool writes() const { return (pc_and_flags & kWrites) != 0; }
  bool is_row() const { return (pc_and_flags & kRow) != 0; }
  bool scattered() const { return (pc_and_flags & kScattered) != 0; }
  /// Whether `lanes` are the same for all bytes.
  bool is_even() const { return (pc_and_flags & (kRow | kScattered)) == 0; }
  machine::LaneMask lane_in_row(uint32_t offset) const {
    return 1u << ((offset - lanes) >> (pc_and_flags >> kRowShift & 7));
  }
  uint32_t pc() const { return pc_and_flags & kPcMask; }
  /// By the same warp or operation, and of the same kind.
  bool is_like(const PastAccess& other) const {
    return agent == other.agent && ((pc_and_flags ^ other.pc_and_flags) & (kStrong | kWrites)) == 0;
  }
  bool is_same_but_for_lanes(const PastAccess& other) const {
    return agent == other.agent && time == other.time && pc_and_flags == other.pc_and_flags;
  }
};

/// Where the lanes of a warp access shared memory in one instruction, when neither all at the same place nor in a row.
struct Scatter {
  machine::LaneMask lanes = 0;
  uint32_t bytes = 0;     ///< of each lane
  bool disjoint = false;  ///< it is known that no two lanes access the same byte
  uint32_t users = 0;     ///< accesses in histories that name it
  std::array<uint32_t, machine::kWarpSize> offsets;

  machine::LaneMask at(uint32_t offset) const;
  /// Whether the lanes `some` access the same places in both.
  bool is_same(const Scatter& other, machine::LaneMask some) const;
};

/// What is remembered of some bytes: the last write, and the reads since. Strong writes that nothing orders before the
/// last one, which is no race among strong ones, are kept with the reads.
struct History {
  PastAccess write;
  std::vector<PastAccess> reads;
  uint64_t readers = 0;               ///< bit i: there may be one by an agent whose number is i modulo 64
  bool has_unordered_writes = false;  ///< among the reads
  bool resolved = false;              ///< all accesses are even, and those of one instruction and time are one
  uint32_t cells = 0;                 ///< that have this history

  static uint64_t bit_of(const PastAccess& access) { return uint64_t{1} << (access.agent & 63); }
};

/// Neighbouring cells with one history. A cell is as many bytes as were always accessed together, 16 at most.
struct Cells {
  uint32_t history;
  uint32_t offset;  ///< of the first byte
  uint32_t count, bytes;
};

/// One block's shared memory; pages of it come into being when they are touched.
class ShadowMemory {
 public:
  static constexpr uint32_t kPageBytes = 1024;

  ShadowMemory();
  /// Forgets all accesses; what was allocated stays for the next block.
  void clear();

  /// Calls `visit(cells)` for all cells of a range, neighbours with one history taken together; it returns the history
  /// that they have from now on, and may lower the count to the cells for which that is true: the others follow.
  /// @param unit  bytes that an access has touched at once: cells are not larger
  template <typename Visit>
  void update(uint32_t offset, uint32_t bytes, uint32_t unit, Visit&& visit);

  /// Calls `visit(write, offset)` for the last writes of a range, neighbours with the same one taken together.
  template <typename Visit>
  void for_each_write(uint32_t offset, uint32_t bytes, Visit&& visit) const;

  /// Threads, or what writes as they do, have written here: most pages are written by copies only.
  void note_thread_write(uint32_t offset, uint32_t bytes);
  bool is_written_by_threads(uint32_t offset) const {
    const uint32_t page = offset / kPageBytes;
    return page < pages_.size() && pages_[page].written_by_threads;
  }

  const History& history(uint32_t number) const { return histories_[number]; }
  /// The number of a history like that of `cells` which no other cells have, to be changed by the functions below.
  uint32_t own(const Cells& cells) {
    return histories_[cells.history].cells == cells.count ? cells.history : copy(cells.history);
  }
  /// The same with the accesses as the first of the cells has seen them.
  uint32_t own_resolved(const Cells& cells);
  /// A history that begins with a write; that of `cells`, when no others have it.
  uint32_t begin(const Cells& cells, const PastAccess& write);
  void add_read(uint32_t number, const PastAccess& read) {
    History& history = histories_[number];
    use(read);
    history.reads.push_back(read);
    history.readers |= History::bit_of(read);
  }
  /// Drops some of the reads; `is_over(read)` says which.
  template <typename IsOver>
  void drop_reads(uint32_t history, IsOver&& is_over);
  /// Of a resolved history: a read, which may continue one that is there, or a strong write.
  void add_resolved_read(uint32_t history, const PastAccess& read);
  template <typename Matters>
  void add_resolved_write(uint32_t history, const PastAccess& write, Matters&& matters);

  /// Takes note of a scatter, to be given back by `drop`. Of `scatter`, `users` is set here.
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
  /// An access as a byte has seen it.
  PastAccess at(PastAccess access, uint32_t offset) const {
    if (access.is_even()) return access;
    access.lanes = access.is_row() ? access.lane_in_row(offset) : scatters_[access.lanes].at(offset);
    access.pc_and_flags &= ~(PastAccess::kRow | PastAccess::kScattered | 7u << PastAccess::kRowShift);
    return access;
  }
  /// Whether in each of the cells all lanes of `part` are also of `whole`.
  bool covers(const PastAccess& whole, const PastAccess& part, const Cells& cells) const;
  /// Whether it is known that each byte which `now` accesses was accessed by the very same thread before, and by it
  /// alone.
  bool is_by_same_threads(const PastAccess& before, const PastAccess& now) const;

 private:
  static constexpr uint32_t kLargestCell = 16;

  struct Page {
    static constexpr uint32_t kUntouched = 0xffffffffu;
    uint32_t cell_shift = kUntouched;  ///< log2 of a cell's bytes: to divide costs as much as all the rest
    std::vector<uint32_t> histories;   ///< of the cells
    bool written_by_threads = false;
  };

  Page& page(uint32_t number) {
    if (number >= pages_.size()) pages_.resize(number + 1);
    return pages_[number];
  }
  /// Makes a page's cells so small that each lies within or without the parts which an access touches.
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
  std::vector<History> histories_;  ///< the first is that of cells which nobody has accessed
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
    const uint32_t first = std::max(offset, base) - base, behind = std::min(end - base, kPageBytes);
    uint32_t last_history = 0xffffffffu;
    const uint32_t cell_bytes = 1u << here.cell_shift;
    for (uint32_t at = first & (0u - cell_bytes); at < behind; at += cell_bytes) {
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

/// @param matters  `matters(access)` says of an earlier access whether it is to be kept, because nothing orders it
template <typename Matters>
void ShadowMemory::add_resolved_write(uint32_t number, const PastAccess& write, Matters&& matters) {
  History& history = histories_[number];
  if (history.write.is_same_but_for_lanes(write)) {
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
