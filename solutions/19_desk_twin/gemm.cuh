// D = epilogue(A * B transposed) on the card on a desk: chapter 13's kernel, whose operands and sums are in the
// registers of warps. One warp loads, eight multiply and store, and with launch control one asks for the next tile.
#pragma once

#include <fragments.hpp>
#include <problem.cuh>
#include <register_writer.hpp>

#include "stagecraft/input_tile_pipeline.hpp"

namespace stagecraft {

//! [kernel]
/// @tparam Scheduler  StaticScheduler<WholeTiles<>> or LaunchControlScheduler<WholeTiles<>>.
template <typename Config, typename Scheduler, typename Operations>
__global__ void __launch_bounds__(kGemmThreads<Config, Scheduler>, 1)
    gemm(const __grid_constant__ Problem<Config, Operations> problem) {
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
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            stage.load_a(problem.a, tile.row, k_tile * Config::tile_k);
            stage.load_b(problem.b, tile.column, k_tile * Config::tile_k);
          }  // steps only; the bytes signal: stage full
          auto stage = input.producer().acquire();
          arrive(stage.mbar());  // an empty stage, through which the tile of D leaves
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      //! [multiply]
      using Element = typename Config::Element;
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
        for (int k_tile = 0; k_tile < problem.k_tiles(); ++k_tile) {
          auto stage = input.consumer().acquire();
#pragma unroll
          for (int slice = 0; slice < Config::slices; ++slice) {
            fragments[slice % 2].load(stage.tile().a, warp.row, stage.tile().b, warp.column, slice);
            if (slice == Config::slices - 1) arrive_for_warp(stage.mbar());  // all of the stage is in registers
            if (k_tile > 0 || slice > 0) multiply<Element>(sums, fragments[(slice + 1) % 2]);  // the slice before
          }
          free_leaving();  // not earlier: TMA reads while this warp multiplies
        }
        multiply<Element>(sums, fragments[1]);  // the last slice of all
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
