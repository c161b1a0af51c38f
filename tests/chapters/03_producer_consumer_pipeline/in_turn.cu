// Given: what the blank page computes, by one warp that copies a row, waits, and reads it. The test compares the times.
#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// One warp does everything, one row after another.
__global__ void find_extremes_in_turn(const float* in, float* smallest, float* largest, int rows) {
  __shared__ alignas(128) float tile[kRow];
  __shared__ uint64_t full;
  if (threadIdx.x == 0) {
    init_barrier(&full, /*arrive_count=*/1);
    fence_barrier_init();
  }
  __syncwarp();
  for (int row = 0; row < rows; ++row) {
    if (elect_one()) {
      expect_bytes(&full, sizeof tile);
      copy_bulk(tile, in + row * kRow, sizeof tile, &full);
    }
    wait(&full, row & 1);
    float least = tile[0], most = tile[0];
    for (int i = lane_index(); i < kRow; i += kWarpSize) {
      least = fminf(least, tile[i]);
      most = fmaxf(most, tile[i]);
    }
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
      least = fminf(least, __shfl_xor_sync(0xffffffff, least, distance));
      most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, distance));
    }
    if (lane_index() == 0) {
      smallest[row] = least;
      largest[row] = most;
    }
    __syncwarp();  // all lanes have read, before the next row is copied
  }
}

void launch_find_extremes_in_turn(const float* in, float* smallest, float* largest, int rows) {
  find_extremes_in_turn<<<1, kWarpSize>>>(in, smallest, largest, rows);
}
