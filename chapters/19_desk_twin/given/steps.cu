// Launches each of the kernels that the lesson goes through.
#include <steps_launch.cuh>

#include "harness/device.hpp"
#include "stagecraft/launch_control.hpp"
#include "steps.hpp"

namespace stagecraft {

void start_desk_step(DeskStep step, const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* d, int m, int n,
                     int k) {
  using Static = StaticScheduler<WholeTiles<>>;
  using Bf16 = __nv_bfloat16;
  const Epilogue<> none{};
  const auto blocks = static_cast<uint32_t>(harness::current_device().multiProcessorCount);
  switch (step) {
    case DeskStep::fragments:
      return start_one_role<Config<Bf16, /*RegisterStages=*/1, /*Swizzled=*/false>>(a, b, none, d, m, n, k);
    case DeskStep::swizzle: return start_one_role<Config<Bf16, /*RegisterStages=*/1>>(a, b, none, d, m, n, k);
    case DeskStep::register_stages: return start_one_role<Config<Bf16>>(a, b, none, d, m, n, k);
    case DeskStep::roles: {
      constexpr uint32_t kOneTileEach = UINT32_MAX;
      return start_gemm<Config<Bf16>, Static>(a, b, none, d, m, n, k, kOneTileEach);
    }
    case DeskStep::persistent: return start_gemm<Config<Bf16>, Static>(a, b, none, d, m, n, k, blocks);
    case DeskStep::launch_control:
      return start_gemm<Config<Bf16>, LaunchControlScheduler<WholeTiles<>>>(a, b, none, d, m, n, k, blocks);
  }
}

}  // namespace stagecraft
