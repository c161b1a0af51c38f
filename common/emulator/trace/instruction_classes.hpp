// What the instructions of a kernel are to the model of the chip's speed.
#pragma once

#include "emulator/state/kernel.hpp"
#include "emulator/timing/trace.hpp"

namespace stagecraft::emulator::trace {

/// The class of a PTX instruction. Which machine instructions ptxas makes of it is not known: it may need several or
/// none.
timing::InstructionClass class_of(const ptx::Instruction& instruction);

/// The instructions of a kernel by pc, with the registers that they read and write. An instruction that became several
/// Ops counts at the first.
timing::Code describe_code(const machine::Kernel& kernel);

}  // namespace stagecraft::emulator::trace
