// Handlers that announce what an instruction does. The loads, stores, atomics, .sync operations and fences of a kernel
// that somebody observes get them after translation; all other kernels stay as they are. Rarer events (barriers,
// asynchronous copies) are announced where they happen: see state/announcements.hpp.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Wraps the handlers of a translated kernel so that they announce its effects.
/// @param global  whether weak accesses of global memory are announced, too.
void observe(Kernel& kernel, bool global = false);

}  // namespace stagecraft::emulator::machine
