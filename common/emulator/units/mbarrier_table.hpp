// State of the mbarriers in one block's shared memory.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace stagecraft::emulator::machine {
struct Fragment;
}

namespace stagecraft::emulator::units {

/// One mbarrier object (PTX ISA, "Contents of the mbarrier object").
struct Mbarrier {
  uint32_t expected = 0;    ///< arrivals per phase
  uint32_t pending = 0;     ///< arrivals still to come in the current phase
  int64_t transaction = 0;  ///< bytes announced and not yet delivered; may be negative for a while
  uint64_t phase = 0;       ///< phases completed
  std::vector<machine::Fragment*> waiting;
};

/// The live barriers of a block, by offset in its shared memory.
struct MbarrierTable {
  std::map<uint32_t, Mbarrier> live;
};

}  // namespace stagecraft::emulator::units
