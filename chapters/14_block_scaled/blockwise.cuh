// C = A * B transposed for FP8 with f32 scales, which the tensor core cannot apply: it sums each k-tile in an
// accumulator of its own, and the storing warps scale these and add them up.
#pragma once

#include <problem.cuh>

#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

/// @tparam Stages        k-tiles that fit in shared memory, with A's scales.
/// @tparam Accumulators  k-tiles whose sums fit in tensor memory: while one is scaled, the next ones are summed.
template <int Stages, int Accumulators>
__global__ void __launch_bounds__(kThreads) multiply_blockwise(const __grid_constant__ BlockwiseProblem problem) {
  using Input = InputTilePipeline<BlockwisePayload<Stages>, Stages>;
  using Output = OutputTilePipeline<TmemTensor<kTileM, kScaledColumns>, Accumulators>;
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake handshake;
  Input input{input_barriers, tiles_in_shared_memory<BlockwisePayload<Stages>>()};
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = k_tiles_of(problem);

  if (role == Role::load && elected) {
    // TODO 6: the tensor core is no longer the only one that reads a stage.
    Input::init_barriers(input_barriers, /*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);
    Output::init_barriers(output_barriers,
                          /*producer_arrive_count=*/1,               // the tensor core, by a commit
                          /*consumer_arrive_count=*/kStoreThreads);  // every thread that has read it
    handshake.init(/*epilogue_threads=*/kStoreThreads);
    fence_barrier_init();
  }
  __syncthreads();

  switch (role) {
    case Role::load:
      if (elected) {
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            stage.load_a(problem.a, tile.row(), k_tile * kScaledK);
            stage.load_b(problem.b, tile.column(), k_tile * kScaledK);
            stage.load_own(stage.tile().a_scales, problem.a_scales, k_tile, tile.row());
          }  // steps only; the bytes signal: stage full
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      if (elected) {
        Output output{output_barriers, tensor_memory.address()};
        auto per_k = output.per_k(input);
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            // TODO 7: take the next tiles, with an accumulator of their own, and multiply.
            // What becomes of its old sums?
          }
        }
      }
      break;
    }  // waits until no thread uses tensor memory, then deallocates

    case Role::store: {
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      auto per_k = output.per_k(input);
      const int lane_row = Output::Accumulator::row_of(warp_index(), lane_index());
      for (TileOfC tile{problem}; tile.exists(); tile.next()) {
        float sums[kScaledColumns] = {};
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
          // TODO 8: take the next accumulator and its tiles, and add its columns, scaled, to the sums.
          // add_scaled is in per_k_views.hpp. The scale of B is in global memory.
        }
        store_sums(problem, tile.row() + lane_row, tile.column(), sums);
      }
      break;
    }  // signals: this thread no longer uses tensor memory
  }
}

}  // namespace stagecraft
