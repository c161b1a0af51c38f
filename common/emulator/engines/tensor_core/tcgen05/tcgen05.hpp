// The translators of tcgen05's instructions, which tcgen05.cpp tells apart. Each has taken nothing but its own name.
#pragma once

#include "emulator/state/grid.hpp"
#include "emulator/state/tensor_units.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::units {

void translate_allocation(machine::Translation&);    // alloc
void translate_deallocation(machine::Translation&);  // dealloc
void translate_relinquish(machine::Translation&);    // relinquish_alloc_permit
void translate_load(machine::Translation&);          // ld
void translate_store(machine::Translation&);         // st
void translate_mma(machine::Translation&);           // mma
void translate_copy(machine::Translation&);          // cp
void translate_commit(machine::Translation&);        // commit

/// Takes `.cta_group::1` or `::2`, the same one in the whole kernel. Whether it is a pair's.
bool take_pair(machine::Translation&);
/// Takes `.sync.aligned`.
void take_aligned(machine::Translation&);

/// The tensor memory that a fragment's block uses.
inline TensorMemory& tensor_memory_of(const machine::Fragment& fragment) { return *fragment.block().sm->tensor_memory; }

/// Value of an address `[base + offset]` in tensor memory for one lane.
inline uint32_t tensor_address(const machine::Fragment& fragment, const machine::MemoryOperand& operand,
                               uint32_t lane) {
  const uint32_t base = operand.base == machine::kNoRegister ? 0
                        : operand.wide
                            ? static_cast<uint32_t>(machine::lanes_at<uint64_t>(fragment.registers, operand.base)[lane])
                            : machine::lanes_at<uint32_t>(fragment.registers, operand.base)[lane];
  return base + static_cast<uint32_t>(operand.offset);
}
/// The same for a warp-wide instruction, whose lanes must all give one address; Fault otherwise.
uint32_t uniform_tensor_address(const machine::Fragment& fragment, const machine::MemoryOperand& operand,
                                machine::LaneMask mask, const char* what);

}  // namespace stagecraft::emulator::units
