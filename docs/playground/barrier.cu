// The first barrier of chapter 01, used again and again, with what one can get wrong as settings.
#include "settings.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

/// In each round, warp 0 writes a table and warp 1 reads it backwards.
extern "C" __global__ void __launch_bounds__(2 * kWarpSize)
    barrier(const uint32_t* in, uint32_t* out, BarrierSettings settings) {
  __shared__ uint32_t table[kWords];
  __shared__ uint64_t written;

  if (threadIdx.x == 0) {
    init_barrier(&written, settings.count);
    fence_barrier_init();
  }
  __syncthreads();

  for (int round = 0; round < settings.rounds; ++round) {
    if (warp_index() == 0) {
      table[lane_index()] = in[round * kWords + lane_index()];
      if (settings.arrives == kAllLanes) arrive(&written);
      if (settings.arrives == kOneLaneAfterSyncwarp) __syncwarp();
      const bool one = settings.arrives == kOneLane || settings.arrives == kOneLaneAfterSyncwarp;
      if (one && lane_index() == 0) arrive(&written);
    } else {
      uint32_t parity = round % 2;
      if (settings.parity == kOfTheRoundBefore) parity = (round + 1) % 2;
      if (settings.parity == kAlways0) parity = 0;
      if (settings.parity == kAlways1) parity = 1;
      wait(&written, parity);
      out[round * kWords + lane_index()] = table[kWords - 1 - lane_index()];
    }
    if (settings.block_barrier) __syncthreads();
  }
}
