// Copies that TMA makes while the threads do something else.
#pragma once

#include <cstdint>
#include <cuda/ptx>

#include "stagecraft/mbarrier.hpp"
#include "stagecraft/ptx.hpp"

namespace stagecraft {

/// Asks for a copy of `bytes` from global to shared memory and returns at once.
///
/// Called by one thread. When the bytes have arrived, TMA subtracts them from what `expect_bytes` announced
/// to `barrier`; a thread that waits for that phase sees them.
/// @param to, from  16-byte aligned.
/// @param bytes     a multiple of 16.
/// Source: PTX ISA, "cp.async.bulk" (`.mbarrier::complete_tx::bytes`).
__device__ inline void copy_bulk(void* to, const void* from, uint32_t bytes, MbarPtr barrier) {
  cuda::ptx::cp_async_bulk(cuda::ptx::space_cluster, cuda::ptx::space_global, to, from, bytes, barrier);
}

/// The same, for several blocks of a cluster at once: the bytes go to the same offset in the shared memory of each, and
/// count at the barrier at the same offset there.
/// @param blocks  bit i: the block of rank i in the cluster gets the copy.
/// Source: PTX ISA, "cp.async.bulk" (.multicast::cluster).
__device__ inline void copy_bulk_to_blocks(void* to, const void* from, uint32_t bytes, MbarPtr barrier,
                                           uint16_t blocks) {
  ptx::copy_bulk_to_blocks(to, from, bytes, barrier, blocks);
}

}  // namespace stagecraft
