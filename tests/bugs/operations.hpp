// Operations that the programs of the gallery need and the device library does not have. They are in a header of
// their own so that reports name the line that calls them.
#pragma once

#include <cstdint>

#include "stagecraft/ptx.hpp"

namespace gallery {

using stagecraft::ptx::detail::shared_address;

/// Waits at a barrier of the block by its number, 0 to 15, with as many threads. Source: PTX ISA, "bar".
__device__ inline void sync_named(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
/// Counts there without waiting. Source: PTX ISA, "bar".
__device__ inline void arrive_named(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/// Has 8 bytes copied to shared memory. Source: PTX ISA, "cp.async".
__device__ inline void copy_8_bytes(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
/// Waits for such copies of the calling thread. Source: PTX ISA, "cp.async.wait_all".
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Copies a tensor map to global memory, by all lanes of a warp, and releases it there. Source: PTX ISA,
/// "tensormap.cp_fenceproxy".
__device__ inline void publish_map(void* to, const void* from) {
  asm volatile(
      "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;" ::"l"(
          to),
      "r"(shared_address(from))
      : "memory");
}
/// Makes a tensor map that was changed visible to the copies of this block. Source: PTX ISA, "fence.proxy".
__device__ inline void acquire_map(const void* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

/// Ends the life of an mbarrier. Source: PTX ISA, "mbarrier.inval".
__device__ inline void invalidate(uint64_t* barrier) {
  asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Arrives on a barrier of the own block. Source: PTX ISA, "mbarrier.arrive" (`.shared::cta`).
__device__ inline void arrive_in_own_block(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
/// Arrives on a barrier of the cluster, and releases to the own block. Source: PTX ISA, "mbarrier.arrive" (`.scope`).
__device__ inline void arrive_at_block_scope(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

}  // namespace gallery
