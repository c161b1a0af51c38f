// The family tcgen05, and the translators of tcgen05's instructions, which tcgen05.cpp tells apart. Each has taken
// nothing but its own name.
#pragma once

#include "emulator/state/grid.hpp"
#include "emulator/state/tensor_units.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

void add_tcgen05_operations(InstructionSet& set);

void translate_allocation(Translation&);    // alloc
void translate_deallocation(Translation&);  // dealloc
void translate_relinquish(Translation&);    // relinquish_alloc_permit
void translate_load(Translation&);          // ld
void translate_store(Translation&);         // st
void translate_mma(Translation&);           // mma
void translate_copy(Translation&);          // cp
void translate_commit(Translation&);        // commit

/// Takes `.cta_group::1` or `::2`, the same one in the whole kernel. Whether it is a pair's.
bool take_pair(Translation&);
/// Takes `.sync.aligned`.
void take_aligned(Translation&);

/// The tensor memory that a fragment's block uses.
inline TensorMemory& tensor_memory_of(const Fragment& fragment) { return *fragment.block().sm->tensor_memory; }

/// Value of an address `[base + offset]` in tensor memory for one lane.
inline uint32_t tensor_address(const Fragment& fragment, const MemoryOperand& operand, uint32_t lane) {
  const uint32_t base = operand.base == kNoRegister ? 0
                        : operand.wide
                            ? static_cast<uint32_t>(lanes_at<uint64_t>(fragment.registers, operand.base)[lane])
                            : lanes_at<uint32_t>(fragment.registers, operand.base)[lane];
  return base + static_cast<uint32_t>(operand.offset);
}
/// The same for a warp-wide instruction, whose lanes must all give one address; Fault otherwise.
uint32_t uniform_tensor_address(const Fragment& fragment, const MemoryOperand& operand, LaneMask mask,
                                const char* what);

}  // namespace stagecraft::emulator::machine
