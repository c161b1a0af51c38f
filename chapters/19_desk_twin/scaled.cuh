// D = epilogue(A * B transposed) for block-scaled A and B: the kernel of gemm.cuh, with the scale factors of a slice in
// registers next to the fragments.
#pragma once

#include <register_writer.hpp>
#include <scale_fragments.hpp>
#include <scaled_problem.cuh>

#include "stagecraft/input_tile_pipeline.hpp"

namespace stagecraft {

//! [kernel]
/// @tparam Scheduler  StaticScheduler<WholeTiles<>> or LaunchControlScheduler<WholeTiles<>>.
template <typename Config, typename Scheduler, typename Operations>
__global__ void __launch_bounds__(kGemmThreads<Config, Scheduler>, 1)
    scaled_gemm(const __grid_constant__ ScaledProblem<Config, Operations> problem) {
  //! [shared]
  using Payload = typename Config::Payload;
  using Input = InputTilePipeline<Payload, Config::stages>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Scheduler::Storage scheduling;
  Input input{input_barriers, Payload{*reinterpret_cast<typename Payload::Storage*>(dynamic_shared_memory)}};
  Scheduler scheduler{scheduling, problem.tiles};
  const Role role = warp_role<Config>();
  const bool elected = elect_one();

  if (role == Role::load && elected) {
    Input::init_barriers(input_barriers,
                         /*producer_arrive_count=*/1,                     // the loading lane
                         /*consumer_arrive_count=*/Config::warps);        // a lane of each warp, for all of it
    Scheduler::init_barriers(scheduling, /*readers=*/1 + Config::warps);  // the loading lane, and these warps
    fence_barrier_init();
  }
  __syncthreads();
  //! [shared]

  switch (role) {
    case Role::load:
      if (elected) {
        for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
          turn.permit_request();  // one turn further on, and no more
          const TilePlace tile = problem.place(turn.work());
          for (int k_tile = 0; k_tile < problem.k_tiles(); ++k_tile) {
            // TODO 13: as in gemm.cuh, and the scale factors of both operands come with the tiles. What do their
            // coordinates along K count?
          }
          auto stage = input.producer().acquire();
          arrive(stage.mbar());  // an empty stage, through which the tile of D leaves
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      //! [multiply]
      using Type = typename Config::Type;
      const WarpPlace warp = warp_place<Config>();
      RegisterWriter<Config> writer{problem.d};
      Operations epilogue = problem.epilogue;
      MbarPtr leaving = nullptr;  // of the stage through which the tile before leaves
      const auto free_leaving = [&] {
        if (leaving == nullptr) return;
        writer.wait_until_read();
        arrive_for_warp(leaving);
        leaving = nullptr;
      };
      for (auto turn = scheduler.turns_of_warp(); turn.exists(); turn.next()) {
        WarpSums<Config::warp_m, Config::warp_n> sums{};
        Fragments<Config::warp_m, Config::warp_n> fragments[2];
        ScaleFragments<Config::warp_m, Config::warp_n> scales[2];
        for (int k_tile = 0; k_tile < problem.k_tiles(); ++k_tile) {
          // TODO 14: as in gemm.cuh, with the scale factors of each slice. Which slices need words of their own, and
          // which have another byte of the words of the slice before?
          free_leaving();  // not earlier: TMA reads while this warp multiplies
        }
        // TODO 14: which slice is left?
        const TilePlace tile = problem.place(turn.work());
        auto stage = input.consumer().acquire();
        writer.write(sums, stage.tile().output, tile, epilogue);
        leaving = stage.mbar();
      }
      free_leaving();
      //! [multiply]
      break;
    }

    case Role::schedule:
      if (elected) scheduler.run();
      break;
  }
}
//! [kernel]

}  // namespace stagecraft
