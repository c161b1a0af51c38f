// tex, suld, sust.
#pragma once

#include "emulator/machine/translate.hpp"

namespace stagecraft::emulator::machine {

void add_texture_instructions(InstructionSet&);

}  // namespace stagecraft::emulator::machine
