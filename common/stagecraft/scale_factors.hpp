// Scale factors in tensor memory, where the block-scaled MMAs read them: their columns beside the accumulators, and
// their way there from shared memory.
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

/// Rows that the tile of scale factors needs for an operand's tiles of `Rows` rows, which begin at multiples of `Rows`.
/// Scale factors come in atoms of 128 rows, and a tile of 64 or 192 rows may begin in the middle of one.
template <int Rows>
consteval int scale_factor_rows() {
  static_assert(Rows >= 32 && Rows % 32 == 0,
                "scale_factor_rows: tiles of an operand must begin at multiples of 32 rows, which are a column of "
                "tensor memory");
  constexpr int kCommon = (Rows & -Rows) < 128 ? Rows & -Rows : 128;  // the largest number that divides Rows and 128
  return (128 - kCommon + Rows + 127) / 128 * 128;                    // 128 - kCommon: the last row where one may begin
}

//! [scale tile]
/// The scale factors of one tile of A or B in tensor memory.
///
/// A cell holds those of four blocks of K for one row, a byte each. The rows are in lanes 0 to 31, one column for each
/// 32 rows, and all of that again in each quarter of the lanes; the next four blocks are in the columns that follow.
/// @tparam SfTile  the ScaleFactorTile that they are copied from.
/// Source: PTX ISA, "tcgen05.mma: scale factor layout"; CUTLASS, cute/atom/mma_traits_sm100_frag.hpp (tmem_sf_frg).
template <typename SfTile>
class TmemScaleTile {
 public:
  static constexpr int rows = SfTile::rows;                      ///< of the operand, padded to 128
  static constexpr int blocks = SfTile::columns;                 ///< along K
  static constexpr int tmem_columns = rows / 32 * (blocks / 4);  ///< columns that they occupy

  /// @param address  of their first column, at lane 0.
  __device__ __forceinline__ explicit TmemScaleTile(uint32_t address) : address_(address) {}

  /// The cell, relative to the first, of the scale factor of a row and a block of K for the lanes of a quarter.
  /// @param quarter  0 to 3: each has its own copy.
  __host__ __device__ static constexpr TmemCell cell_of(int row, int block, uint32_t quarter = 0) {
    TmemCell cell = scale_factor_cell(row, quarter);
    cell.column += block / 4 * (rows / 32);
    return cell;
  }

  /// The byte of its cell that holds the scale factor of a block of K, which the instruction descriptor calls its id.
  __host__ __device__ static constexpr uint32_t byte_of(int block) { return block % 4; }

  /// The address that `tcgen05.mma` and `tcgen05.cp` take for the scale factors from a row and a block on.
  /// @param row  a multiple of 32: the first in its column.
  __device__ __forceinline__ uint32_t address_of(int row, int block) const {
    return tmem_offset(address_, 0, cell_of(row, block).column);
  }

 private:
  uint32_t address_;
};
//! [scale tile]

//! [copy]
/// Asks the tensor core to copy a tile of scale factors from shared memory to its place in tensor memory, and returns
/// at once.
///
/// Called by the one thread that issues the MMAs: MMAs that it issues afterwards find them there, without a wait, and a
/// commit that it makes afterwards also says that the tile in shared memory has been read. What another thread issues
/// is not ordered after them. Nor does the manual order the copies after *earlier* MMAs, which may still read the same
/// columns: BlockScaledTmem has a place for each tile of the ring.
/// @tparam CtaGroup  2: each block of the pair copies from its own shared memory to its own tensor memory, at the same
///                   offsets. So each must hold the scale factors of its own rows of A, and of *all* columns of B.
/// Source: PTX ISA, "tcgen05.cp" (.32x128b.warpx4) and the pipelined pairs of "tcgen05 memory consistency model".
template <int CtaGroup = 1, typename SfTile>
__device__ __forceinline__ void copy_scale_factors(const TmemScaleTile<SfTile>& to, const SfTile& from) {
#pragma unroll
  for (int row = 0; row < SfTile::rows; row += 128) {
#pragma unroll
    for (int block = 0; block < SfTile::columns; block += 4) {
      const int atom = SfTile::offset_of(row, block) / SfTile::bytes_per_atom;
      cuda::ptx::tcgen05_cp_32x128b_warpx4(ptx::cta_group<CtaGroup>, to.address_of(row, block),
                                           describe_scale_factors(from, atom));
    }
  }
}
//! [copy]

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

//! [division]
/// How one allocation of tensor memory is divided in a block-scaled product: the accumulators of an OutputTilePipeline
/// first, then places for scale factors.
///
/// With a place for each k-tile of the ring in shared memory, no place is overwritten too early, because TMA
/// refills a tile of the ring only when the tensor core has committed the MMAs that read it. With fewer places,
/// copies of scale factors follow MMAs that read the same columns. The manual does not promise that order; CUTLASS and
/// DeepGEMM have one place and rely on it, because the tensor core executes what one thread issues in order.
/// @tparam OutputPipeline  an OutputTilePipeline.
/// @tparam Payload         a BlockScaledTilePayload.
/// @tparam NumPlaces       1 to Payload::num_tiles.
template <typename OutputPipeline, typename Payload, int NumPlaces = Payload::num_tiles>
class BlockScaledTmem {
 public:
  /// The scale factors of one k-tile.
  using ScaleFactors = TmemScaleFactors<typename Payload::SfaTile, typename Payload::SfbTile>;

  /// Columns of all accumulators, which come first.
  static constexpr int accumulator_columns = OutputPipeline::num_stages * OutputPipeline::Accumulator::tmem_columns;
  /// Columns that are used: by accumulators and scale factors.
  static constexpr int used_columns = accumulator_columns + NumPlaces * ScaleFactors::tmem_columns;
  static_assert(NumPlaces >= 1 && NumPlaces <= Payload::num_tiles,
                "BlockScaledTmem: NumPlaces must be 1 to the number of k-tiles in shared memory");
  static_assert(used_columns <= kTmemColumns,
                "BlockScaledTmem: accumulators and scale factors do not fit in the 512 columns of tensor memory; use "
                "fewer accumulators, narrower ones, or fewer places for scale factors");

  /// Columns to allocate: those used, rounded up to a legal power of two.
  static constexpr int tmem_columns =
      static_cast<int>(std::bit_ceil(static_cast<unsigned>(used_columns < 32 ? 32 : used_columns)));
  using Allocation = TmemAllocation<tmem_columns, OutputPipeline::cta_group>;  ///< what allocates them

  /// @param address  of the allocation, which is that of the OutputTilePipeline as well.
  __device__ __forceinline__ explicit BlockScaledTmem(uint32_t address) : address_(address) {}

  /// The place of the scale factors of k-tile `number` of the ring: stage * KGroupSize + its number in the group.
  __device__ __forceinline__ ScaleFactors scale_factors(uint32_t number) const {
    const uint32_t place = NumPlaces == Payload::num_tiles ? number : number % NumPlaces;
    return ScaleFactors(tmem_offset(address_, 0, accumulator_columns + place * ScaleFactors::tmem_columns));
  }

 private:
  uint32_t address_;
};
//! [division]

}  // namespace stagecraft
