// The translators of the matrix multiplications of earlier chips: mma.sync and wmma of a warp, wgmma of four warps.
#pragma once

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

void translate_mma_sync(Translation&);
void translate_wmma(Translation&);
void translate_wgmma(Translation&);

}  // namespace stagecraft::emulator::machine
