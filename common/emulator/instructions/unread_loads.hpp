// Loads whose results nothing reads. ptxas leaves them out (ptxas 13.0: weak ld and ldu, ldmatrix, wmma.load), so on a
// chip they cannot fail. NVVM removes such a load too, but not those that are intrinsics or inline PTX.
#pragma once

#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::machine {

/// Wraps the handlers of `kernel.unread_loads`, once all others have been: at an illegal address such a load does
/// nothing. At a legal one it is executed and announced as any other, because in PTX it is one.
void let_unread_loads_fail(Kernel& kernel);

}  // namespace stagecraft::emulator::machine
