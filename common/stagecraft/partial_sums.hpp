// How the pieces of a tile become one sum: each block that computes a piece leaves its partial sums in a workspace, and
// the block that arrives last adds all of them, in the order of K.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "stagecraft/ptx.hpp"
#include "stagecraft/tile_work.hpp"

namespace stagecraft {

/// Counts the arrival of a piece whose partial sums are in the workspace. True for the last piece of its tile to
/// arrive: the caller's block then adds the partial sums of all pieces and does the epilogue; for the others the turn
/// is over.
///
/// No block waits for another, so blocks may take their turns in any order and at any time. The sum is the same in
/// every run although the last to arrive is not: it is defined as ((p0 + p1) + p2) + ..., with piece i in slot
/// `work.first_slot + i`, and the last to arrive takes its own piece from there as well, or adds it in its place.
///
/// Called by one thread of the block, after a barrier of all threads that have stored partial sums; those that go on to
/// load them wait for this thread at another barrier. What the others stored before their arrivals is then visible. Not
/// called for a tile that `is_whole()`.
/// @param counters  `counters()` of the type that describes the work, all zero before the first launch. The last to
///                  arrive sets its tile's to zero again.
/// Source: PTX ISA, "Memory Consistency Model" (an acquire-release operation of scope `.gpu`, after `bar.sync`).
__device__ inline bool arrives_last(uint32_t* counters, const Work& work) {
  uint32_t* arrived = counters + work.counter;
  if (ptx::fetch_add_acq_rel(arrived, 1) + 1 < work.pieces) return false;
  ptx::store_relaxed(arrived, 0);  // for the next launch
  return true;
}

}  // namespace stagecraft
