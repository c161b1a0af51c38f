// Announcing the loads, stores, atomics, .sync operations and fences of a kernel, by wrapping their handlers after
// translation: the Ops of a kernel that nobody observes are untouched. Rarer events (barriers, asynchronous copies) are
// announced where they happen: see state/announcements.hpp.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// How an instruction orders other accesses, as it is written; of what accesses no memory: weak.
AccessOrder order_of(const ptx::Instruction& instruction);

/// Wraps the handlers of a translated kernel whose effects are to be announced.
void observe(Kernel& kernel);

}  // namespace stagecraft::emulator::machine
