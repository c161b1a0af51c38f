// The arithmetic of operations on memory: atomics, and bulk reductions, which do the same to many elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::machine {

enum class AtomicOperation : uint8_t { add, min, max, inc, dec, bit_and, bit_or, bit_xor, exch };

/// "add", "and", ... as PTX spells them; the name must be one of these.
AtomicOperation atomic_operation(std::string_view name);
const char* name_of(AtomicOperation operation);

/// Up to 128 bits of memory, little-endian; what a type does not fill is zero.
struct AtomicValue {
  uint64_t low = 0, high = 0;
  bool operator==(const AtomicValue&) const = default;
};

/// The new value of the memory, from its old one and the operand.
using AtomicFunction = AtomicValue (*)(AtomicValue old, AtomicValue operand);
/// The same for each element of `bytes` bytes, a multiple of the type's size.
using BulkFunction = void (*)(std::byte* memory, const std::byte* operands, size_t bytes);

/// Both are null where the operation does not exist for the type. With `flush`, subnormal f32 operands and sums become
/// zeros of their sign. Sums of floats are rounded to nearest even. Source of the pairs: PTX ISA, "atom".
AtomicFunction atomic_function(AtomicOperation operation, ptx::Type type, bool flush);
BulkFunction bulk_function(AtomicOperation operation, ptx::Type type, bool flush);

}  // namespace stagecraft::emulator::machine
