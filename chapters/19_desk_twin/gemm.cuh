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
    // TODO 4: who arrives at the barriers of a stage, and how often? Not all of these are 1.
    Input::init_barriers(input_barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
    // TODO 8: how many threads and warps read which tile is next?
    Scheduler::init_barriers(scheduling, /*readers=*/1);
    fence_barrier_init();
  }
  __syncthreads();
  //! [shared]

  switch (role) {
    case Role::load:
      if (elected) {
        for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
          // TODO 8: with launch control the next tile must be asked for. Who permits that, and when?
          const TilePlace tile = problem.place(turn.work());
          for (int k_tile = 0; k_tile < problem.k_tiles(); ++k_tile) {
            // TODO 5: take a stage that is free, announce its bytes, and ask for both tiles; input_stages.hpp.
          }
          // TODO 7: the tile of D leaves through a stage of the ring, too. What does this lane do for it?
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
      [[maybe_unused]] MbarPtr leaving = nullptr;  // of the stage through which the tile before leaves
      const auto free_leaving = [&] {
        // TODO 7: the warp no longer needs the stage `leaving`, if there is one, as soon as TMA has read its slice.
      };
      for (auto turn = scheduler.turns_of_warp(); turn.exists(); turn.next()) {
        WarpSums<Config::warp_m, Config::warp_n> sums{};
        Fragments<Config::warp_m, Config::warp_n> fragments[2];
        for (int k_tile = 0; k_tile < problem.k_tiles(); ++k_tile) {
          // TODO 6: wait for the stage. Load slice after slice of it, each into the other stage of registers, and
          // multiply the one before. From when on may others copy into this stage?
          free_leaving();  // not earlier: TMA reads while this warp multiplies
        }
        // TODO 6: which slice is left?
        [[maybe_unused]] const TilePlace tile = problem.place(turn.work());
        // TODO 7: have the writer write the sums to the stage that the loading lane has left empty.
      }
      // TODO 7: and the last tile of all?
      //! [multiply]
      break;
    }

    case Role::schedule:
      // TODO 8: one thread of this warp asks for tiles; tile_scheduler.hpp.
      break;
  }
}
//! [kernel]

}  // namespace stagecraft
