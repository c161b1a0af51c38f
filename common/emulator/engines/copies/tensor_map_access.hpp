// How kernels use tensor maps: where a map may be, and the tensormap.* instructions that change one.
#pragma once

#include <cstdint>

#include "emulator/engines/copies/tensor_map.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Returns the 128 bytes at a generic address, as a tensor copy reads them from parameters, constants or global memory.
/// Throws Fault when it is none of these, unallocated or misaligned. `find_flaw` decides whether they are a map.
TensorMap read_tensor_map(const Fragment& fragment, uint64_t address, const char* what);

}  // namespace stagecraft::emulator::machine
