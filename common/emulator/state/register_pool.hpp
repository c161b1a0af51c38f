// The registers that setmaxnreg moves between the warps of a block.
#pragma once

#include <cstdint>
#include <vector>

namespace stagecraft::emulator::machine {

struct Fragment;

/// Registers are counted per thread of a warp: a warp with 168 has 32 * 168 of the multiprocessor's.
///
/// According to PTX there is a pool for each block, which setmaxnreg.dec fills and setmaxnreg.inc empties
/// ("setmaxnreg"). Nothing else is said to fill it, so a warp that exits keeps what it has.
struct RegisterPool {
  struct WarpShare {
    uint32_t count = 0;
    uint32_t changed_at = 0;  ///< pc of its last setmaxnreg
    bool changed = false;     ///< it has executed one
    bool asked = false;       ///< it sleeps in one
  };
  uint32_t at_launch = 0;         ///< of each warp; 0 when it is unknown: then there is always enough
  uint32_t total = 0;             ///< of all warps together
  uint32_t available = 0;         ///< released, and not taken
  std::vector<WarpShare> shares;  ///< by warp; empty before the block's first setmaxnreg
  std::vector<Fragment*> waiting;
};

}  // namespace stagecraft::emulator::machine
