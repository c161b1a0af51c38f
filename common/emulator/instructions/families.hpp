// The families of instructions of this folder; that of arithmetic is in alu/arithmetic.hpp.
#pragma once

#include "emulator/translation/registration.hpp"

namespace stagecraft::emulator::machine {

void add_address_conversions(InstructionSet& set);
void add_atomics(InstructionSet& set);
void add_block_barriers(InstructionSet& set);
void add_cache_operations(InstructionSet& set);
void add_control_flow(InstructionSet& set);
void add_fences(InstructionSet& set);
void add_matrix_transfers(InstructionSet& set);
void add_memory_accesses(InstructionSet& set);
void add_moves(InstructionSet& set);
void add_texture_instructions(InstructionSet& set);
void add_warp_control(InstructionSet& set);
void add_warp_operations(InstructionSet& set);

}  // namespace stagecraft::emulator::machine
