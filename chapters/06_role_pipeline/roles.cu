// Chapter 06: the role in the type. A warp that writes, a stage that is freed in halves, and a tensor core that
// arrives.
#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/role_pipeline.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// What a warp does.
enum class Role { produce, consume };

/// The calling warp's role: warp 0 produces, warp 1 consumes. Called by a whole warp.
__device__ Role warp_role() { return warp_index() == 0 ? Role::produce : Role::consume; }

/// The sum of `count` floats in shared memory, in every lane. Called by a whole warp.
__device__ float sum_of(const float* numbers, int count) {
  float sum = 0;
  for (int i = lane_index(); i < count; i += kWarpSize) sum += numbers[i];
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  return sum;
}

// ---- 1. Two roles, two types ----------------------------------------------------------------------------------------

using Producer = RolePipeline<kStages, /*IsProducer=*/true>;
using Consumer = RolePipeline<kStages, /*IsProducer=*/false>;

/// One block: a warp writes the squares of each row into the ring, a warp adds them up.
__global__ void __launch_bounds__(2 * kWarpSize) sum_squares(const float* in, float* sums, int rows) {
  __shared__ float tile[kStages][kRow];
  __shared__ uint64_t full[Producer::num_producer_mbars];
  __shared__ uint64_t empty[Producer::num_consumer_mbars];

  if (threadIdx.x == 0) {
    Producer{full, empty}.init_mbars(/*producer_arrive_count=*/kWarpSize,   // every lane that has written
                                     /*consumer_arrive_count=*/kWarpSize);  // every lane that has read
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::produce: {
      Producer ring{full, empty};
      for (int row = 0; row < rows; ++row) {
        // TODO 1: a producer may write when the stage is free, and says so when it has written. See role_pipeline.hpp.
        for (int i = lane_index(); i < kRow; i += kWarpSize) {
          const float number = in[row * kRow + i];
          tile[ring.index()][i] = number * number;
        }
      }
      break;
    }

    case Role::consume:
      Consumer ring{full, empty};
      for (int row = 0; row < rows; ++row) {
        // TODO 1: and a consumer may read when it is filled, and says so when it has read.
        const float sum = sum_of(tile[ring.index()], kRow);
        if (lane_index() == 0) sums[row] = sum;
      }
      break;
  }
}

// ---- 2. A stage that is freed in halves -----------------------------------------------------------------------------

// TODO 2: give each stage two empty barriers, one per half, and free the halves of a row one by one.
using HalvesProducer = RolePipeline<1, /*IsProducer=*/true>;
using HalvesConsumer = RolePipeline<1, /*IsProducer=*/false>;

/// One block with a single stage: a lane copies rows, a warp adds them up, the second halves slowly. The copy of the
/// next row's first half does not have to wait for that.
__global__ void __launch_bounds__(2 * kWarpSize) sum_by_halves(const float* in, float* sums, int* began, int rows) {
  __shared__ alignas(128) float tile[2][kHalf];
  __shared__ uint64_t full[HalvesProducer::num_producer_mbars];
  __shared__ uint64_t empty[HalvesProducer::num_consumer_mbars];
  __shared__ int halves_begun;

  if (threadIdx.x == 0) {
    halves_begun = 0;
    HalvesProducer{full, empty}.init_mbars(/*producer_arrive_count=*/1, /*consumer_arrive_count=*/kWarpSize);
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::produce:
      if (elect_one()) {
        HalvesProducer ring{full, empty};
        for (int row = 0; row < rows; ++row) {
          // TODO 2: wait for one half here, and for the other one below.
          ring.acquire();
          atomicAdd(&halves_begun, 1);
          expect_bytes(ring.producer_mbar(), sizeof tile);  // both halves: there is one full barrier
          copy_bulk(tile[0], in + row * kRow, sizeof tile[0], ring.producer_mbar());
          atomicAdd(&halves_begun, 1);
          copy_bulk(tile[1], in + row * kRow + kHalf, sizeof tile[1], ring.producer_mbar());
          ring.step();
        }
      }
      break;

    case Role::consume:
      HalvesConsumer ring{full, empty};
      for (int row = 0; row < rows; ++row) {
        ring.wait();
        float sum = sum_of(tile[0], kHalf);
        // TODO 2: the first half is free from here on.
        __nanosleep(kSlowNanoseconds);
        sum += sum_of(tile[1], kHalf);
        if (lane_index() == 0) {
          sums[row] = sum;
          began[row] = atomicAdd(&halves_begun, 0);
        }
        ring.release();
      }
      break;
  }
}

// ---- 3. The tensor core arrives -------------------------------------------------------------------------------------

/// One block: in each round a warp makes the tensor core arrive, as it would after the MMAs of a tile; a warp counts.
__global__ void __launch_bounds__(2 * kWarpSize) commit_rounds(int* seen, int rounds) {
#ifdef __CUDA_ARCH_FEAT_SM100_ALL
  __shared__ uint64_t full[Producer::num_producer_mbars];
  __shared__ uint64_t empty[Producer::num_consumer_mbars];

  if (threadIdx.x == 0) {
    Producer{full, empty}.init_mbars(/*producer_arrive_count=*/1,           // the tensor core, once for each commit
                                     /*consumer_arrive_count=*/kWarpSize);  // every lane
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::produce: {
      Producer ring{full, empty};
      for (int round = 0; round < rounds; ++round) {
        ring.acquire();
        // Here the elected lane issues the MMAs of a tile: chapter 08.
        // TODO 3: make the tensor core arrive for you, and go on to the next stage.
      }
      break;
    }

    case Role::consume:
      Consumer ring{full, empty};
      int count = 0;
      for (int round = 0; round < rounds; ++round) {
        ring.wait();
        ++count;
        ring.release();
      }
      if (lane_index() == 0) *seen = count;
      break;
  }
#endif
}

// ---- What the test calls --------------------------------------------------------------------------------------------

void launch_sum_squares(const float* in, float* sums, int rows) { sum_squares<<<1, 2 * kWarpSize>>>(in, sums, rows); }

void launch_sum_by_halves(const float* in, float* sums, int* began, int rows) {
  sum_by_halves<<<1, 2 * kWarpSize>>>(in, sums, began, rows);
}

void launch_commit_rounds(int* seen, int rounds) { commit_rounds<<<1, 2 * kWarpSize>>>(seen, rounds); }
