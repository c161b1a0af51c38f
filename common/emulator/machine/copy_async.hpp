// Small asynchronous accesses that are ordinary ones here: cp.async (not bulk), st.async, red.async, st.bulk.
#pragma once

#include "emulator/machine/translate.hpp"

namespace stagecraft::emulator::machine {

/// cp.async.{ca,cg}, cp.async.commit_group, cp.async.wait_group, cp.async.wait_all. For whoever registers `cp`.
///
/// The bytes arrive when the instruction is issued: of the moments that PTX allows, the first. So the instructions
/// that wait have nothing to do, and an arrival on behalf of earlier copies may be made at once.
void translate_copy_async(Translation& t);

void translate_store_async(Translation& t);
void translate_reduction_async(Translation& t);
void translate_store_bulk(Translation& t);

}  // namespace stagecraft::emulator::machine
