// The non-bulk copies (cp.async) of one warp, and the groups that its threads have made of them.
//
// All copies of a warp take the same time, and its clock never goes back: they end in the order of their issue. So a
// thread's groups are finished from the oldest on, and of each only its last copy needs to be known. Copies are
// numbered, from 1.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::machine {
struct Fragment;
}

namespace stagecraft::emulator::machine {

class WarpCopies {
 public:
  /// What one instruction copies.
  struct Copy {
    LaneMask lanes = 0;
    uint32_t size = 0;        ///< what each lane writes
    uint64_t generation = 0;  ///< of device memory, when the sources were checked
    std::array<uint64_t, kWarpSize> source;
    std::array<uint32_t, kWarpSize> destination;
    std::array<uint8_t, kWarpSize> bytes;  ///< what is read; the rest becomes zeros
  };

  /// A new copy, to be filled in. `end` is the virtual time of its end.
  Copy& issue(LaneMask lanes, uint64_t end);
  /// The oldest copy that is under way.
  const Copy& oldest() const { return under_way_[(finished_ + 1) % under_way_.size()]; }
  /// It has ended. Wakes those who have waited for it.
  void finish_oldest();

  /// Closes the open groups of these lanes, empty ones too.
  void commit(LaneMask lanes);
  /// The copy whose end these lanes wait for when all but the youngest `keep` groups of each shall be finished. One
  /// that has ended, if nothing is to be waited for.
  uint64_t awaited(LaneMask lanes, uint32_t keep) const;
  bool has_ended(uint64_t copy) const { return copy <= finished_; }
  /// The fragment is woken when that copy ends.
  void add_waiting(Fragment& fragment, uint64_t copy) { waiting_.push_back({&fragment, copy}); }

  /// When the last copy of a lane ends, or has ended; 0 without any.
  uint64_t end_of(uint32_t lane) const { return end_[lane]; }

 private:
  using PerLane = std::array<uint64_t, kWarpSize>;
  struct Waiting {
    Fragment* fragment;
    uint64_t copy;
  };

  uint64_t issued_ = 0, finished_ = 0;
  std::vector<Copy> under_way_;  ///< copy number n at n modulo the size
  PerLane last_{}, end_{};       ///< of each lane, its last copy and when that ends
  PerLane groups_{};             ///< how many each lane has committed
  std::vector<PerLane> newest_;  ///< of the lane's group number g, from 0, its last copy, at g modulo the size
  std::vector<Waiting> waiting_;
};

}  // namespace stagecraft::emulator::machine
