// Stores and reductions whose end an mbarrier learns of (st.async, red.async), and st.bulk.
#pragma once

#include "emulator/machine/translate.hpp"

namespace stagecraft::emulator::machine {

void translate_store_async(Translation& t);
void translate_reduction_async(Translation& t);
void translate_store_bulk(Translation& t);

}  // namespace stagecraft::emulator::machine
