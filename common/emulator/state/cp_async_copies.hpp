// The non-bulk copies (cp.async) of one warp, and the groups that its threads have made of them.
//
// All copies of a warp take the same time, and its clock never goes back: they end in the order of their issue. So a
// thread's groups finish in order too, and only the last copy of each group needs to be known. Copies are numbered from
// 1.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::machine {
struct Fragment;
}

namespace stagecraft::emulator::machine {

class CpAsyncCopies {
 public:
  /// What one instruction copies.
  struct Copy {
    LaneMask lanes = 0;
    uint32_t size = 0;        ///< bytes that each lane writes
    uint64_t generation = 0;  ///< of device memory, when the sources were checked
    std::array<uint64_t, kWarpSize> source;
    std::array<uint32_t, kWarpSize> destination;
    std::array<uint8_t, kWarpSize> bytes;  ///< bytes that are read; the rest becomes zeros
  };

  /// Adds a copy that ends at virtual time `end`, and returns it to be filled in.
  Copy& issue(LaneMask lanes, uint64_t end);
  /// Returns the oldest copy that has not ended.
  const Copy& oldest() const { return under_way_[(finished_ + 1) % under_way_.size()]; }
  /// Ends the oldest copy, and wakes the fragments that waited for it.
  void finish_oldest();

  /// Closes the open groups of these lanes, even empty ones.
  void commit(LaneMask lanes);
  /// Returns the number of the copy whose end these lanes wait for when all groups of each lane except the youngest
  /// `keep` must finish. It is a copy that has ended if there is nothing to wait for.
  uint64_t awaited(LaneMask lanes, uint32_t keep) const;
  bool has_ended(uint64_t copy) const { return copy <= finished_; }
  /// Has the fragment woken when that copy ends.
  void add_waiting(Fragment& fragment, uint64_t copy) { waiting_.push_back({&fragment, copy}); }

  /// Returns when the last copy of a lane ends, or has ended; 0 without any.
  uint64_t end_of(uint32_t lane) const { return end_[lane]; }

 private:
  using PerLane = std::array<uint64_t, kWarpSize>;
  struct Waiting {
    Fragment* fragment;
    uint64_t copy;
  };

  uint64_t issued_ = 0, finished_ = 0;
  std::vector<Copy> under_way_;  ///< copy number n is at n modulo the size
  PerLane last_{}, end_{};       ///< the last copy of each lane, and when it ends
  PerLane groups_{};             ///< how many each lane has committed
  std::vector<PerLane> newest_;  ///< the last copy of each lane's group number g, from 0, at g modulo the size
  std::vector<Waiting> waiting_;
};

}  // namespace stagecraft::emulator::machine
