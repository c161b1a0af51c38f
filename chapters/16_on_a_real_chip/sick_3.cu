// Chapter 16, the third kernel: a row to a stage; a warp copies, another finds the maximum of the row, and then the
// sum.
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/warp.hpp"
#include "ward.hpp"

using namespace stagecraft;

namespace {

constexpr int kStages = 2;

struct Shared {
  alignas(128) float row[kStages][kTile];
  uint64_t full[kStages], empty[kStages];
};

/// Called by one lane.
__device__ void copy_rows(Shared& shared, const float* in, int rows) {
  int turn = 0;
  for (int row = blockIdx.x; row < rows; row += gridDim.x, ++turn) {
    const int stage = turn % kStages;
    wait(&shared.empty[stage], (turn / kStages + 1) % 2);
    expect_bytes(&shared.full[stage], sizeof shared.row[stage]);
    copy_bulk(shared.row[stage], in + static_cast<size_t>(row) * kTile, sizeof shared.row[stage], &shared.full[stage]);
  }
}

/// The largest of the values of all lanes, in all lanes.
__device__ float largest(float value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
    value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, distance));
  }
  return value;
}

/// The sum of the values of all lanes, in all lanes.
__device__ float total(float value) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffff, value, distance);
  return value;
}

/// Called by a whole warp.
__device__ void add_rows(Shared& shared, float* out, int rows) {
  int turn = 0;
  // TODO 3: find out why some results are wrong, from what the chip shows, and repair it.
  for (int row = blockIdx.x; row < rows; row += gridDim.x, ++turn) {
    const int stage = turn % kStages;
    const float* values = shared.row[stage];
    wait(&shared.full[stage], turn / kStages % 2);
    float maximum = values[lane_index()];
    for (int i = lane_index(); i < kTile; i += kWarpSize) maximum = fmaxf(maximum, values[i]);
    maximum = largest(maximum);
    if (lane_index() == 0) arrive(&shared.empty[stage]);  // signals: stage empty
    float sum = 0;
    for (int i = lane_index(); i < kTile; i += kWarpSize) sum += expf(values[i] - maximum);
    sum = total(sum);
    if (lane_index() == 0) out[row] = maximum + logf(sum);
  }
}

__global__ void __launch_bounds__(2 * kWarpSize) log_sums(const float* in, float* out, int rows) {
  __shared__ Shared shared;
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(&shared.full[stage], 1);   // the announcement
      init_barrier(&shared.empty[stage], 1);  // one lane of the warp that adds
    }
    fence_barrier_init();
  }
  __syncthreads();

  if (warp_index() == 0) {
    if (elect_one()) copy_rows(shared, in, rows);
  } else {
    add_rows(shared, out, rows);
  }
}

}  // namespace

void launch_log_sums(const float* in, float* out, int rows, int blocks) {
  log_sums<<<blocks, 2 * kWarpSize>>>(in, out, rows);
}
