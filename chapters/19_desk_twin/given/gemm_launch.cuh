// How the host starts the chapter's kernel.
#pragma once

#include <gemm.cuh>

#include "harness/cuda_error.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

/// The tiles of a product, in panels of `width` of them.
template <typename Config>
WholeTiles<> tiles_of(int m, int n, int k, uint32_t width) {
  const auto parts = [](int size, int part) { return static_cast<uint32_t>((size + part - 1) / part); };
  return WholeTiles<>{
      {.rows = parts(m, Config::tile_m), .columns = parts(n, Config::tile_n), .k_tiles = parts(k, Config::tile_k)},
      {.order = RasterOrder::along_n, .width = width}};
}

/// Describes the matrices to TMA. @param n, k  multiples of 16 bytes.
/// Throws TensorMapError.
template <typename Config, typename Operations>
Problem<Config, Operations> make_problem(const typename Config::Element* a, const typename Config::Element* b,
                                         const Operations& epilogue, __nv_bfloat16* d, int m, int n, int k,
                                         uint32_t width) {
  const uint64_t stride = static_cast<uint64_t>(n) * sizeof(__nv_bfloat16);
  return {.a = make_tile_map<typename Config::ATile>(a, m, k),
          .b = make_tile_map<typename Config::BTile>(b, n, k),
          .d = make_batched_tile_map<typename Config::OutputSlice>(d, m, n, stride, /*batches=*/1, m * stride),
          .epilogue = epilogue,
          .tiles = tiles_of<Config>(m, n, k, width),
          .m = m,
          .n = n,
          .k = k};
}

/// Starts the kernel with a schedule, on `blocks` blocks at most if the schedule is static: with as many as there are
/// tiles, each block computes one.
/// Throws CudaError and TensorMapError.
template <typename Config, typename Scheduler, typename Operations>
void start_gemm(const typename Config::Element* a, const typename Config::Element* b, const Operations& epilogue,
                __nv_bfloat16* d, int m, int n, int k, uint32_t blocks, uint32_t width = 4,
                cudaStream_t stream = nullptr) {
  const auto problem = make_problem<Config>(a, b, epilogue, d, m, n, k, width);
  harness::check(launch_kernel(gemm<Config, Scheduler, Operations>,
                               {.grid = Scheduler::grid(problem.tiles, blocks),
                                .block = kGemmThreads<Config, Scheduler>,
                                .dynamic_shared_bytes = sizeof(typename Config::Payload::Storage),
                                .stream = stream},
                               problem),
                 "launch the kernel");
}

}  // namespace stagecraft
