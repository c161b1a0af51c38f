// Chapter 00: who am I, who speaks for the warp, and a kernel that hangs.
#include <cstdint>

#include "launches.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

// ---- 1: who am I? ---------------------------------------------------------------------------------------------------

/// Every thread writes its place: 100 * (its warp in the block) + (its lane in the warp).
__global__ void write_places(int* places) {
  // TODO 1: write the place; threadIdx.x and kWarpSize say which warp and which lane this is.
  places[threadIdx.x] = threadIdx.x;
}

// ---- 2: one lane speaks for its warp --------------------------------------------------------------------------------

/// Each warp adds one to `count`.
__global__ void count_warps(int* count) {
  // TODO 2: let one lane of the warp do this, no matter which: see elect_one() in stagecraft/warp.hpp.
  atomicAdd(count, 1);
}

// ---- 3: a hang ------------------------------------------------------------------------------------------------------

constexpr int kTableSize = 1024;
constexpr int kReaders = 2;
constexpr int kThreads = (1 + kReaders) * kWarpSize;

/// Warp 0 makes a table of squares; warps 1 and 2, the readers, each add up the first `limits[reader]` of them.
__global__ void __launch_bounds__(kThreads) sum_squares(const int* limits, int* sums) {
  __shared__ int table[kTableSize];

  if (warp_index() == 0) {
    for (int i = lane_index(); i < kTableSize; i += kWarpSize) table[i] = i * i;
    __barrier_sync_count(1, kThreads);  // barrier 1: the table is ready when all 96 threads are here
  } else {
    const int reader = warp_index() - 1;
    // TODO 3: run the test, read the report of the hang, and find the thread that never reaches the barrier.
    const int limit = limits[reader];
    if (limit == 0) {
      if (elect_one()) sums[reader] = 0;
      return;
    }
    __barrier_sync_count(1, kThreads);
    int sum = 0;
    for (int i = lane_index(); i < limit; i += kWarpSize) sum += table[i];
    sum = __reduce_add_sync(0xffffffff, sum);
    if (elect_one()) sums[reader] = sum;
  }
}

// ---- What the test calls --------------------------------------------------------------------------------------------

void launch_write_places(int* places, int threads) { write_places<<<1, threads>>>(places); }

void launch_count_warps(int* count, int blocks, int threads) { count_warps<<<blocks, threads>>>(count); }

void launch_sum_squares(const int* limits, int* sums) { sum_squares<<<1, kThreads>>>(limits, sums); }
