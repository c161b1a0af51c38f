// C = A * B transposed by clusters of blocks that share tiles, alone or in pairs: the kernel of chapter 10, for any
// ClusterShape.
#pragma once

#include "problem.cuh"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

//! [kernel]
/// @tparam Cluster       who shares tiles with whom; launch it with this cluster's dimensions.
/// @tparam Stages        k-tiles that fit in shared memory.
/// @tparam Accumulators  tiles of C that fit in tensor memory.
template <typename Cluster, int Stages, int Accumulators>
__global__ void __launch_bounds__(kThreads) gemm(const __grid_constant__ Problem<Cluster> problem) {
  //! [shared]
  using Payload = StandardTilePayload<ATile, BTile<Cluster>, Stages>;
  using Input = InputTilePipeline<Payload, Stages, /*KGroupSize=*/1, Cluster>;
  using Output = OutputTilePipeline<Accumulator<Cluster>, Accumulators>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake<Cluster::cta_group> handshake;
  Input input{input_barriers, Payload{*reinterpret_cast<typename Payload::Storage*>(dynamic_shared_memory)}};
  const uint32_t rank = block_rank();
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = problem.k_tiles();

  if (role == Role::load && elected) {
    Input::init_barriers(input_barriers);                   // full: 1; empty: a commit of each reader
    Output::init_barriers(output_barriers, kStoreThreads);  // full: 1; empty: the epilogue of the block or of the pair
    handshake.init(/*epilogue_threads=*/kStoreThreads);
    fence_barrier_init();
  }
  sync_cluster();  // no block may signal another before its barriers are ready
  //! [shared]

  //! [roles]
  switch (role) {
    case Role::load:
      if (elected) {
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          const int row_of_b = tile.column() + static_cast<int>(Cluster::place_in_pair(rank)) * BTile<Cluster>::rows;
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.producer().acquire();  // free in every block that gets a slice
            stage.expect_bytes();                     // what all blocks bring; in a pair, the leader for both
            stage.load_a(problem.a, tile.row(), k_tile * kTileK);
            stage.load_b(problem.b, row_of_b, k_tile * kTileK);
          }  // steps only; the slices of all blocks signal: stage full
        }
        input.producer().drain();
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      if (Cluster::is_leader(rank) && elected) {
        Output output{output_barriers, tensor_memory.address()};
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          auto sums = output.producer().accumulate();
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            auto stage = input.consumer().acquire();
            multiply_tiles(sums.accumulator(), stage.tile().a, stage.tile().b, /*accumulate=*/k_tile > 0);
            stage.commit_mma();  // signals: stage empty, in every block that brought a slice
          }
        }  // signals: accumulator full, when the MMAs are done, in a pair in both blocks
      }
      break;
    }  // waits until no thread of the pair uses tensor memory, then deallocates

    case Role::store: {
      const EpilogueWarp tensor_memory{handshake};
      Output output{output_barriers, tensor_memory.address()};
      for (TileOfC tile{problem}; tile.exists(); tile.next()) {
        auto sums = output.consumer().consume();
        store_quarter(problem, tile, sums.accumulator());
      }  // signals: accumulator empty, for this thread, in a pair in the leader
      break;
    }  // signals: this thread no longer uses tensor memory, in a pair in both blocks
  }
  //! [roles]
}
//! [kernel]

}  // namespace stagecraft
