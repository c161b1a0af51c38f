// What block-scaled operands need for each k-tile besides A and B: their scale factors, loaded and copied to tensor
// memory.
#pragma once

#include "stagecraft/gemm/problem.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/scale_factors.hpp"

namespace stagecraft {

/// Asks for the scale factors of k-tile `i` of a stage, which no blocks share. Called by the loading thread.
/// @param k  where the k-tile begins, in elements.
template <typename Types, typename Stage>
__device__ __forceinline__ void load_scale_factors(const GemmParameters<Types>& problem, const Work& work, int k,
                                                   const Stage& stage, int i) {
  const auto tile = stage.tile(i);
  const int block = k / Types::scale_block;
  stage.load_own(tile.sfa, problem.scale_factors.a, problem.scale_row_of_a(work), block);
  stage.load_own(tile.sfb, problem.scale_factors.b,
                 work.batch * problem.scale_factors.rows_of_b + work.column * Types::config.tile_n, block);
}

/// Asks the tensor core to multiply k-tile `i` of a stage. Called by the thread that issues MMAs.
/// @param address  of tensor memory: accumulators, and after them scale factors.
template <typename Types, typename Stage>
__device__ __forceinline__ void multiply_k_tile(uint32_t address, const typename Types::Accumulator& sums,
                                                const Stage& stage, int i, bool accumulate) {
  const auto tile = stage.tile(i);
  if constexpr (Types::is_scaled) {
    const typename Types::Tmem tmem{address};
    const auto scales = tmem.scale_factors(stage.stage() * Types::config.k_group + i);
    copy_scale_factors<Types::config.cta_group>(scales, tile.sfa, tile.sfb);  // MMAs of this thread find them there
    multiply_scaled_tiles(sums, tile.a, tile.b, scales, accumulate);
  } else {
    multiply_tiles(sums, tile.a, tile.b, accumulate);
  }
}

}  // namespace stagecraft
