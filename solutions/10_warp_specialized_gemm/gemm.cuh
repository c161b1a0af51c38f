// C = A * B transposed on the tensor cores of an SM100, by three roles: one warp loads tiles, one warp multiplies them,
// four warps store the sums.
#pragma once

#include <store_quarter.cuh>

#include "problem.cuh"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

inline constexpr int kGemmThreads = (2 + kStoreWarps) * kWarpSize;

//! [kernel]
/// @tparam Stages        k-tiles that fit in shared memory.
/// @tparam Accumulators  tiles of C that fit in tensor memory: with two, one is summed while the other is stored.
template <TileElement Element, int Stages, int Accumulators>
__global__ void __launch_bounds__(kGemmThreads) gemm(const __grid_constant__ Problem<Element> problem) {
  //! [shared]
  using Input = InputTilePipeline<Payload<Element, Stages>, Stages>;
  using Output = OutputTilePipeline<Accumulator, Accumulators>;
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake handshake;
  Input input{input_barriers, tiles_in_shared_memory<Element, Stages>()};
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = problem.k_tiles();

  if (role == Role::load && elected) {
    Input::init_barriers(input_barriers,
                         /*producer_arrive_count=*/1,   // the loading lane, which announces the bytes
                         /*consumer_arrive_count=*/1);  // the tensor core, by a commit
    Output::init_barriers(output_barriers,
                          /*producer_arrive_count=*/1,                         // the tensor core, by a commit
                          /*consumer_arrive_count=*/kStoreWarps * kWarpSize);  // every thread that has read it
    handshake.init(/*epilogue_threads=*/kStoreWarps * kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();
  //! [shared]

  //! [roles]
  switch (role) {
    case Role::load:
      if (elected) {
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.producer().acquire();
            stage.expect_bytes();
            stage.load_a(problem.a, tile.row(), k_tile * kTileK<Element>);
            stage.load_b(problem.b, tile.column(), k_tile * kTileK<Element>);
          }  // steps only; the bytes signal: stage full
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      if (elected) {
        Output output{output_barriers, tensor_memory.address()};
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          auto sums = output.producer().accumulate();
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
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
      for (TileOfC tile{problem}; tile.exists(); tile.next()) {
        auto sums = output.consumer().consume();
        store_quarter(problem, tile, sums.accumulator());
      }  // signals: accumulator empty, for this thread
      break;
    }  // signals: this thread no longer uses tensor memory
  }
  //! [roles]
}
//! [kernel]

}  // namespace stagecraft
