// Writes of global memory that a later strong one has replaced in the cell of their bytes, and that matter still.
//
// Strong writes, such as atomics, need no order among each other, but a weak access must come after all of them: the
// last block of a reduction must know of each addition, not of the last one alone. A strong write must in turn come
// after a weak one that set the bytes, though another strong write is between. The first few of each place are kept:
// where all blocks do the same, those of the first ones show what is missing. An atomic whose old value the program
// looks at has seen what came before, as a ticket has: it is not kept, and ends what is.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "emulator/checks/global_memory/sector_parts.hpp"

namespace stagecraft::emulator::checks {

/// A write as the first byte of its range has seen it.
struct HiddenWrite {
  GlobalEntry entry;
  uint32_t cluster = 0, agent = 0;  ///< of its record
  machine::LaneMask lanes = 0;
  uint8_t bytes = 0;
  bool strong = false;
};

/// Those of one launch.
class HiddenWrites {
 public:
  /// Takes a write of the `write.bytes` bytes from an address on.
  /// @param replaced  the entry of the cell so far
  /// @param entry     the one that replaces it
  /// Returns that, with what it says about writes behind it.
  GlobalEntry add(uint64_t address, const HiddenWrite& write, GlobalEntry replaced, GlobalEntry entry) {
    if (places_.size() >= kMostPlaces && !replaced.hides()) return entry.like(false, true);
    Kept& kept = places_[address];
    const auto end = kept.writes.begin() + kept.count;
    const auto same = std::find_if(kept.writes.begin(), end, [&](const HiddenWrite& past) {
      return past.cluster == write.cluster && past.agent == write.agent && past.bytes == write.bytes &&
             (past.lanes & ~write.lanes) == 0 && past.strong == write.strong;
    });
    if (same != end) {
      *same = write;
    } else if (kept.count < kept.writes.size()) {
      kept.writes[kept.count++] = write;
    }
    const bool all_strong =
        std::all_of(kept.writes.begin(), kept.writes.end(), [](const HiddenWrite& each) { return each.strong; });
    return entry.like(true, kept.count == kept.writes.size() && all_strong);
  }
  /// Forgets what is kept of the bytes from an address on.
  void drop(uint64_t address) { places_.erase(address); }
  /// Calls `visit(entry, write)` for what is kept of the bytes of a cell; `entry` is the write as the cell sees it. The
  /// cell may be a part of what the writes were noted for.
  template <typename Visit>
  void for_each(uint64_t address, uint32_t bytes, Visit&& visit) const {
    if (places_.empty()) return;
    uint64_t last = 0;
    for (const uint64_t alignment : {uint64_t{kSectorBytes}, uint64_t{4}, uint64_t{1}}) {
      const uint64_t base = address / alignment * alignment;
      const auto found = base == last ? places_.end() : places_.find(base);
      last = base;
      if (found == places_.end()) continue;
      for (uint32_t i = 0; i < found->second.count; ++i) {
        const HiddenWrite& write = found->second.writes[i];
        if (base + write.bytes <= address || address + bytes <= base) continue;
        visit(write.entry.moved(static_cast<uint32_t>(address - base)), write);
      }
    }
  }

 private:
  static constexpr size_t kMostPlaces = size_t{1} << 18;
  struct Kept {
    std::array<HiddenWrite, 4> writes;
    uint32_t count = 0;
  };

  std::unordered_map<uint64_t, Kept> places_;
};

}  // namespace stagecraft::emulator::checks
