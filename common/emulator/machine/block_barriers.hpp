// Barriers of a block and of a cluster: the part that the rest of the machine calls.
#pragma once

#include "emulator/machine/grid.hpp"

namespace stagecraft::emulator::machine {

/// Barriers that wait for "all threads" complete without those that have exited.
void lanes_have_exited(Block& block);

}  // namespace stagecraft::emulator::machine
