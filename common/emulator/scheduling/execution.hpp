// The inner loop: executes instructions of a warp, and chooses which of its fragments is next.
#pragma once

#include <cstdint>

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// Numbers of instructions that have been executed.
struct Counters {
  uint64_t warp_instructions = 0;
  uint64_t thread_instructions = 0;  ///< counts each lane that executed an instruction
};

/// Whether some fragment of the warp can go on.
bool is_ready(const Warp& warp);
/// Executes at most `budget` instructions of a warp. Returns early when none of its fragments is ready, or when a poll
/// failed. Throws Fault; `cluster.running` then is the fragment at fault, with its pc.
void run_warp(Warp& warp, uint32_t budget, Counters& counters);

}  // namespace stagecraft::emulator::machine
