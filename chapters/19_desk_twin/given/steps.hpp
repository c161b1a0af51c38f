// The kernels that the lesson goes through, as the host calls them.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

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

/// Starts the kernel for a block-scaled type, of which D is bf16, with launch control.
/// @tparam Type     Mxfp8 or Nvfp4.
/// @param sfa, sfb  scale factors, in atoms as ScaleFactorTile, padded by numbers.
/// @param n         a multiple of 8. @param k  of 16 bytes.
template <typename Type>
void start_desk_step(const uint8_t* a, const uint8_t* sfa, const uint8_t* b, const uint8_t* sfb, __nv_bfloat16* d,
                     int m, int n, int k);

}  // namespace stagecraft
