// Which kernels have clusters that know nothing of each other, so that they can run at the same time.
#pragma once

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::machine {

/// Whether what an instruction does may depend on how far other clusters of the grid have come, or concern them: atomic
/// and strong accesses of memory that they reach, clocks, the multiprocessor's number, taking over clusters. Plain
/// accesses of global memory do not count: where two clusters access the same bytes with nothing but those and one of
/// them writes, the program has a race, whatever comes of it (PTX ISA, "Memory Consistency Model").
bool concerns_other_clusters(const ptx::Instruction& instruction);

/// The same for a function that the CUDA runtime provides.
bool builtin_concerns_other_clusters(const std::string& name);

}  // namespace stagecraft::emulator::machine
