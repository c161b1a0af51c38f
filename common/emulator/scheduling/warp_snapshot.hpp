// What a warp was like after a turn. What it does next depends on this, and on what others do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// The registers, the local memory and the places of a warp's lanes.
class WarpSnapshot {
 public:
  void take(const Warp& warp);
  /// Whether the lanes of the warp are in the same places; they may have other values.
  bool has_places_of(const Warp& warp) const;
  /// Whether the warp is as it was, and all lanes that go on alone have run since. Lanes that took different paths must
  /// all have run: one that waits for its turn could do something.
  bool matches(const Warp& warp) const;

 private:
  struct FragmentRecord {
    uint32_t pc = 0;
    LaneMask mask = 0;
    FragmentState state = FragmentState::ready;
    bool timed_out = false;
    uint32_t idle_poll_pc = 0, local_frame = 0;
    size_t calls = 0;
    bool operator==(const FragmentRecord&) const = default;
  };
  static FragmentRecord record_of(const Fragment& fragment);

  uint64_t runs_ = 0;  ///< of the warp
  std::vector<FragmentRecord> fragments_;
  std::vector<std::byte> registers_, local_;
};

}  // namespace stagecraft::emulator::machine
