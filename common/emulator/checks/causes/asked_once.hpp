// Whether a program asks an mbarrier once where it must ask until the answer is yes.
#pragma once

#include <cstdint>

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::checks {

/// Whether a try_wait or test_wait whose answer is looked at is not repeated after a no: no way leads from the branch
/// that looks at it back to the wait, except through accesses of memory or other barriers, as in the next round of a
/// loop. False where the code is not understood, and for any other instruction.
bool is_asked_once(const machine::Kernel& kernel, uint32_t pc);

}  // namespace stagecraft::emulator::checks
