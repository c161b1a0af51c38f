// Writes of global memory that a later strong one has replaced in the cell of their bytes, and that matter still.
//
// Strong writes, such as atomics, need no order among each other, but a weak access must come after all of them: the
// last block of a reduction must know of each addition, not of the last one alone. A strong write must in turn come
// after a weak one that set the bytes, though another strong write is between. What is kept of a place is bounded:
// the latest few writes of each warp, some of other clusters than the last one's among them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/checks/global_memory/sector_parts.hpp"

namespace stagecraft::emulator::checks {

/// A write as the first byte of its range has seen it.
struct HiddenWrite {
  GlobalEntry entry;
  uint32_t cluster = 0, agent = 0;  ///< of its record
  machine::LaneMask lanes = 0;
  uint8_t bytes = 0;
  bool observes = false;  ///< GlobalRecord::kObserves
};

/// Those of one launch.
class HiddenWrites {
 public:
  /// Adds a write of the `write.bytes` bytes from an address on. Returns whether something is kept of them.
  bool add(uint64_t address, const HiddenWrite& write) {
    std::vector<HiddenWrite>& kept = places_[address];
    const auto is_replaced = [&](const HiddenWrite& past) {
      return past.cluster == write.cluster && past.agent == write.agent && past.bytes == write.bytes &&
             (past.lanes & ~write.lanes) == 0 && past.observes == write.observes;
    };
    const auto replaced = std::find_if(kept.begin(), kept.end(), is_replaced);
    if (replaced != kept.end()) {
      kept.erase(replaced);
      --count_;
    } else if (kept.size() == kMostOfPlace) {
      drop_one(kept, write.cluster);
    }
    if (count_ == kMost) return !kept.empty();
    kept.push_back(write);
    ++count_;
    return true;
  }
  /// Forgets what is kept of the bytes from an address on.
  void drop(uint64_t address) {
    const auto found = places_.find(address);
    if (found == places_.end()) return;
    count_ -= found->second.size();
    places_.erase(found);
  }
  /// Calls `visit(entry, write)` for what is kept of the bytes of a cell, in the order of the writes; `entry` is the
  /// write as the cell sees it. The cell may be a part of what the writes were noted for.
  template <typename Visit>
  void for_each(uint64_t address, uint32_t bytes, Visit&& visit) const {
    if (places_.empty()) return;
    uint64_t last = 0;
    for (const uint64_t alignment : {uint64_t{kSectorBytes}, uint64_t{4}, uint64_t{1}}) {
      const uint64_t base = address / alignment * alignment;
      const auto found = base == last ? places_.end() : places_.find(base);
      last = base;
      if (found == places_.end()) continue;
      for (const HiddenWrite& write : found->second) {
        if (base + write.bytes <= address || address + bytes <= base) continue;
        visit(write.entry.moved(static_cast<uint32_t>(address - base)), write);
      }
    }
  }

 private:
  static constexpr size_t kMostOfPlace = 8, kMost = size_t{1} << 21;

  /// The oldest write of the cluster that writes now, if it has half of the room; else the oldest of all. What somebody
  /// has observed goes before its observation.
  static void drop_one(std::vector<HiddenWrite>& kept, uint32_t cluster) {
    const auto is_own = [&](const HiddenWrite& each) { return each.cluster == cluster && !each.observes; };
    const bool has_half = std::count_if(kept.begin(), kept.end(), is_own) * 2 >= static_cast<long>(kMostOfPlace);
    kept.erase(has_half ? std::find_if(kept.begin(), kept.end(), is_own) : kept.begin());
  }

  std::unordered_map<uint64_t, std::vector<HiddenWrite>> places_;
  size_t count_ = 0;
};

}  // namespace stagecraft::emulator::checks
