// The ring of chapter 02, with what one can get wrong as settings: the page changes them without a compiler.
#include "settings.hpp"
#include "stagecraft/bulk_copy.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

enum class Role { copy, add };

/// Adds up a row. Called by all lanes, each of which gets the sum.
__device__ float lane_sum(const float* row) {
  float sum = 0;
  for (int i = lane_index(); i < kRow; i += kWarpSize) sum += row[i];
  for (int distance = kWarpSize / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffff, sum, distance);
  return sum;
}

/// One block: warp 0 copies the rows of `in` into the ring, warp 1 adds each of them up.
extern "C" __global__ void __launch_bounds__(2 * kWarpSize) ring(const float* in, float* sums, RingSettings settings) {
  __shared__ alignas(128) float tile[kMaxStages][kRow];
  __shared__ uint64_t full[kMaxStages], empty[kMaxStages];

  if (threadIdx.x == 0) {
    for (int stage = 0; stage < settings.stages; ++stage) {
      init_barrier(&full[stage], settings.full_count);
      init_barrier(&empty[stage], settings.empty_count);
    }
    fence_barrier_init();
  }
  __syncthreads();

  int stage = 0;
  switch (static_cast<Role>(warp_index())) {
    case Role::copy:
      if (elect_one()) {
        uint32_t parity = settings.producer_parity;
        for (int row = 0; row < settings.rows; ++row) {
          if (settings.producer_waits) wait(&empty[stage], parity);
          expect_bytes(&full[stage], settings.bytes);
          copy_bulk(tile[stage], in + row * kRow, sizeof tile[stage], &full[stage]);
          if (++stage == settings.stages) {
            stage = 0;
            parity ^= 1;
          }
        }
      }
      break;

    case Role::add:
      uint32_t parity = settings.consumer_parity;
      for (int row = 0; row < settings.rows; ++row) {
        wait(&full[stage], parity);
        if (settings.released == kBeforeReading) arrive(&empty[stage]);
        const float sum = lane_sum(tile[stage]);
        if (settings.released == kByAllLanes) arrive(&empty[stage]);
        if (settings.released == kByOneLane && lane_index() == 0) arrive(&empty[stage]);
        if (lane_index() == 0) sums[row] = sum;
        if (++stage == settings.stages) {
          stage = 0;
          if (settings.consumer_flips) parity ^= 1;
        }
      }
      break;
  }
}
