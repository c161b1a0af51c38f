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
/// Counts one arrival for the calling warpgroup. Called by all of its warps.
__device__ __forceinline__ void arrive_for_warpgroup(MbarPtr barrier) {
  if (threadIdx.x % kWarpgroupThreads == 0) arrive(barrier);
  __syncwarp();  // together again for the next wgmma, which takes whole warps
}

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
    if (threadIdx.x % kWarpgroupThreads == 0) {
#pragma unroll
      for (uint32_t rank = 0; rank < Cluster::blocks; ++rank) {
        if (Cluster::feeding(block_rank()) >> rank & 1) arrive_at_block(barrier, rank);
      }
    }
    __syncwarp();
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
    constexpr int kReaders = Config::ping_pong ? 1 : kConsumers;  // warpgroups of a block that read a stage
    Input::init_barriers(input_barriers,
                         /*producer_arrive_count=*/1,  // the loading lane, which announces the bytes
                         /*consumer_arrive_count=*/kReaders * Cluster::readers);  // one thread of each that reads
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
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            stage.load_a(problem.a, tile.place().row, k_tile * Config::tile_k);
            stage.load_b(problem.b, tile.place().column, k_tile * Config::tile_k);
          }  // steps only; the bytes signal: stage full
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
      bool mine = !Config::ping_pong || consumer == 0;
      uint32_t parity = consumer == 0;  // the first begins: its first wait passes, as a producer's does
      for (TileOfD<Config> tile{problem}; tile.exists(); tile.next(), mine = !Config::ping_pong || !mine) {
        if (!mine) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) input.consumer_step();  // the other's stages
          continue;
        }
        if constexpr (Config::ping_pong) wait(&multiplied[1 - consumer], parity);
        parity ^= 1;
        SumsOf<Config> sums;
        MbarPtr last_read = nullptr;
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
          auto stage = input.consumer().acquire();
          multiply_tiles(sums, stage.tile().a, first_row, stage.tile().b, /*accumulate=*/k_tile > 0);
          ptx::wgmma_wait_group<1>();  // this k-tile is under way, and the one before has been read
          if (k_tile > 0) free_stage<Cluster>(last_read);
          last_read = stage.mbar();
        }
        if constexpr (Config::ping_pong) arrive_for_warpgroup(&multiplied[consumer]);
        sums.wait();  // all are done: the sums may be read
        free_stage<Cluster>(last_read);
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
