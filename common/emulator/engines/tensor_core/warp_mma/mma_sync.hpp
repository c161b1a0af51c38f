// The families of matrix multiplications of one warp: mma.sync and wmma.
#pragma once

#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

void add_mma_sync(InstructionSet& set);
void add_wmma(InstructionSet& set);

}  // namespace stagecraft::emulator::machine
