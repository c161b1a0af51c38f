// Block-scaled products: their tiles, and what is in a stage of the ring. All else is as in problem.cuh.
#pragma once

#include <cstdint>
#include <problem.cuh>

#include "stagecraft/block_scaled_types.hpp"
#include "stagecraft/tile_copy.hpp"

namespace stagecraft {

/// The stages of a ring as in TwoWayPayload, with the scale factors of a k-tile next to its tiles.
template <typename SfaTileType, typename SfbTileType, SharedTile ATileType, SharedTile BTileType, typename OutputType,
          int NumTiles>
class ScaledPayload {
 public:
  using ATile = ATileType;      ///< of A: M x K
  using BTile = BTileType;      ///< of B: N x K
  using SfaTile = SfaTileType;  ///< of A's scale factors: M x blocks of K
  using SfbTile = SfbTileType;  ///< of B's scale factors: N x blocks of K
  using Output = OutputType;    ///< of D

  /// One stage.
  union Stage {
    struct {
      ATile a;
      BTile b;
      SfaTile sfa;
      SfbTile sfb;
    } input;
    Output output;
  };
  /// What is in shared memory.
  struct Storage {
    Stage stages[NumTiles];
  };

  /// What a stage holds, by all names.
  struct Tiles {
    ATile& a;
    BTile& b;
    SfaTile& sfa;
    SfbTile& sfb;
    Output& output;
  };

  static constexpr int num_tiles = NumTiles;  ///< stages
  /// Bytes which the copies of a k-tile bring.
  static constexpr uint32_t bytes_per_tile = ATile::bytes + BTile::bytes + SfaTile::bytes + SfbTile::bytes;

  __device__ __forceinline__ explicit ScaledPayload(Storage& storage) : storage_(&storage) {}
  __device__ __forceinline__ Tiles tile(uint32_t number) const {
    Stage& stage = storage_->stages[number];
    return {stage.input.a, stage.input.b, stage.input.sfa, stage.input.sfb, stage.output};
  }

 private:
  Storage* storage_;
};

//! [config]
/// What a kernel for a block-scaled type is compiled for.
/// @tparam BlockScaled  Mxfp8 or Nvfp4.
template <typename BlockScaled>
struct ScaledConfig : Config<typename BlockScaled::Element> {
  using Base = Config<typename BlockScaled::Element>;
  using Type = BlockScaled;
  /// Stages of the ring. Three are just 99 KiB with MXFP8, and leave nothing for barriers.
  static constexpr int stages = 2;
  static constexpr int blocks = Base::tile_k / Type::block;  ///< along K in a k-tile: 4 or 16
  using SfaTile = ScaleFactorTile<typename Type::Scale, Base::tile_m, blocks>;
  using SfbTile = ScaleFactorTile<typename Type::Scale, Base::tile_n, blocks>;
  using Payload = ScaledPayload<SfaTile, SfbTile, typename Base::ATile, typename Base::BTile,
                                typename Base::OutputSlice[Base::warps], stages>;
  static_assert(sizeof(typename Payload::Storage) <= kDeskSharedBytes - 1024,
                "ScaledConfig: the stages and barriers must fit in 99 KiB");
};
//! [config]

/// What a launch computes, as Problem, of block-scaled A and B.
template <typename Config, typename Operations>
struct ScaledProblem : Problem<Config, Operations> {
  TileMap<typename Config::SfaTile> sfa;
  TileMap<typename Config::SfbTile> sfb;
};

}  // namespace stagecraft
