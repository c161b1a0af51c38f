// How the host starts the kernels of this chapter.
#pragma once

#include <attention.cuh>
#include <cstdint>

#include "harness/cuda_error.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/tile_batch.hpp"

namespace stagecraft {

/// A matrix for each head, in device memory: element i of token t of head h is `data[h * head_stride + t * token_stride
/// + i]`. Strides are multiples of 8 elements.
template <typename Element>
struct HeadMatrices {
  Element* data;
  int64_t token_stride;  ///< elements from one token to the next
  int64_t head_stride;   ///< elements from one head to the next
};

/// The matrices of a problem.
template <typename Element>
struct AttentionMatrices {
  HeadMatrices<const Element> queries, keys, values;
  HeadMatrices<Element> outputs;
  float* logsumexp;  ///< heads x queries, or null
};

/// The tensor map of matrices of `tokens` rows. Tensor maps are not empty: where there are no tokens, it is of one that
/// no kernel reads.
template <typename Tile, typename Element>
BatchedTileMap<Tile> map_of_heads(const HeadMatrices<Element>& matrices, int tokens, int heads, int head_dim) {
  const auto bytes = [](int64_t elements) { return static_cast<uint64_t>(elements) * sizeof(Element); };
  const uint64_t rows = max(tokens, 1), columns = head_dim;
  return make_batched_tile_map<Tile>(matrices.data, Tile::major == Major::k ? rows : columns,
                                     Tile::major == Major::k ? columns : rows, bytes(matrices.token_stride), heads,
                                     bytes(matrices.head_stride));
}

/// What a kernel takes.
/// Throws TensorMapError.
template <typename Tiles>
AttentionProblem<Tiles> make_attention_problem(const AttentionShape& shape,
                                               const AttentionMatrices<typename Tiles::Element>& matrices,
                                               float scale) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr int kDim = Tiles::head_dim;
  return {.queries = map_of_heads<typename Tiles::Queries>(matrices.queries, shape.queries, shape.heads, kDim),
          .keys = map_of_heads<typename Tiles::Keys>(matrices.keys, shape.keys, shape.key_heads, kDim),
          .values = map_of_heads<typename Tiles::Values>(matrices.values, shape.keys, shape.key_heads, kDim),
          .outputs = map_of_heads<typename Tiles::Queries>(matrices.outputs, shape.queries, shape.heads, kDim),
          .logsumexp = matrices.logsumexp,
          .shape = shape,
          .scale_log2 = scale * kLog2E};
}

/// Starts the kernel of parts two and three. @param blocks  at most, of a persistent kernel.
/// Throws CudaError and TensorMapError.
template <typename Config>
void start_attention(const AttentionShape& shape, const AttentionMatrices<typename Config::Tiles::Element>& matrices,
                     float scale, int blocks) {
  const auto problem = make_attention_problem<typename Config::Tiles>(shape, matrices, scale);
  const int items = Config::Items::count(shape);
  if (items == 0) return;
  const LaunchOptions options{.grid = static_cast<unsigned>(Config::persistent ? min(blocks, items) : items),
                              .block = kAttentionThreads,
                              .dynamic_shared_bytes = sizeof(AttentionShared<Config>)};
  harness::check(launch_kernel(attention<Config>, options, problem), "launch the kernel");
}

}  // namespace stagecraft
