// Chapter 13, part two: the complete GEMM, as the story of its roles. TODO 9 to 14 are here; what a role hands to the
// hardware (stagecraft/gemm/) is the library's.
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

/// The GEMM. A multiprocessor runs one block of it: shared memory has no room for two, and without the 1 in the launch
/// bounds ptxas would spill registers to make room for more. Its template argument is a type, because nvcc 13.0 cannot
/// launch a kernel whose argument is a structure.
/// @tparam Types  GemmTypes of a configuration.
template <typename Types>
__global__ void __launch_bounds__(kGemmThreads, 1) gemm_kernel(const __grid_constant__ GemmParameters<Types> problem) {
  constexpr GemmConfig kConfig = Types::config;
  static_assert(!Types::is_promoted && !Types::has_fallback, "blockwise FP8 and smaller clusters are no part of it");
  using Cluster = typename Types::Cluster;
  using Input = typename Types::template Input<Cluster>;
  using Output = typename Types::Output;
  using Scheduler = typename Types::Scheduler;
  using CInput = typename Types::CInput;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ typename CInput::BarrierArray c_barriers;
  __shared__ typename Scheduler::Storage schedule;
  __shared__ TmemHandshake<kConfig.cta_group> handshake;
  [[maybe_unused]] __shared__ bool is_last_piece;
  auto& shared = *reinterpret_cast<typename Types::Shared*>(dynamic_shared_memory);

  Input input{input_barriers, typename Types::Payload{shared.operands}};
  const auto& operands = problem.template operands_in<Cluster>();
  const Scheduler scheduler{schedule, problem.tiles};
  const GemmRole role = gemm_role();
  const bool elected = elect_one();
  [[maybe_unused]] const uint32_t rank = rank_in<Cluster>();

  if (role == GemmRole::load && elected) {
    Input::init_barriers(input_barriers);
    Output::init_barriers(output_barriers, kEpilogueThreads);
    if constexpr (Types::loads_c) CInput::init_barriers(c_barriers);
    // TODO 9: who takes turns in a block? Think of every role, and of the one that is not always there. A lane that
    // takes `turns()` counts as one, and so does a whole warp that takes `turns_of_warp()`.
    Scheduler::init_barriers(schedule, /*readers=*/1);
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
  wait_for_earlier_grids();

  switch (role) {
    case GemmRole::load:
      if (elected) {
        // TODO 10: in each turn, permit the request for the next, and bring the k-tiles of this one from `operands`:
        // kConfig.k_group to a stage, of which the last stage may get fewer. Each block of a pair brings its half of
        // B's rows.
        let_next_grid_start();
        input.producer().drain();
      }
      break;

    case GemmRole::multiply: {
      MmaWarp<typename Types::Tmem::Allocation> tensor_memory{handshake};
      if (elected) {
        // TODO 11: in each turn, sum the k-tiles of all stages, each by multiply_k_tile, and free each stage by a
        // commit. The leader of a pair does this for both blocks.
      }
      break;
    }

    case GemmRole::schedule:
      // TODO 13: with launch control, one lane runs the scheduler. (A static scheduler's run() does nothing.)
      break;

    case GemmRole::load_for_epilogue:
      // TODO 13: where C is to be loaded (Types::loads_c), one lane brings C's part of each tile, and drains at the
      // end.
      break;

    case GemmRole::epilogue: {
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      auto c_input = make_input<CInput>(c_barriers, shared.epilogue.c);
      [[maybe_unused]] auto epilogue = make_epilogue<Types>(problem, shared.epilogue, c_input);
      typename Types::Writer writer{shared.epilogue.d, problem.d_map};
      typename Types::RowWriter row_writer{problem.d, problem.d_pitch, problem.d_batch_stride};
      // TODO 12: in each turn of the warp, write a tile of sums: by `writer` where there is a map of D, else by
      // `row_writer`.
      // TODO 14: where the configuration divides K, a turn may have summed a piece of a tile only. add_up_pieces says
      // whether this block is the one that goes on with the sum of all pieces. What must the others still do?
      writer.drain();
      break;
    }
  }
}

}  // namespace stagecraft
