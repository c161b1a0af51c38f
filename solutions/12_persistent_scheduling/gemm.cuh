// The kernel of chapter 10, whose roles ask a scheduler which tile is next. With launch control the scheduler has a
// warp of its own.
#pragma once

#include <launch_control.hpp>

#include "problem.cuh"
#include "stagecraft/cluster.hpp"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

//! [kernel]
/// @tparam Scheduler  StaticScheduler<Tiles> or LaunchControlScheduler<Tiles, ...>.
/// @tparam Tiles      says what a unit of work is, and what the cluster is: each of its blocks computes its own tile.
template <typename Scheduler, typename Tiles>
__global__ void __launch_bounds__(kGemmThreads)
    gemm(const __grid_constant__ Problem problem, const __grid_constant__ Tiles tiles) {
  //! [shared]
  using Input = InputTilePipeline<Payload, kStages>;
  using Output = OutputTilePipeline<Accumulator, kAccumulators>;
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ typename Scheduler::Storage scheduling;
  __shared__ TmemHandshake handshake;
  Input input{input_barriers, tiles_in_shared_memory()};
  Scheduler scheduler{scheduling, tiles};
  const Role role = warp_role();
  const bool elected = elect_one();

  if (role == Role::load && elected) {
    Input::init_barriers(input_barriers,
                         /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes
                         /*consumer_arrive_count=*/1);  // the tensor core, by a commit
    Output::init_barriers(output_barriers,
                          /*producer_arrive_count=*/1,                    // the tensor core, by a commit
                          /*consumer_arrive_count=*/kStoreThreads);       // every thread that has read it
    Scheduler::init_barriers(scheduling, /*readers=*/2 + kStoreThreads);  // the lanes that load and multiply, and these
    handshake.init(/*epilogue_threads=*/kStoreThreads);
    fence_barrier_init();
  }
  sync_cluster();
  //! [shared]

  //! [roles]
  switch (role) {
    case Role::load:
      if (elected) {
        for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
          turn.permit_request();  // one turn further on, and no more
          const Work work = turn.work();
          for (int k_tile = 0; k_tile < work.k_tiles; ++k_tile) {
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            const int k = (work.first_k_tile + k_tile) * kTileK;
            stage.load_a(problem.a, work.row * kTileM, k);
            stage.load_b(problem.b, work.column * kTileN, k);
          }  // steps only; the bytes signal: stage full
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      if (elected) {
        Output output{output_barriers, tensor_memory.address()};
        for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
          const Work work = turn.work();
          auto sums = output.producer().accumulate();
          for (int k_tile = 0; k_tile < work.k_tiles; ++k_tile) {
            auto stage = input.consumer().acquire();
            multiply_tiles(sums.accumulator(), stage.tile().a, stage.tile().b, /*accumulate=*/k_tile > 0);
            stage.commit_mma();  // signals: stage empty, when the tensor core has read it
          }
        }  // signals: accumulator full, when the MMAs are done
      }
      break;
    }  // waits until no thread uses tensor memory, then deallocates

    case Role::store: {
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
        auto sums = output.consumer().consume();
        store_quarter(problem, turn.work(), sums.accumulator());
      }  // signals: accumulator empty, for this thread
      break;
    }  // signals: this thread no longer uses tensor memory

    case Role::schedule:
      if (elected) scheduler.run();
      break;
  }
  //! [roles]
}
//! [kernel]

}  // namespace stagecraft
