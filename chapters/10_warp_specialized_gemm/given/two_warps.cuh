// Version 2: a warp loads and a warp multiplies, with a ring of tiles between them. All four store.
#pragma once

#include <store_quarter.cuh>

#include "problem.cuh"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/mbarrier.hpp"

namespace stagecraft {

//! [kernel]
template <TileElement Element, int Stages>
__global__ void __launch_bounds__(kStoreWarps* kWarpSize)
    gemm_two_warps(const __grid_constant__ Problem<Element> problem) {
  //! [shared]
  using Input = InputTilePipeline<Payload<Element, Stages>, Stages>;
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ uint64_t accumulator_full;
  __shared__ uint32_t tensor_memory_address;
  Input input{input_barriers, tiles_in_shared_memory<Element, Stages>()};
  const TmemAllocation<kTileN> tensor_memory{&tensor_memory_address};
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = problem.k_tiles();

  if (role == Role::load && elected) {
    Input::init_barriers(input_barriers,
                         /*producer_arrive_count=*/1,     // the loading lane, which announces the bytes
                         /*consumer_arrive_count=*/1);    // the tensor core, by a commit
    init_barrier(&accumulator_full, /*arrive_count=*/1);  // the tensor core, by a commit
    fence_barrier_init();
  }
  __syncwarp();
  if (role == Role::load) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  sync_block();
  const Accumulator accumulator{tensor_memory.address()};
  //! [shared]

  //! [roles]
  uint32_t phase = 0;
  for (TileOfC tile{problem}; tile.exists(); tile.next()) {
    switch (role) {
      case Role::load:
        if (elected) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            stage.load_a(problem.a, tile.row(), k_tile * kTileK<Element>);
            stage.load_b(problem.b, tile.column(), k_tile * kTileK<Element>);
          }  // steps only; the bytes signal: stage full
        }
        break;

      case Role::multiply:
        if (elected) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.consumer().acquire();
            multiply_tiles(accumulator, stage.tile().a, stage.tile().b, /*accumulate=*/k_tile > 0);
            stage.commit_mma();  // signals: stage empty, when the tensor core has read it
          }
          commit_mma(&accumulator_full);  // signals: accumulator full, when the MMAs are done
        }
        break;

      case Role::store: break;  // as all four warps do next
    }
    wait(&accumulator_full, phase);  // the tensor core has done its last MMA: the accumulator is complete
    cuda::ptx::tcgen05_fence_after_thread_sync();
    phase ^= 1;
    __syncwarp();
    store_quarter(problem, tile, accumulator);
    sync_block();  // all warps have read it: it may be overwritten
  }
  if (role == Role::load) tensor_memory.deallocate();
  //! [roles]
}
//! [kernel]

}  // namespace stagecraft
