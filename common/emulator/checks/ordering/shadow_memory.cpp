#include "emulator/checks/ordering/shadow_memory.hpp"

#include <utility>

namespace stagecraft::emulator::checks {

using machine::kWarpSize;
using machine::LaneMask;

namespace {

constexpr uint32_t kUntouched = 0;             // history
constexpr uint32_t kNeverAlone = 0x80000000u;  // a count of cells that is never reached, so that it stays shared

bool is_same_row(const PastAccess& one, const PastAccess& other) {
  constexpr uint32_t kWidth = 7u << PastAccess::kRowShift;
  return one.is_row() && other.is_row() && one.lanes == other.lanes &&
         ((one.pc_and_flags ^ other.pc_and_flags) & kWidth) == 0;
}

}  // namespace

LaneMask Scatter::at(uint32_t offset) const {
  LaneMask found = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    found |= (offset - offsets[lane] < bytes ? 1u : 0u) << lane;
  }
  return found & lanes;
}

bool Scatter::is_same(const Scatter& other, LaneMask some) const {
  if (bytes != other.bytes) return false;
  LaneMask differ = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    differ |= (offsets[lane] != other.offsets[lane] ? 1u : 0u) << lane;
  }
  return (differ & some) == 0;
}

ShadowMemory::ShadowMemory() { histories_[make()].cells = kNeverAlone; }

void ShadowMemory::clear() {
  for (Page& page : pages_) {
    page.cell_shift = Page::kUntouched;
    page.written_by_threads = false;
  }
  free_histories_.clear();
  for (uint32_t number = static_cast<uint32_t>(histories_.size()) - 1; number != kUntouched; --number) {
    histories_[number].cells = 0;
    forget_accesses(histories_[number]);
    free_histories_.push_back(number);
  }
}

void ShadowMemory::divide(Page& page, uint32_t cell_shift) {
  if (page.cell_shift == Page::kUntouched) {
    page.histories.assign(kPageBytes >> cell_shift, kUntouched);
  } else {
    const uint32_t parts = 1u << (page.cell_shift - cell_shift);
    std::vector<uint32_t> smaller;
    smaller.reserve(kPageBytes >> cell_shift);
    for (const uint32_t history : page.histories) {
      smaller.insert(smaller.end(), parts, history);
      histories_[history].cells += parts - 1;
    }
    page.histories = std::move(smaller);
  }
  page.cell_shift = cell_shift;
}

void ShadowMemory::note_thread_write(uint32_t offset, uint32_t bytes) {
  for (uint32_t each = offset / kPageBytes; each <= (offset + bytes - 1) / kPageBytes; ++each) {
    page(each).written_by_threads = true;
  }
}

uint32_t ShadowMemory::make() {
  if (free_histories_.empty()) {
    histories_.emplace_back();
    return static_cast<uint32_t>(histories_.size() - 1);
  }
  const uint32_t number = free_histories_.back();
  free_histories_.pop_back();
  return number;
}

void ShadowMemory::leave(uint32_t number, uint32_t cells) {
  History& history = histories_[number];
  if (number == kUntouched) return;
  history.cells -= cells;
  if (history.cells != 0) return;
  forget_accesses(history);
  free_histories_.push_back(number);
}

void ShadowMemory::forget_accesses(History& history) {
  drop(history.write);
  for (const PastAccess& read : history.reads) drop(read);
  history.write = {};
  history.reads.clear();
  history.readers = 0;
  history.has_unordered_writes = history.resolved = false;
}

uint32_t ShadowMemory::copy(uint32_t history) {
  const uint32_t number = make();
  const History& from = histories_[history];
  History& to = histories_[number];
  to.write = from.write;
  to.reads.assign(from.reads.begin(), from.reads.end());
  to.readers = from.readers;
  to.has_unordered_writes = from.has_unordered_writes;
  to.resolved = from.resolved;
  use(to.write);
  for (const PastAccess& read : to.reads) use(read);
  return number;
}

uint32_t ShadowMemory::own_resolved(const Cells& cells) {
  const uint32_t number = own(cells);
  History& history = histories_[number];
  if (history.resolved) return number;
  const auto resolve = [&](PastAccess& access) {
    const PastAccess seen = at(access, cells.offset);
    drop(access);
    access = seen;
  };
  resolve(history.write);
  for (PastAccess& read : history.reads) resolve(read);
  // Accesses of one instruction at one time become one.
  size_t kept = 0;
  for (size_t i = 0; i < history.reads.size(); ++i) {
    const PastAccess read = history.reads[i];
    const auto end = history.reads.begin() + static_cast<std::ptrdiff_t>(kept);
    const auto same = std::find_if(history.reads.begin(), end,
                                   [&](const PastAccess& other) { return other.is_same_except_lanes(read); });
    if (same == end) {
      history.reads[kept++] = read;
    } else {
      same->lanes |= read.lanes;
    }
  }
  history.reads.resize(kept);
  history.resolved = true;
  return number;
}

uint32_t ShadowMemory::begin(const Cells& cells, const PastAccess& write) {
  const bool alone = histories_[cells.history].cells == cells.count;
  const uint32_t number = alone ? cells.history : make();
  use(write);
  forget_accesses(histories_[number]);
  histories_[number].write = write;
  return number;
}

void ShadowMemory::add_resolved_read(uint32_t number, const PastAccess& read) {
  History& history = histories_[number];
  for (PastAccess& before : history.reads) {
    if (!before.is_like(read)) continue;
    if (before.is_same_except_lanes(read)) {
      before.lanes |= read.lanes;
      return;
    }
    // What is ordered after a thread's later read is also ordered after its earlier ones.
    if (!before.writes()) before.lanes &= ~read.lanes;
  }
  std::erase_if(history.reads, [](const PastAccess& before) { return before.lanes == 0; });
  add_read(number, read);
}

void ShadowMemory::add_scatters() {
  free_scatters_.push_back(static_cast<uint32_t>(scatters_.size()));
  scatters_.emplace_back();
}

bool ShadowMemory::covers(const PastAccess& whole, const PastAccess& part, const Cells& cells) const {
  if (whole.is_even() && part.is_even()) return (part.lanes & ~whole.lanes) == 0;
  if (is_same_row(whole, part)) return true;
  if (whole.scattered() && part.scattered()) {
    const Scatter &larger = scatters_[whole.lanes], &smaller = scatters_[part.lanes];
    if ((smaller.lanes & ~larger.lanes) == 0 && larger.is_same(smaller, smaller.lanes)) return true;
  }
  for (uint32_t i = 0; i < cells.count; ++i) {
    const uint32_t offset = cells.offset + i * cells.bytes;
    if ((at(part, offset).lanes & ~at(whole, offset).lanes) != 0) return false;
  }
  return true;
}

bool ShadowMemory::is_by_same_threads(const PastAccess& before, const PastAccess& now) const {
  if (before.agent != now.agent) return false;
  if (is_same_row(before, now)) return true;
  if (!before.scattered() || !now.scattered()) return false;
  const Scatter &first = scatters_[before.lanes], &second = scatters_[now.lanes];
  return first.disjoint && (second.lanes & ~first.lanes) == 0 && first.is_same(second, second.lanes);
}

}  // namespace stagecraft::emulator::checks
