// How the host starts this chapter's kernels.
#pragma once

#include <cstdint>

#include "harness/cuda_error.hpp"
#include "problem.cuh"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

/// Describes the matrices to TMA. k must be a multiple of 8.
template <typename Cluster>
Problem<Cluster> make_problem(const Element* a, const Element* b, float* c, int m, int n, int k) {
  //! [maps]
  return {.a = make_tile_map<ATile, Cluster::blocks_sharing_a>(a, m, k),
          .b = make_tile_map<BTile<Cluster>, Cluster::blocks_sharing_b>(b, n, k),
          .c = c,
          .m = m,
          .n = n,
          .k = k};
  //! [maps]
}

/// Starts a kernel, by no more clusters than C has tiles for.
/// @param dynamic_bytes  of shared memory, for the stages.
/// @param clusters       at most.
template <typename Cluster>
void launch(void (*kernel)(Problem<Cluster>), const Problem<Cluster>& problem, uint32_t dynamic_bytes, int clusters) {
  harness::check(
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(dynamic_bytes)),
      "reserve shared memory for the tiles");
  //! [launch]
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {Cluster::rows, Cluster::columns, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(Cluster::rows * min(clusters, problem.tiles()), Cluster::columns);
  config.blockDim = dim3(kThreads);
  config.dynamicSmemBytes = dynamic_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  harness::check(cudaLaunchKernelEx(&config, kernel, problem), "launch the clusters");
  //! [launch]
}

}  // namespace stagecraft
