// Kernels of the complete GEMM in which every warp has the same role, ROLE: ptxas then says how many registers that
// role takes. gemm_roles.py compiles it once for each role, and for each list of configurations, LIST.
#include <array>
#include <cstddef>
#include <utility>

#include "stagecraft/gemm/roles.hpp"

#define gemm_role() GemmRole::ROLE  // from here on, in place of the function
#include "stagecraft/gemm/kernel.cuh"
#include "stagecraft/gemm/kernels/configurations.hpp"

using namespace stagecraft;

namespace {

/// One of each kind, for a test that is quick. The lists of what is shipped are in stagecraft::shipped.
constexpr std::array kSample{
    GemmConfig{},
    GemmConfig{.tile_m = 256, .cta_group = 2, .cluster_m = 4, .cluster_n = 2, .launch_control = true},
    GemmConfig{.cluster_m = 2, .cluster_n = 2, .fallback_m = 1, .fallback_n = 1},
    GemmConfig{.divides_k = true, .epilogue = GemmEpilogue::full, .adds_c = true},
    GemmConfig{
        .epilogue = GemmEpilogue::full, .adds_c = true, .c = DataType::f32, .device_factors = true, .gathers_c = true},
    GemmConfig{.a = DataType::nvfp4, .b = DataType::nvfp4, .d = DataType::f32},
};

using namespace stagecraft::shipped;

template <const auto& Configs, size_t... I>
auto kernels_of(std::index_sequence<I...>) {
  return std::array{reinterpret_cast<const void*>(&gemm_kernel<GemmTypes<Configs[I]>>)...};
}

[[maybe_unused]] const auto kernels = kernels_of<LIST>(std::make_index_sequence<LIST.size()>{});

}  // namespace
