// The blocks of a cluster: which one am I, where all of them meet, and an arrival in another block's shared memory.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"

namespace stagecraft {

/// The number of the calling thread's block in its cluster, 0 to the cluster's size - 1.
/// Source: PTX ISA, "%cluster_ctarank".
__device__ inline uint32_t block_rank() { return cuda::ptx::get_sreg_cluster_ctarank(); }

/// Waits until all threads of all blocks of the cluster have come here.
///
/// Called by every thread of the cluster. What they wrote before is then visible to all of them.
/// Source: PTX ISA, "barrier.cluster" (arrive releases, wait acquires).
__device__ inline void sync_cluster() {
  cuda::ptx::barrier_cluster_arrive();
  cuda::ptx::barrier_cluster_wait();
}

/// Counts one arrival on the same barrier in another block of the cluster, or in this one.
///
/// Called by each thread that the arrive count of the barrier over there includes. What it wrote before is visible, in
/// the whole cluster, to who waits for the phase. The other block must not have exited.
/// @param barrier  this block's barrier; the one meant lies at the same place in the other block's shared memory.
/// @param rank     the other block's, as `block_rank()` counts.
/// Source: PTX ISA, "mapa", "mbarrier.arrive" (`.shared::cluster`).
__device__ inline void arrive_at_block(MbarPtr barrier, uint32_t rank) {
  const MbarPtr there = static_cast<MbarPtr>(__cluster_map_shared_rank(barrier, rank));
  cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cluster, cuda::ptx::space_cluster, there);
}

}  // namespace stagecraft
