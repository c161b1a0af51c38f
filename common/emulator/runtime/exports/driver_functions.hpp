// The driver's functions by name.
#pragma once

#include <string_view>

namespace stagecraft::emulator::runtime {

/// The function that a program built for CUDA `version` (13000) means by this name: the newest of `cuMemAlloc`,
/// `cuMemAlloc_v2`, ... that cuda.h gives the plain name. Null when the driver has none.
/// @param of_thread  a null stream must mean that of the calling thread
void* find_driver_function(std::string_view name, int version, bool of_thread = false);

/// The function of exactly this name, or null.
void* find_exact_driver_function(std::string_view name);

}  // namespace stagecraft::emulator::runtime
