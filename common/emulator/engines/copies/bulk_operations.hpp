// The family of copies: cp.async, cp.async.bulk, cp.reduce.async.bulk, tensormap.
#pragma once

#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

void add_bulk_copies(InstructionSet& set);

}  // namespace stagecraft::emulator::machine
