// Describes the machine code of a kernel to the model of the chip's speed.
#pragma once

#include "emulator/state/kernel.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::trace {

/// The machine code of a kernel, which must have some.
timing::MachineCode describe_machine_code(const machine::Kernel& kernel);

}  // namespace stagecraft::emulator::trace
