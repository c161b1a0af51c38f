// C = A * B transposed on the tensor cores of an SM100, told as the story of three roles: one warp loads tiles, one
// warp multiplies them, four warps store the result.
#pragma once

#include <cuda.h>
#include <cuda_bf16.h>

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/tensor_memory.hpp"
#include "stagecraft/umma_descriptors.hpp"
#include "stagecraft/warp.hpp"

namespace stagecraft {

/// What each warp of the block is for. Four warps store, because a warp can reach only a quarter of tensor memory.
enum class Role { load, multiply, store };
inline constexpr int kStoreWarps = 4;
inline constexpr int kThreads = (2 + kStoreWarps) * kWarpSize;

__device__ inline Role role_of(uint32_t warp) {
  switch (warp) {
    case 0: return Role::load;
    case 1: return Role::multiply;
    default: return Role::store;
  }
}

/// The tiles in dynamic shared memory. One row of a tile is 128 bytes of K, just what the 128-byte swizzle permutes;
/// its pattern repeats every eight rows, to which the tiles are aligned.
template <int TileM, int TileN, int TileK, int Stages>
struct Tiles {
  alignas(1024) __nv_bfloat16 a[Stages][TileM * TileK];
  alignas(1024) __nv_bfloat16 b[Stages][TileN * TileK];

  static constexpr uint32_t kBytesPerStage = (TileM + TileN) * TileK * sizeof(__nv_bfloat16);
};

/// Describes a tile that the copy engine has written to shared memory, one row of 128 swizzled bytes after the other.
__device__ inline uint64_t describe_tile(const void* tile) {
  return SharedMemoryDescriptor{
      .start_address = static_cast<uint32_t>(__cvta_generic_to_shared(tile)),
      .stride_byte_offset = 8 * swizzle_span(Swizzle::bytes_128),
      .swizzle = Swizzle::bytes_128,
  }
      .encode();
}

/// Rounds `Count` sums to bf16 and writes those of the first `valid` columns to a row of C.
template <int Count>
__device__ void store_row(__nv_bfloat16* row, const float (&sums)[Count], int valid) {
  constexpr int kPerWord = 8;  // bf16 values in 16 bytes
  const bool aligned = reinterpret_cast<uintptr_t>(row) % 16 == 0;
#pragma unroll
  for (int first = 0; first < Count; first += kPerWord) {
    alignas(16) __nv_bfloat16 word[kPerWord];
#pragma unroll
    for (int i = 0; i < kPerWord; ++i) word[i] = __float2bfloat16_rn(sums[first + i]);

    if (aligned && first + kPerWord <= valid) {
      *reinterpret_cast<uint4*>(row + first) = *reinterpret_cast<const uint4*>(word);
    } else {
#pragma unroll
      for (int i = 0; i < kPerWord; ++i) {
        if (first + i < valid) row[first + i] = word[i];
      }
    }
  }
}

/// One block computes one tile of C; block x goes down the rows of C, block y along its columns.
///
/// @param a_map, b_map  row-major A (m x k) and B (n x k), boxes of TileM x TileK and TileN x TileK, swizzled by 128
///                      bytes. What lies beyond an edge reads as zero and adds nothing.
/// @param c             row-major m x n
template <int TileM, int TileN, int TileK, int Stages>
__global__ void __launch_bounds__(kThreads)
    gemm(const __grid_constant__ CUtensorMap a_map, const __grid_constant__ CUtensorMap b_map, __nv_bfloat16* c, int m,
         int n, int k) {
  static_assert(TileM == 128, "TileM must be 128: then lane i of tensor memory is row i of the tile");
  static_assert(TileK * sizeof(__nv_bfloat16) == swizzle_span(Swizzle::bytes_128),
                "TileK must be 64: a tile row of 128 bytes, as wide as the swizzle");
  static_assert(TileN % 32 == 0, "TileN must be a multiple of 32, the columns that a store warp reads at once");
  using Shared = Tiles<TileM, TileN, TileK, Stages>;
  static_assert(sizeof(Shared) + 1024 <= 227 * 1024, "the stages do not fit in 227 KiB of shared memory; use fewer");

  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  Shared& tiles = *reinterpret_cast<Shared*>(dynamic_shared_memory);
  __shared__ uint64_t tile_ring[2 * Stages];  // full, then empty
  __shared__ uint64_t accumulator_full;
  __shared__ uint32_t tensor_memory_address;

  ProducerConsumerPipeline<Stages> ring{tile_ring};
  const TmemAllocation<TileN> tensor_memory{&tensor_memory_address};
  const uint32_t warp = warp_index();
  const int tile_m = blockIdx.x * TileM;
  const int tile_n = blockIdx.y * TileN;
  const int k_tiles = (k + TileK - 1) / TileK;

  // ---- Prepare what the roles share ---------------------------------------------------------------------------------
  if (role_of(warp) == Role::load && elect_one()) {
    ptx::prefetch_tensor_map(&a_map);
    ptx::prefetch_tensor_map(&b_map);
    ring.init_mbars(/*producer_arrive_count=*/1,          // the loading lane, which also announces the bytes
                    /*consumer_arrive_count=*/1);         // the tensor core, by the commit after its last read
    init_barrier(&accumulator_full, /*arrive_count=*/1);  // the tensor core, by the commit after its last MMA
    fence_barrier_init();
  }
  __syncwarp();
  if (role_of(warp) == Role::multiply) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const uint32_t accumulator = tensor_memory.address();

  switch (role_of(warp)) {
    case Role::load:
      if (elect_one()) {
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
          ring.wait_consumer();
          const uint32_t stage = ring.producer_stage();
          const MbarPtr full = ring.producer_mbar(stage);
          expect_bytes(full, Shared::kBytesPerStage);  // whole boxes, also where they hang over an edge
          cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, tiles.a[stage], &a_map,
                                          {k_tile * TileK, tile_m}, full);
          cuda::ptx::cp_async_bulk_tensor(cuda::ptx::space_cluster, cuda::ptx::space_global, tiles.b[stage], &b_map,
                                          {k_tile * TileK, tile_n}, full);
          ring.producer_step();
        }
        for (int stage = 0; stage < Stages; ++stage) {  // drain: the barriers must outlive the last commit to them
          ring.wait_consumer();
          ring.producer_step();
        }
      }
      break;

    case Role::multiply:
      if (elect_one()) {
        constexpr Mma kMma{.m = TileM, .n = TileN};
        constexpr uint32_t kSliceBytes = kMma.k() * sizeof(__nv_bfloat16);
        for (int k_tile = 0; k_tile < k_tiles; ++k_tile) {
          ring.wait_producer();
          cuda::ptx::tcgen05_fence_after_thread_sync();
          const uint32_t stage = ring.consumer_stage();
          const uint64_t a = describe_tile(tiles.a[stage]);
          const uint64_t b = describe_tile(tiles.b[stage]);
#pragma unroll
          for (int slice = 0; slice < TileK / kMma.k(); ++slice) {
            const bool add = k_tile > 0 || slice > 0;  // the first MMA overwrites what tensor memory held before
            cuda::ptx::tcgen05_mma(cuda::ptx::kind_f16, cuda::ptx::cta_group_1, accumulator,
                                   advance_descriptor(a, slice * kSliceBytes),
                                   advance_descriptor(b, slice * kSliceBytes), instruction_descriptor<kMma>(), add);
          }
          // Not an arrive of ours: the MMAs have only been issued, and still read the stage.
          cuda::ptx::tcgen05_commit(cuda::ptx::cta_group_1, ring.consumer_mbar(stage));
          ring.consumer_step();
        }
        cuda::ptx::tcgen05_commit(cuda::ptx::cta_group_1, &accumulator_full);
      }
      break;

    case Role::store: {
      wait(&accumulator_full, /*parity=*/0);
      cuda::ptx::tcgen05_fence_after_thread_sync();

      constexpr int kColumns = 32;
      const uint32_t first_lane = warp % kStoreWarps * kWarpSize;  // the quarter that the hardware gives this warp
      const int row = tile_m + static_cast<int>(first_lane + lane_index());
      for (int column = 0; column < TileN; column += kColumns) {
        float sums[kColumns];
        load_tmem_columns(sums, tmem_offset(accumulator, first_lane, column));
        const int valid = n - (tile_n + column);  // columns of C from here on; none beyond its edge
        if (row < m) store_row(c + static_cast<int64_t>(row) * n + tile_n + column, sums, valid);
      }
      cuda::ptx::tcgen05_fence_before_thread_sync();
      break;
    }
  }

  // ---- Give the accumulator back, once nobody reads it
  // ---------------------------------------------------------------
  __syncwarp();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (role_of(warp) == Role::multiply) tensor_memory.deallocate();
}

}  // namespace stagecraft
