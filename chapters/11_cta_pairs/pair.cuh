// A product by pairs of blocks, with every barrier by hand: one stage of tiles, one accumulator.
#pragma once

#include "problem.cuh"
#include "stagecraft/cluster_copy.hpp"
#include "stagecraft/mbarrier.hpp"

namespace stagecraft {

using Pair = ClusterShape<2, 1, 2>;

__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(kThreads)
    multiply_by_pair(const __grid_constant__ Problem<Pair> problem) {
  [[maybe_unused]] __shared__ ATile a;
  [[maybe_unused]] __shared__ BTile<Pair> b;  // half of the 256 rows that an MMA of the pair reads
  __shared__ uint64_t tiles_full;             // used in the leader only
  __shared__ uint64_t tiles_empty;            // in both blocks
  __shared__ uint64_t accumulator_full;       // in both blocks
  __shared__ uint64_t accumulator_empty;      // used in the leader only
  __shared__ uint32_t tensor_memory_address;
  [[maybe_unused]] constexpr uint32_t kLeader = 0;
  [[maybe_unused]] constexpr uint16_t kBothBlocks = 0b11;
  const TmemAllocation<kTileN<Pair>, 2> tensor_memory{&tensor_memory_address};
  [[maybe_unused]] const uint32_t rank = block_rank();
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = problem.k_tiles();

  if (role == Role::load && elected) {
    // TODO 1: not all of these counts are right. Who arrives at which barrier, from which block?
    init_barrier(&tiles_full, 1);
    init_barrier(&tiles_empty, 1);
    init_barrier(&accumulator_full, 1);
    init_barrier(&accumulator_empty, 1);
    fence_barrier_init();
  }
  __syncwarp();
  if (role == Role::load) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  sync_cluster_and_tensor_memory();  // the barriers of both blocks are ready for both
  const Accumulator<Pair> accumulator{tensor_memory.address()};

  switch (role) {
    case Role::load:
      if (elected) {
        uint32_t phase = 1;  // a producer's: at first, the stage is free
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            wait<Scope::cluster>(&tiles_empty, phase);
            phase ^= 1;
            // TODO 2: ask for this block's tile of A and its half of the tile of B, so that both signal the leader. Who
            // announces how many bytes? See copy_shared_tile in cluster_copy.hpp; each tile is this block's alone.
          }
        }
        wait<Scope::cluster>(&tiles_empty, phase);
      }
      break;

    case Role::multiply:
      // TODO 3: the warps of both blocks come here. Which of their threads go on?
      if (elected) {
        uint32_t phase = 0, phase_of_accumulator = 1;
        for (TileOfC tile{problem}; tile.exists(); tile.next()) {
          wait<Scope::cluster>(&accumulator_empty, phase_of_accumulator);
          cuda::ptx::tcgen05_fence_after_thread_sync();
          phase_of_accumulator ^= 1;
          for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
            wait(&tiles_full, phase);  // for copies: no thread of the other block arrives there
            phase ^= 1;
            // TODO 3: multiply, and see that the stage is freed. Who waits for that? See commit.hpp.
          }
          // TODO 3: hand over the accumulator. Who waits for that?
        }
      }
      break;

    case Role::store: {
      uint32_t phase = 0;
      for (TileOfC tile{problem}; tile.exists(); tile.next()) {
        wait<Scope::cluster>(&accumulator_full, phase);
        cuda::ptx::tcgen05_fence_after_thread_sync();
        phase ^= 1;
        store_quarter(problem, tile, accumulator);
        cuda::ptx::tcgen05_fence_before_thread_sync();
        // TODO 4: this thread has read its sums. Who must know, in which block? See cluster.hpp.
      }
      break;
    }
  }
  // TODO 5: until when must this block keep its shared memory, its barriers and its tensor memory?
  if (role == Role::load) tensor_memory.deallocate();
}

}  // namespace stagecraft
