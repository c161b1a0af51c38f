// Which strong writes have released something, and which strong reads threads have made: for reports, which say which
// release an acquire has read from, and why that does not cover an access.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "emulator/checks/ordering/vector_clock.hpp"
#include "emulator/state/observer.hpp"

namespace stagecraft::emulator::checks {

/// A strong write that released what its thread, or an earlier fence of its thread, knew.
struct ReleaseNote {
  uint32_t cluster = 0, warp = 0, lane = 0;
  uint32_t site = 0;        ///< GlobalHistory
  uint32_t fence_site = 0;  ///< 0: the write itself releases
  Time time = 0;            ///< what the thread had done up to this time of its warp is released
  SharedClock released{};   ///< what it knew of its cluster then
  SharedClock known{};      ///< what it knew when it wrote, which may be later
  uint64_t number = 0;      ///< among all notes of the launch
};

/// The latest few of each place.
class ReleaseNotes {
 public:
  void add(uint64_t address, const ReleaseNote& note) {
    std::vector<ReleaseNote>& kept = places_[address];
    const auto same = std::find_if(kept.begin(), kept.end(), [&](const ReleaseNote& each) {
      return each.cluster == note.cluster && each.warp == note.warp && each.lane == note.lane;
    });
    if (same != kept.end()) {
      kept.erase(same);
    } else if (kept.size() == kMostOfPlace) {
      kept.erase(kept.begin());
    } else if (count_ == kMost) {
      if (kept.empty()) places_.erase(address);
      return;
    } else {
      ++count_;
    }
    kept.push_back(note);
  }
  /// A plain write of the place ends what was released there.
  void drop(uint64_t address) {
    const auto found = places_.find(address);
    if (found == places_.end()) return;
    count_ -= found->second.size();
    places_.erase(found);
  }
  /// Those of one place, in their order; null: none.
  const std::vector<ReleaseNote>* of(uint64_t address) const {
    const auto found = places_.find(address);
    return found == places_.end() ? nullptr : &found->second;
  }
  /// Calls `visit(address, note)` for each.
  template <typename Visit>
  void for_each(Visit&& visit) const {
    for (const auto& [address, kept] : places_) {
      for (const ReleaseNote& note : kept) visit(address, note);
    }
  }

 private:
  static constexpr size_t kMostOfPlace = 32, kMost = size_t{1} << 14;

  std::unordered_map<uint64_t, std::vector<ReleaseNote>> places_;
  size_t count_ = 0;
};

/// A strong read, with acquire or without, which a fence may follow.
struct AcquireNote {
  uint64_t address = 0;  ///< of the first lane
  uint32_t pc = 0;
  machine::LaneMask lanes = 0;
  Time time = 0;
  uint64_t number = 0;
  uint32_t bytes = 0;
};

/// The latest of each of the few instructions by which a warp reads so.
class AcquireNotes {
 public:
  void add(const AcquireNote& note) {
    const auto same =
        std::find_if(kept_.begin(), kept_.end(), [&](const AcquireNote& each) { return each.pc == note.pc; });
    if (same != kept_.end()) {
      *same = note;
    } else {
      if (kept_.size() == kMost) kept_.erase(kept_.begin());
      kept_.push_back(note);
    }
  }
  auto begin() const { return kept_.begin(); }
  auto end() const { return kept_.end(); }

 private:
  static constexpr size_t kMost = 8;

  std::vector<AcquireNote> kept_;
};

}  // namespace stagecraft::emulator::checks
