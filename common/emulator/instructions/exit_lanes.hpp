// The end of a thread.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Ends lanes of a fragment, and completes the barriers that waited for them alone. A fragment without lanes is in
/// state `exited`; the execution loop removes it.
void exit_lanes(Fragment& fragment, LaneMask lanes);

}  // namespace stagecraft::emulator::machine
