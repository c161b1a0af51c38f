// The translators of the matrix multiplications that came before tcgen05: mma.sync and wmma of a warp, wgmma of four.
#pragma once

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::units {

void translate_mma_sync(machine::Translation&);
void translate_wmma(machine::Translation&);
void translate_wgmma(machine::Translation&);

}  // namespace stagecraft::emulator::units
