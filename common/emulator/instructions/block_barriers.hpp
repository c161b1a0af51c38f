// Barriers of a block and of a cluster: the part that the rest of the machine calls.
#pragma once

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Barriers that wait for "all threads" complete without those that have exited: these lanes of a warp just have.
void lanes_have_exited(Warp& warp, LaneMask lanes);

}  // namespace stagecraft::emulator::machine
