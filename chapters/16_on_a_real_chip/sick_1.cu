// Chapter 16, the first kernel: a warp copies, four warps add up.
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/warp.hpp"
#include "ward.hpp"

using namespace stagecraft;

namespace {

constexpr int kStages = 4, kAdders = 4;

struct Shared {
  alignas(128) float tile[kStages][kTile];
  uint64_t full[kStages], empty[kStages];
  float sums[kAdders];
};

/// Called by one lane.
__device__ void copy_tiles(Shared& shared, const float* in, int count) {
  // TODO 1: find out why this kernel hangs, from what the chip shows, and repair it.
  for (int tile = 0; tile * kTile < count; ++tile) {
    const int stage = tile % kStages;
    wait(&shared.empty[stage], (tile / kStages + 1) % 2);
    const int floats = min(kTile, count - tile * kTile);
    expect_bytes(&shared.full[stage], sizeof shared.tile[stage]);
    copy_bulk(shared.tile[stage], in + tile * kTile, floats * sizeof(float), &shared.full[stage]);
  }
}

/// Called by the adding warps.
__device__ void add_tiles(Shared& shared, int count) {
  const uint32_t first = threadIdx.x - kWarpSize;
  float sum = 0;
  for (int tile = 0; tile * kTile < count; ++tile) {
    const int stage = tile % kStages;
    wait(&shared.full[stage], tile / kStages % 2);
    const int floats = min(kTile, count - tile * kTile);
    for (int i = first; i < floats; i += kAdders * kWarpSize) sum += shared.tile[stage][i];
    __syncwarp();
    if (lane_index() == 0) arrive(&shared.empty[stage]);  // signals: stage empty
  }
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  if (lane_index() == 0) shared.sums[first / kWarpSize] = sum;
}

__global__ void __launch_bounds__((1 + kAdders) * kWarpSize) sums(const float* in, float* out, int count) {
  __shared__ Shared shared;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(&shared.full[stage], 1);         // the announcement
      init_barrier(&shared.empty[stage], kAdders);  // one lane of each warp that adds
    }
    fence_barrier_init();
  }
  __syncthreads();

  if (warp_index() == 0) {
    if (elect_one()) copy_tiles(shared, in + static_cast<size_t>(blockIdx.x) * count, count);
    __syncwarp();
  } else {
    add_tiles(shared, count);
  }
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = shared.sums[0] + shared.sums[1] + shared.sums[2] + shared.sums[3];
}

}  // namespace

void launch_sums(const float* in, float* out, int blocks, int count) {
  sums<<<blocks, (1 + kAdders) * kWarpSize>>>(in, out, count);
}
