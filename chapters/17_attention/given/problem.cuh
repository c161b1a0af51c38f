// The problem, its tiles, and where they are in shared and in tensor memory: what the kernels of this chapter are
// about, without who waits for whom.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "stagecraft/element.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_batch.hpp"
#include "stagecraft/tmem_operand.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

// ---- Sizes ----------------------------------------------------------------------------------------------------------

//! [sizes]
inline constexpr int kQueries = 128;  ///< in a tile: one for each lane of tensor memory
inline constexpr int kKeys = 128;     ///< in a block of keys and values
inline constexpr int kTiles = 2;      ///< of queries, which a block of the grid has in hand
//! [sizes]

/// The tiles of a problem.
/// @tparam ElementType  of all matrices: __nv_bfloat16 or __half.
/// @tparam HeadDim      elements of a query, a key or a value: 64 or 128.
template <TileElement ElementType, int HeadDim>
struct AttentionTiles {
  using Element = ElementType;                       ///< of all matrices
  static constexpr int head_dim = HeadDim;           ///< of a query, a key or a value
  using Queries = Tile<Element, kQueries, HeadDim>;  ///< A of the first product; the output, too
  using Keys = Tile<Element, kKeys, HeadDim>;        ///< B of the first product
  /// B of the second product, which sums over the keys: the other index is contiguous.
  using Values = Tile<Element, HeadDim, kKeys, Swizzle::bytes_128, Major::mn>;

  using Scores = TmemTensor<kQueries, kKeys>;                   ///< S = Q * K transposed, in tensor memory
  using Probabilities = TmemOperand<Element, kQueries, kKeys>;  ///< P, A of the second product
  using Sums = TmemTensor<kQueries, HeadDim>;                   ///< O = P * V
};

// ---- Tensor memory --------------------------------------------------------------------------------------------------

//! [tensor memory]
/// All 512 columns: S of both tiles, then O of both. P of a tile is in the first 64 columns of its S.
using AttentionTmem = TmemAllocation<512>;
/// The first column of S, and of P, of a tile.
__host__ __device__ constexpr int scores_column(int tile) { return tile * kKeys; }
/// The first column of O of a tile.
__host__ __device__ constexpr int sums_column(int tile, int head_dim) { return kTiles * kKeys + tile * head_dim; }
//! [tensor memory]

// ---- The problem ----------------------------------------------------------------------------------------------------

//! [problem]
/// How large a problem is, and which keys a query sees.
struct AttentionShape {
  int queries, keys;     ///< of each head
  int heads, key_heads;  ///< as many query heads share each key head as it divides `heads`
  bool causal;           ///< the last query sees all keys, and each one before it a key fewer

  /// How many keys query `row` sees: the first ones.
  __host__ __device__ int visible_keys(int row) const {
    if (!causal) return keys;
    const int visible = row + 1 + keys - queries;
    return visible < 0 ? 0 : visible < keys ? visible : keys;
  }
  /// How many blocks of keys rows up to `last_row` see.
  __host__ __device__ int key_blocks(int last_row) const {
    return (visible_keys(last_row < queries ? last_row : queries - 1) + kKeys - 1) / kKeys;
  }
};

/// What a launch computes: for each query q of each head, the sum of the values v_j of the keys k_j that it sees, each
/// times exp(scale * q . k_j) / (the sum of these). Each matrix is known to the kernel by its tensor map, in which the
/// number of the head is the third index.
template <typename Tiles>
struct AttentionProblem {
  BatchedTileMap<typename Tiles::Queries> queries;
  BatchedTileMap<typename Tiles::Keys> keys;
  BatchedTileMap<typename Tiles::Values> values;
  BatchedTileMap<typename Tiles::Queries> outputs;
  float* logsumexp;  ///< heads x queries: log(sum of exp(scale * q . k_j)), -inf where a query sees no key; or null
  AttentionShape shape;
  float scale_log2;  ///< scale * log2(e), positive: exp(scale * s) is 2^(scale_log2 * s)
};
//! [problem]

// ---- Work -----------------------------------------------------------------------------------------------------------

/// What a block computes at a time: tiles of queries of one head.
struct AttentionItem {
  int head;         ///< of the queries
  int first_query;  ///< of the first tile
  int key_blocks;   ///< that any of its queries sees; may be 0
};

//! [work]
/// Where a block is in its work: item number blockIdx.x, then every gridDim.x-th. Each role goes through the items
/// independently.
/// @tparam TilesOfItem   tiles of queries in an item.
/// @tparam LongestFirst  the last queries of all heads come first: of a causal problem, those that see most keys.
template <int TilesOfItem, bool LongestFirst>
class AttentionItems {
 public:
  __device__ explicit AttentionItems(const AttentionShape& shape)
      : shape_(&shape), down_(items_of_head(shape)), number_(static_cast<int>(blockIdx.x)) {}

  /// Items of one head.
  __host__ __device__ static int items_of_head(const AttentionShape& shape) {
    return (shape.queries + kItemQueries - 1) / kItemQueries;
  }
  /// Items of all heads.
  __host__ __device__ static int count(const AttentionShape& shape) { return items_of_head(shape) * shape.heads; }

  __device__ bool exists() const { return number_ < down_ * shape_->heads; }
  __device__ void next() { number_ += static_cast<int>(gridDim.x); }
  __device__ AttentionItem item() const {
    const int first_query = (LongestFirst ? down_ - 1 - number_ / shape_->heads : number_ % down_) * kItemQueries;
    return {.head = LongestFirst ? number_ % shape_->heads : number_ / down_,
            .first_query = first_query,
            .key_blocks = shape_->key_blocks(first_query + kItemQueries - 1)};
  }

 private:
  static constexpr int kItemQueries = TilesOfItem * kQueries;
  const AttentionShape* shape_;
  int down_, number_;
};
//! [work]

/// The head of K and V that a head of Q uses.
__host__ __device__ inline int key_head_of(const AttentionShape& shape, int head) {
  return head / (shape.heads / shape.key_heads);
}

}  // namespace stagecraft
