// What a warp's register file holds when it starts: constants, special registers, and one fragment of all its threads.
#pragma once

#include "emulator/machine/grid.hpp"

namespace stagecraft::emulator::machine {

/// Writes the vectors that are the same in every warp of a kernel; once per register file.
void fill_constants(const Kernel& kernel, std::byte* registers);
/// Writes the special registers and makes the warp ready at the kernel's first instruction.
void start_warp(Warp& warp);

}  // namespace stagecraft::emulator::machine
