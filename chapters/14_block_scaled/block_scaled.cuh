// C = A * B transposed for block-scaled types, by three roles: one warp loads tiles and their scale factors, one warp
// has the scale factors copied to tensor memory and the tiles multiplied, four warps store the sums.
#pragma once

#include <problem.cuh>
#include <scale_factors.hpp>

#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

/// @tparam Stages        k-tiles that fit in shared memory.
/// @tparam Accumulators  tiles of C that fit in tensor memory, beside the scale factors of all stages.
template <typename Type, int TileN, int Stages, int Accumulators>
__global__ void __launch_bounds__(kThreads)
    multiply_block_scaled(const __grid_constant__ Problem<Type, TileN> problem) {
  using Input = InputTilePipeline<Payload<Type, TileN, Stages>, Stages>;
  using Output = OutputTilePipeline<TmemTensor<kTileM, TileN>, Accumulators>;
  using Tmem = BlockScaledTmem<Output, Payload<Type, TileN, Stages>>;
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake handshake;
  Input input{input_barriers, tiles_in_shared_memory<Payload<Type, TileN, Stages>>()};
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = k_tiles_of(problem);

  if (role == Role::load && elected) {
    Input::init_barriers(input_barriers,
                         /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes
                         /*consumer_arrive_count=*/1);  // the tensor core, by a commit
    Output::init_barriers(output_barriers,
                          /*producer_arrive_count=*/1,               // the tensor core, by a commit
                          /*consumer_arrive_count=*/kStoreThreads);  // every thread that has read it
    handshake.init(/*epilogue_threads=*/kStoreThreads);
    fence_barrier_init();
  }
  __syncthreads();

  switch (role) {
    case Role::load:
      if (elected) {
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            // TODO 4: take a free stage, announce its bytes, and ask for all that belongs to this k-tile.
            // In what do scale factors count along K?
          }
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Tmem::Allocation> tensor_memory{handshake};
      if (elected) {
        Output output{output_barriers, tensor_memory.address()};
        const Tmem tmem{tensor_memory.address()};
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          auto sums = output.producer().accumulate();
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            // TODO 5: what does one k-tile need, from its stage to the sums, and in which order? Who frees the stage?
            // multiply_scaled_tiles is beside multiply_tiles, in mma.hpp.
          }
        }  // signals: accumulator full, when the MMAs are done
      }
      break;
    }  // waits until no thread uses tensor memory, then deallocates

    case Role::store: {
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      for (TileOfC tile{problem}; tile.exists(); tile.next()) {
        auto sums = output.consumer().consume();
        store_quarter(problem, tile, sums.accumulator());
      }  // signals: accumulator empty, for this thread
      break;
    }  // signals: this thread no longer uses tensor memory
  }
}

}  // namespace stagecraft
