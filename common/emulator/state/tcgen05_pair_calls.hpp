// Warps that have reached an instruction which one warp of each block of a pair executes together: tcgen05.alloc,
// dealloc and relinquish_alloc_permit with cta_group::2. The warp that comes first waits for the other. PTX says that
// the latter two "may block"; here they always do, so that a program that hangs when they block does hang.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/state/tensor_memory.hpp"

namespace stagecraft::emulator::machine {
struct Fragment;
}

namespace stagecraft::emulator::machine {

enum class Tcgen05PairInstruction : uint8_t { allocate, deallocate, relinquish };
constexpr const char* name_of(Tcgen05PairInstruction instruction) {
  return instruction == Tcgen05PairInstruction::allocate     ? "tcgen05.alloc"
         : instruction == Tcgen05PairInstruction::deallocate ? "tcgen05.dealloc"
                                                             : "tcgen05.relinquish_alloc_permit";
}

struct Tcgen05PairCall {
  Tcgen05PairInstruction instruction = Tcgen05PairInstruction::allocate;
  Fragment* fragment = nullptr;
  uint32_t columns = 0, address = 0;  ///< its operands; only dealloc has an address
  bool met = false;                   ///< a warp of the peer block has come too: neither waits any longer
  uint32_t result = 0;                ///< when `met`: the column that alloc returns to both
};

/// The calls of a block, in the order in which they came. A call is removed when it has met the peer's.
using Tcgen05PairCalls = std::vector<Tcgen05PairCall>;

}  // namespace stagecraft::emulator::machine
