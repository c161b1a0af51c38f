// Warps that have come to an instruction which one warp of each block of a pair executes together: tcgen05.alloc,
// dealloc and relinquish_alloc_permit with cta_group::2. Whoever comes first waits for the other. For the latter two
// PTX says that they "may block"; here they always do, so that a program which hangs when they block is found out.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/state/tensor_memory.hpp"

namespace stagecraft::emulator::machine {
struct Fragment;
}

namespace stagecraft::emulator::machine {

enum class PairInstruction : uint8_t { allocate, deallocate, relinquish };
constexpr const char* name_of(PairInstruction instruction) {
  return instruction == PairInstruction::allocate     ? "tcgen05.alloc"
         : instruction == PairInstruction::deallocate ? "tcgen05.dealloc"
                                                      : "tcgen05.relinquish_alloc_permit";
}

struct PairCall {
  PairInstruction instruction = PairInstruction::allocate;
  Fragment* fragment = nullptr;
  uint32_t columns = 0, address = 0;  ///< its operands; the address: of dealloc
  bool met = false;                   ///< a warp of the peer has come as well, and the two need not wait any more
  uint32_t result = 0;                ///< when `met`: the column that alloc gives to both
};

/// Those of a block, in the order of their coming; each goes when it has met the peer's.
using PairCalls = std::vector<PairCall>;

}  // namespace stagecraft::emulator::machine
