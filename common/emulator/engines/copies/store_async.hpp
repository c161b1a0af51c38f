// Asynchronous stores and reductions (st.async, red.async), and st.bulk.
#pragma once

#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

/// st.async and red.async go to shared memory, and an mbarrier learns of their end. (Their forms with .release are
/// plain stores and reductions: instructions/memory_access.cpp.)
void add_asynchronous_stores(InstructionSet& set);

}  // namespace stagecraft::emulator::machine
