// One tcgen05.cp, which copies shared memory to tensor memory: its check, its footprint and its execution.
#pragma once

#include <cstdint>
#include <optional>

#include "emulator/engines/tensor_core/matrix_descriptors.hpp"
#include "emulator/engines/tensor_core/operation_footprint.hpp"
#include "emulator/state/tensor_units.hpp"

namespace stagecraft::emulator::machine {

struct Tcgen05Copy {
  CopyShape shape = CopyShape::c128x256b;
  std::optional<ElementFormat> unpacked;  ///< expand 4-bit (e2m1) or 6-bit (e2m3) elements to bytes on the way
  uint32_t address = 0;                   ///< of tensor memory
  SharedDescriptor source;                ///< read as a K-major matrix
};

/// Throws Fault unless source and destination exist.
void check(const Tcgen05Copy& operation, const TensorUnits& units);
/// Returns the shared memory that an operation reads, and the tensor memory that it writes.
OperationFootprint footprint_of(const Tcgen05Copy& operation, const TensorUnits& units);
/// Executes an operation that `check` has accepted: each block copies from its own shared memory to its own tensor
/// memory.
void execute(const Tcgen05Copy& operation, const TensorUnits& units);

}  // namespace stagecraft::emulator::machine
