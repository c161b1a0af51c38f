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

/// Calls `visit(address, bytes)` for each run of bytes that lanes access one after the other, mostly once.
/// @param addresses  with rank; undefined for lanes that do not take part
template <typename Visit>
void for_each_run(const uint32_t* addresses, machine::LaneMask lanes, uint32_t bytes, const Visit& visit) {
  uint32_t begin = 0, run = 0;
  machine::for_each_lane(lanes, [&](uint32_t lane) {
    if (addresses[lane] != begin + run) {
      if (run != 0) visit(begin, run);
      begin = addresses[lane];
      run = 0;
    }
    run += bytes;
  });
  if (run != 0) visit(begin, run);
}

class WarpAddresses {
 public:
  [[gnu::always_inline]] WarpAddresses(const uint32_t* addresses_, machine::LaneMask lanes_, uint32_t bytes_)
      : addresses(addresses_),
        lanes(lanes_),
        bytes(bytes_),
        first(machine::first_lane(lanes_)),
        begin(addresses_[first]),
        lowest(begin),
        highest(begin),
        bits(begin) {
    const bool is_regular = lanes == machine::kAllLanes ? compare<true>() : compare<false>();
    if (!is_regular) scan();
  }

  bool is_one_place() const { return shape_ == Shape::one_place; }
  bool is_row() const { return shape_ == Shape::row; }
  /// Whether all of them are in the memory of one block.
  bool are_in_one_block() const { return (lowest ^ highest) >> machine::kSharedRankShift == 0; }
  /// Bytes of a row that are not the first lane's.
  uint32_t bytes_after_first() const { return highest - lowest; }
  void make_row(PastAccess& access) const {
    access.lanes = (begin & machine::kSharedOffsetMask) - first * bytes;
    const auto width = static_cast<uint32_t>(std::countr_zero(bytes));
    access.pc_and_flags |= PastAccess::kRow | width << PastAccess::kRowShift;
  }

  const uint32_t* addresses;  ///< with rank; undefined for lanes that do not take part
  machine::LaneMask lanes;
  uint32_t bytes;            ///< of each lane
  uint32_t first, begin;     ///< the first lane, and its address
  uint32_t lowest, highest;  ///< of the addresses
  uint32_t bits;             ///< its lowest bit is the lowest of all addresses

 private:
  enum class Shape : uint8_t { one_place, row, scattered };

  /// Finds one place or a row. The first two lanes say which of them it can be, so that all are compared only once.
  template <bool kAll>
  [[gnu::always_inline]] bool compare() {
    const machine::LaneMask others = lanes & (lanes - 1);
    const uint32_t step = others == 0 ? 0 : addresses[machine::first_lane(others)] - begin;
    if (step != 0 && (step != bytes || !std::has_single_bit(bytes) || !are_neighbours(lanes))) return false;
    const uint32_t origin = begin - first * step;
    uint32_t irregular = 0;
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) {
      const uint32_t counts = kAll ? ~0u : 0u - (lanes >> lane & 1);
      irregular |= (addresses[lane] - origin - lane * step) & counts;
    }
    if (irregular != 0) return false;
    shape_ = step == 0 ? Shape::one_place : Shape::row;
    highest = begin + static_cast<uint32_t>(std::popcount(lanes) - 1) * step;
    bits |= step;
    return true;
  }
  [[gnu::noinline]] void scan() {
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) {
      const uint32_t address = (lanes >> lane & 1) != 0 ? addresses[lane] : begin;
      lowest = std::min(lowest, address);
      highest = std::max(highest, address);
      bits |= address;
    }
  }

  Shape shape_ = Shape::scattered;
};

}  // namespace stagecraft::emulator::checks
