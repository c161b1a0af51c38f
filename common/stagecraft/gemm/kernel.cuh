// The complete GEMM on the tensor cores of an SM100, as the story of its roles. Every option is one of GemmConfig, and
// compiled in; what a launch decides is in GemmParameters.
#pragma once

#include "stagecraft/cluster.hpp"
#include "stagecraft/dependent_launch.hpp"
#include "stagecraft/gemm/epilogue_choice.hpp"
#include "stagecraft/gemm/k_tiles.cuh"
#include "stagecraft/gemm/partial_tile.cuh"
#include "stagecraft/gemm/problem.hpp"
#include "stagecraft/gemm/roles.hpp"
#include "stagecraft/gemm/types.hpp"
#include "stagecraft/ptx.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

/// What a block does. Called by all of its threads.
/// @tparam Types    GemmTypes of a configuration.
/// @tparam Cluster  the ClusterShape that the block was launched in.
//! [kernel]
template <typename Types, typename Cluster>
__device__ __forceinline__ void run_roles(const GemmParameters<Types>& problem) {
  //! [shared]
  constexpr GemmConfig kConfig = Types::config;
  using Input = typename Types::template Input<Cluster>;
  using Output = typename Types::Output;
  using Scheduler = typename Types::Scheduler::template In<Cluster>;
  using CInput = typename Types::CInput;
  using AScales = typename Types::AScales;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ typename CInput::BarrierArray c_barriers;
  __shared__ typename AScales::BarrierArray a_scales_barriers;
  __shared__ typename Scheduler::Storage schedule;
  __shared__ TmemHandshake<kConfig.cta_group> handshake;
  __shared__ bool is_last_piece;
  auto& shared = *reinterpret_cast<typename Types::Shared*>(dynamic_shared_memory);

  Input input{input_barriers, typename Types::Payload{shared.operands}};
  const auto& operands = problem.template operands_in<Cluster>();
  const Scheduler scheduler{schedule, problem.tiles};
  const GemmRole role = gemm_role();
  const bool elected = elect_one();
  const uint32_t rank = rank_in<Cluster>();

  if (role == GemmRole::load && elected) {
    Input::init_barriers(input_barriers);  // full: who announces bytes; empty: commits of all readers
    Output::init_barriers(output_barriers, kEpilogueThreads);  // full: a commit; empty: all that have read it
    if constexpr (Types::loads_c) CInput::init_barriers(c_barriers);
    if constexpr (Types::is_promoted) AScales::init_barriers(a_scales_barriers);
    Scheduler::init_barriers(schedule,
                             /*readers=*/1 + 1 + Types::epilogue_has_input + kEpilogueWarps);  // all that take turns
    handshake.init(kEpilogueThreads);
    fence_barrier_init();
    ptx::prefetch_tensor_map(&operands.a.map);
    ptx::prefetch_tensor_map(&operands.b.map);
  }
  if constexpr (Cluster::blocks == 1) {
    __syncthreads();
  } else {
    sync_cluster();
  }
  wait_for_earlier_grids();  // what they write may be read from here on
  //! [shared]

  //! [roles]
  switch (role) {
    case GemmRole::load:
      if (elected) {
        for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
          turn.permit_request();
          const Work work = turn.work();
          const TilePlace place = problem.place_of(work);
          const int b_row = place.column + static_cast<int>(Cluster::place_in_pair(rank)) * Types::block_n;
          for (int k_tile = 0; k_tile < work.k_tiles; k_tile += kConfig.k_group) {
            auto stage = input.producer().acquire();
            const int in_group = min(kConfig.k_group, work.k_tiles - k_tile);  // the last group may be incomplete
            stage.expect_bytes(in_group * Types::Payload::bytes_per_tile);
            for (int i = 0; i < in_group; ++i) {
              const int k = (work.first_k_tile + k_tile + i) * Types::tile_k;
              stage.load_a(operands.a[place.batch], place.row, k, i);
              stage.load_b(operands.b[work.batch], b_row, k, i);
              if constexpr (Types::is_scaled) load_scale_factors<Types>(problem, work, k, stage, i);
            }
          }  // steps only; the bytes signal: stage full
        }
        let_next_grid_start();
        input.producer().drain();
      }
      break;

    case GemmRole::multiply: {
      MmaWarp<typename Types::Tmem::Allocation> tensor_memory{handshake};
      if (elected) {
        Output output{output_barriers, tensor_memory.address()};
        for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
          if (!Cluster::is_leader(rank)) continue;  // the leader multiplies for both blocks of a pair
          const Work work = turn.work();
          if (!problem.has_work(work)) continue;  // beyond the rows of masked groups
          if constexpr (Types::is_promoted) {
            multiply_separately<Types>(work, input, output);  // an accumulator for each k-tile
          } else {
            auto sums = output.producer().accumulate();
            for (int k_tile = 0; k_tile < work.k_tiles; k_tile += kConfig.k_group) {
              auto stage = input.consumer().acquire();
              const int in_group = min(kConfig.k_group, work.k_tiles - k_tile);
              for (int i = 0; i < in_group; ++i) {
                multiply_k_tile<Types>(tensor_memory.address(), sums.accumulator(), stage, i,
                                       work.column * kConfig.tile_n, /*accumulate=*/k_tile + i > 0);
              }
              stage.commit_mma();  // signals: stage empty, in every block that brought a slice, when it has been read
            }
          }  // signals: accumulator full, when the MMAs are done
        }
      }
      break;
    }  // waits until no thread uses tensor memory, then deallocates

    case GemmRole::schedule:
      if (elected) scheduler.run();
      break;

    case GemmRole::load_for_epilogue:
      if constexpr (Types::epilogue_has_input) {
        if (elected) {
          auto a_scales = make_input<AScales>(a_scales_barriers, shared.epilogue.a_scales);
          auto c_input = make_input<CInput>(c_barriers, shared.epilogue.c);
          for (auto turn = scheduler.turns(); turn.exists(); turn.next()) {
            const Work work = turn.work();
            if (!problem.has_work(work)) continue;  // beyond the rows of masked groups
            if constexpr (Types::is_promoted) load_a_scales<Types>(problem, work, a_scales);
            if constexpr (Types::loads_c) c_input.load(problem.c_map, problem.place_of(work));
          }
          if constexpr (Types::is_promoted) a_scales.drain();
          if constexpr (Types::loads_c) c_input.drain();
        }
      }
      break;

    case GemmRole::epilogue: {
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      auto a_scales = make_input<AScales>(a_scales_barriers, shared.epilogue.a_scales);
      auto c_input = make_input<CInput>(c_barriers, shared.epilogue.c);
      auto epilogue = make_epilogue<Types>(problem, shared.epilogue, c_input);
      typename Types::Writer writer{shared.epilogue.d, problem.d_map};
      typename Types::RowWriter row_writer{problem.d, problem.d_pitch, problem.d_batch_stride};
      for (auto turn = scheduler.turns_of_warp(); turn.exists(); turn.next()) {
        const Work work = turn.work();
        if (!problem.has_work(work)) continue;  // beyond the rows of masked groups
        auto sums = acquire_sums<Types>(problem, work, output, a_scales);
        if constexpr (kConfig.divides_k) {
          if (!work.is_whole() && !add_up_pieces<Types>(problem.workspace, work, sums.accumulator(), is_last_piece)) {
            std::move(sums).release();  // another block finishes the tile
            discard_c<Types>(c_input);
            continue;
          }
        }
        if (problem.copies_d(work)) {
          writer.write(std::move(sums), problem.place_of(work), epilogue);
        } else {
          row_writer.write(std::move(sums), problem.place_of(work), epilogue);
        }
      }  // signals, unless it has done so: accumulator empty, for this thread
      writer.drain();
      break;
    }  // signals: this thread no longer uses tensor memory
  }
  //! [roles]
}
//! [kernel]

/// The GEMM. A multiprocessor runs one block of it: shared memory has no room for two, and without the 1 in the launch
/// bounds ptxas would spill registers to make room for more. Its template argument is a type, because nvcc 13.0 cannot
/// launch a kernel whose argument is a structure.
/// @tparam Types  GemmTypes of a configuration.
template <typename Types>
__global__ void __launch_bounds__(kGemmThreads, 1) gemm_kernel(const __grid_constant__ GemmParameters<Types> problem) {
  using Cluster = typename Types::Cluster;
  if constexpr (Types::has_fallback) {  // which of the two sizes it has is only known now
    using Fallback = typename Types::Fallback;
    if (cluster_blocks() == Fallback::blocks) return run_roles<Types, Fallback>(problem);
  }
  run_roles<Types, Cluster>(problem);
}

}  // namespace stagecraft
