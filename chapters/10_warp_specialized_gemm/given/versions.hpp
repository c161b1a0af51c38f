// The ladder of kernel versions that the lesson climbs, as the host calls them.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace stagecraft {

/// The kernels of the chapter, in order.
enum class GemmVersion { one_warp, two_warps, store_warps, two_accumulators };

/// Starts C = A * B transposed by one version of the kernel. All else is as in `launch_gemm`.
void launch_version(GemmVersion version, const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t m,
                    int64_t n, int64_t k, int blocks = 0);

}  // namespace stagecraft
