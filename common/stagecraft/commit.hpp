// How the tensor core signals: a barrier that it arrives on when what a thread has had it do is done.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/ptx.hpp"

namespace stagecraft {

/// Lets the tensor core arrive once on `barrier` when all MMAs and copies that this thread has issued are done: that
/// they have read their operands and written their accumulators.
///
/// Called by the thread that issued them; covers no other's. Returns at once. It does not track `tcgen05.ld` and `st`.
/// Source: PTX ISA, "tcgen05.commit".
template <int CtaGroup = 1>
__device__ __forceinline__ void commit_mmas(MbarPtr barrier) {
  cuda::ptx::tcgen05_commit(ptx::cta_group<CtaGroup>, barrier);
}

/// The same, at the barrier at the same place in several blocks of the cluster.
/// @param blocks  bit i: the block of rank i in the cluster gets the arrival.
template <int CtaGroup = 1>
__device__ __forceinline__ void commit_mmas_to_blocks(MbarPtr barrier, uint16_t blocks) {
  cuda::ptx::tcgen05_commit_multicast(ptx::cta_group<CtaGroup>, barrier, blocks);
}

}  // namespace stagecraft
