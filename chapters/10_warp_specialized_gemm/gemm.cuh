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
  const int k_tiles = problem.k_tiles();

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
      if (elected) {
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            // TODO 3: take a stage that is free, announce its bytes, and ask for both tiles; tile_copy.hpp.
          }
        }
        input.producer().drain();  // the last commits still have to arrive on barriers that exist
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      if (elected) {
        Output output{output_barriers, tensor_memory.address()};
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          // TODO 4: take an accumulator that is free. Which of the two, and which role learns when it is complete?
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            // TODO 5: take the next stage, multiply its tiles into the accumulator, and see that the stage is freed.
          }
        }
      }
      break;
    }  // waits until no thread uses tensor memory, then deallocates

    case Role::store: {
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      for (TileOfC tile{problem}; tile.exists(); tile.next()) {
        // TODO 4: take the next accumulator that is complete, and store this warp's quarter of it.
      }
      break;
    }  // arrives: tensor memory used no more by this thread
  }
}

}  // namespace stagecraft
