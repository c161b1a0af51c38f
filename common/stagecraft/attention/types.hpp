// The types and sizes of an attention kernel, from its configuration. An illegal configuration does not compile, and
// says what is legal.
#pragma once

#include <cstdint>
#include <type_traits>

#include "stagecraft/attention/config.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tmem_operand.hpp"

namespace stagecraft {

inline constexpr int kTileQueries = 128;                         ///< in a tile: one for each lane of tensor memory
inline constexpr int kBlockKeys = 128;                           ///< in a block of keys and values
inline constexpr int kQueryTiles = 2;                            ///< of queries, which a block of the grid has in hand
inline constexpr int kItemQueries = kQueryTiles * kTileQueries;  ///< that it has in hand
inline constexpr int kAttentionBlock = 512;                      ///< threads of a block of the grid

/// Why no kernel can be compiled for a configuration, in the words of its members; null if one can.
constexpr const char* why_illegal(const AttentionConfig& config) {
  if (config.type != DataType::bf16 && config.type != DataType::f16 && config.type != DataType::e4m3) {
    return "type must be bf16, f16 or e4m3";
  }
  if (config.output != (config.type == DataType::e4m3 ? DataType::bf16 : config.type)) {
    return "output must be of the type of Q, K and V, or bf16 where those are e4m3";
  }
  if (config.head_dim != 64 && config.head_dim != 128 && config.head_dim != 192) {
    return "head_dim must be 64, 128 or 192, of which a kernel computes any that are smaller, too";
  }
  if (config.value_dim != 64 && config.value_dim != 128) {
    return "value_dim must be 64 or 128: O of two tiles and S of both are in the 512 columns of tensor memory";
  }
  if (config.type == DataType::e4m3 && (config.head_dim == 64 || config.value_dim == 64)) {
    return "with e4m3 head_dim must be 128 or 192 and value_dim 128: tiles are in lines of 128 bytes, or 64";
  }
  return nullptr;
}

namespace detail {

/// The element type that a DataType names, of those that attention has.
template <DataType Type>
using attention_element = std::conditional_t<Type == DataType::e4m3, __nv_fp8_e4m3,
                                             std::conditional_t<Type == DataType::f16, __half, __nv_bfloat16>>;

}  // namespace detail

/// Everything that follows from a configuration.
template <AttentionConfig Config>
struct AttentionTypes {
  static_assert(why_illegal(Config) == nullptr,
                "attention: type must be bf16, f16 or e4m3, head_dim 64, 128 or 192, value_dim 64 or 128; "
                "why_illegal() of stagecraft/attention/types.hpp says what is wrong");
  static constexpr AttentionConfig config = Config;                ///< what the kernel is compiled for
  using Element = detail::attention_element<Config.type>;          ///< of Q, K and V, and of P
  using OutputElement = detail::attention_element<Config.output>;  ///< of the output

  /// The swizzle of rows of so many elements: the widest whose lines they fill.
  static constexpr Swizzle swizzle_of(int elements) {
    return elements * element_bits<Element> / 8 % 128 == 0 ? Swizzle::bytes_128 : Swizzle::bytes_64;
  }
  using Queries =
      Tile<Element, kTileQueries, Config.head_dim, swizzle_of(Config.head_dim)>;         ///< A of the first product
  using Keys = Tile<Element, kBlockKeys, Config.head_dim, swizzle_of(Config.head_dim)>;  ///< B of the first product
  /// B of the second product, which sums over the keys: the other index is contiguous.
  using Values = Tile<Element, Config.value_dim, kBlockKeys, swizzle_of(Config.value_dim), Major::mn>;
  using Outputs = Tile<OutputElement, kTileQueries, Config.value_dim>;  ///< as TMA stores them

  using Scores = TmemTensor<kTileQueries, kBlockKeys>;            ///< S = Q * K transposed
  using Powers = TmemOperand<Element, kTileQueries, kBlockKeys>;  ///< P, over the first columns of S
  using Sums = TmemTensor<kTileQueries, Config.value_dim>;        ///< O = P * V
  using SumsPipeline = OutputTilePipeline<Sums, kQueryTiles>;     ///< from the multiplying role to the correcting one

  /// A stage of the ring of keys and values.
  union KeysOrValues {
    Keys keys;      ///< of a block
    Values values;  ///< of a block
  };
  static constexpr int output_stages = Config.head_dim == 192 ? 1 : 2;  ///< tiles of the output on their way out
  /// Stages of keys and values, in turn.
  static constexpr int stages = Config.type == DataType::e4m3 ? (Config.head_dim == 192 ? 4 : 6)
                                : Config.head_dim == 64       ? 6
                                : Config.head_dim == 128      ? 3
                                                              : 2;

  /// What a block has in dynamic shared memory.
  struct Shared {
    Queries queries[kQueryTiles];      ///< in hand
    KeysOrValues keys_values[stages];  ///< in turn: keys of a block, its values, keys of the next, ...
    Outputs outputs[output_stages];    ///< on their way out
  };
  static constexpr uint32_t shared_bytes = sizeof(Shared);  ///< dynamic ones
  static_assert(shared_bytes + 2048 <= kSharedBytesPerBlock, "attention: the tiles do not fit in shared memory");
};

/// All 512 columns: S of both tiles, then O of both. P of a tile is in the first columns of its S.
using AttentionColumns = TmemAllocation<512>;
/// The first column of S, and of P, of a tile.
__host__ __device__ constexpr int column_of_scores(int tile) { return tile * kBlockKeys; }
/// The first column of O of the first tile.
inline constexpr int kColumnOfSums = kQueryTiles * kBlockKeys;

}  // namespace stagecraft
