// Handlers that announce each instruction that a warp executes (Observer::instruction_executed), for the timing mode.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Wraps all handlers of a translated kernel, also those that `observe` has wrapped. A kernel that nobody traces stays
/// as it is, and pays nothing.
void trace_instructions(Kernel& kernel);

}  // namespace stagecraft::emulator::machine
