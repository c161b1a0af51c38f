// Where the values come from that an observed kernel exchanges among lanes, and that it stores to shared memory.
#pragma once

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::machine {

/// Fills `exchanged_loads` and `stored_constants` of a kernel, after its accesses have been noted in `observed`.
///
/// Values are followed from instruction to instruction through registers, guards and addresses among them, but not
/// through memory or calls. A register with several definitions, as where two paths meet, has the origins of all.
void find_value_origins(Kernel& kernel);

/// Whether the first operand is where the results go. For the few instructions without a result that name a register
/// first (bar.sync, nanosleep), the register counts as one with one more definition, which adds no origin.
bool has_result(const ptx::Instruction& instruction);

}  // namespace stagecraft::emulator::machine
