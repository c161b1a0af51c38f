// Kernels of the complete GEMM in which every warp has the same role, ROLE: ptxas then says how many registers that
// role takes. gemm_roles.py compiles it once for each.
#include "stagecraft/gemm/roles.hpp"

#define gemm_role() GemmRole::ROLE  // from here on, in place of the function
#include "stagecraft/gemm/kernel.cuh"

using namespace stagecraft;

template <GemmConfig Config>
using Kernel = GemmTypes<Config>;

#define KERNEL(...)                                                      \
  template __global__ void stagecraft::gemm_kernel<Kernel<__VA_ARGS__>>( \
      const __grid_constant__ GemmParameters<Kernel<__VA_ARGS__>>)

// clang-format off
KERNEL(GemmConfig{});
KERNEL(GemmConfig{.tile_m = 256, .cta_group = 2, .cluster_m = 4, .cluster_n = 2, .launch_control = true});
KERNEL(GemmConfig{.divides_k = true, .epilogue = GemmEpilogue::full, .adds_c = true});
KERNEL(GemmConfig{.a = DataType::nvfp4, .b = DataType::nvfp4, .d = DataType::f32});
