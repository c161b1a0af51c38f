// How the shared addresses of a warp's lanes relate to each other: one place, a row, or scattered.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "emulator/checks/ordering/past_access.hpp"
#include "emulator/state/device_memory.hpp"
#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// Whether these lanes are consecutive.
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
  /// Bytes of a row that are not the first lane's.
  uint32_t bytes_after_first() const { return static_cast<uint32_t>(std::popcount(lanes) - 1) * bytes; }
  void make_row(PastAccess& access) const {
    access.lanes = (begin & machine::kSharedOffsetMask) - first * bytes;
    const auto width = static_cast<uint32_t>(std::countr_zero(bytes));
    access.pc_and_flags |= PastAccess::kRow | width << PastAccess::kRowShift;
  }

  const uint32_t* addresses;  ///< with rank; undefined for lanes that do not take part
  machine::LaneMask lanes;
  uint32_t bytes;                       ///< of each lane
  uint32_t first, begin;                ///< the first lane, and its address
  uint32_t elsewhere = 0, off_row = 0;  ///< bits in which an address differs from the first one, and from a row
  uint32_t lowest = 0, highest = 0;

 private:
  template <bool kAll>
  [[gnu::always_inline]] void compare() {
    const uint32_t row = begin - first * bytes;
    uint32_t differ = 0, off = 0, least = begin, most = begin;
    // All lanes at once; those that do not take part are masked out.
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
