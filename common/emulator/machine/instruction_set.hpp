// All instructions that the emulator knows.
#pragma once

#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

const InstructionSet& instruction_set();

}  // namespace stagecraft::emulator::machine
