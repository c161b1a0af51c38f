// Stores and reductions whose end an mbarrier learns of (st.async, red.async), and st.bulk.
#pragma once

#include "emulator/machine/translate.hpp"

namespace stagecraft::emulator::machine {

/// Whether this is a st.async.release or red.async.release to global memory, of which no mbarrier learns: they may be
/// done at any time before the block ends, and are done at once, as the st or red of the modifiers that are left.
bool take_release_async(Translation& t);

void translate_store_async(Translation& t);
void translate_reduction_async(Translation& t);
void translate_store_bulk(Translation& t);

}  // namespace stagecraft::emulator::machine
