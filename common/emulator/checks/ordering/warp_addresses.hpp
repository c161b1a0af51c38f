// How the addresses of a warp's lanes lie to each other.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "emulator/checks/race/shadow_memory.hpp"
#include "emulator/state/device_memory.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// Whether there is no lane between them that is none of them.
inline bool are_neighbours(machine::LaneMask lanes) {
  const machine::LaneMask run = lanes >> machine::first_lane(lanes);
  return (run & (run + 1)) == 0;
}

struct WarpAddresses {
  [[gnu::always_inline]] WarpAddresses(const uint32_t* addresses_, machine::LaneMask lanes_, uint32_t bytes_)
      : addresses(addresses_),
        lanes(lanes_),
        bytes(bytes_),
        first(machine::first_lane(lanes_)),
        begin(addresses_[first]) {
    if (lanes == machine::kAllLanes) {
      compare<true>();
    } else {
      compare<false>();
    }
  }

  bool is_one_place() const { return elsewhere == 0; }
  bool is_row() const { return off_row == 0 && elsewhere != 0 && are_neighbours(lanes) && std::has_single_bit(bytes); }
  /// Of a row, those that are not the first lane's.
  uint32_t bytes_behind_first() const { return static_cast<uint32_t>(std::popcount(lanes) - 1) * bytes; }
  void make_row(PastAccess& access) const {
    access.lanes = (begin & machine::kSharedOffsetMask) - first * bytes;
    const auto width = static_cast<uint32_t>(std::countr_zero(bytes));
    access.pc_and_flags |= PastAccess::kRow | width << PastAccess::kRowShift;
  }

  const uint32_t* addresses;  ///< with rank; of lanes that take no part: anything
  machine::LaneMask lanes;
  uint32_t bytes;                       ///< of each lane
  uint32_t first, begin;                ///< the first lane, and where it is
  uint32_t elsewhere = 0, off_row = 0;  ///< bits in which an address differs from the first, and from a row
  uint32_t lowest = 0, highest = 0;

 private:
  template <bool kAll>
  [[gnu::always_inline]] void compare() {
    const uint32_t row = begin - first * bytes;
    uint32_t differ = 0, off = 0, least = begin, most = begin;
    // All lanes at once: that of those which take no part does not count.
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) {
      const uint32_t counts = kAll ? ~0u : 0u - (lanes >> lane & 1);
      const uint32_t address = kAll ? addresses[lane] : begin ^ ((addresses[lane] ^ begin) & counts);
      differ |= address ^ begin;
      off |= (address - row - lane * bytes) & counts;
      least = std::min(least, address);
      most = std::max(most, address);
    }
    elsewhere = differ;
    off_row = off;
    lowest = least;
    highest = most;
  }
};

}  // namespace stagecraft::emulator::checks
