// Chapter 16, the second kernel: rows of groups, eight rows to a stage; a warp copies, four warps add up two rows each.
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/warp.hpp"
#include "ward.hpp"

using namespace stagecraft;

namespace {

constexpr int kStages = 3, kAdders = 4;

struct Shared {
  alignas(128) float rows[kStages][kRowsInStage][kRow];
  uint64_t full[kStages], empty[kStages];
};

/// A slot of the ring and how often it was used, for walks through several groups.
struct Position {
  int stage = 0, round = 0;

  __device__ void step() {
    if (++stage == kStages) stage = 0, ++round;
  }
};

/// Called by one lane.
__device__ void copy_groups(Shared& shared, const float* in, const int* rows, int groups, int most_rows) {
  Position at;
  for (int group = 0; group < groups; ++group) {
    for (int first = 0; first < rows[group]; first += kRowsInStage, at.step()) {
      wait(&shared.empty[at.stage], (at.round + 1) % 2);
      const uint32_t bytes = min(kRowsInStage, rows[group] - first) * kRow * sizeof(float);
      expect_bytes(&shared.full[at.stage], bytes);
      copy_bulk(shared.rows[at.stage], in + (static_cast<size_t>(group) * most_rows + first) * kRow, bytes,
                &shared.full[at.stage]);
    }
  }
}

/// The sum of a row, in all lanes.
__device__ float sum_of(const float* row) {
  float sum = 0;
  for (int i = lane_index(); i < kRow; i += kWarpSize) sum += row[i];
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  return sum;
}

/// Called by the adding warps.
__device__ void add_groups(Shared& shared, const int* rows, float* sums, int groups, int most_rows) {
  const int own = static_cast<int>(warp_index()) - 1;
  Position at;
  for (int group = 0; group < groups; ++group) {
    for (int first = 0; first < rows[group]; first += kRowsInStage, at.step()) {
      wait(&shared.full[at.stage], at.round % 2);
      for (int row = own; row < kRowsInStage; row += kAdders) {
        if (first + row >= rows[group]) break;
        const float sum = sum_of(shared.rows[at.stage][row]);
        if (lane_index() == 0) sums[group * most_rows + first + row] = sum;
      }
      __syncwarp();
      if (lane_index() == 0) arrive(&shared.empty[at.stage]);  // signals: stage empty
    }
  }
}

__global__ void __launch_bounds__((1 + kAdders) * kWarpSize)
    row_sums(const float* in, const int* rows, float* sums, int groups, int most_rows) {
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
    if (elect_one()) copy_groups(shared, in, rows, groups, most_rows);
  } else {
    add_groups(shared, rows, sums, groups, most_rows);
  }
}

}  // namespace

void launch_row_sums(const float* in, const int* rows, float* sums, int groups, int most_rows) {
  row_sums<<<1, (1 + kAdders) * kWarpSize>>>(in, rows, sums, groups, most_rows);
}
