// What the stages of an InputTilePipeline hold: tiles of A and B, and scale factors where the kind of MMA has them. A
// payload knows where its tiles are and how many bytes fill them, and nothing about barriers.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>

#include "stagecraft/tile.hpp"

namespace stagecraft {

/// The tiles of a ring in shared memory, as a value that a thread carries: a type that InputTilePipeline can be made
/// of.
///
/// `Storage` is the type to declare in shared memory and to make the payload from. `tile(number)` returns the tiles of
/// one k-tile, as a structure `Tiles` of references, and there are `num_tiles` of them; copies fill each with
/// `bytes_per_tile` bytes.
template <typename Payload>
concept TilePayload = std::is_trivially_copyable_v<Payload> && requires(const Payload& payload, uint32_t number) {
  typename Payload::Storage;
  typename Payload::Tiles;
  { Payload::num_tiles } -> std::convertible_to<int>;
  { Payload::bytes_per_tile } -> std::convertible_to<uint32_t>;
  { payload.tile(number) } -> std::same_as<typename Payload::Tiles>;
};

/// A tile of A and one of B for each k-tile.
/// @tparam NumTiles  k-tiles in shared memory: NumGroupStages * KGroupSize of the pipeline.
template <SharedTile ATileType, SharedTile BTileType, int NumTiles>
class StandardTilePayload {
  static_assert(NumTiles >= 1, "StandardTilePayload: NumTiles must be at least 1");

 public:
  using ATile = ATileType;  ///< of A: M x K
  using BTile = BTileType;  ///< of B: N x K

  /// What is in shared memory: `__shared__ Payload::Storage tiles;`, or a reference into dynamic shared memory.
  struct Storage {
    ATile a[NumTiles];  ///< tiles of A
    BTile b[NumTiles];  ///< tiles of B
  };
  static_assert(sizeof(Storage) <= kSharedBytesPerBlock,
                "StandardTilePayload: the tiles do not fit in the 227 KiB of shared memory that a block can have; use "
                "fewer stages, a smaller k-group or smaller tiles");

  /// The tiles of one k-tile.
  struct Tiles {
    ATile& a;  ///< tile of A
    BTile& b;  ///< tile of B
  };

  static constexpr int num_tiles = NumTiles;                               ///< k-tiles in shared memory
  static constexpr uint32_t bytes_per_tile = ATile::bytes + BTile::bytes;  ///< of one k-tile, which its copies bring

  /// @param storage  in shared memory.
  __device__ __forceinline__ explicit StandardTilePayload(Storage& storage) : storage_(&storage) {}

  /// The tiles of k-tile `number`, 0 to num_tiles - 1. Any thread.
  __device__ __forceinline__ Tiles tile(uint32_t number) const { return {storage_->a[number], storage_->b[number]}; }

 private:
  Storage* storage_;
};

/// A tile of A, one of B, and the scale factors of both, for the block-scaled kinds of MMA (MXFP8, MXFP4, NVFP4).
/// @tparam NumTiles  k-tiles in shared memory: NumGroupStages * KGroupSize of the pipeline.
template <SharedTile ATileType, SharedTile BTileType, SharedTile SfaTileType, SharedTile SfbTileType, int NumTiles>
class BlockScaledTilePayload {
  static_assert(NumTiles >= 1, "BlockScaledTilePayload: NumTiles must be at least 1");
  static_assert(ATileType::columns == BTileType::columns,
                "BlockScaledTilePayload: the tiles of A and of B must have equally many columns, along K");
  static_assert(SfaTileType::rows >= ATileType::rows && SfbTileType::rows >= BTileType::rows,
                "BlockScaledTilePayload: the scale factors must have no fewer rows than their operand");
  static_assert(SfaTileType::columns == SfbTileType::columns,
                "BlockScaledTilePayload: A and B must have equally many scale factors along K");

 public:
  using ATile = ATileType;      ///< of A: M x K
  using BTile = BTileType;      ///< of B: N x K
  using SfaTile = SfaTileType;  ///< of A's scale factors: M x blocks of K
  using SfbTile = SfbTileType;  ///< of B's scale factors: N x blocks of K

  /// What is in shared memory: `__shared__ Payload::Storage tiles;`, or a reference into dynamic shared memory.
  struct Storage {
    ATile a[NumTiles];      ///< tiles of A
    BTile b[NumTiles];      ///< tiles of B
    SfaTile sfa[NumTiles];  ///< tiles of A's scale factors
    SfbTile sfb[NumTiles];  ///< tiles of B's scale factors
  };
  static_assert(sizeof(Storage) <= kSharedBytesPerBlock,
                "BlockScaledTilePayload: the tiles do not fit in the 227 KiB of shared memory that a block can have; "
                "use fewer stages, a smaller k-group or smaller tiles");

  /// The tiles of one k-tile.
  struct Tiles {
    ATile& a;      ///< tile of A
    BTile& b;      ///< tile of B
    SfaTile& sfa;  ///< tile of A's scale factors
    SfbTile& sfb;  ///< tile of B's scale factors
  };

  static constexpr int num_tiles = NumTiles;  ///< k-tiles in shared memory
  /// Bytes of one k-tile, which its copies bring.
  static constexpr uint32_t bytes_per_tile = ATile::bytes + BTile::bytes + SfaTile::bytes + SfbTile::bytes;

  /// @param storage  in shared memory.
  __device__ __forceinline__ explicit BlockScaledTilePayload(Storage& storage) : storage_(&storage) {}

  /// The tiles of k-tile `number`, 0 to num_tiles - 1. Any thread.
  __device__ __forceinline__ Tiles tile(uint32_t number) const {
    return {storage_->a[number], storage_->b[number], storage_->sfa[number], storage_->sfb[number]};
  }

 private:
  Storage* storage_;
};

/// A tile of A, one of B, and one f32 scale for each row of A: FP8 whose sums the epilogue scales after each k-tile,
/// because the tensor core cannot apply f32 scales.
/// @tparam AScalesTileType  1 x (rows of A), f32.
/// @tparam NumTiles         k-tiles in shared memory: NumGroupStages * KGroupSize of the pipeline.
template <SharedTile ATileType, SharedTile BTileType, SharedTile AScalesTileType, int NumTiles>
class BlockwiseFp8TilePayload {
  static_assert(NumTiles >= 1, "BlockwiseFp8TilePayload: NumTiles must be at least 1");
  static_assert(element_bits<typename ATileType::element_type> == 8 &&
                    element_bits<typename BTileType::element_type> == 8,
                "BlockwiseFp8TilePayload: A and B must be of __nv_fp8_e4m3 or __nv_fp8_e5m2");
  static_assert(std::same_as<typename AScalesTileType::element_type, float> &&
                    AScalesTileType::rows * AScalesTileType::columns == ATileType::rows,
                "BlockwiseFp8TilePayload: the scales of A must be floats, one for each row of A");

 public:
  using ATile = ATileType;              ///< of A: M x K
  using BTile = BTileType;              ///< of B: N x K
  using AScalesTile = AScalesTileType;  ///< of A's scales: 1 x M

  /// What is in shared memory: `__shared__ Payload::Storage tiles;`, or a reference into dynamic shared memory.
  struct Storage {
    ATile a[NumTiles];               ///< tiles of A
    BTile b[NumTiles];               ///< tiles of B
    AScalesTile a_scales[NumTiles];  ///< tiles of A's scales
  };
  static_assert(sizeof(Storage) <= kSharedBytesPerBlock,
                "BlockwiseFp8TilePayload: the tiles do not fit in the 227 KiB of shared memory that a block can have; "
                "use fewer stages, a smaller k-group or smaller tiles");

  /// The tiles of one k-tile.
  struct Tiles {
    ATile& a;               ///< tile of A
    BTile& b;               ///< tile of B
    AScalesTile& a_scales;  ///< tile of A's scales
  };

  static constexpr int num_tiles = NumTiles;  ///< k-tiles in shared memory
  /// Bytes of one k-tile, which its copies bring.
  static constexpr uint32_t bytes_per_tile = ATile::bytes + BTile::bytes + AScalesTile::bytes;

  /// @param storage  in shared memory.
  __device__ __forceinline__ explicit BlockwiseFp8TilePayload(Storage& storage) : storage_(&storage) {}

  /// The tiles of k-tile `number`, 0 to num_tiles - 1. Any thread.
  __device__ __forceinline__ Tiles tile(uint32_t number) const {
    return {storage_->a[number], storage_->b[number], storage_->a_scales[number]};
  }

 private:
  Storage* storage_;
};

}  // namespace stagecraft
