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

/// Takes `.cta_group::1` or `::2`, which must be the same in the whole kernel. Returns true for `::2`.
bool take_pair(Translation&);
/// Takes `.sync.aligned`.
void take_aligned(Translation&);

/// Returns the tensor memory that a fragment's block uses.
inline TensorMemory& tensor_memory_of(const Fragment& fragment) { return *fragment.block().sm->tensor_memory; }

/// Returns the address `[base + offset]` in tensor memory of one lane.
inline uint32_t tensor_address(const Fragment& fragment, const MemoryOperand& operand, uint32_t lane) {
  const uint32_t base = operand.base == kNoRegister ? 0
                        : operand.wide
                            ? static_cast<uint32_t>(lanes_at<uint64_t>(fragment.registers, operand.base)[lane])
                            : lanes_at<uint32_t>(fragment.registers, operand.base)[lane];
  return base + static_cast<uint32_t>(operand.offset);
}
/// Returns the address of a warp-wide instruction. Throws Fault unless all lanes have the same one.
uint32_t uniform_tensor_address(const Fragment& fragment, const MemoryOperand& operand, LaneMask mask,
                                const char* what);

}  // namespace stagecraft::emulator::machine
