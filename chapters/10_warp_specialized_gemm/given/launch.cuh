// How the host starts any of this chapter's kernels.
#pragma once

#include <cstdint>

#include "harness/cuda_error.hpp"
#include "problem.cuh"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

/// Describes the matrices to TMA. Throws as `require_legal_sizes`, and TensorMapError for
/// addresses that are not aligned to 16 bytes.
template <TileElement Element>
Problem<Element> make_problem(const matrix_element<Element>* a, const matrix_element<Element>* b,
                              GemmOutput<Element>* c, int64_t m, int64_t n, int64_t k) {
  require_legal_sizes<Element>(m, n, k);
  //! [maps]
  return {.a = make_tile_map<ATile<Element>>(a, m, k),
          .b = make_tile_map<BTile<Element>>(b, n, k),
          .c = c,
          .m = static_cast<int>(m),
          .n = static_cast<int>(n),
          .k = static_cast<int>(k)};
  //! [maps]
}

/// Starts one of the kernels, on no more blocks than there are tiles of C.
/// @param stages  of the ring of tiles that the kernel is compiled for.
/// @param blocks  at most; 0: one for each multiprocessor.
template <TileElement Element>
void launch(void (*kernel)(Problem<Element>), const Problem<Element>& problem, int threads, int stages, int blocks) {
  if (blocks == 0) {
    int device = 0;
    harness::check(cudaGetDevice(&device), "find a CUDA device");
    harness::check(cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device),
                   "ask the device for its multiprocessors");
  }
  //! [start]
  const uint32_t bytes = stages * sizeof(typename Payload<Element, 1>::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)),
                 "reserve shared memory for the tiles");
  kernel<<<min(static_cast<uint32_t>(blocks), problem.tiles()), threads, bytes>>>(problem);
  //! [start]
  harness::check(cudaGetLastError(), "launch the kernel");
}

}  // namespace stagecraft
