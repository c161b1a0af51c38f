// Given: what the blank page computes, by one warp that copies a row, waits, subtracts and adds. The test compares the
// times.
#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// One warp does everything, one row after another.
__global__ void measure_roughness_in_turn(const float* in, float* roughness, int rows) {
  __shared__ alignas(128) float tile[kRow];
  __shared__ float changes[kRow];
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
    for (int i = lane_index(); i < kRow - 1; i += kWarpSize) changes[i] = tile[i + 1] - tile[i];
    __syncwarp();
    float sum = 0;
    for (int i = lane_index(); i < kRow - 1; i += kWarpSize) sum += fabsf(changes[i]);
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
      sum += __shfl_xor_sync(0xffffffff, sum, distance);
    }
    if (lane_index() == 0) roughness[row] = sum;
    __syncwarp();  // all lanes have read, before the next row is copied
  }
}

void launch_measure_roughness_in_turn(const float* in, float* roughness, int rows) {
  measure_roughness_in_turn<<<1, kWarpSize>>>(in, roughness, rows);
}
