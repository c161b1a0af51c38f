// Where the ladder to kernel.cuh begins: one warpgroup does everything. Each block computes one tile of C.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "harness/cuda_error.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/ptx_sm90.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile.hpp"
#include "stagecraft/tile_payload.hpp"
#include "stagecraft/warp.hpp"
#include "stagecraft/wgmma.hpp"

namespace stagecraft {

/// The types of a step of so many stages: tiles of 64 x 256, whose sums take 128 registers of a thread.
template <int Stages>
struct FirstStep {
  using ATile = Tile<__nv_bfloat16, 64, 64>;
  using BTile = Tile<__nv_bfloat16, 256, 64>;
  using Payload = StandardTilePayload<ATile, BTile, Stages>;
  struct Shared {
    typename Payload::Storage tiles;
    uint64_t full[Stages];  ///< barriers
  };
};

/// C (m x n) = A (m x k) * B (n x k) transposed. One thread asks for tiles, and the warpgroup multiplies them.
/// @tparam Stages  1: each copy is waited for at once. More: while one is multiplied, the others are on their way.
template <int Stages>
__global__ void __launch_bounds__(kWarpgroupSize)
    one_warpgroup(const __grid_constant__ TileMap<typename FirstStep<Stages>::ATile> a,
                  const __grid_constant__ TileMap<typename FirstStep<Stages>::BTile> b, __nv_bfloat16* c, int m, int n,
                  int k) {
  using Step = FirstStep<Stages>;
  extern __shared__ __align__(1024) unsigned char dynamic_shared_memory[];
  auto& shared = *reinterpret_cast<typename Step::Shared*>(dynamic_shared_memory);
  const typename Step::Payload payload{shared.tiles};
  const int row = blockIdx.y * Step::ATile::rows, column = blockIdx.x * Step::BTile::rows;
  const int k_tiles = (k + Step::ATile::columns - 1) / Step::ATile::columns;

  const auto load = [&](int k_tile) {
    const int stage = k_tile % Stages;
    const auto tiles = payload.tile(stage);
    expect_bytes(&shared.full[stage], Step::Payload::bytes_per_tile);
    const int at = k_tile * Step::ATile::columns;
    ptx::copy_box(tiles.a.storage, &a.map, at, row, &shared.full[stage], ptx::CacheHint::evict_normal);
    ptx::copy_box(tiles.b.storage, &b.map, at, column, &shared.full[stage], ptx::CacheHint::evict_normal);
  };

  if (threadIdx.x == 0) {
    for (uint64_t& full : shared.full) init_barrier(&full, 1);
    fence_barrier_init();
    for (int i = 0; i < Stages && i < k_tiles; ++i) load(i);
  }
  __syncthreads();

  WarpgroupSums<__nv_bfloat16, Step::ATile::rows, Step::BTile::rows> sums;
  for (int i = 0; i < k_tiles; ++i) {
    wait(&shared.full[i % Stages], i / Stages % 2);
    const auto tiles = payload.tile(i % Stages);
    multiply_tiles(sums, tiles.a, 0, tiles.b, /*accumulate=*/i > 0);
    ptx::wgmma_wait_group<0>();
    __syncthreads();  // all warps have read the stage
    if (threadIdx.x == 0 && i + Stages < k_tiles) load(i + Stages);
  }
  sums.wait();

#pragma unroll
  for (int i = 0; i < Step::BTile::rows / 4; ++i) {  // two sums each, in neighbouring columns of a row
    const int at_row = row + warp_index() * 16 + lane_index() / 4 + i % 2 * 8;
    const int at_column = column + i / 2 * 8 + lane_index() % 4 * 2;
    if (at_row < m && at_column < n) {
      *reinterpret_cast<__nv_bfloat162*>(c + static_cast<int64_t>(at_row) * n + at_column) =
          __floats2bfloat162_rn(sums.of[0][2 * i], sums.of[0][2 * i + 1]);
    }
  }
}

/// Starts `one_warpgroup`. Throws CudaError when that fails, and TensorMapError as TwinLaunch does; n must be even.
template <int Stages>
void launch_one_warpgroup(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* c, int64_t m, int64_t n,
                          int64_t k, cudaStream_t stream = nullptr) {
  using Step = FirstStep<Stages>;
  const auto ceil_div = [](int64_t x, int64_t y) { return static_cast<unsigned>((x + y - 1) / y); };
  harness::check(cudaFuncSetAttribute(one_warpgroup<Stages>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                      sizeof(typename Step::Shared)),
                 "reserve shared memory for the tiles");
  one_warpgroup<Stages><<<dim3(ceil_div(n, Step::BTile::rows), ceil_div(m, Step::ATile::rows)), kWarpgroupSize,
                          sizeof(typename Step::Shared), stream>>>(
      make_tile_map<typename Step::ATile>(a, m, k), make_tile_map<typename Step::BTile>(b, n, k), c,
      static_cast<int>(m), static_cast<int>(n), static_cast<int>(k));
  harness::check(cudaGetLastError(), "launch the kernel");
}

}  // namespace stagecraft
