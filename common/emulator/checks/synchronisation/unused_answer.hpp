// Whether a program looks at what mbarrier.try_wait or test_wait answers.
#pragma once

#include <cstdint>

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::checks {

/// Whether nothing depends on the predicate of a wait: no instruction reads it, or only such whose results nothing
/// reads either. False for any other instruction.
bool ignores_answer(const machine::Kernel& kernel, uint32_t pc);

}  // namespace stagecraft::emulator::checks
