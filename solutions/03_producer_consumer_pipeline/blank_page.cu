// Chapter 03, a blank page, filled: one warp has rows copied, and two others read each of them.
#include <cfloat>
#include <producer_consumer_pipeline.hpp>

#include "launches.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

namespace {

constexpr int kThreads = 3 * kWarpSize;

/// What a warp does.
enum class Role { copy, find_smallest, find_largest };

/// The calling warp's role: its index. Called by a whole warp.
__device__ Role warp_role() { return static_cast<Role>(warp_index()); }

using Ring = ProducerConsumerPipeline<kStages>;

/// Copies the rows into the ring. Called by one lane.
__device__ void copy_rows(Ring& ring, float (*tile)[kRow], const float* in, int rows) {
  for (int row = 0; row < rows; ++row) {
    ring.wait_consumer();  // both readers have freed the stage
    const uint32_t stage = ring.producer_stage();
    expect_bytes(ring.producer_mbar(stage), sizeof tile[0]);
    copy_bulk(tile[stage], in + row * kRow, sizeof tile[0], ring.producer_mbar(stage));
    ring.producer_step();
  }
}

/// Writes one number for each row: what `choose(a, b)` leaves of all its numbers. Called by a whole warp.
template <typename Choose>
__device__ void reduce_rows(Ring& ring, float (*tile)[kRow], float* out, int rows, float first, Choose choose) {
  for (int row = 0; row < rows; ++row) {
    ring.wait_producer();
    float found = first;
    for (int i = lane_index(); i < kRow; i += kWarpSize) found = choose(found, tile[ring.consumer_stage()][i]);
    arrive(ring.consumer_mbar(ring.consumer_stage()));
    ring.consumer_step();
    for (int distance = kWarpSize / 2; distance > 0; distance /= 2) {
      found = choose(found, __shfl_xor_sync(0xffffffff, found, distance));
    }
    if (lane_index() == 0) out[row] = found;
  }
}

}  // namespace

/// One block of three warps: see the roles.
__global__ void __launch_bounds__(kThreads) find_extremes(const float* in, float* smallest, float* largest, int rows) {
  __shared__ alignas(128) float tile[kStages][kRow];
  __shared__ uint64_t barriers[2 * kStages];
  Ring ring{barriers};

  if (threadIdx.x == 0) {
    ring.init_mbars(/*producer_arrive_count=*/1,               // the copying lane, which also announces the bytes
                    /*consumer_arrive_count=*/2 * kWarpSize);  // every lane of both readers
    fence_barrier_init();
  }
  __syncthreads();

  switch (warp_role()) {
    case Role::copy:
      if (elect_one()) copy_rows(ring, tile, in, rows);
      break;

    case Role::find_smallest:
      reduce_rows(ring, tile, smallest, rows, FLT_MAX, [](float a, float b) { return fminf(a, b); });
      break;

    case Role::find_largest:
      reduce_rows(ring, tile, largest, rows, -FLT_MAX, [](float a, float b) { return fmaxf(a, b); });
      break;
  }
}

void launch_find_extremes(const float* in, float* smallest, float* largest, int rows) {
  find_extremes<<<1, kThreads>>>(in, smallest, largest, rows);
}
