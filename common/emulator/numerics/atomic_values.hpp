// The arithmetic of atomic operations, on bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::machine {

/// Up to 128 bits of memory, little-endian; what a type does not fill is zero.
struct AtomicValue {
  uint64_t low = 0, high = 0;
  bool operator==(const AtomicValue&) const = default;
};

/// The new value of the memory, from its old one and the operand.
using AtomicFunction = AtomicValue (*)(AtomicValue old, AtomicValue operand);

/// add, inc, dec, min, max, and, or, xor, exch; null where the operation does not exist for the type. With `flush`,
/// subnormal f32 operands and sums become zeros of their sign. Source of the pairs: PTX ISA, "atom".
AtomicFunction atomic_function(std::string_view operation, ptx::Type type, bool flush);

}  // namespace stagecraft::emulator::machine
