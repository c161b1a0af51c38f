// How the tensor core signals: it arrives on a barrier when the work that a thread has issued is done.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/ptx.hpp"

namespace stagecraft {

/// Makes the tensor core arrive once on `barrier` when all MMAs and copies that this thread has issued are done, that
/// is when they have read their operands and written their accumulators.
///
/// Called by the thread that issued them, and covers no other thread's. Returns at once. It does not track `tcgen05.ld`
/// and `st`. Source: PTX ISA, "tcgen05.commit".
template <int CtaGroup = 1>
__device__ __forceinline__ void commit_mma(MbarPtr barrier) {
  cuda::ptx::tcgen05_commit(ptx::cta_group<CtaGroup>, barrier);
}

/// The same, on the barrier at the same offset in several blocks of the cluster.
/// @param blocks  bit i: the block of rank i in the cluster gets the arrival.
template <int CtaGroup = 1>
__device__ __forceinline__ void commit_mma_to_blocks(MbarPtr barrier, uint16_t blocks) {
  cuda::ptx::tcgen05_commit_multicast(ptx::cta_group<CtaGroup>, barrier, blocks);
}

}  // namespace stagecraft
