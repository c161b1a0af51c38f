// How the host starts the kernel of part one.
#pragma once

#include <gemm.cuh>

#include "harness/cuda_error.hpp"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

/// Starts the kernel on so many blocks at most. n and k are multiples of 8.
/// @param d  m x n / Operations::columns_per_result.
/// Throws CudaError and TensorMapError.
template <int TileN, typename Element, typename Operations>
void start_gemm(const Operand* a, const Operand* b, const Operations& epilogue, Element* d, int m, int n, int k,
                int blocks) {
  using Writer = TileWriter<AccumulatorOf<TileN>, Element, Operations::columns_per_result>;
  const Problem<TileN, Writer, Operations> problem{.a = make_tile_map<ATile>(a, m, k),
                                                   .b = make_tile_map<BTile<TileN>>(b, n, k),
                                                   .d = map_of_d<Writer>(d, m, n / Operations::columns_per_result),
                                                   .epilogue = epilogue,
                                                   .m = m,
                                                   .n = n,
                                                   .k = k};
  const auto kernel = gemm<TileN, Writer, Operations>;
  constexpr int kBytes = sizeof(typename PayloadOf<TileN>::Storage) + sizeof(typename Writer::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                 "reserve shared memory for the tiles and the slices");
  const int tiles = (m + kTileM - 1) / kTileM * ((n + TileN - 1) / TileN);
  kernel<<<min(blocks, tiles), kGemmThreads, kBytes>>>(problem);
  harness::check(cudaGetLastError(), "launch the kernel");
}

}  // namespace stagecraft
