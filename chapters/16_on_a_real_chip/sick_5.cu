// Chapter 16, the fifth kernel: a warp copies, four warps look for the maximum. Its results are right.
#include <cfloat>

#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/warp.hpp"
#include "ward.hpp"

using namespace stagecraft;

namespace {

constexpr int kStages = 4, kLookers = 4;

struct Shared {
  alignas(128) float tile[kStages][kTile];
  uint64_t full[kStages], empty[kStages];
  float maxima[kLookers];
};

/// Called by one lane.
__device__ void copy_tiles(Shared& shared, const float* in, int tiles) {
  // TODO 5: find out why this kernel is slow, from what the chip shows, and repair it.
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % kStages;
    wait(&shared.empty[stage], (tile / kStages + 1) % 2);
    expect_bytes(&shared.full[stage], sizeof shared.tile[stage]);
    copy_bulk(shared.tile[stage], in + tile * kTile, sizeof shared.tile[stage], &shared.full[stage]);
    wait(&shared.full[stage], tile / kStages % 2);
  }
}

/// Called by the looking warps.
__device__ void look_at_tiles(Shared& shared, int tiles) {
  const uint32_t first = threadIdx.x - kWarpSize;
  float maximum = -FLT_MAX;
  for (int tile = 0; tile < tiles; ++tile) {
    const int stage = tile % kStages;
    wait(&shared.full[stage], tile / kStages % 2);
    for (int i = first; i < kTile; i += kLookers * kWarpSize) maximum = fmaxf(maximum, shared.tile[stage][i]);
    __syncwarp();
    if (lane_index() == 0) arrive(&shared.empty[stage]);  // signals: stage empty
  }
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffff, maximum, distance));
  }
  if (lane_index() == 0) shared.maxima[first / kWarpSize] = maximum;
}

__global__ void __launch_bounds__((1 + kLookers) * kWarpSize) maxima(const float* in, float* out, int tiles) {
  __shared__ Shared shared;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(&shared.full[stage], 1);          // the announcement
      init_barrier(&shared.empty[stage], kLookers);  // one lane of each warp that looks
    }
    fence_barrier_init();
  }
  __syncthreads();

  if (warp_index() == 0) {
    if (elect_one()) copy_tiles(shared, in + static_cast<size_t>(blockIdx.x) * tiles * kTile, tiles);
    __syncwarp();
  } else {
    look_at_tiles(shared, tiles);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    out[blockIdx.x] = fmaxf(fmaxf(shared.maxima[0], shared.maxima[1]), fmaxf(shared.maxima[2], shared.maxima[3]));
  }
}

}  // namespace

void launch_maxima(const float* in, float* out, int blocks, int tiles) {
  maxima<<<blocks, (1 + kLookers) * kWarpSize>>>(in, out, tiles);
}
