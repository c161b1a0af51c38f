// The roles of a GEMM kernel's warps.
#pragma once

#include <cstdint>

#include "stagecraft/slices.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// What a warp of a GEMM kernel does.
enum class GemmRole { load, multiply, schedule, load_for_epilogue, epilogue };

/// The calling warp's role. The epilogue has four warps, because each reaches a quarter of the lanes of tensor memory.
/// Called by a whole warp.
__device__ inline GemmRole gemm_role() {
  switch (warp_index()) {
    case 0: return GemmRole::load;
    case 1: return GemmRole::multiply;
    case 2: return GemmRole::schedule;
    case 3: return GemmRole::load_for_epilogue;
    default: return GemmRole::epilogue;
  }
}

/// Threads of the epilogue.
inline constexpr int kEpilogueThreads = kEpilogueWarps * kWarpSize;
/// Threads of a GEMM kernel.
inline constexpr int kGemmThreads = 4 * kWarpSize + kEpilogueThreads;

}  // namespace stagecraft
