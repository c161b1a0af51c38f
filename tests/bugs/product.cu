// Two products of tiles on the tensor core of an SM100, one after the other in one accumulator: warp 4 has tiles copied
// and multiplied; warps 0 to 3 put a bias into the accumulator before each product and load the sum after it.
#include "gallery.hpp"
#include "operations.hpp"
#include "stagecraft/mma.hpp"
#include "stagecraft/tensor_map.hpp"
#include "stagecraft/tile_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;
using namespace gallery;

constexpr int kTasks = 2, kM = 128, kN = 32, kK = 64, kMmaWarp = 4;
using ATile = Tile<__nv_bfloat16, kM, kK, Swizzle::bytes_128>;
using BTile = Tile<__nv_bfloat16, kN, kK, Swizzle::bytes_128>;

__global__ void __launch_bounds__(5 * kWarpSize)
    multiply(const __grid_constant__ TileMap<ATile> a_map, const __grid_constant__ TileMap<BTile> b_map, float* out) {
  __shared__ ATile a;
  __shared__ BTile b;
  __shared__ uint64_t loaded, ready, done;
  __shared__ uint32_t published;
  if (threadIdx.x == 0) {
    init_barrier(&loaded, /*arrive_count=*/1);
    init_barrier(&ready, /*arrive_count=*/4 * kWarpSize);
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
  const uint32_t address = memory.address();
  const TmemTensor<kM, kN> sums{address};

  if (warp_index() == kMmaWarp) {
    if (elect_one()) {
      for (int task = 0; task < kTasks; ++task) {
        expect_bytes(&loaded, ATile::bytes + BTile::bytes);
        copy_tile(a, a_map, /*row=*/task * kM, /*column=*/0, &loaded);
        copy_tile(b, b_map, /*row=*/0, /*column=*/0, &loaded);
        wait(&loaded, task % 2);
        wait(&ready, task % 2);
        cuda::ptx::tcgen05_fence_after_thread_sync();
        multiply_tiles(sums, a, b, /*accumulate=*/true);
        commit_mma(&done);
        wait(&done, task % 2);
      }
    }
    __syncwarp();
  } else {
    const uint32_t part = sums.part_of_warp(warp_index());
    uint32_t words[kN];
    for (int task = 0; task < kTasks; ++task) {
      for (uint32_t& word : words) word = __float_as_uint(1.0f);
      store_tmem(part, words);
      wait_for_tmem_stores();
      cuda::ptx::tcgen05_fence_before_thread_sync();
      arrive(&ready);
      wait(&done, task % 2);
      cuda::ptx::tcgen05_fence_after_thread_sync();
      load_tmem(words, part);
      wait_for_tmem_loads();
      for (int i = 0; i < kN; ++i) out[(task * kM + threadIdx.x) * kN + i] = __uint_as_float(words[i]);
    }
  }
  cuda::ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  cuda::ptx::tcgen05_fence_after_thread_sync();
  if (warp_index() == kMmaWarp) memory.deallocate();
}

bool run() {
  const auto a = Array<__nv_bfloat16>::random(kTasks * kM * kK), b = Array<__nv_bfloat16>::random(kN * kK);
  auto out = Array<float>::poisoned(kTasks * kM * kN);
  multiply<<<1, 5 * kWarpSize>>>(make_tile_map<ATile>(a.device(), kTasks * kM, kK),
                                 make_tile_map<BTile>(b.device(), kN, kK), out.device());
  out.fetch();
  for (int row = 0; row < kTasks * kM; ++row) {
    for (int column = 0; column < kN; ++column) {
      float sum = 1;  // the bias
      for (int k = 0; k < kK; ++k) sum += static_cast<float>(a[row * kK + k]) * static_cast<float>(b[column * kK + k]);
      if (out[row * kN + column] != sum) return false;
    }
  }
  return true;
}
