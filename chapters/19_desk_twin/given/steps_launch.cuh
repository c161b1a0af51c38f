// How the host starts the kernel of steps 1 to 3.
#pragma once

#include <gemm_launch.cuh>
#include <steps/one_role.cuh>

namespace stagecraft {

/// Starts the kernel without roles, a block for each tile.
/// Throws CudaError and TensorMapError.
template <typename Config, typename Operations>
void start_one_role(const typename Config::Element* a, const typename Config::Element* b, const Operations& epilogue,
                    __nv_bfloat16* d, int m, int n, int k, uint32_t width = 4, cudaStream_t stream = nullptr) {
  const auto problem = make_problem<Config>(a, b, epilogue, d, m, n, k, width);
  harness::check(launch_kernel(gemm_one_role<Config, Operations>,
                               {.grid = problem.tiles.units(),
                                .block = Config::warps * kWarpSize,
                                .dynamic_shared_bytes = sizeof(typename Config::Payload::Storage),
                                .stream = stream},
                               problem),
                 "launch a kernel without roles");
}

}  // namespace stagecraft
