// What one thread of the MMA warp asks of the tensor core: to multiply tiles. commit.hpp signals when it is done.
#pragma once

#include <cstdint>
#include <cuda/ptx>
#include <type_traits>

#include "stagecraft/commit.hpp"
#include "stagecraft/mma_instruction.hpp"
#include "stagecraft/ptx.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/umma_descriptors.hpp"

namespace stagecraft {

/// Issues one MMA, D = A * B (+ D), and returns at once.
///
/// Called by one thread (for a pair of blocks, one thread of the pair); every thread that executes it issues one MMA.
/// The operands must not change before the commit of this thread that follows has arrived. MMAs of one thread on one
/// accumulator follow each other in order.
/// @tparam Instruction  of one of the kinds f16, tf32, f8f6f4.
/// @param d           address of the accumulator in tensor memory.
/// @param a, b        descriptors of the operands in shared memory.
/// @param accumulate  false: D is overwritten, whatever it held.
/// Source: PTX ISA, "tcgen05.mma".
template <Mma Instruction>
__device__ __forceinline__ void issue_mma(uint32_t d, uint64_t a, uint64_t b, bool accumulate) {
  static_assert(!Instruction.is_scaled(), "issue_mma: a block-scaled MMA needs scale factors: use issue_scaled_mma");
  constexpr uint32_t descriptor = instruction_descriptor<Instruction>();
  constexpr auto group = ptx::cta_group<Instruction.cta_group>;
  if constexpr (Instruction.kind == MmaKind::f16) {
    cuda::ptx::tcgen05_mma(cuda::ptx::kind_f16, group, d, a, b, descriptor, accumulate);
  } else if constexpr (Instruction.kind == MmaKind::tf32) {
    cuda::ptx::tcgen05_mma(cuda::ptx::kind_tf32, group, d, a, b, descriptor, accumulate);
  } else {
    cuda::ptx::tcgen05_mma(cuda::ptx::kind_f8f6f4, group, d, a, b, descriptor, accumulate);
  }
}

/// Issues one block-scaled MMA, as `issue_mma`.
/// @tparam Instruction  of one of the kinds mxf8f6f4, mxf4, mxf4nvf4.
/// @param sfa, sfb        addresses of the scale factors in tensor memory.
/// @param sfa_id, sfb_id  which bytes of their cells, as in Mma.
/// Source: PTX ISA, "tcgen05.mma" (.block_scale).
template <Mma Instruction>
__device__ __forceinline__ void issue_scaled_mma(uint32_t d, uint64_t a, uint64_t b, uint32_t sfa, uint32_t sfb,
                                                 uint32_t sfa_id, uint32_t sfb_id, bool accumulate) {
  static_assert(Instruction.is_scaled(), "issue_scaled_mma: only the kinds mxf8f6f4, mxf4 and mxf4nvf4 take scales");
  const uint32_t descriptor = with_scale_factor_ids(instruction_descriptor<Instruction>(), sfa_id, sfb_id);
  constexpr auto group = ptx::cta_group<Instruction.cta_group>;
  if constexpr (Instruction.kind == MmaKind::mxf8f6f4) {
    cuda::ptx::tcgen05_mma_block_scale_vec_1x(cuda::ptx::kind_mxf8f6f4, group, d, a, b, descriptor, sfa, sfb,
                                              accumulate);
  } else if constexpr (Instruction.kind == MmaKind::mxf4) {
    cuda::ptx::tcgen05_mma_block_scale_vec_2x(cuda::ptx::kind_mxf4, group, d, a, b, descriptor, sfa, sfb, accumulate);
  } else if constexpr (Instruction.scale_block == 32) {
    cuda::ptx::tcgen05_mma_block_scale_vec_2x(cuda::ptx::kind_mxf4nvf4, group, d, a, b, descriptor, sfa, sfb,
                                              accumulate);
  } else {
    cuda::ptx::tcgen05_mma_block_scale_vec_4x(cuda::ptx::kind_mxf4nvf4, group, d, a, b, descriptor, sfa, sfb,
                                              accumulate);
  }
}

/// Issues the MMAs that multiply a tile of A with a tile of B over all of their K, one for each 32 bytes of it.
///
/// Called by one thread, as `issue_mma`. Kind, shape, formats and descriptors all follow from the types.
/// @param accumulate  false: the first of them overwrites D.
template <int M, int N, int CtaGroup, OperandTile ATile, OperandTile BTile>
__device__ __forceinline__ void multiply_tiles(const TmemTensor<M, N, CtaGroup>& d, const ATile& a, const BTile& b,
                                               bool accumulate) {
  constexpr Mma mma = mma_of<ATile, BTile, CtaGroup>();
  static_assert(mma.m == M && mma.n == N,
                "multiply_tiles: the accumulator must have as many rows as the tile of A and as many columns as the "
                "tile of B has rows; for a pair of blocks, twice as many of both");
  const uint64_t a_descriptor = describe_tile(a);
  const uint64_t b_descriptor = describe_tile(b);
#pragma unroll
  for (int slice = 0; slice < ATile::columns / mma.k(); ++slice) {
    issue_mma<mma>(d.address(), advance_descriptor(a_descriptor, slice_offset<ATile>(slice)),
                   advance_descriptor(b_descriptor, slice_offset<BTile>(slice)), accumulate || slice > 0);
  }
}

/// Issues the block-scaled MMAs that multiply a tile of A with a tile of B over all of their K, as `multiply_tiles`.
///
/// Each takes 1, 2 or 4 scale factors of each row, from the bytes that follow those of the MMA before. The calling
/// thread has issued the copies of the scale factors to tensor memory before, by `copy_scale_factors`.
/// @param scales      where the scale factors of this k-tile are: TmemScaleFactors, of scale_factors.hpp.
/// @param accumulate  false: the first of them overwrites D.
/// @param sfb_row     where the scale factors of the tile of B begin in their own tile: its first row modulo 128. It is
///                    not 0 only where the rows of a tile of B are not a multiple of 128, and must be a multiple of 32.
/// Source: PTX ISA, "tcgen05.mma: block scaling".
template <int M, int N, int CtaGroup, OperandTile ATile, OperandTile BTile, typename ScaleFactors>
__device__ __forceinline__ void multiply_scaled_tiles(const TmemTensor<M, N, CtaGroup>& d, const ATile& a,
                                                      const BTile& b, const ScaleFactors& scales, bool accumulate,
                                                      int sfb_row = 0) {
  using SfaTile = typename ScaleFactors::SfaTile;
  using SfbTile = typename ScaleFactors::SfbTile;
  constexpr Mma mma = scaled_mma_of<ATile, BTile, SfaTile, CtaGroup>();
  static_assert(mma.m == M && mma.n == N,
                "multiply_scaled_tiles: the accumulator must have as many rows as the tile of A and as many columns as "
                "the tile of B has rows; for a pair of blocks, twice as many of both");
  static_assert(
      CtaGroup == 1 || M == 256,
      "multiply_scaled_tiles: for a pair of blocks M must be 256, so that each has 128 rows of A; for M = 128 "
      "the scale factors of B have another layout, which copy_scale_factors does not write");
  static_assert(SfaTile::rows >= ATile::rows && SfbTile::rows >= N,
                "multiply_scaled_tiles: the scale factors must cover the rows of A of this block, and all N columns of "
                "B: each block of a pair needs all of B's, although it holds half of B's rows");
  static_assert(SfaTile::columns == SfbTile::columns &&
                    std::is_same_v<typename SfaTile::element_type, typename SfbTile::element_type>,
                "multiply_scaled_tiles: the scale factors of A and of B must be of one type, and equally many along K");
  //! [slices]
  constexpr int kBlocks = mma.k() / mma.scale_block;  // that one MMA takes
  const uint64_t a_descriptor = describe_tile(a);
  const uint64_t b_descriptor = describe_tile(b);
#pragma unroll
  for (int slice = 0; slice < ATile::columns / mma.k(); ++slice) {
    const int block = slice * kBlocks;
    issue_scaled_mma<mma>(d.address(), advance_descriptor(a_descriptor, slice_offset<ATile>(slice)),
                          advance_descriptor(b_descriptor, slice_offset<BTile>(slice)), scales.sfa.address_of(0, block),
                          scales.sfb.address_of(sfb_row, block), scales.sfa.byte_of(block), scales.sfb.byte_of(block),
                          accumulate || slice > 0);
  }
  //! [slices]
}

}  // namespace stagecraft
