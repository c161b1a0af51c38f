// How the host starts the chapter's kernel.
#pragma once

#include <gemm.cuh>

#include "harness/cuda_error.hpp"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

/// The tensor map of D: m x n, row-major, without gaps.
template <typename Writer>
typename Writer::Map map_of_d(__nv_bfloat16* d, int64_t m, int64_t n) {
  const uint64_t stride = n * sizeof(__nv_bfloat16);
  return make_batched_tile_map<typename Writer::SliceTile>(d, m, n, stride, /*batches=*/1, m * stride);
}

/// Starts the kernel on `clusters` clusters at most. Panels of tiles are `width` clusters wide.
/// @param n, k  multiples of 8.
/// Throws CudaError and TensorMapError.
template <typename Config, typename Operations>
void start_gemm(const __nv_bfloat16* a, const __nv_bfloat16* b, const Operations& epilogue, __nv_bfloat16* d, int m,
                int n, int k, int clusters, uint32_t width = 2, cudaStream_t stream = nullptr) {
  using Cluster = typename Config::Cluster;
  using Writer = RegisterWriter<SumsOf<Config>>;
  const auto parts = [](int size, int part) { return static_cast<uint32_t>((size + part - 1) / part); };
  const WholeTiles<Cluster> tiles{
      {.rows = parts(m, Config::tile_m), .columns = parts(n, Config::tile_n), .k_tiles = parts(k, Config::tile_k)},
      {.order = RasterOrder::along_n, .width = width}};
  const Problem<Config, Writer, Operations> problem{
      .a = make_tile_map<typename Config::ATile, Cluster::blocks_sharing_a>(a, m, k),
      .b = make_tile_map<typename Config::BTile, Cluster::blocks_sharing_b>(b, n, k),
      .d = map_of_d<Writer>(d, m, n),
      .epilogue = epilogue,
      .tiles = tiles,
      .m = m,
      .n = n,
      .k = k};
  const auto kernel = gemm<Config, Writer, Operations>;
  constexpr int kBytes = sizeof(typename Config::Payload::Storage) + kConsumers * sizeof(typename Writer::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                 "reserve shared memory for the tiles and the slices");
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {Cluster::rows, Cluster::columns, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = StaticScheduler<WholeTiles<Cluster>>::grid(tiles, static_cast<uint32_t>(clusters));
  config.blockDim = dim3(kGemmThreads);
  config.dynamicSmemBytes = kBytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  harness::check(cudaLaunchKernelEx(&config, kernel, problem), "launch the kernel");
}

}  // namespace stagecraft
