// The blocks of a cluster: the rank of a block, a barrier for all of them, arrivals in another block's shared memory,
// and waits for such arrivals.
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

/// The same barrier in another block of the cluster, or in this one: the barrier at the same offset of its shared
/// memory.
///
/// Any thread. Threads may arrive there and copies may signal it, but only threads of that block can wait for it.
/// @param rank  the other block's `block_rank()`.
/// Source: PTX ISA, "mapa".
__device__ inline MbarPtr barrier_in_block(MbarPtr barrier, uint32_t rank) {
  return static_cast<MbarPtr>(__cluster_map_shared_rank(barrier, rank));
}

/// Counts one arrival on the same barrier in another block of the cluster, or in this one.
///
/// Called by each thread that the arrive count of that barrier includes. The arrival releases, for the whole cluster,
/// what the thread did before it; a thread that waits for it acquires that by `wait<Scope::cluster>`. The other block
/// must not have exited.
/// @param barrier  this block's barrier; the other block's is at the same offset in its shared memory.
/// @param rank     the other block's `block_rank()`.
/// Source: PTX ISA, "mapa", "mbarrier.arrive" (`.shared::cluster`; `.release.cluster`).
__device__ inline void arrive_at_block(MbarPtr barrier, uint32_t rank) {
  cuda::ptx::mbarrier_arrive(cuda::ptx::sem_release, cuda::ptx::scope_cluster, cuda::ptx::space_cluster,
                             barrier_in_block(barrier, rank));
}

// ---- Waiting for other blocks ---------------------------------------------------------------------------------------

/// Whose arrivals a wait can be for: those of threads of the block, or of the whole cluster.
///
/// A release and an acquire work only if the scope of each includes the thread of the other. So an arrival in another
/// block and the wait for it both need the scope of the cluster. PTX's own example of this, "Synchronizing the CTA0
/// threads with cluster threads", has `.release.cluster` and `.acquire.cluster`; without a scope, both mean `.cta`, and
/// ptxas then leaves out the fence before the arrival and the invalidation of L1 after the wait. CUTLASS leaves the
/// scope out in both places (cutlass/arch/barrier.h), where a buffer that was only read is freed; its issue 3643 shows
/// wrong results on a chip from an arrival with `.cta` after data were written. Source: PTX ISA,
/// "mbarrier.test_wait/mbarrier.try_wait" (`.scope`, example 4); "Morally strong operations".
enum class Scope : uint8_t { block, cluster };

/// `try_wait`, for arrivals from within that scope. Parameters as there.
template <Scope WaitScope>
__device__ inline bool try_wait(MbarPtr barrier, uint32_t parity, uint32_t hint = 0) {
  if constexpr (WaitScope == Scope::block) {
    return try_wait(barrier, parity, hint);
  } else if (hint == 0) {
    return cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cluster, barrier, parity);
  } else {
    return cuda::ptx::mbarrier_try_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cluster, barrier, parity, hint);
  }
}

/// `test_wait`, for arrivals from within that scope. Parameters as there.
template <Scope WaitScope>
__device__ inline bool test_wait(MbarPtr barrier, uint32_t parity) {
  if constexpr (WaitScope == Scope::block) {
    return test_wait(barrier, parity);
  } else {
    return cuda::ptx::mbarrier_test_wait_parity(cuda::ptx::sem_acquire, cuda::ptx::scope_cluster, barrier, parity);
  }
}

/// `wait`, for arrivals from within that scope. Parameters as there.
template <Scope WaitScope>
__device__ inline void wait(MbarPtr barrier, uint32_t parity, uint32_t hint = 0) {
  while (!try_wait<WaitScope>(barrier, parity, hint)) {
  }
}

// ---- Clusters of two sizes ------------------------------------------------------------------------------------------

/// The blocks of the calling thread's cluster. In a launch with a preferred cluster there are clusters of two sizes.
/// Source: PTX ISA, "%cluster_nctarank".
__device__ inline uint32_t cluster_blocks() { return cuda::ptx::get_sreg_cluster_nctarank(); }

}  // namespace stagecraft
