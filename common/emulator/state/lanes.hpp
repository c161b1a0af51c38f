// A warp's lanes: masks of them, and iteration over a mask.
#pragma once

#include <bit>
#include <cstdint>

namespace stagecraft::emulator::machine {

inline constexpr uint32_t kWarpSize = 32;

/// The warps that hold so many threads of a block.
inline uint32_t warps_of(uint64_t threads) { return static_cast<uint32_t>((threads + kWarpSize - 1) / kWarpSize); }

/// Bit i stands for lane i of a warp.
using LaneMask = uint32_t;
inline constexpr LaneMask kAllLanes = 0xffffffffu;

/// Calls `visit(lane)` for each lane of the mask, lowest first.
template <typename Visit>
inline void for_each_lane(LaneMask mask, Visit&& visit) {
  for (; mask != 0; mask &= mask - 1) visit(static_cast<uint32_t>(std::countr_zero(mask)));
}

/// The lowest lane of a mask that is not empty.
inline uint32_t first_lane(LaneMask mask) { return static_cast<uint32_t>(std::countr_zero(mask)); }

}  // namespace stagecraft::emulator::machine
