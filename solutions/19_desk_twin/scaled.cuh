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
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            stage.load_a(problem.a, tile.row, k_tile * Config::tile_k);
            stage.load_b(problem.b, tile.column, k_tile * Config::tile_k);
            stage.load_own(stage.tile().sfa, problem.sfa, tile.row, k_tile * Config::blocks);
            stage.load_own(stage.tile().sfb, problem.sfb, tile.column, k_tile * Config::blocks);
          }  // steps only; the bytes signal: stage full
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
          auto stage = input.consumer().acquire();
#pragma unroll
          for (int slice = 0; slice < Config::slices; ++slice) {
            const int now = slice % 2, before = 1 - now;
            fragments[now].load(stage.tile().a, warp.row, stage.tile().b, warp.column, slice);
            if (slice % kSlicesPerWord<Type> == 0) {
              scales[now].load(stage.tile().sfa, warp.row, stage.tile().sfb, warp.column, slice / kSlicesPerWord<Type>);
            } else {
              scales[now] = scales[before];  // the same words: this slice has other bytes of them
            }
            if (slice == Config::slices - 1) arrive_for_warp(stage.mbar());  // all of the stage is in registers
            if (k_tile > 0 || slice > 0) {
              const int last = (slice + Config::slices - 1) % Config::slices;  // the slice before
              multiply_scaled<Type>(sums, fragments[before], scales[before], last);
            }
          }
          free_leaving();  // not earlier: TMA reads while this warp multiplies
        }
        multiply_scaled<Type>(sums, fragments[1], scales[1], Config::slices - 1);  // the last slice of all
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
