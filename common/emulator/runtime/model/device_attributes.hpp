// What the emulated chip says about itself.
#pragma once

#include <optional>

#include "emulator/chip/architecture.hpp"
#include "emulator/runtime/model/cuda_headers.hpp"

namespace stagecraft::emulator::runtime {

inline constexpr int kCudaVersion = 13000;
inline constexpr const char* kPciBusId = "0000:00:00.0";

/// The value of an attribute; 0 for what the emulated GPU does not have (textures, surfaces, graphics); nullopt for a
/// number that is no attribute. The driver's CUdevice_attribute has the same numbers.
std::optional<int> device_attribute(const machine::Architecture& chip, int attribute);

/// Every field, from the same values.
cudaDeviceProp device_properties(const machine::Architecture& chip);

}  // namespace stagecraft::emulator::runtime
