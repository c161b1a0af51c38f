// Starts the answer's complete kernel. Each configuration needs a little more of it than the one before.
#include <complete_gemm.cuh>
#include <stdexcept>

#include "launches.hpp"
#include "stagecraft/gemm/host_launch.cuh"

using namespace stagecraft;

namespace {

constexpr GemmConfig kOneBlock{.tile_n = 64, .k_group = 2};
constexpr GemmConfig kPairs{
    .tile_m = 256, .tile_n = 64, .cta_group = 2, .cluster_m = 2, .cluster_n = 1, .launch_control = true};
constexpr GemmConfig kAddsC{.tile_n = 64, .launch_control = true, .epilogue = GemmEpilogue::full, .adds_c = true};
constexpr GemmConfig kDividesK{.tile_n = 64, .divides_k = true, .epilogue = GemmEpilogue::full, .adds_c = true};

/// Starts the kernel of a configuration.
template <GemmConfig Config>
void launch(const CompleteGemm& gemm, bool has_d_map) {
  const auto matrix = [](int64_t rows, int64_t columns) {
    return GemmDestination{.type = DataType::bf16, .pitch = columns, .batch_stride = rows * columns};
  };
  GemmLaunch launch{
      .problem = {.m = gemm.m,
                  .n = gemm.n,
                  .k = gemm.k,
                  .a = {.pitch = gemm.k, .batch_stride = int64_t{gemm.m} * gemm.k},
                  .b = {.pitch = gemm.k, .batch_stride = int64_t{gemm.n} * gemm.k},
                  .d = matrix(gemm.m, gemm.n),
                  .fusion = {.c = Config.adds_c, .bias = gemm.bias != nullptr},
                  .c = matrix(gemm.m, gemm.n)},
      .arguments = {.a = gemm.a, .b = gemm.b, .d = gemm.d, .c = gemm.c, .bias = gemm.bias, .beta = gemm.beta},
      .clusters = static_cast<uint32_t>(gemm.clusters),
      .splits = static_cast<uint32_t>(gemm.pieces),
      .has_d_map = has_d_map};
  launch.workspace = gemm.workspace;
  if (gemm_workspace_bytes<Config>(launch) > gemm.workspace_bytes) throw std::runtime_error("the workspace is small");
  if (const auto error = launch_gemm<Config>(launch)) throw std::runtime_error(error->message);
}

}  // namespace

void launch_complete_gemm(CompleteConfig config, const CompleteGemm& gemm) {
  const bool has_d_map = gemm.n % 8 == 0;
  switch (config) {
    case CompleteConfig::one_block: return launch<kOneBlock>(gemm, has_d_map);
    case CompleteConfig::pairs: return launch<kPairs>(gemm, has_d_map);
    case CompleteConfig::adds_c: return launch<kAddsC>(gemm, has_d_map);
    case CompleteConfig::divides_k: return launch<kDividesK>(gemm, has_d_map);
  }
}
