// Asynchronous stores and reductions (st.async, red.async), and st.bulk.
#pragma once

#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

/// Those with .release go to global memory, at any time before their block ends; here at once, as a plain st.release or
/// red.release. True when this is one; then .async is taken and what such an instruction cannot have is refused.
bool take_asynchronous_release(Translation& t);
/// The others go to shared memory, and an mbarrier learns of their end.
void translate_store_async(Translation& t);
void translate_reduction_async(Translation& t);
void translate_store_bulk(Translation& t);

}  // namespace stagecraft::emulator::machine
