// Given: what the blank page computes, by four warps of which one copies a k-tile, waits, multiplies and waits. The
// test compares the times.
#include <cfloat>

#include "launch.cuh"
#include "launches.hpp"
#include "problem.cuh"
#include "stagecraft/mbarrier.hpp"

using namespace stagecraft;

namespace {

using Element = __nv_bfloat16;

/// One block for each 128 rows of A, one k-tile in shared memory, one accumulator.
__global__ void __launch_bounds__(kStoreWarps* kWarpSize)
    find_row_maxima_in_turn(const __grid_constant__ Problem<Element> problem, float* maxima) {
  __shared__ uint64_t full, empty;
  __shared__ uint32_t tensor_memory_address;
  const auto [a, b] = tiles_in_shared_memory<Element, 1>().tile(0);
  const TmemAllocation<kTileN> tensor_memory{&tensor_memory_address};
  const bool elected = warp_index() == 0 && elect_one();
  const int first_row = blockIdx.x * kTileM;
  if (elected) {
    init_barrier(&full, /*arrive_count=*/1);
    init_barrier(&empty, /*arrive_count=*/1);
    fence_barrier_init();
  }
  __syncwarp();
  if (warp_index() == 0) {
    tensor_memory.allocate();
    tensor_memory.release_lock();
  }
  sync_block();
  const Accumulator accumulator{tensor_memory.address()};
  float largest = -FLT_MAX;
  uint32_t phase = 0;
  for (int column = 0; column < problem.n; column += kTileN) {
    for (int k_tile = 0; elected && k_tile < problem.k_tiles(); ++k_tile) {
      expect_bytes(&full, Payload<Element, 1>::bytes_per_tile);
      copy_tile(a, problem.a, first_row, k_tile * kTileK<Element>, &full);
      copy_tile(b, problem.b, column, k_tile * kTileK<Element>, &full);
      wait(&full, phase);
      multiply_tiles(accumulator, a, b, /*accumulate=*/k_tile > 0);
      commit_mma(&empty);
      wait(&empty, phase);
      phase ^= 1;
    }
    sync_block();
    for (int first = 0; first < kTileN; first += 32) {
      float sums[32];
      accumulator.load(sums, warp_index(), first);
      for (int i = 0; i < 32; ++i) largest = column + first + i < problem.n ? fmaxf(largest, sums[i]) : largest;
    }
    sync_block();
  }
  const int row = first_row + Accumulator::row_of(warp_index(), lane_index());
  if (row < problem.m) maxima[row] = largest;
  if (warp_index() == 0) tensor_memory.deallocate();
}

}  // namespace

void launch_find_row_maxima_in_turn(const __nv_bfloat16* a, const __nv_bfloat16* b, float* maxima, int m, int n,
                                    int k) {
  const Problem<Element> problem = make_problem<Element>(a, b, nullptr, m, n, k);
  constexpr int kBytes = sizeof(Payload<Element, 1>::Storage);
  find_row_maxima_in_turn<<<problem.tiles_down(), kStoreWarps * kWarpSize, kBytes>>>(problem, maxima);
}
