// The translators of the matrix multiplications that came before tcgen05: mma.sync and wmma of a warp, wgmma of four.
#pragma once

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

void translate_mma_sync(Translation&);
void translate_wmma(Translation&);
void translate_wgmma(Translation&);

}  // namespace stagecraft::emulator::machine
