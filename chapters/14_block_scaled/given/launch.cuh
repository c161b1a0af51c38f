// How the host starts this chapter's kernels.
#pragma once

#include <cstdint>
#include <problem.cuh>

#include "harness/cuda_error.hpp"
#include "stagecraft/tensor_map.hpp"

namespace stagecraft {

/// Describes the matrices to TMA. Throws as `require_legal_sizes`, and TensorMapError for addresses that
/// are not aligned to 16 bytes.
template <typename Type, int TileN>
Problem<Type, TileN> make_problem(const BlockScaledOperand& a, const BlockScaledOperand& b, float* c, int64_t m,
                                  int64_t n, int64_t k) {
  using Element = typename Type::Element;
  using Scale = typename Type::Scale;
  require_legal_sizes(m, n, k, element_bits<Element>);
  //! [maps]
  const auto padded = [](int64_t size, int64_t to) { return (size + to - 1) / to * to; };
  const int64_t blocks = padded((k + Type::block - 1) / Type::block, 4);
  return {
      .a = make_tile_map<ATile<Type>>(static_cast<const Element*>(a.elements), m, k),
      .b = make_tile_map<BTile<Type, TileN>>(static_cast<const Element*>(b.elements), n, k),
      .sfa = make_tile_map<SfaTile<Type>>(static_cast<const Scale*>(a.scale_factors), padded(m, 128), blocks),
      .sfb = make_tile_map<SfbTile<Type, TileN>>(static_cast<const Scale*>(b.scale_factors), padded(n, 128), blocks),
      .c = c,
      .m = static_cast<int>(m),
      .n = static_cast<int>(n),
      .k = static_cast<int>(k)};
  //! [maps]
}

/// The same for blockwise scales.
inline BlockwiseProblem make_blockwise_problem(const BlockwiseOperand& a, const BlockwiseOperand& b, float* c,
                                               int64_t m, int64_t n, int64_t k) {
  require_legal_sizes(m, n, k, 8);
  const int64_t k_tiles = (k + kScaledK - 1) / kScaledK;
  return {.a = make_tile_map<BlockwiseTile>(a.elements, m, k),
          .b = make_tile_map<BlockwiseTile>(b.elements, n, k),
          .a_scales = make_tile_map<AScalesTile>(a.scales, k_tiles, a.scales_in_row),
          .b_scales = b.scales,
          .b_scales_in_row = b.scales_in_row,
          .c = c,
          .m = static_cast<int>(m),
          .n = static_cast<int>(n),
          .k = static_cast<int>(k)};
}

/// Starts one of the kernels, on no more blocks than there are tiles of C.
/// @tparam PayloadType  what the kernel has in shared memory.
/// @param blocks        at most; 0: one for each multiprocessor.
template <typename PayloadType, typename P>
void launch(void (*kernel)(P), const P& problem, int blocks) {
  if (blocks == 0) {
    int device = 0;
    harness::check(cudaGetDevice(&device), "find a CUDA device");
    harness::check(cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, device),
                   "ask the device for its multiprocessors");
  }
  constexpr int kBytes = sizeof(typename PayloadType::Storage);
  harness::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes),
                 "reserve shared memory for the tiles");
  kernel<<<min(static_cast<uint32_t>(blocks), TileOfC<P>::tiles(problem)), kThreads, kBytes>>>(problem);
  harness::check(cudaGetLastError(), "launch the kernel");
}

}  // namespace stagecraft
