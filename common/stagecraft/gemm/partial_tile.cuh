// A tile of which several blocks have summed pieces: the block that arrives last puts the sum of all of them back into
// its accumulator, and goes on as if it had computed the whole tile.
#pragma once

#include <cstdint>

#include "stagecraft/gemm/problem.hpp"
#include "stagecraft/partial_sums.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// Adds up the pieces of a tile. True in the block that arrives last, where the accumulator then holds the sums of all
/// pieces, added in the order of K: the same in every run. In the others the turn is over.
///
/// Called by all threads of the epilogue's four warps, for a tile that is not whole, after waiting for its MMAs.
/// @param is_last  a word in shared memory.
template <typename Types>
__device__ __forceinline__ bool add_up_pieces(const GemmWorkspace& workspace, const Work& work,
                                              const typename Types::Accumulator& accumulator, bool& is_last) {
  constexpr int kThreads = kEpilogueWarps * kWarpSize;
  constexpr int kColumns = Types::Accumulator::tmem_columns;
  constexpr int kAtOnce = kColumns % 32 == 0 ? 32 : 16;
  const uint32_t warp = warp_index();
  const uint32_t thread = warp % kEpilogueWarps * kWarpSize + lane_index();
  // A column of a piece is 128 floats in a row, one for each thread.
  const auto place_of = [&](uint32_t piece, int column) {
    return workspace.sums + int64_t{work.first_slot + piece} * Types::slot_floats + column * kThreads + thread;
  };

#pragma unroll 1
  for (int column = 0; column < kColumns; column += kAtOnce) {
    float sums[kAtOnce];
    accumulator.load(sums, warp, column);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) *place_of(work.piece, column + i) = sums[i];
  }
  __barrier_sync_count(kEpilogueBarrier, kThreads);  // all partial sums of this block are stored
  if (thread == 0) is_last = arrives_last(workspace.counters, work);
  __barrier_sync_count(kEpilogueBarrier, kThreads);  // all threads may read the answer, and the other blocks' sums
  if (!is_last) return false;

#pragma unroll 1
  for (int column = 0; column < kColumns; column += kAtOnce) {
    float sums[kAtOnce] = {};
#pragma unroll 1
    for (uint32_t piece = 0; piece < work.pieces; ++piece) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) sums[i] += *place_of(piece, column + i);
    }
    uint32_t words[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) words[i] = __float_as_uint(sums[i]);
    store_tmem(accumulator.part_of_warp(warp, column), words);
  }
  wait_for_tmem_stores();
  return true;
}

}  // namespace stagecraft
