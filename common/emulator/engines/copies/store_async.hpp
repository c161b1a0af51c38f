// Translates asynchronous stores and reductions (st.async, red.async), and st.bulk.
#pragma once

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// Returns true for an instruction with .release, takes its .async, and refuses what it cannot have. Such an
/// instruction goes to global memory at any time before its block ends; here at once, as a plain st.release or
/// red.release.
bool take_asynchronous_release(Translation& t);
/// Translates st.async to shared memory, at whose end an mbarrier counts its bytes.
void translate_store_async(Translation& t);
void translate_reduction_async(Translation& t);
void translate_store_bulk(Translation& t);

}  // namespace stagecraft::emulator::machine
