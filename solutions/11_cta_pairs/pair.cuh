// A product by pairs of blocks, with every barrier by hand: one stage of tiles, one accumulator.
#pragma once

#include "problem.cuh"
#include "stagecraft/cluster_copy.hpp"
#include "stagecraft/mbarrier.hpp"

namespace stagecraft {

using Pair = ClusterShape<2, 1, 2>;

//! [kernel]
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads)
    multiply_by_pair(const __grid_constant__ Problem<Pair> problem) {
  __shared__ ATile a;
  __shared__ BTile<Pair> b;               // half of the 256 rows that an MMA of the pair reads
  __shared__ uint64_t tiles_full;         // used in the leader only
  __shared__ uint64_t tiles_empty;        // in both blocks
  __shared__ uint64_t accumulator_full;   // in both blocks
  __shared__ uint64_t accumulator_empty;  // used in the leader only
  __shared__ uint32_t tensor_memory_address;
  constexpr uint32_t kLeader = 0;
  constexpr uint16_t kBothBlocks = 0b11;
  const TmemAllocation<kTileN<Pair>, 2> tensor_memory{&tensor_memory_address};
  const uint32_t rank = block_rank();
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = problem.k_tiles();

  //! [barriers]
  if (role == Role::load && elected) {
    init_barrier(&tiles_full, 1);                         // the leader's loading lane, which announces the bytes
    init_barrier(&tiles_empty, 1);                        // the tensor cores, by a commit
    init_barrier(&accumulator_full, 1);                   // the tensor cores, by a commit
    init_barrier(&accumulator_empty, 2 * kStoreThreads);  // every thread of both blocks that has read it
    fence_barrier_init();
  }
  __syncwarp();
  if (role == Role::load) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  sync_cluster_and_tensor_memory();  // the barriers of both blocks are ready for both
  //! [barriers]
  const Accumulator<Pair> accumulator{tensor_memory.address()};

  switch (role) {
    //! [load]
    case Role::load:
      if (elected) {
        uint32_t phase = 1;  // a producer's: at first, the stage is free
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            wait<Scope::cluster>(&tiles_empty, phase);
            phase ^= 1;
            if (rank == kLeader) expect_bytes(&tiles_full, 2 * (ATile::bytes + BTile<Pair>::bytes));
            const int row_of_b = tile.column() + static_cast<int>(rank) * BTile<Pair>::rows;
            copy_shared_tile(a, problem.a, tile.row(), k_tile * kTileK, &tiles_full, TileSharing<2, 1>{});
            copy_shared_tile(b, problem.b, row_of_b, k_tile * kTileK, &tiles_full, TileSharing<2, 1>{});
          }
        }
        wait<Scope::cluster>(&tiles_empty, phase);  // the last commit has arrived, in this block too
      }
      break;
    //! [load]

    //! [multiply]
    case Role::multiply:
      if (rank == kLeader && elected) {
        uint32_t phase = 0, phase_of_accumulator = 1;
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          wait<Scope::cluster>(&accumulator_empty, phase_of_accumulator);
          cuda::ptx::tcgen05_fence_after_thread_sync();
          phase_of_accumulator ^= 1;
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            wait(&tiles_full, phase);  // for copies: no thread of the other block arrives there
            phase ^= 1;
            multiply_tiles(accumulator, a, b, /*accumulate=*/k_tile > 0);
            commit_mma_to_blocks<2>(&tiles_empty, kBothBlocks);  // signals: stage empty, in both blocks
          }
          commit_mma_to_blocks<2>(&accumulator_full, kBothBlocks);  // signals: accumulator full, in both blocks
        }
      }
      break;
    //! [multiply]

    //! [store]
    case Role::store: {
      uint32_t phase = 0;
      for (TileOfC tile{problem}; tile.exists(); tile.next()) {
        wait<Scope::cluster>(&accumulator_full, phase);
        cuda::ptx::tcgen05_fence_after_thread_sync();
        phase ^= 1;
        store_quarter(problem, tile, accumulator);
        cuda::ptx::tcgen05_fence_before_thread_sync();
        arrive_at_block(&accumulator_empty, kLeader);  // signals: accumulator empty, for this thread
      }
      break;
    }
      //! [store]
  }
  //! [leave]
  sync_cluster_and_tensor_memory();  // nothing is under way any more, to or from the peer
  if (role == Role::load) tensor_memory.deallocate();
  //! [leave]
}
//! [kernel]

}  // namespace stagecraft
