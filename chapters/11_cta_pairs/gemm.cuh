// C = A * B transposed by clusters of blocks that share tiles, alone or in pairs: the kernel of chapter 10, for any
// ClusterShape.
#pragma once

#include "problem.cuh"
#include "stagecraft/input_tile_pipeline.hpp"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/warp_contexts.hpp"

namespace stagecraft {

/// @tparam Cluster       who shares tiles with whom; launch it with this cluster's dimensions.
/// @tparam Stages        k-tiles that fit in shared memory.
/// @tparam Accumulators  tiles of C that fit in tensor memory.
template <typename Cluster, int Stages, int Accumulators>
__global__ void __launch_bounds__(kThreads) gemm(const __grid_constant__ Problem<Cluster> problem) {
  using Payload = StandardTilePayload<ATile, BTile<Cluster>, Stages>;
  using Input = InputTilePipeline<Payload, Stages, /*KGroupSize=*/1, Cluster>;
  using Output = OutputTilePipeline<Accumulator<Cluster>, Accumulators>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  __shared__ typename Input::BarrierArray input_barriers;
  __shared__ typename Output::BarrierArray output_barriers;
  __shared__ TmemHandshake<Cluster::cta_group> handshake;
  Input input{input_barriers, Payload{*reinterpret_cast<typename Payload::Storage*>(dynamic_shared_memory)}};
  [[maybe_unused]] const uint32_t rank = block_rank();
  const Role role = warp_role();
  const bool elected = elect_one();
  [[maybe_unused]] const int k_tiles = problem.k_tiles();

  if (role == Role::load && elected) {
    Input::init_barriers(input_barriers);                   // full: 1; empty: a commit of each reader
    Output::init_barriers(output_barriers, kStoreThreads);  // full: 1; empty: the epilogue of the block or of the pair
    handshake.init(/*epilogue_threads=*/kStoreThreads);
    fence_barrier_init();
  }
  sync_cluster();  // no block may signal another before its barriers are ready

  switch (role) {
    case Role::load:
      if (elected) {
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            // TODO 6: take a stage, announce, and ask for this block's slices: load_a and load_b in input_stages.hpp.
            // From which row of B, in the odd block of a pair?
          }
        }
        // TODO 6: and before this warp may end?
      }
      break;

    case Role::multiply: {
      MmaWarp<typename Output::Allocation> tensor_memory{handshake};
      if (elected) {  // TODO 7: of which blocks?
        Output output{output_barriers, tensor_memory.address()};
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          // TODO 7: as in chapter 10. But who has to know that the tensor core has read a stage?
        }
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
}

}  // namespace stagecraft
