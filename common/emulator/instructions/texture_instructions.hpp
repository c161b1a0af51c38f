// tex, suld, sust.
#pragma once

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

void add_texture_instructions(InstructionSet&);

}  // namespace stagecraft::emulator::machine
