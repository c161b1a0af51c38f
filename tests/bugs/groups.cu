// A product on the tensor core of an SM100 whose stages have groups of two tiles along K, as the complete kernel's
// --k-group 2: one warp has them copied, another has them multiplied. The last group has one tile only.
#include "gallery.hpp"
#include "operations.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace gallery;

constexpr int kM = 128, kN = 32, kK = 32, kTiles = 7, kGroup = 2, kStages = 2, kCopyWarp = 0, kMmaWarp = 1;
using ATile = Tile<__nv_bfloat16, kM, kK, Swizzle::bytes_64>;
using BTile = Tile<__nv_bfloat16, kN, kK, Swizzle::bytes_64>;

__global__ void __launch_bounds__(4 * kWarpSize)
    multiply(const __grid_constant__ TileMap<ATile> a_map, const __grid_constant__ TileMap<BTile> b_map, float* out) {
  __shared__ ATile a[kStages][kGroup];
  __shared__ BTile b[kStages][kGroup];
  __shared__ uint64_t full[kStages], empty[kStages], done;
  __shared__ uint32_t published;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(&full[stage], /*arrive_count=*/1);
      init_barrier(&empty[stage], /*arrive_count=*/1);
    }
    init_barrier(&done, /*arrive_count=*/1);
  }
  const TmemAllocation<kN> memory{&published};
  if (warp_index() == kMmaWarp) {
    memory.allocate();
    memory.release_lock();
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  const TmemTensor<kM, kN> sums{memory.address()};

  if (warp_index() == kCopyWarp && elect_one()) {
    for (int tile = 0; tile < kTiles; tile += kGroup) {
      const int stage = tile / kGroup % kStages, round = tile / kGroup / kStages;
      const int in_group = min(kGroup, kTiles - tile);
      wait(&empty[stage], (round + 1) % 2);
      expect_bytes(&full[stage], in_group * (ATile::bytes + BTile::bytes));
      for (int i = 0; i < in_group; ++i) {
        copy_tile(a[stage][i], a_map, /*row=*/0, (tile + i) * kK, &full[stage]);
        copy_tile(b[stage][i], b_map, /*row=*/0, (tile + i) * kK, &full[stage]);
      }
    }
  }
  if (warp_index() == kMmaWarp && elect_one()) {
    for (int tile = 0; tile < kTiles; tile += kGroup) {
      const int stage = tile / kGroup % kStages, round = tile / kGroup / kStages;
      const int in_group = min(kGroup, kTiles - tile);
      wait(&full[stage], round % 2);
      for (int i = 0; i < in_group; ++i) {
        multiply_tiles(sums, a[stage][i], b[stage][i], /*accumulate=*/tile + i > 0);
      }
      commit_mma(&empty[stage]);
    }
    commit_mma(&done);
  }
  __syncwarp();
  wait(&done, 0);
  cuda::ptx::tcgen05_fence_after_thread_sync();
  uint32_t words[kN];
  load_tmem(words, sums.part_of_warp(warp_index()));
  wait_for_tmem_loads();
  for (int i = 0; i < kN; ++i) out[threadIdx.x * kN + i] = __uint_as_float(words[i]);
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp_index() == kMmaWarp) memory.deallocate();
}

bool run() {
  constexpr int kColumns = kTiles * kK;
  const auto a = Array<__nv_bfloat16>::random(kM * kColumns), b = Array<__nv_bfloat16>::random(kN * kColumns);
  auto out = Array<float>::poisoned(kM * kN);
  multiply<<<1, 4 * kWarpSize>>>(make_tile_map<ATile>(a.device(), kM, kColumns),
                                 make_tile_map<BTile>(b.device(), kN, kColumns), out.device());
  out.fetch();
  for (int row = 0; row < kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 0;
      for (int k = 0; k < kColumns; ++k) {
        sum += static_cast<float>(a[row * kColumns + k]) * static_cast<float>(b[column * kColumns + k]);
      }
      if (out[row * kN + column] != sum) return false;
    }
  }
  return true;
}
