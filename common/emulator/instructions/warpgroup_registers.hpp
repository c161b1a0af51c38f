// Which instructions of an observed kernel have registers in which wgmma works.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Finds the accumulators of wgmma.mma_async, the registers with its A, and what moves copy from or to them; and lets
/// each other instruction that has one announce that (WarpgroupRegisterUse). Does nothing in a kernel without wgmma.
/// Called after all other handlers of the kernel have been wrapped.
void observe_warpgroup_registers(Kernel& kernel);

}  // namespace stagecraft::emulator::machine
