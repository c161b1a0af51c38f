// The four warps that execute wgmma and setmaxnreg together.
#pragma once

#include <cstdint>

namespace stagecraft::emulator::machine {

/// Warps of a warpgroup; the rank of its first in the block is a multiple of it (PTX ISA, "wgmma").
inline constexpr uint32_t kWarpgroupWarps = 4;

}  // namespace stagecraft::emulator::machine
