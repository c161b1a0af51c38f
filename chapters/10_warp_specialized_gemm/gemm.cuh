// C = A * B transposed on the tensor cores of an SM100, by three roles: one warp loads tiles, one warp multiplies them,
// four warps store the sums.
#pragma once

#include <store_quarter.cuh>

#include "problem.cuh"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

inline constexpr int kGemmThreads = (2 + kStoreWarps) * kWarpSize;

/// @tparam Stages        k-tiles that fit in shared memory.
/// @tparam Accumulators  tiles of C that fit in tensor memory: with two, one is summed while the other is stored.
template <TileElement Element, int Stages, int Accumulators>
__global__ void __launch_bounds__(kGemmThreads) gemm(const __grid_constant__ Problem<Element> problem) {
  using Input = InputTilePipeline<Payload<Element, Stages>, Stages>;
  using Output = OutputTilePipeline<Accumulator, Accumulators>;
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake handshake;
  Input input{input_barriers, tiles_in_shared_memory<Element, Stages>()};
  const Role role = warp_role();
  const bool elected = elect_one();
  [[maybe_unused]] const int k_tiles = problem.k_tiles();

  if (role == Role::load && elected) {
    // TODO 2: not all of these are 1. Who arrives at which barrier, and how often in each phase?
    Input::init_barriers(input_barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
    Output::init_barriers(output_barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
    handshake.init(/*epilogue_threads=*/1);
    fence_barrier_init();
  }
  __syncthreads();

  switch (role) {
    case Role::load:
      // TODO 3: one lane has the tiles of all of the block's work brought, k-tile by k-tile; see tile_copy.hpp.
      if (elected) input.producer().drain();  // the last commits still have to arrive on barriers that exist
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      [[maybe_unused]] Output output{output_barriers, tensor_memory.address()};
      // TODO 5: one lane sums each tile of C in an accumulator that is free. Who frees the stages, and who learns that
      // a tile is complete?
      break;
    }  // waits until no thread uses tensor memory, then deallocates

    case Role::store: {
      const EpilogueWarp tensor_memory{handshake};
      [[maybe_unused]] Output output{output_barriers, tensor_memory.address()};
      // TODO 4: each warp stores its quarter of every tile, once its sums are complete.
      break;
    }  // signals: this thread no longer uses tensor memory
  }
}

}  // namespace stagecraft
