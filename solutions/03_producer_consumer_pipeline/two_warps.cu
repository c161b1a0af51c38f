// Chapter 03: three kernels of two warps each, tied together by a ProducerConsumerPipeline.
#include <producer_consumer_pipeline.hpp>

#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// What a warp does.
enum class Role { produce, consume };

/// The calling warp's role: warp 0 produces, warp 1 consumes. Called by a whole warp.
__device__ Role warp_role() { return warp_index() == 0 ? Role::produce : Role::consume; }

/// The sum of a row in shared memory, in every lane. Called by a whole warp; all its reads are over when it returns.
__device__ float sum_of_row(const float* row) {
  float sum = 0;
  for (int i = lane_index(); i < kRow; i += kWarpSize) sum += row[i];
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  return sum;
}

// ---- 1. A ring with data. It works when its waits do. ---------------------------------------------------------------

//! [copy_rows]
/// Copies the rows of `in`, one after another, into the stages of the ring. Called by one lane.
template <int Stages>
__device__ void copy_rows(ProducerConsumerPipeline<Stages>& ring, float (*tile)[kRow], const float* in, int rows) {
  for (int row = 0; row < rows; ++row) {
    ring.wait_consumer();
    const uint32_t stage = ring.producer_stage();
    expect_bytes(ring.producer_mbar(stage), sizeof tile[0]);
    copy_bulk(tile[stage], in + row * kRow, sizeof tile[0], ring.producer_mbar(stage));
    ring.producer_step();
  }
}
//! [copy_rows]

/// One block: a warp copies the rows of `in` into the ring, a warp adds each of them up.
template <int Stages>
__global__ void __launch_bounds__(2 * kWarpSize) sum_rows(const float* in, float* sums, int rows) {
  __shared__ alignas(128) float tile[Stages][kRow];
  __shared__ uint64_t barriers[2 * Stages];
  ProducerConsumerPipeline<Stages> ring{barriers};

  if (threadIdx.x == 0) {
    ring.init_mbars(/*producer_arrive_count=*/1,           // the copying lane, which also announces the bytes
                    /*consumer_arrive_count=*/kWarpSize);  // every lane that has read the row
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::produce:
      if (elect_one()) copy_rows(ring, tile, in, rows);
      break;

    case Role::consume:
      //! [consume]
      for (int row = 0; row < rows; ++row) {
        ring.wait_producer();
        const float sum = sum_of_row(tile[ring.consumer_stage()]);
        arrive(ring.consumer_mbar(ring.consumer_stage()));
        ring.consumer_step();
        if (lane_index() == 0) sums[row] = sum;
      }
      //! [consume]
      break;
  }
}

// ---- 2. Ask, do other work, then wait if needed ---------------------------------------------------------------------

/// Squares 32 of the numbers. Called by a whole warp; each lane squares its own number.
__device__ void square_piece(float* numbers, int piece) {
  float& number = numbers[piece * kWarpSize + lane_index()];
  number *= number;
}

/// As sum_rows, but the second warp has a second job: to square `pieces` pieces of `numbers`. It works on that whenever
/// the next row is not there yet, and does what is left at the end. *while_waiting becomes the number of
/// pieces that it squared before the last row had arrived.
__global__ void __launch_bounds__(2 * kWarpSize)
    two_jobs(const float* in, float* sums, int rows, float* numbers, int pieces, int* while_waiting) {
  __shared__ alignas(128) float tile[kStages][kRow];
  __shared__ uint64_t barriers[2 * kStages];
  ProducerConsumerPipeline<kStages> ring{barriers};

  if (threadIdx.x == 0) {
    ring.init_mbars(/*producer_arrive_count=*/1, /*consumer_arrive_count=*/kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::produce:
      if (elect_one()) copy_rows(ring, tile, in, rows);
      break;

    case Role::consume:
      int piece = 0;  // the next to square
      for (int row = 0; row < rows; ++row) {
        const bool ready = ring.try_wait_producer();
        if (!ready && piece < pieces) square_piece(numbers, piece++);
        ring.wait_producer_if_needed(ready);
        const float sum = sum_of_row(tile[ring.consumer_stage()]);
        arrive(ring.consumer_mbar(ring.consumer_stage()));
        ring.consumer_step();
        if (lane_index() == 0) sums[row] = sum;
      }
      if (lane_index() == 0) *while_waiting = piece;
      while (piece < pieces) square_piece(numbers, piece++);
      break;
  }
}

// ---- 3. A throttle --------------------------------------------------------------------------------------------------

/// Two warps walk `steps` steps, one quickly, one slowly, and the quick one must never be more than kLead steps ahead.
///
/// leads[step] becomes the steps that the quick warp has begun, minus those that the slow one has ended.
__global__ void __launch_bounds__(2 * kWarpSize) walk_together(int* leads, int steps) {
  __shared__ uint64_t barriers[2 * kLead];
  __shared__ int ended;  // by the slow warp
  ProducerConsumerPipeline<kLead> throttle{barriers};

  if (threadIdx.x == 0) {
    ended = 0;
    throttle.init_mbars(/*producer_arrive_count=*/1, /*consumer_arrive_count=*/1);  // one lane of each warp walks
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::produce:
      if (elect_one()) {
        for (int step = 0; step < steps; ++step) {
          throttle.producer_signal_and_step();
          leads[step] = step + 1 - atomicAdd(&ended, 0);
        }
      }
      break;

    case Role::consume:
      if (elect_one()) {
        for (int step = 0; step < steps; ++step) {
          __nanosleep(kSlowStepNanoseconds);
          atomicAdd(&ended, 1);
          throttle.consumer_signal_and_step();
        }
      }
      break;
  }
}

// ---- What the test calls --------------------------------------------------------------------------------------------

void launch_sum_rows(const float* in, float* sums, int rows, int stages) {
  switch (stages) {
    case 1: sum_rows<1><<<1, 2 * kWarpSize>>>(in, sums, rows); break;
    case 2: sum_rows<2><<<1, 2 * kWarpSize>>>(in, sums, rows); break;
    case 4: sum_rows<4><<<1, 2 * kWarpSize>>>(in, sums, rows); break;
  }
}

void launch_two_jobs(const float* in, float* sums, int rows, float* numbers, int pieces, int* while_waiting) {
  two_jobs<<<1, 2 * kWarpSize>>>(in, sums, rows, numbers, pieces, while_waiting);
}

void launch_walk_together(int* leads, int steps) { walk_together<<<1, 2 * kWarpSize>>>(leads, steps); }
