// The problem, its tiles and its pieces of work: what the kernels of this chapter share. Who waits for whom is not
// here.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>
#include <cuda/ptx>

#include "decoding.hpp"
#include "stagecraft/paged_tiles.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

//! [tiles]
/// Keys in a tile: M of the first product, where the tensor core has 128 rows.
inline constexpr int kTileKeys = 128;
inline constexpr int kTilePages = kTileKeys / kPageTokens;

/// A of the first product, S^T = K Q^T: a line is a key.
template <typename Element>
using KeyTile = Tile<Element, kTileKeys, kHeadDim>;
/// B of the first product: the packed queries of a group.
template <typename Element>
using QueryTile = Tile<Element, kPackedRows, kHeadDim>;
/// A of the second product, O^T = V^T P^T: a line is a value, as in the cache, and a row is one of its elements.
template <typename Element>
using ValueTile = Tile<Element, kHeadDim, kTileKeys, Swizzle::bytes_128, Major::mn>;
/// B of the second product: a line has the weights of one key, for all packed queries, in 32 or 16 bytes.
template <typename Element>
using WeightTile =
    Tile<Element, kPackedRows, kTileKeys, sizeof(Element) == 2 ? Swizzle::bytes_32 : Swizzle::none, Major::mn>;
//! [tiles]

/// Tiles of one kind, a stage each: what an InputTilePipeline of keys or of values holds.
template <typename T, int NumTiles>
class CacheTiles {
 public:
  struct Storage {
    T tiles[NumTiles];
  };
  struct Tiles {
    T& tile;
  };
  static constexpr int num_tiles = NumTiles;
  static constexpr uint32_t bytes_per_tile = T::bytes;

  __device__ __forceinline__ explicit CacheTiles(Storage& storage) : storage_(&storage) {}
  __device__ __forceinline__ Tiles tile(uint32_t number) const { return {storage_->tiles[number]}; }

 private:
  Storage* storage_;
};

/// Tiles of keys in shared memory, and as many of values.
inline constexpr int kStages = 3;
/// Tiles whose scores, weights and sums exist at a time: while one is multiplied, the next gets its weights.
inline constexpr int kTilesInTurn = 2;

/// What a block of `decode` has in dynamic shared memory.
template <typename Element>
struct SharedTiles {
  typename CacheTiles<KeyTile<Element>, kStages>::Storage keys;
  typename CacheTiles<ValueTile<Element>, kStages>::Storage values;
  QueryTile<Element> queries;
  WeightTile<Element> weights[kTilesInTurn];
};

//! [problem]
/// What a launch of `decode` computes.
template <typename Element>
struct DecodingProblem {
  PagedTileMap<KeyTile<Element>, kPageTokens> keys;
  PagedTileMap<ValueTile<Element>, kPageTokens> values;
  const Element* queries;  // [sequence][query][head][element]
  const int* page_table;   // [sequence][shape.table_pages]: pages of the cache, in the order of the tokens
  const int* lengths;      // of each sequence: keys
  DecodingShape shape;
  float scale_log2;           // of a score, with log2(e), and with the scale of the queries where they have one
  const float* key_scales;    // of each key head; null: 1
  const float* value_scales;  // of each key head; null: 1
  int splits;                 // pieces into which the keys of a sequence are split
  PartialResults partial;     // with more than one split
  DecodingResults results;    // with one
};
//! [problem]

/// The tiles of a sequence's keys that one block goes through, for one key head.
//! [work]
struct Work {
  int sequence, key_head, split;
  int length;             // keys of the sequence
  int first_tile, tiles;  // tiles may be 0
};

/// The work of the calling block. The tiles of a sequence are spread as evenly as possible.
template <typename Element>
__device__ Work work_of_block(const DecodingProblem<Element>& problem) {
  const int split = static_cast<int>(blockIdx.x), sequence = static_cast<int>(blockIdx.z);
  const int length = problem.lengths[sequence];
  const int tiles = (length + kTileKeys - 1) / kTileKeys;
  const int first = tiles * split / problem.splits;
  return {sequence, static_cast<int>(blockIdx.y), split, length, first, tiles * (split + 1) / problem.splits - first};
}
//! [work]

/// Rows of the group's tile that are queries; the others are zero, and are not stored.
__host__ __device__ inline int packed_rows(const DecodingShape& shape) {
  return shape.queries * (shape.heads / shape.key_heads);
}

/// A query of a sequence, in one head.
struct PackedQuery {
  int query, head;
};

/// The row of all results that a query of a sequence has: they are `[sequence][query][head]`.
__host__ __device__ inline int64_t result_row(const DecodingShape& shape, int sequence, PackedQuery packed) {
  return (int64_t{sequence} * shape.queries + packed.query) * shape.heads + packed.head;
}

/// Warps of softmax. Four, because a warp can reach only a quarter of the lanes of tensor memory: a thread has a key in
/// the first product, and an element of the output in the second.
inline constexpr int kSoftmaxThreads = 4 * kWarpSize;
inline constexpr int kThreads = 2 * kWarpSize + kSoftmaxThreads;

/// What a warp does.
enum class Role { load, multiply, softmax };

/// The calling warp's role: warp 0 loads tiles, warp 1 multiplies them, all others are softmax. Called by a whole warp.
__device__ inline Role warp_role() {
  const uint32_t warp = warp_index();
  return warp == 0 ? Role::load : warp == 1 ? Role::multiply : Role::softmax;
}

/// The tiles in dynamic shared memory.
template <typename Element>
__device__ SharedTiles<Element>& tiles_in_shared_memory() {
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  return *reinterpret_cast<SharedTiles<Element>*>(dynamic_shared_memory);
}

}  // namespace stagecraft
