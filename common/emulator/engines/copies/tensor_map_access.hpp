// How kernels reach tensor maps: where a map may lie, and the tensormap.* instructions that change one.
#pragma once

#include <cstdint>

#include "emulator/engines/copies/tensor_map.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// The 128 bytes at a generic address, as a tensor copy reads them: parameters, constants or global memory. Throws
/// Fault when it is none of these, unallocated or misaligned. Whether they are a map is `find_flaw`'s to say.
TensorMap read_tensor_map(const Fragment& fragment, uint64_t address, const char* what);

}  // namespace stagecraft::emulator::machine
