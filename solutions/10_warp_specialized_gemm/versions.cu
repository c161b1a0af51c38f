// Launches the kernels of the steps.
#include "gemm.hpp"
#include "launch.cuh"
#include "one_warp.cuh"
#include "store_warps.cuh"
#include "two_warps.cuh"
#include "versions.hpp"

namespace stagecraft {

void launch_step(GemmStep step, const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t m, int64_t n,
                 int64_t k, int blocks) {
  using Element = __nv_bfloat16;
  constexpr int kStages = 4;
  const Problem<Element> problem = make_problem<Element>(a, b, c, m, n, k);
  switch (step) {
    case GemmStep::one_warp:
      return launch(gemm_one_warp<Element>, problem, kStoreWarps * kWarpSize, /*stages=*/1, blocks);
    case GemmStep::two_warps:
      return launch(gemm_two_warps<Element, kStages>, problem, kStoreWarps * kWarpSize, kStages, blocks);
    case GemmStep::store_warps:
      return launch(gemm_store_warps<Element, kStages>, problem, (2 + kStoreWarps) * kWarpSize, kStages, blocks);
    case GemmStep::two_accumulators: return launch_gemm<Element>(a, b, c, m, n, k, blocks);
  }
}

}  // namespace stagecraft
