// What the kernel is compiled for, and the types that follow from it.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/wgmma.hpp"

namespace stagecraft {

/// What a kernel is compiled for: a type with these members, most simply one that inherits them and replaces some.
/// (A structure as a template argument would be simpler, but nvcc 13.0 cannot launch kernels that have one.)
struct AttentionTwinDefaults {
  using Element = __nv_bfloat16;         ///< of Q, K, V and the output; or __half
  static constexpr int head_dim = 128;   ///< elements of a row: 64 or 128
  static constexpr bool causal = false;  ///< a query sees the keys up to its own; the last query is at the last key
  static constexpr int key_tile = 128;   ///< keys that a warpgroup multiplies at a time
  static constexpr int consumers = 2;    ///< warpgroups that multiply, 64 queries each
  static constexpr int stages = 2;       ///< tiles of keys in shared memory, and as many of values
  static constexpr bool takes_turns = false;  ///< one warpgroup issues products after another, in a fixed order
  static constexpr bool overlaps = true;      ///< a warpgroup computes weights while its own last product runs
  /// By how much, as a power of two, a weight may exceed 1 before sums are rescaled. 2^8 times the largest sum of
  /// weights is far from the largest number of f16, in which weights are multiplied, and of f32.
  static constexpr float tolerated_growth = 8;
};

/// The types that follow from a configuration.
template <typename Config>
struct AttentionTwin {
  using Element = typename Config::Element;
  static constexpr int kHeadDim = Config::head_dim;
  static constexpr int kKeyTile = Config::key_tile;
  static constexpr int kConsumers = Config::consumers;
  static constexpr int kQueryTile = 64 * kConsumers;                  // queries of a block at a time
  static constexpr int kThreads = (1 + kConsumers) * kWarpgroupSize;  // of one warpgroup more, one lane loads
  // A block has what its threads start with; those that multiply take what the loading warpgroup leaves.
  static constexpr int kStartRegisters = 65536 / kThreads / 8 * 8;
  static constexpr int kLoadRegisters = kConsumers == 3 ? 32 : 40;
  static constexpr int kMultiplyRegisters =
      (kStartRegisters * kThreads - kLoadRegisters * kWarpgroupSize) / (kConsumers * kWarpgroupSize) / 8 * 8;

  using QueryTile = Tile<Element, 64, kHeadDim>;  // of one warpgroup
  using KeyTile = Tile<Element, kKeyTile, kHeadDim>;
  using ValueTile = Tile<Element, kHeadDim, kKeyTile, Swizzle::bytes_128, Major::mn>;
  using Slab = Tile<Element, 16, 64>;  // 64 columns of the output, of one warp
  using Scores = WarpgroupSums<Element, 64, kKeyTile>;
  using Output = WarpgroupSums<Element, 64, kHeadDim>;

  static constexpr uint32_t kTileBytes =
      kConsumers * QueryTile::bytes + Config::stages * (KeyTile::bytes + ValueTile::bytes);
  // As many of the output's columns leave at once as there is room for.
  static constexpr int kSlabs =
      kHeadDim == 128 && kTileBytes + 8 * kConsumers * Slab::bytes + 1024 <= kSharedBytesPerBlock ? 2 : 1;

  struct Shared {
    QueryTile queries[kConsumers];
    KeyTile keys[Config::stages];
    ValueTile values[Config::stages];
    Slab slabs[kConsumers * 4][kSlabs];
    uint64_t queries_full[kConsumers], queries_empty[kConsumers];
    int item[kConsumers];  // the number of that whose queries these are
    uint64_t keys_full[Config::stages], keys_empty[Config::stages];
    uint64_t values_full[Config::stages], values_empty[Config::stages];
  };
  static_assert(sizeof(Shared) <= kSharedBytesPerBlock, "AttentionTwin: the tiles must fit in shared memory");
  static_assert(kHeadDim == 64 || kHeadDim == 128, "AttentionTwin: head_dim must be 64 or 128");
  static_assert(kConsumers == 2 || kConsumers == 3, "AttentionTwin: 2 or 3 warpgroups multiply");
};

}  // namespace stagecraft
