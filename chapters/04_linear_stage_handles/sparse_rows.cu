// Chapter 04: rows of different lengths, of which some are empty and some are corrupt, so that both roles have paths on
// which there is little to do. Written with the bare ring of chapter 03, in a hurry; it works on rows that are full.
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

/// Called by one lane.
__device__ __forceinline__ void copy_rows(SparseRows& rows, int count) {
  auto& ring = rows.ring;
  // TODO 1: take the stage as a handle, and see what the compiler says; then fix it, with a function that takes it.
  // The function is fill(ProducerStage<kStages> stage, SparseRows& rows, int row), and ends the stage on each path.
  for (int row = 0; row < count; ++row) {
    ring.wait_consumer();
    const uint32_t bytes = rows.lengths[row] * sizeof(float);
    if (bytes == 0) continue;
    const uint32_t index = ring.producer_stage();
    expect_bytes(ring.producer_mbar(index), bytes);
    copy_bulk(rows.tile[index], rows.in + row * kRowPitch, bytes, ring.producer_mbar(index));
    ring.producer_step();
  }
}

// ---- 2. The consumer ------------------------------------------------------------------------------------------------

/// Called by a whole warp.
__device__ __forceinline__ void sum_rows(SparseRows& rows, float* sums, int count) {
  auto& ring = rows.ring;
  // TODO 2: take the stage as a handle here, too: on each path one lane arrives for the warp, and all lanes step.
  // Where there is something to add up, free the stage before the shuffles.
  for (int row = 0; row < count; ++row) {
    ring.wait_producer();
    const uint32_t index = ring.consumer_stage();
    if (rows.lengths[row] == 0) {
      if (lane_index() == 0) sums[row] = 0;
      continue;
    }
    if (rows.tile[index][0] == kSpoilt) {
      if (lane_index() == 0) sums[row] = kSpoilt;
      continue;
    }
    float sum = 0;
    for (int i = lane_index(); i < rows.lengths[row]; i += kWarpSize) sum += rows.tile[index][i];
    sum = add_over_warp(sum);
    __syncwarp();  // every lane has read, before one arrives for all
    if (lane_index() == 0) {
      sums[row] = sum;
      arrive(ring.consumer_mbar(index));
    }
    ring.consumer_step();
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
