// What the instructions of a kernel are to the model of the chip's speed.
#pragma once

#include "emulator/state/kernel.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::trace {

/// The instructions of a kernel by pc, with the registers that they read and write. An instruction that became several
/// Ops counts at the first.
timing::Code describe_code(const machine::Kernel& kernel);

}  // namespace stagecraft::emulator::trace
