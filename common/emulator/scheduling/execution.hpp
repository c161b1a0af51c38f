// The inner loop: executing instructions of a warp, and the life of its fragments.
#pragma once

#include <cstdint>

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

/// What has been executed.
struct Counters {
  uint64_t warp_instructions = 0;
  uint64_t thread_instructions = 0;  ///< counted per lane that the instruction was executed for
};

/// Whether some fragment of the warp can go on.
bool is_ready(const Warp& warp);
/// Executes at most `budget` instructions of a warp. Returns early when nothing of it is ready, or when a poll found
/// nothing. Throws Fault; `cluster.running` then is the fragment at fault, with its pc.
void run_warp(Warp& warp, uint32_t budget, Counters& counters);

}  // namespace stagecraft::emulator::machine
