// Rings of stages in a cluster without any data: the synchronisation of a pipeline alone.
#pragma once

#include <cstdint>

#include "stagecraft/cluster.hpp"
#include "stagecraft/mbarrier.hpp"

/// Each block has a ring. Its producer, one thread, fills a stage when the consumers of all blocks have freed it, as
/// where a copy is for all of them. A warp that consumes has a lane for each block, to free the stage there.
/// A block has one warp that produces, and `kConsumers` that consume.
template <int kBlocks, int kConsumers, int kStages>
__global__ void __cluster_dims__(kBlocks) __launch_bounds__((1 + kConsumers) * 32) turn_rings(int rounds) {
  __shared__ uint64_t full[kStages], empty[kStages];
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      stagecraft::init_barrier(&full[stage], 1);                      // the producer
      stagecraft::init_barrier(&empty[stage], kBlocks * kConsumers);  // a lane of each consumer
    }
    stagecraft::fence_barrier_init();
  }
  stagecraft::sync_cluster();
  const uint32_t lane = threadIdx.x % 32;
  const bool produces = threadIdx.x < 32;
  for (int round = 0; round < rounds; ++round) {
    const int stage = round % kStages;
    const uint32_t phase = round / kStages % 2;
    if (produces && lane == 0) {
      stagecraft::wait<stagecraft::Scope::cluster>(&empty[stage], phase ^ 1);
      stagecraft::arrive(&full[stage]);
    }
    if (!produces) {
      stagecraft::wait(&full[stage], phase);
      if (lane < kBlocks) stagecraft::arrive_at_block(&empty[stage], lane);
    }
  }
  stagecraft::sync_cluster();
}
