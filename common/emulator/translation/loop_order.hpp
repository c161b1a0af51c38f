// In which order the lanes of a warp that took different paths go through the code of a function, so that they meet.
//
// The lanes that are furthest behind run first. "Behind" is a place in an order of the instructions in which each
// instruction comes before those that can follow it, except where a loop closes, and in which a loop is one piece: what
// follows a loop comes after all of it. So lanes at the end of an `if` or of a loop wait until no lane that may still
// come there is behind them, however the compiler has arranged the text. This is a weak topological order (F.
// Bourdoncle, "Efficient chaotic iteration strategies with widenings", 1993).
//
// It is also known where lanes must let others overtake them: a loop may wait for what other lanes of its warp do. On
// an H200 (ptxas 13.0, 2026-11-22) ptxas puts a YIELD into a loop that a volatile load, an atomic or a poll of an
// mbarrier decides to leave, and lanes that wait for its end go past it; it puts none into a loop that accesses memory
// so for a fixed number of times, and all lanes meet behind it. Nor is there one in a loop that sleeps, which others
// overtake because it sleeps, or in one that waits with weak loads and fences, which nobody overtakes: it gives up, or
// never ends, if the lanes that it waits for are on the other side of a branch and come later. So a side with such a
// loop comes after the others; on the H200, too, the recorded programs with such loops ran the other side first.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/module.hpp"
#include "emulator/state/instruction_traits.hpp"
#include "emulator/state/kernel.hpp"

namespace stagecraft::emulator::machine {

/// The order of one function.
struct LoopOrder {
  std::vector<uint32_t> sequence;  ///< the instructions by their place in the order, as indices in Function::body
  std::vector<LoopHead> heads;     ///< by index in Function::body
};

/// @param traits        of the function's instructions.
/// @param calls_observe  whether a function that is called may return what other threads have done.
LoopOrder find_loop_order(const ptx::Function& function, const std::vector<InstructionTraits>& traits,
                          bool calls_observe);

}  // namespace stagecraft::emulator::machine
