// Bulk copies from global to shared memory: the copy engine brings them, and an mbarrier counts the bytes. Chapter 01
// teaches them.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"

namespace stagecraft {

/// Starts to copy `bytes` bytes from global memory to shared memory of the calling block, and returns at once.
///
/// Called by one thread. The bytes are there when the phase of `barrier` has completed to which `expect_bytes`
/// announced them. What is overwritten must be free already: the copy waits for nobody.
/// @param to     in shared memory, 16-byte aligned.
/// @param from   in global memory, 16-byte aligned.
/// @param bytes  a multiple of 16.
/// Source: PTX ISA, "cp.async.bulk".
__device__ inline void copy_bulk(void* to, const void* from, uint32_t bytes, MbarPtr barrier) {
  cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, to, from, bytes, barrier);
}

/// The same, for several blocks of a cluster at once: the bytes come to the same place in the shared memory of each,
/// and count at the barrier at the same place there.
/// @param blocks  bit i: the block of rank i in the cluster gets the copy.
/// Source: PTX ISA, "cp.async.bulk" (.multicast::cluster).
__device__ inline void copy_bulk_to_blocks(void* to, const void* from, uint32_t bytes, MbarPtr barrier,
                                           uint16_t blocks) {
  cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, to, from, bytes, barrier, blocks);
}

}  // namespace stagecraft
