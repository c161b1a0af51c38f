// D = epilogue(A * B transposed) on Hopper: chapter 13's kernel, whose sums are in registers. One warp loads, two
// warpgroups multiply and store.
#pragma once

#include <problem.cuh>
#include <register_writer.hpp>
#include <wgmma.hpp>

#include "stagecraft/cluster.hpp"
#include "stagecraft/input_tile_pipeline.hpp"

namespace stagecraft {

/// The sums of one warpgroup: 64 rows of a tile.
template <typename Config>
using SumsOf = WarpgroupSums<__nv_bfloat16, 64, Config::tile_n>;

//! [frees]
//! [arrives]
/// Counts one arrival for the calling warpgroup. Called by all of its warps.
__device__ __forceinline__ void arrive_for_warpgroup(MbarPtr barrier) {
  if (threadIdx.x % kWarpgroupThreads == 0) arrive(barrier);
  __syncwarp();  // together again for the next wgmma, which takes whole warps
}
//! [arrives]

/// Tells all blocks that have brought some of a stage that the calling warpgroup has read it: they wait for that before
/// they copy there again.
///
/// Called by all warps of a warpgroup, whose multiply-adds on the stage are done.
/// @param barrier  the own block's empty barrier of the stage.
template <typename Cluster>
__device__ __forceinline__ void free_stage(MbarPtr barrier) {
  if constexpr (Cluster::blocks == 1) {
    arrive_for_warpgroup(barrier);
  } else {
    // TODO 7: other blocks wait for this, too. Which, and how does a thread arrive there? cluster.hpp.
    arrive_for_warpgroup(barrier);
  }
}
//! [frees]

//! [kernel]
/// One block per multiprocessor, the 1 in its launch bounds. ptxas needs to know that for setmaxnreg.
/// @tparam Writer  a RegisterWriter.
template <typename Config, typename Writer, typename Operations>
__global__ void __launch_bounds__(kGemmThreads, 1)
    gemm(const __grid_constant__ Problem<Config, Writer, Operations> problem) {
  //! [shared]
  using Payload = typename Config::Payload;
  using Cluster = typename Config::Cluster;
  using Input = InputTilePipeline<Payload, Config::stages, /*KGroupSize=*/1, Cluster>;
  struct Shared {
    typename Payload::Storage tiles;
    typename Writer::Storage slices[kConsumers];
  };
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<Shared*>(dynamic_shared_memory);
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ uint64_t multiplied[kConsumers];  // a tile, by the warpgroup of that number: it is the other's turn
  Input input{input_barriers, Payload{shared.tiles}};
  const Role role = warp_role();
  const int k_tiles = (problem.k + Config::tile_k - 1) / Config::tile_k;

  if (threadIdx.x == 0) {
    // TODO 3: not all of these are 1. Who reads a stage, in this block and in others?
    Input::init_barriers(input_barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
    for (uint64_t& barrier : multiplied) init_barrier(&barrier, /*arrive_count=*/1);
    fence_barrier_init();
  }
  sync_cluster();  // no copy may come to a block whose barriers are not there yet
  //! [shared]

  switch (role) {
    case Role::load:
      ptx::release_registers<kLoadRegisters>();
      if (warp_index() == 0 && elect_one()) {
        for (TileOfD<Config> tile{problem}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            // TODO 4: take a stage that is free, announce its bytes, and ask for both tiles; input_stages.hpp.
          }
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      ptx::take_registers<kMultiplyRegisters>();
      //! [multiply]
      const int consumer = static_cast<int>(warp_index()) / 4 - 1;
      const int first_row = Config::ping_pong ? 0 : consumer * 64;  // of the tile
      Writer writer{shared.slices[consumer], problem.d};
      Operations epilogue = problem.epilogue;
      for (TileOfD<Config> tile{problem}; tile.exists(); tile.next()) {
        // TODO 6: with ping-pong, every second tile is the other warpgroup's, and so are its stages. And when may this
        // one begin?
        SumsOf<Config> sums;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
          // TODO 5: multiply the next stage's tiles, and free the stage before it, which has been read. How is that
          // known?
        }
        // TODO 5: and after the loop?
        TilePlace place = tile.place();
        place.row += first_row;
        writer.write(sums, place, epilogue);
      }
      writer.drain();  // TMA still reads this block's shared memory
      //! [multiply]
      break;
    }
  }
}
//! [kernel]

}  // namespace stagecraft
