// The special registers that change while a warp runs: %clock, %clock64, %globaltimer and their halves.
#pragma once

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// Translates a `mov` that reads a clock. False, and nothing is done, when its source is no clock.
bool translate_clock(Translation& t, ptx::Type type);

}  // namespace stagecraft::emulator::machine
