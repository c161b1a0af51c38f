// The kernels that the lesson goes through, as the host calls them.
#pragma once

#include <cuda_bf16.h>

namespace stagecraft {

/// The bf16 kernels of the chapter, in order.
enum class DeskStep {
  fragments,        ///< no roles; tiles are stored row by row
  swizzle,          ///< tiles are swizzled
  register_stages,  ///< a slice is loaded while the one before is multiplied
  roles,            ///< a warp loads; a block for each tile
  persistent,       ///< as many blocks as multiprocessors: a tile leaves while the next one comes
  launch_control,   ///< the same, and the hardware hands out the tiles
};

/// Starts one of the kernels, on all multiprocessors: D (m x n) = A (m x k) * B (n x k) transposed.
/// @param n, k  multiples of 8.
void start_desk_step(DeskStep step, const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* d, int m, int n,
                     int k);

}  // namespace stagecraft
