// Announcing the loads, stores, atomics, .sync operations and fences of a kernel, by wrapping their handlers after
// translation: the Ops of a kernel that nobody observes are untouched. Rarer events (barriers, asynchronous copies) are
// announced where they happen: see state/announcements.hpp.
#pragma once

#include "emulator/state/grid.hpp"
#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

/// Wraps the handlers of a translated kernel whose effects are to be announced.
void observe(Kernel& kernel, const InstructionSet& instructions);

}  // namespace stagecraft::emulator::machine
