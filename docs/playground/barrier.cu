// The first barrier of chapter 01, used again and again, with what one can get wrong as settings.
#include "settings.hpp"
#include "stagecraft/mbarrier.hpp"
#include "stagecraft/warp.hpp"

using namespace stagecraft;

enum class Role { write, read };

/// The parity that the reader names; kOfTheRound is right.
__device__ uint32_t parity_to_wait_for(int32_t setting, int round) {
  switch (setting) {
    case kAlways0: return 0;
    case kAlways1: return 1;
    case kOfTheRoundBefore: return (round + 1) % 2;
    default: return round % 2;
  }
}

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

  const bool one_lane = settings.arrives == kOneLane || settings.arrives == kOneLaneAfterSyncwarp;
  for (int round = 0; round < settings.rounds; ++round) {
    switch (static_cast<Role>(warp_index())) {
      case Role::write:
        table[lane_index()] = in[round * kWords + lane_index()];
        if (settings.arrives == kAllLanes) arrive(&written);
        if (settings.arrives == kOneLaneAfterSyncwarp) __syncwarp();
        if (one_lane && lane_index() == 0) arrive(&written);
        break;

      case Role::read:
        wait(&written, parity_to_wait_for(settings.parity, round));
        out[round * kWords + lane_index()] = table[kWords - 1 - lane_index()];
        break;
    }
    if (settings.block_barrier) __syncthreads();
  }
}
