// Who a thread is: its warp's number in the block, its lane's number in the warp, and the one lane that acts for it.
#pragma once

#include <cstdint>

#include "stagecraft/ptx.hpp"

namespace stagecraft {

/// Lanes of a warp.
inline constexpr int kWarpSize = 32;

/// The number of the calling warp in its one-dimensional block, the same value in all of its lanes.
///
/// Called by a whole warp: the value travels through a shuffle, from which the compiler learns that it does not differ
/// between the lanes, so that a branch on it costs no divergence handling.
__device__ inline uint32_t warp_index() { return __shfl_sync(0xffffffff, threadIdx.x / kWarpSize, 0); }

/// The number of the calling thread in its warp, 0 to 31, in a one-dimensional block.
__device__ inline uint32_t lane_index() { return threadIdx.x % kWarpSize; }

/// True in exactly one lane: the one that issues what a warp issues once (copies, MMAs, commits).
///
/// Called by a whole converged warp, and before the loop rather than inside it: `tcgen05.commit` covers only the MMAs
/// of the thread that commits, so that the lane must not change in between.
__device__ inline bool elect_one() { return ptx::elect_sync(); }

}  // namespace stagecraft
