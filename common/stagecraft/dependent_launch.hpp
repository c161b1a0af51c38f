// A kernel's side of programmatic dependent launch: it may start while the kernel ahead of it in the stream still runs,
// and lets the one after it start early.
#pragma once

#include <cuda_runtime.h>

namespace stagecraft {

/// Waits until the grids ahead in the stream have ended and what they wrote is visible.
///
/// Called by every thread that reads what they wrote, or writes what they read, before it does; with copies by TMA,
/// by the thread that issues them. Returns at once in a kernel that was not launched as a dependent one. What
/// comes before it (barriers, tensor memory, prefetched tensor maps) overlaps with the end of those grids.
/// Source: PTX ISA, "griddepcontrol" (`.wait`).
__device__ __forceinline__ void wait_for_earlier_grids() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// The next grid in the stream may start when all blocks of this one have called this or ended.
///
/// Called by one thread of the block or more. It makes nothing visible: the next grid waits for the end of this one all
/// the same. Source: PTX ISA, "griddepcontrol" (`.launch_dependents`).
__device__ __forceinline__ void let_next_grid_start() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

}  // namespace stagecraft
