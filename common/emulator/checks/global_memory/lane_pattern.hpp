// How the addresses of a warp's lanes follow each other, found with vector instructions.
#pragma once

#include <cstdint>
#include <cstring>

#include "emulator/state/lanes.hpp"

namespace stagecraft::emulator::checks {

/// The lanes, other than the first, whose address is the next one after that of the lane before, and those whose
/// address is the same. Addresses of lanes that are not active count like others.
struct LanePattern {
  machine::LaneMask follows = 0, repeats = 0;
};

using LaneAddresses [[gnu::vector_size(32)]] = uint64_t;  ///< those of a few lanes

/// The lanes for which `test(here, before, truths)` makes all bits of a truth ones. `before` has the address of the
/// lane before each, and that of the first lane less one before the first. Vectors are passed by reference, because how
/// they are returned depends on the processor that is compiled for.
template <typename Test>
[[gnu::always_inline]] inline machine::LaneMask lanes_where(const uint64_t* addresses, Test&& test) {
  constexpr uint32_t kCount = sizeof(LaneAddresses) / sizeof(uint64_t);
  LaneAddresses bits{1, 2, 4, 8}, lanes{};
  LaneAddresses before{addresses[0] - 1, addresses[0], addresses[1], addresses[2]};
  for (uint32_t lane = 0;;) {
    LaneAddresses here, truths;
    std::memcpy(&here, addresses + lane, sizeof here);
    test(here, before, truths);
    lanes |= truths & bits;
    lane += kCount;
    if (lane == machine::kWarpSize) break;
    bits <<= kCount;
    std::memcpy(&before, addresses + lane - 1, sizeof before);
  }
  return static_cast<machine::LaneMask>(lanes[0] | lanes[1] | lanes[2] | lanes[3]);
}

/// @param addresses  of all lanes of a warp
/// @param bytes      that each lane accesses
inline LanePattern pattern_of(const uint64_t* addresses, uint32_t bytes) {
  const LaneAddresses step{bytes, bytes, bytes, bytes};
  const auto follows = [&](const LaneAddresses& here, const LaneAddresses& before, LaneAddresses& truths) {
    truths = (LaneAddresses)(here - before == step);
  };
  const auto repeats = [](const LaneAddresses& here, const LaneAddresses& before, LaneAddresses& truths) {
    truths = (LaneAddresses)(here == before);
  };
  return {lanes_where(addresses, follows) & ~1u, lanes_where(addresses, repeats)};
}

/// The lanes of a warp whose address is this one.
inline machine::LaneMask lanes_at(const uint64_t* addresses, uint64_t address) {
  const LaneAddresses wanted{address, address, address, address};
  return lanes_where(addresses, [&](const LaneAddresses& here, const LaneAddresses&, LaneAddresses& truths) {
    truths = (LaneAddresses)(here == wanted);
  });
}

}  // namespace stagecraft::emulator::checks
