// Launches each version of the kernel.
#include "gemm.hpp"
#include "launch.cuh"
#include "one_warp.cuh"
#include "store_warps.cuh"
#include "two_warps.cuh"
#include "versions.hpp"

namespace stagecraft {

void launch_version(GemmVersion version, const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t m,
                    int64_t n, int64_t k, int blocks) {
  using Element = __nv_bfloat16;
  constexpr int kStages = 4;
  const Problem<Element> problem = make_problem<Element>(a, b, c, m, n, k);
  switch (version) {
    case GemmVersion::one_warp:
      return launch(gemm_one_warp<Element>, problem, kStoreWarps * kWarpSize, /*stages=*/1, blocks);
    case GemmVersion::two_warps:
      return launch(gemm_two_warps<Element, kStages>, problem, kStoreWarps * kWarpSize, kStages, blocks);
    case GemmVersion::store_warps:
      return launch(gemm_store_warps<Element, kStages>, problem, (2 + kStoreWarps) * kWarpSize, kStages, blocks);
    case GemmVersion::two_accumulators: return launch_gemm<Element>(a, b, c, m, n, k, blocks);
  }
}

}  // namespace stagecraft
