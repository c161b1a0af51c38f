// What a warp's register file holds when it starts: constants, special registers, and one fragment of all its threads.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Writes the vectors that are the same in every block of a launch, in the place of its warp number `warp`; once per
/// register file, which blocks have one after the other.
/// @param threads  the shape of a block.
void fill_constants(const Kernel& kernel, const Extent3& threads, uint32_t warp, std::byte* registers);
/// Writes the special registers that differ between blocks, and makes the warp ready at the kernel's first instruction.
void start_warp(Warp& warp);

}  // namespace stagecraft::emulator::machine
