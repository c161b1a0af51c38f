// Chapter 03: a first product on the tensor core, fed by your ring. The parts are given, in given/tensor_tile.cuh.
#include <producer_consumer_pipeline.hpp>
#include <tensor_tile.cuh>

#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// One block: c (kTile x kTile) becomes A * B transposed, summed over k_tiles tiles of each.
__global__ void __launch_bounds__(kTileThreads)
    multiply_tile(const __grid_constant__ Operands operands, float* c, int k_tiles) {
#ifdef __CUDA_ARCH_FEAT_SM100_ALL
  __shared__ Tiles tiles[kStages];
  __shared__ uint64_t barriers[2 * kStages], done;
  __shared__ TmemHandshake<> handshake;
  ProducerConsumerPipeline<kStages> ring{barriers};

  if (threadIdx.x == 0) {
    ring.init_mbars(/*producer_arrive_count=*/1,   // the copying lane, which announces the bytes
                    /*consumer_arrive_count=*/1);  // the tensor core, when it has read the tiles
    init_barrier(&done, /*arrive_count=*/1);       // the tensor core, when all sums are there
    handshake.init(kStoreWarps * kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::copy:
      if (elect_one()) {
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
          ring.wait_consumer();
          copy_tiles(tiles[ring.producer_stage()], operands, k_tile, ring.producer_mbar(ring.producer_stage()));
          ring.producer_step();
        }
      }
      break;

    case Role::multiply: {
      MmaWarp<TmemAllocation<kTile>> tensor_memory{handshake};
      const Sums sums{tensor_memory.address()};
      if (elect_one()) {
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
          ring.wait_producer();
          const Tiles& stage = tiles[ring.consumer_stage()];
          multiply_tiles(sums, stage.a, stage.b, /*accumulate=*/k_tile > 0);
          commit_mma(ring.consumer_mbar(ring.consumer_stage()));
          ring.consumer_step();
        }
        commit_mma(&done);
      }
      break;
    }

    case Role::store: {
      const EpilogueWarp<> tensor_memory{handshake};
      store_sums(Sums{tensor_memory.address()}, c, &done);
      break;
    }
  }
#endif
}

void launch_multiply_tile(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int k_tiles) {
  const uint64_t columns = k_tiles * kTileK;
  multiply_tile<<<1, kTileThreads>>>(
      {make_tile_map<Operand>(a, kTile, columns), make_tile_map<Operand>(b, kTile, columns)}, c, k_tiles);
}
