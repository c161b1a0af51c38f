// How the addresses of a warp's lanes follow each other, found with vector instructions.
#pragma once

#include <algorithm>
#include <bit>
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
inline constexpr uint32_t kLanesAtOnce = sizeof(LaneAddresses) / sizeof(uint64_t);

/// Calls `visit(addresses, before, bits)` with the addresses of a few lanes after the other, those of the lanes before
/// each of them, and the bits of their masks. Before the first lane stands its own address. Vectors are passed by
/// reference, because how they are returned depends on the processor that is compiled for.
template <typename Visit>
[[gnu::always_inline]] inline void for_lanes_at_once(const uint64_t* addresses, Visit&& visit) {
  LaneAddresses here, before, bits{1, 2, 4, 8};
  std::memcpy(&here, addresses, sizeof here);
  before = LaneAddresses{addresses[0], addresses[0], addresses[1], addresses[2]};
  for (uint32_t lane = 0;;) {
    visit(here, before, bits);
    lane += kLanesAtOnce;
    if (lane == machine::kWarpSize) break;
    bits <<= kLanesAtOnce;
    std::memcpy(&here, addresses + lane, sizeof here);
    std::memcpy(&before, addresses + lane - 1, sizeof before);
  }
}

/// The lanes whose bits a vector has.
[[gnu::always_inline]] inline machine::LaneMask mask_of(const LaneAddresses& bits) {
  return static_cast<machine::LaneMask>(bits[0] | bits[1] | bits[2] | bits[3]);
}

/// @param addresses  of all lanes of a warp
/// @param bytes      that each lane accesses
inline LanePattern pattern_of(const uint64_t* addresses, uint32_t bytes) {
  LaneAddresses follows{}, repeats{};
  for_lanes_at_once(addresses, [&](const LaneAddresses& here, const LaneAddresses& before, const LaneAddresses& bits) {
    follows |= (LaneAddresses)(here - before == bytes) & bits;
    repeats |= (LaneAddresses)(here == before) & bits;
  });
  return {mask_of(follows), mask_of(repeats) & ~1u};
}

/// The lanes of a warp whose address is this one.
inline machine::LaneMask lanes_at(const uint64_t* addresses, uint64_t address) {
  LaneAddresses found{};
  for_lanes_at_once(addresses, [&](const LaneAddresses& here, const LaneAddresses&, const LaneAddresses& bits) {
    found |= (LaneAddresses)(here == address) & bits;
  });
  return mask_of(found);
}

/// The first of some lanes, and those directly after it that are among `joined` too.
inline machine::LaneMask run_from_first(machine::LaneMask lanes, machine::LaneMask joined) {
  const uint32_t first = machine::first_lane(lanes);
  const int further = std::countr_one((joined & lanes) >> first >> 1);
  return machine::kAllLanes >> (machine::kWarpSize - 1 - further) << first;
}

/// Those of some lanes that access the place that the first of them accesses.
/// @param repeats  of the pattern
inline machine::LaneMask lanes_together(const uint64_t* addresses, machine::LaneMask lanes, machine::LaneMask repeats) {
  const uint64_t address = addresses[machine::first_lane(lanes)];
  const machine::LaneMask run = run_from_first(lanes, repeats), others = lanes & ~run;
  // Each of the others is at the place of one of these.
  machine::LaneMask places = others & ~(repeats & others << 1);
  if (std::popcount(places) > 4) return lanes & lanes_at(addresses, address);
  for (; places != 0; places &= places - 1) {
    if (addresses[machine::first_lane(places)] == address) return lanes & lanes_at(addresses, address);
  }
  return run;
}

/// Divides the lanes that access memory into groups: calls `together(lanes, address)` for those that access one place,
/// and `row(first, count, address)` for those that follow each other, as a lane alone does.
/// @param pattern  of their addresses
template <typename Together, typename Row>
[[gnu::always_inline]] inline void for_each_group(const uint64_t* addresses, machine::LaneMask lanes,
                                                  const LanePattern& pattern, Together&& together, Row&& row) {
  for (machine::LaneMask rest = lanes; rest != 0;) {
    const uint32_t first = machine::first_lane(rest);
    const uint64_t address = addresses[first];
    if (((pattern.repeats & rest) >> first >> 1 & 1) != 0) {
      const machine::LaneMask group = lanes_together(addresses, rest, pattern.repeats);
      rest &= ~group;
      together(group, address);
      continue;
    }
    const machine::LaneMask group = run_from_first(rest, pattern.follows);
    rest &= ~group;
    row(first, static_cast<uint32_t>(std::popcount(group)), address);
  }
}

/// Where the addresses of a warp's lanes are, and how they follow each other.
struct LaneLayout {
  LanePattern pattern;
  uint64_t least, greatest;
};

/// @param addresses  of all lanes of a warp, all of which count, and have the highest bit clear
/// @param bytes      that each lane accesses
inline LaneLayout layout_of(const uint64_t* addresses, uint32_t bytes) {
  using Signed [[gnu::vector_size(32)]] = int64_t;  // processors compare those
  LaneAddresses follows{}, repeats{};
  Signed least, greatest;
  std::memcpy(&least, addresses, sizeof least);
  greatest = least;
  for_lanes_at_once(addresses, [&](const LaneAddresses& here, const LaneAddresses& before, const LaneAddresses& bits) {
    follows |= (LaneAddresses)(here - before == bytes) & bits;
    repeats |= (LaneAddresses)(here == before) & bits;
    const auto places = (Signed)here;
    least = places < least ? places : least;
    greatest = places > greatest ? places : greatest;
  });
  LaneLayout layout{
      {mask_of(follows), mask_of(repeats) & ~1u}, static_cast<uint64_t>(least[0]), static_cast<uint64_t>(greatest[0])};
  for (uint32_t i = 1; i < kLanesAtOnce; ++i) {
    layout.least = std::min(layout.least, static_cast<uint64_t>(least[i]));
    layout.greatest = std::max(layout.greatest, static_cast<uint64_t>(greatest[i]));
  }
  return layout;
}

}  // namespace stagecraft::emulator::checks
