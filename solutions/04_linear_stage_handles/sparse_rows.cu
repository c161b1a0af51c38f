// Chapter 04: rows of different lengths, of which some are empty and some are corrupt, so that both roles have paths on
// which there is little to do. The handles make sure that no path forgets its stage.
#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/producer_consumer_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// What a warp does.
enum class Role { produce, consume };

/// The calling warp's role: warp 0 produces, warp 1 consumes. Called by a whole warp.
__device__ Role warp_role() { return warp_index() == 0 ? Role::produce : Role::consume; }

/// A ring, the tiles of its stages, and the rows that go through it.
struct SparseRows {
  ProducerConsumerPipeline<kStages> ring;
  float (*tile)[kLongestRow];
  const float* in;
  const int* lengths;
};

/// Adds up over the warp, so that every lane has the sum. It is slow: five shuffles.
__device__ __forceinline__ float add_over_warp(float sum) {
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  return sum;
}

// ---- 1. The producer ------------------------------------------------------------------------------------------------

/// Fills one stage with a row, which may be empty. Called by one lane, which hands over the stage.
__device__ __forceinline__ void fill(ProducerStage<kStages> stage, SparseRows& rows, int row) {
  const uint32_t bytes = rows.lengths[row] * sizeof(float);
  if (bytes == 0) {
    arrive(stage.mbar());        // full: no bytes will follow
    std::move(stage).release();  // steps only
    return;
  }
  expect_bytes(stage.mbar(), bytes);
  copy_bulk(rows.tile[stage.index()], rows.in + row * kRowPitch, bytes, stage.mbar());
  std::move(stage).release();  // steps only; the bytes signal: stage full
}

/// Called by one lane.
__device__ __forceinline__ void copy_rows(SparseRows& rows, int count) {
  for (int row = 0; row < count; ++row) fill(rows.ring.acquire_producer(), rows, row);
}

// ---- 2. The consumer ------------------------------------------------------------------------------------------------

/// One lane arrives for the warp, which has read what it needs, and the whole warp steps.
__device__ __forceinline__ void release_for_warp(ConsumerStage<kStages> stage) {
  __syncwarp();                               // the other lanes' reads come before this lane's arrival
  if (elect_one()) stage.arrive();            // signals: stage empty
  std::move(stage).release_without_signal();  // steps only
}

/// The sum of a row that has something in it. The stage is freed before the slow part.
__device__ __forceinline__ float sum_and_release(ConsumerStage<kStages> stage, SparseRows& rows, int row) {
  const float* numbers = rows.tile[stage.index()];
  float sum = 0;
  for (int i = lane_index(); i < rows.lengths[row]; i += kWarpSize) sum += numbers[i];
  release_for_warp(std::move(stage));
  return add_over_warp(sum);
}

/// Called by a whole warp.
__device__ __forceinline__ void sum_rows(SparseRows& rows, float* sums, int count) {
  for (int row = 0; row < count; ++row) {
    auto stage = rows.ring.acquire_consumer();
    if (rows.lengths[row] == 0) {
      release_for_warp(std::move(stage));
      if (lane_index() == 0) sums[row] = 0;
      continue;
    }
    if (rows.tile[stage.index()][0] == kSpoilt) {
      release_for_warp(std::move(stage));
      if (lane_index() == 0) sums[row] = kSpoilt;
      continue;
    }
    const float sum = sum_and_release(std::move(stage), rows, row);
    if (lane_index() == 0) sums[row] = sum;
  }
}

// ---- Given ----------------------------------------------------------------------------------------------------------

/// One block: a lane copies rows into the ring, a warp adds them up.
__global__ void __launch_bounds__(2 * kWarpSize)
    sum_sparse_rows(const float* in, const int* lengths, float* sums, int count) {
  __shared__ alignas(128) float tile[kStages][kLongestRow];
  __shared__ uint64_t barriers[2 * kStages];
  SparseRows rows{ProducerConsumerPipeline<kStages>{barriers}, tile, in, lengths};

  if (threadIdx.x == 0) {
    rows.ring.init_mbars(/*producer_arrive_count=*/1,   // the copying lane
                         /*consumer_arrive_count=*/1);  // one lane, for its warp
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::produce:
      if (elect_one()) copy_rows(rows, count);
      break;

    case Role::consume: sum_rows(rows, sums, count); break;
  }
}

void launch_sum_sparse_rows(const float* in, const int* lengths, float* sums, int rows) {
  sum_sparse_rows<<<1, 2 * kWarpSize>>>(in, lengths, sums, rows);
}
