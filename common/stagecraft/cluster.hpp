// The blocks of a cluster: the rank of a block, a barrier for all of them, an arrival in another block's shared memory.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"

namespace stagecraft {

/// The number of the calling thread's block in its cluster, 0 to the cluster's size - 1.
/// Source: PTX ISA, "%cluster_ctarank".
__device__ inline uint32_t block_rank() { return cuda::ptx::get_sreg_cluster_ctarank(); }

/// Waits until all threads of all blocks of the cluster have called it.
///
/// Called by every thread of the cluster. What they wrote before is then visible to all of them.
/// Source: PTX ISA, "barrier.cluster" (arrive releases, wait acquires).
__device__ inline void sync_cluster() {
  cuda::ptx::barrier_cluster_arrive();
  cuda::ptx::barrier_cluster_wait();
}

/// Counts one arrival on the same barrier in another block of the cluster, or in this one.
///
/// Called by each thread that the arrive count of that barrier includes. The arrival releases, for the whole cluster,
/// what the thread did before it. The other block must not have exited.
///
/// By the memory model, a wait for an arrival from another block must acquire for the cluster too, and `wait` acquires
/// for the block only. CUTLASS asks for less still: neither its waits nor its remote arrivals name a scope, so that
/// both have the block's (cutlass/arch/barrier.h). We follow its wait, so that one `wait` serves all barriers.
/// @param barrier  this block's barrier; the other block's is at the same offset in its shared memory.
/// @param rank     the other block's `block_rank()`.
/// Source: PTX ISA, "mapa", "mbarrier.arrive" (`.shared::cluster`).
__device__ inline void arrive_at_block(MbarPtr barrier, uint32_t rank) {
  const MbarPtr there = static_cast<MbarPtr>(__cluster_map_shared_rank(barrier, rank));
  cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cluster, cuda::ptx::space_cluster, there);
}

}  // namespace stagecraft
