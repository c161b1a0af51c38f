// Chapter 14: scale factors in tensor memory, where the block-scaled MMAs read them: their columns beside the
// accumulators, and their way there from shared memory. TODO 1 to 3 are here.
#pragma once

#include <bit>
#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/ptx.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tmem_layout.hpp"
#include "stagecraft/umma_descriptors.hpp"

namespace stagecraft {

/// The scale factors of one tile of A or B in tensor memory. The figure of the lesson shows where each is.
/// @tparam SfTile  the ScaleFactorTile that they are copied from.
template <typename SfTile>
class TmemScaleTile {
 public:
  static constexpr int rows = SfTile::rows;       // of the operand, padded to 128
  static constexpr int blocks = SfTile::columns;  // along K
  // TODO 1: how many columns do they occupy?
  static constexpr int tmem_columns = 0;

  /// @param address  of their first column, at lane 0.
  __device__ __forceinline__ explicit TmemScaleTile(uint32_t address) : address_(address) {}

  /// The cell, relative to the first, of the scale factor of a row and a block of K for the lanes of a quarter.
  /// @param quarter  0 to 3: each has its own copy.
  __host__ __device__ static constexpr TmemCell cell_of(int row, int block, uint32_t quarter = 0) {
    // TODO 1: scale_factor_cell (tmem_layout.hpp) knows the rows. Where are the blocks from 4 on?
    (void)block;
    return scale_factor_cell(row, quarter);
  }

  /// The byte of its cell that holds the scale factor of a block of K, which the instruction descriptor calls its id.
  __host__ __device__ static constexpr uint32_t byte_of(int block) {
    (void)block;
    return 0;  // TODO 1: which byte?
  }

  /// The address that `tcgen05.mma` and `tcgen05.cp` take for the scale factors from a row and a block on.
  /// @param row  a multiple of 32: the first in its column.
  __device__ __forceinline__ uint32_t address_of(int row, int block) const {
    return tmem_offset(address_, 0, cell_of(row, block).column);
  }

 private:
  uint32_t address_;
};

/// Asks the tensor core to copy a tile of scale factors from shared memory to its place in tensor memory, and returns
/// at once. Called by the one thread that issues the MMAs.
template <int CtaGroup = 1, typename SfTile>
__device__ __forceinline__ void copy_scale_factors(const TmemScaleTile<SfTile>& to, const SfTile& from) {
  // TODO 2: one copy brings an atom: 128 rows and 4 blocks. Which does the tile have, and where does each go?
  // describe_scale_factors (umma_descriptors.hpp) and cuda::ptx::tcgen05_cp_32x128b_warpx4 help.
}

/// The scale factors of one k-tile in tensor memory: A's, and after them B's.
/// @tparam SfaTileType, SfbTileType  the ScaleFactorTiles that they are copied from.
template <typename SfaTileType, typename SfbTileType>
struct TmemScaleFactors {
  using SfaTile = SfaTileType;  ///< of A, in shared memory
  using SfbTile = SfbTileType;  ///< of B, in shared memory
  /// Columns that both occupy.
  static constexpr int tmem_columns = TmemScaleTile<SfaTile>::tmem_columns + TmemScaleTile<SfbTile>::tmem_columns;

  TmemScaleTile<SfaTile> sfa;  ///< of the rows of A
  TmemScaleTile<SfbTile> sfb;  ///< of the columns of B

  /// @param address  of their first column, at lane 0.
  __device__ __forceinline__ explicit TmemScaleFactors(uint32_t address)
      : sfa(address), sfb(tmem_offset(address, 0, TmemScaleTile<SfaTile>::tmem_columns)) {}
};

/// Copies the scale factors of both operands, as above.
template <int CtaGroup = 1, typename SfaTile, typename SfbTile>
__device__ __forceinline__ void copy_scale_factors(const TmemScaleFactors<SfaTile, SfbTile>& to, const SfaTile& sfa,
                                                   const SfbTile& sfb) {
  copy_scale_factors<CtaGroup>(to.sfa, sfa);
  copy_scale_factors<CtaGroup>(to.sfb, sfb);
}

/// How one allocation of tensor memory is divided in a block-scaled product: the accumulators of an OutputTilePipeline
/// first, then places for scale factors.
/// @tparam OutputPipeline  an OutputTilePipeline.
/// @tparam Payload         a BlockScaledTilePayload; each of its k-tiles has a place.
template <typename OutputPipeline, typename Payload>
class BlockScaledTmem {
 public:
  /// The scale factors of one k-tile.
  using ScaleFactors = TmemScaleFactors<typename Payload::SfaTile, typename Payload::SfbTile>;

  // TODO 3: the columns of all accumulators, which come first; and those that are used, by scale factors too.
  static constexpr int accumulator_columns = 0;
  static constexpr int used_columns = accumulator_columns;
  static_assert(used_columns <= kTmemColumns,
                "BlockScaledTmem: accumulators and scale factors do not fit in the 512 columns of tensor memory; use "
                "fewer accumulators, narrower ones, or fewer stages");

  /// Columns to allocate: those used, rounded up to a legal power of two.
  static constexpr int tmem_columns =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(used_columns < 32 ? 32 : used_columns)));
  using Allocation = TmemAllocation<tmem_columns, OutputPipeline::cta_group>;  ///< what allocates them

  /// @param address  of the allocation, which is that of the OutputTilePipeline as well.
  __device__ __forceinline__ explicit BlockScaledTmem(uint32_t address) : address_(address) {}

  /// The place of the scale factors of k-tile `number` in shared memory.
  __device__ __forceinline__ ScaleFactors scale_factors(uint32_t number) const {
    // TODO 3: where do they begin?
    return ScaleFactors(address_);
  }

 private:
  uint32_t address_;
};

}  // namespace stagecraft
