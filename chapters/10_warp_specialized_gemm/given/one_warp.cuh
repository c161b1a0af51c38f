// Version 1: one warp loads and multiplies, in turns. All four store.
#pragma once

#include <store_quarter.cuh>

#include "problem.cuh"
#include "stagecraft/mbarrier.hpp"

namespace stagecraft {

//! [kernel]
template <TileElement Element>
__global__ void __launch_bounds__(kStoreWarps* kWarpSize)
    gemm_one_warp(const __grid_constant__ Problem<Element> problem) {
  //! [shared]
  __shared__ uint64_t input_full, input_empty;
  __shared__ uint32_t tensor_memory_address;
  const auto [a, b] = tiles_in_shared_memory<Element, 1>().tile(0);
  const TmemAllocation<kTileN> tensor_memory{&tensor_memory_address};
  const Role role = warp_role();
  const bool elected = elect_one();
  const int k_tiles = problem.k_tiles();

  if (role == Role::load && elected) {
    init_barrier(&input_full, /*arrive_count=*/1);   // the elected lane, which announces the bytes
    init_barrier(&input_empty, /*arrive_count=*/1);  // the tensor core, by a commit
    fence_barrier_init();
  }
  __syncwarp();
  if (role == Role::load) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  sync_block();
  const Accumulator accumulator{tensor_memory.address()};
  //! [shared]

  //! [roles]
  uint32_t phase = 0;
  for (TileOfC tile{problem}; tile.exists(); tile.next()) {
    if (role == Role::load && elected) {  // the loading warp multiplies as well
      for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
        expect_bytes(&input_full, Payload<Element, 1>::bytes_per_tile);
        copy_tile(a, problem.a, tile.row(), k_tile * kTileK<Element>, &input_full);
        copy_tile(b, problem.b, tile.column(), k_tile * kTileK<Element>, &input_full);
        wait(&input_full, phase);
        multiply_tiles(accumulator, a, b, /*accumulate=*/k_tile > 0);
        commit_mma(&input_empty);  // signals: tiles read, and their sums in the accumulator
        wait(&input_empty, phase);
        phase ^= 1;
      }
    }
    sync_block();  // the elected lane has seen that the last MMA is done: the accumulator is complete
    store_quarter(problem, tile, accumulator);
    sync_block();  // all warps have read it: it may be overwritten
  }
  if (role == Role::load) tensor_memory.deallocate();
  //! [roles]
}
//! [kernel]

}  // namespace stagecraft
