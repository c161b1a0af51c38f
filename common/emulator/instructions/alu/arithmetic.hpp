// The family of arithmetic: integers, floating point, comparisons, conversions, bits.
#pragma once

#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

void add_arithmetic(InstructionSet& set);

}  // namespace stagecraft::emulator::machine
