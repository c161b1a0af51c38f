// How the host starts the kernel.
#pragma once

#include <gemm.cuh>

#include "harness/cuda_error.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

/// Describes the matrices to TMA: A is m x k, B is n x k, C is m x n, all row-major, and k is a multiple of
/// 8.
inline Problem make_problem(const Element* a, const Element* b, float* c, int m, int n, int k) {
  return {.a = make_tile_map<ATile>(a, m, k), .b = make_tile_map<BTile>(b, n, k), .c = c, .m = m, .n = n, .k = k};
}

//! [launch]
/// Starts the kernel with a schedule, on `clusters` clusters at most if the schedule is static.
template <typename Scheduler, typename Tiles>
void launch_gemm(const Problem& problem, const Tiles& tiles, uint32_t clusters) {
  using Cluster = typename Tiles::Cluster;
  harness::check(launch_kernel(gemm<Scheduler, Tiles>,
                               {.grid = Scheduler::grid(tiles, clusters),
                                .block = kGemmThreads,
                                .cluster = {Cluster::rows, Cluster::columns, 1},
                                .dynamic_shared_bytes = sizeof(typename Payload::Storage)},
                               problem, tiles),
                 "launch gemm");
}
//! [launch]

}  // namespace stagecraft
