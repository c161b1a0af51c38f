// What the end of a thread means for the barriers of its block and cluster.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Completes the barriers that waited only for these lanes of a warp, which have just exited: a barrier of "all
/// threads" does not wait for those that have.
void lanes_have_exited(Warp& warp, LaneMask lanes);

}  // namespace stagecraft::emulator::machine
