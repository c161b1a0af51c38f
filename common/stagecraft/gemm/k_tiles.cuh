// What operands with scales need for each k-tile besides A and B. The tensor core applies scale factors of few bits,
// which are loaded with the tiles and copied to tensor memory. It cannot apply the f32 scales of blockwise FP8: the
// epilogue multiplies the sums of each k-tile by them.
#pragma once

#include "stagecraft/gemm/problem.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/per_k_views.hpp"
#include "stagecraft/scale_factors.hpp"
#include "stagecraft/slices.hpp"
#include "stagecraft/tensor_memory.hpp"

namespace stagecraft {

/// The first of the 128 columns of D, whose scale factors of B are together in atoms, where the tile at `column`
/// begins.
template <int TileN>
__device__ __forceinline__ int first_of_atom(int column) {
  return TileN % 128 == 0 ? column : column / 128 * 128;
}

/// Asks for the scale factors of k-tile `i` of a stage, which no blocks share. Called by the loading thread.
/// @param k  where the k-tile begins, in elements.
template <typename Types, typename Stage>
__device__ __forceinline__ void load_scale_factors(const GemmParameters<Types>& problem, const Work& work, int k,
                                                   const Stage& stage, int i) {
  const auto tile = stage.tile(i);
  const int block = k / Types::scale_block;
  stage.load_own(tile.sfa, problem.scale_factors.a, problem.scale_row_of_a(work), block);
  constexpr int kTileN = Types::config.tile_n;
  stage.load_own(tile.sfb, problem.scale_factors.b,
                 work.batch * problem.scale_factors.rows_of_b + first_of_atom<kTileN>(work.column * kTileN), block);
}

/// Asks the tensor core to multiply k-tile `i` of a stage. Called by the thread that issues MMAs.
/// @param address  of tensor memory: accumulators, and after them scale factors.
/// @param column   the first of the tile of D.
template <typename Types, typename Stage>
__device__ __forceinline__ void multiply_k_tile(uint32_t address, const typename Types::Accumulator& sums,
                                                const Stage& stage, int i, int column, bool accumulate) {
  const auto tile = stage.tile(i);
  if constexpr (Types::is_scaled) {
    const typename Types::Tmem tmem{address};
    const auto scales = tmem.scale_factors(stage.stage() * Types::config.k_group + i);
    copy_scale_factors<Types::config.cta_group>(scales, tile.sfa, tile.sfb);  // MMAs of this thread find them there
    multiply_scaled_tiles(sums, tile.a, tile.b, scales, accumulate,
                          /*sfb_row=*/column - first_of_atom<Types::config.tile_n>(column));
  } else {
    multiply_tiles(sums, tile.a, tile.b, accumulate);
  }
}

/// Multiplies the k-tiles of a turn, each into an accumulator of its own. Called by the thread that issues MMAs.
template <typename Types, typename Input>
__device__ __forceinline__ void multiply_separately(const Work& work, Input& input, typename Types::Output& output) {
  constexpr int kGroup = Types::config.k_group;
  for (int k_tile = 0; k_tile < work.k_tiles; k_tile += kGroup) {
    auto stage = input.consumer().acquire();
    const int in_group = min(kGroup, work.k_tiles - k_tile);
    for (int i = 0; i < in_group; ++i) {
      auto sums = output.producer().accumulate();
      const auto tile = stage.tile(i);
      multiply_tiles(sums.accumulator(), tile.a, tile.b, /*accumulate=*/false);
    }  // signals: accumulator full, when the MMAs are done
    stage.commit_mma();
  }
}

/// Asks for A's scales of a turn. Called by the thread that loads for the epilogue.
template <typename Types>
__device__ __forceinline__ void load_a_scales(const GemmParameters<Types>& problem, const Work& work,
                                              typename Types::AScales& a_scales) {
  const TilePlace place = problem.place_of(work);
  a_scales.load(problem.scale_factors.a, place.batch * problem.scale_factors.k_tiles + work.first_k_tile, work.k_tiles,
                place.row);
}

/// Waits for the sums of a turn, and returns their accumulator. Those of blockwise FP8 it makes itself, from the sums
/// of all k-tiles and their scales, and puts them where those of the last k-tile were.
///
/// Called by all threads of the epilogue's four warps.
/// @param a_scales  the calling thread's end of the ring.
template <typename Types, typename AScales>
__device__ __forceinline__ typename Types::Output::ConsumerStage acquire_sums(const GemmParameters<Types>& problem,
                                                                              const Work& work,
                                                                              typename Types::Output& output,
                                                                              AScales& a_scales) {
  if constexpr (!Types::is_promoted) {
    return output.acquire_epilogue();
  } else {
    using Accumulator = typename Types::Accumulator;
    constexpr int kColumns = Accumulator::tmem_columns;
    constexpr int kLoaded = 16;  // at a time; with 128 sums and the epilogue's state, 32 would spill
    constexpr int kStored = kColumns < 32 ? kColumns : 32;
    const uint32_t warp = warp_index();
    const int row = max(Accumulator::row_of(warp, lane_index()), 0);  // a lane without a row does as the first
    const int place = AScales::place_of(row, problem.place_of(work).row);
    const int column = work.column * Types::config.tile_n + Accumulator::column_of(warp, 0);
    // Beyond the last column the sums are zero, and any scale will do.
    const int block = min(column / 128, problem.scale_factors.blocks_of_b - 1);
    const float* const b_scales =
        problem.scale_factors.b +
        (int64_t{work.batch} * problem.scale_factors.blocks_of_b + block) * problem.scale_factors.k_tiles +
        work.first_k_tile;

    float sums[kColumns] = {};
    float b_scale = b_scales[0];
    for (int k_tile = 1; k_tile < work.k_tiles; ++k_tile) {
      const float scale = a_scales.next(place) * b_scale;
      b_scale = b_scales[k_tile];  // ahead of the wait, which is longer than the load
      auto sums_of_k_tile = output.consumer().consume();
      add_scaled<kLoaded>(sums, sums_of_k_tile.accumulator(), warp, scale);
    }  // signals: accumulator empty, for this thread
    auto last = output.acquire_epilogue();
    add_scaled<kLoaded>(sums, last.accumulator(), warp, a_scales.next(place) * b_scale);
#pragma unroll
    for (int first = 0; first < kColumns; first += kStored) {
      uint32_t words[kStored];
#pragma unroll
      for (int i = 0; i < kStored; ++i) words[i] = __float_as_uint(sums[first + i]);
      store_tmem(last.accumulator().part_of_warp(warp, first), words);
    }
    wait_for_tmem_stores();
    return last;
  }
}

}  // namespace stagecraft
