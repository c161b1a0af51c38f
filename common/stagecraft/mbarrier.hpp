// One mbarrier: initialise, announce bytes, arrive, wait. Chapter 01 teaches these; the pipelines are made of them.
#pragma once

#include <cstdint>
#include <cuda/ptx>

namespace stagecraft {

/// An mbarrier in shared memory: an opaque 64-bit object, 8-byte aligned.
/// Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
using MbarPtr = uint64_t*;

/// Starts the barrier's phase 0, which completes after `arrive_count` arrivals and all announced bytes.
///
/// Called by one thread, before any other use; the others may use the barrier after `fence_barrier_init()` by the same
/// thread and a block-wide (in a cluster: cluster-wide) barrier. Source: PTX ISA, "mbarrier.init".
/// @param arrive_count  arrivals per phase, 1 to 2^20 - 1.
__device__ inline void init_barrier(MbarPtr barrier, uint32_t arrive_count) {
  cuda::ptx::mbarrier_init(barrier, arrive_count);
}

/// Makes the barriers that this thread has initialised visible to the blocks that then pass a cluster barrier.
///
/// Called by the thread that called `init_barrier`, after the last of them. Copies and commits of the block itself need
/// none: they access a barrier as threads do. Source: PTX ISA, "fence.mbarrier_init", "cp.async.bulk".
__device__ inline void fence_barrier_init() {
  cuda::ptx::fence_mbarrier_init(cuda::ptx::sem_release, cuda::ptx::scope_cluster);
}

/// Counts one arrival; a thread that waits for this phase then sees what the calling thread wrote before.
///
/// Called by each thread that the barrier's arrive count includes, once per phase. Source: PTX ISA, "mbarrier.arrive".
__device__ inline void arrive(MbarPtr barrier) { cuda::ptx::mbarrier_arrive(barrier); }

/// Announces `bytes` that asynchronous copies will bring, and counts one arrival as `arrive` does.
///
/// Called by one thread, before or after the copies: a phase that still misses this arrival stays open.
/// @param bytes  what all copies that signal this phase bring together, below 2^20.
/// Source: PTX ISA, "mbarrier.arrive" (`.expect_tx`).
__device__ inline void expect_bytes(MbarPtr barrier, uint32_t bytes) {
  cuda::ptx::mbarrier_arrive_expect_tx(cuda::ptx::sem_release, cuda::ptx::scope_cta, cuda::ptx::space_shared, barrier,
                                       bytes);
}

/// Whether the phase of this parity has completed. It may briefly suspend the thread first, and may answer false
/// although the phase has completed, but never true before it has completed.
///
/// Called by every thread that needs the answer; with true, it sees what was written before the arrivals.
/// @param parity  0 or 1: the parity of the phase asked for, which must be the current or the preceding one.
/// @param hint    longest suspension in nanoseconds; 0 leaves it to the hardware.
/// Source: PTX ISA, "mbarrier.test_wait/mbarrier.try_wait" (parity).
__device__ inline bool try_wait(MbarPtr barrier, uint32_t parity, uint32_t hint = 0) {
  return hint == 0 ? cuda::ptx::mbarrier_try_wait_parity(barrier, parity)
                   : cuda::ptx::mbarrier_try_wait_parity(barrier, parity, hint);
}

/// Whether the phase of this parity has completed, at once: `try_wait` without the suspension.
///
/// Called by every thread that needs the answer; with true, it sees what was written before the arrivals.
/// @param parity  0 or 1: the parity of the phase asked for, which must be the current or the preceding one.
/// Source: PTX ISA, "mbarrier.test_wait/mbarrier.try_wait" (test_wait is non-blocking).
__device__ inline bool test_wait(MbarPtr barrier, uint32_t parity) {
  return cuda::ptx::mbarrier_test_wait_parity(barrier, parity);
}

/// Waits until the phase of this parity has completed. A fresh barrier counts its phase of parity 1 as complete.
///
/// Called by every thread that goes on to use what the phase guards: it sees what was written before the arrivals, and
/// what the copies brought. It acquires at the scope of the block; for arrivals from threads of other blocks, there is
/// `wait<Scope::cluster>` in cluster.hpp. Parameters as for `try_wait`.
/// Source: PTX ISA, "mbarrier.test_wait/mbarrier.try_wait" (parity; acquire, at the scope of the block).
__device__ inline void wait(MbarPtr barrier, uint32_t parity, uint32_t hint = 0) {
  while (!try_wait(barrier, parity, hint)) {
  }
}

}  // namespace stagecraft
