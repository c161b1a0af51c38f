// What one thread of the MMA warp asks of the tensor core: to multiply tiles. commit.hpp signals when it is done.
#pragma once

#include <cstdint>
#include <cuda/ptx>

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

}  // namespace stagecraft
