// The values of special registers.
#pragma once

#include <cstdint>

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Value of a special register in one thread. The table of their names is in ptx/special_registers.cpp.
/// @param threads  the shape of a block.
/// @param thread   the number of the thread in its block; does not matter unless the register differs between threads.
/// @param block    may be null for a register that differs between threads only (ptx::is_of_thread).
uint64_t value_of(const SpecialSlot& slot, const Extent3& threads, uint32_t thread, const Block* block);

}  // namespace stagecraft::emulator::machine
