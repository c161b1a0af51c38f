// Instructions that `cuda::ptx` of CUDA 13.0 does not wrap, for some chip or for all. All other PTX of this library
// comes from there.
#pragma once

#include <cstdint>
#include <cuda/ptx>

namespace stagecraft::ptx {

/// The tag by which `cuda::ptx` names how many blocks' tensor cores work together, from a template parameter: 1 or 2.
template <int CtaGroup>
inline constexpr cuda::ptx::cta_group_t<CtaGroup == 1 ? cuda::ptx::dot_cta_group::cta_group_1
                                                      : cuda::ptx::dot_cta_group::cta_group_2>
    cta_group{};

/// True in exactly one lane of the warp, always the same one.
///
/// Called by a whole converged warp.
/// Source: PTX ISA, "elect.sync".
__device__ inline bool elect_sync() {
  uint32_t elected;
  asm volatile(
      "{\n\t"
      ".reg .pred elected;\n\t"
      "elect.sync _|elected, 0xffffffff;\n\t"
      "selp.b32 %0, 1, 0, elected;\n\t"
      "}"
      : "=r"(elected));
  return elected != 0;
}

/// Two values in e2m1, the first in the lower half of a byte: to nearest, even where there are two, and saturating
/// at 6. A NaN becomes 6. Source: PTX ISA, "cvt" (.e2m1x2).
__device__ inline uint8_t convert_to_e2m1x2(float first, float second) {
  uint16_t pair;
  asm("{\n\t"
      ".reg .b8 pair;\n\t"
      "cvt.rn.satfinite.e2m1x2.f32 pair, %2, %1;\n\t"
      "cvt.u16.u8 %0, pair;\n\t"
      "}"
      : "=h"(pair)
      : "f"(first), "f"(second));
  return static_cast<uint8_t>(pair);
}

/// Reduces the registers of each of the calling warpgroup's threads to `Count`, so that others can have them.
///
/// Called by all four warps, in a kernel with `__launch_bounds__`. Source: PTX ISA, "setmaxnreg" (.dec).
template <int Count>
__device__ __forceinline__ void release_registers() {
  static_assert(Count >= 24 && Count <= 256 && Count % 8 == 0,
                "release_registers: Count must be a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" : : "n"(Count));
}

/// Waits until the block has registers for `Count` for each of the calling warpgroup's threads, and takes them.
///
/// Called by all four warps. Source: PTX ISA, "setmaxnreg" (.inc).
template <int Count>
__device__ __forceinline__ void take_registers() {
  static_assert(Count >= 24 && Count <= 256 && Count % 8 == 0,
                "take_registers: Count must be a multiple of 8 from 24 to 256");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" : : "n"(Count));
}

/// Adds to a word in global memory that all blocks share; what it was before. An acquire and a release for the device.
///
/// Any thread. `cuda::atomic_ref` does the same, but nvcc reads for a second what <cuda/atomic> includes.
/// Source: PTX ISA, "atom" (`.acq_rel`).
__device__ inline uint32_t fetch_add_acq_rel(uint32_t* word, uint32_t addend) {
  uint32_t before;
  asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(addend) : "memory");
  return before;
}

/// Reads such a word, and acquires what was released with the value. Any thread. Source: PTX ISA, "ld" (`.acquire`).
__device__ inline uint32_t load_acquire(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.b32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}

/// Writes such a word, and releases what was written before. Any thread. Source: PTX ISA, "st" (`.release`).
__device__ inline void store_release(uint32_t* word, uint32_t value) {
  asm volatile("st.release.gpu.b32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}

/// Writes such a word, and orders nothing. Any thread. Source: PTX ISA, "st" (`.relaxed`).
__device__ inline void store_relaxed(uint32_t* word, uint32_t value) {
  asm volatile("st.relaxed.gpu.b32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}

/// Asks for a tensor map (128 bytes, a `__grid_constant__` parameter or global memory) before its first use.
///
/// Called by one thread. A hint: it changes no result.
/// Source: PTX ISA, "prefetch, prefetchu" (`.tensormap`).
__device__ inline void prefetch_tensor_map(const void* tensor_map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(tensor_map) : "memory");
}

}  // namespace stagecraft::ptx

namespace stagecraft {

/// What the L2 cache is to do with the lines that a copy reads: evict them before others, or after. A hint.
/// Source: PTX ISA, "Cache Eviction Priority Hints".
enum class L2Hint : uint8_t { none, evict_first, evict_last };

}  // namespace stagecraft

namespace stagecraft::ptx {

/// The policy that copies take as a cache hint, for all that they read.
///
/// Any thread. Not volatile: the compiler may compute it once for a loop.
/// Source: PTX ISA, "createpolicy" (`.fractional`).
template <L2Hint Hint>
__device__ inline uint64_t cache_policy() {
  static_assert(Hint != L2Hint::none, "cache_policy: a copy without a hint takes no policy");
  uint64_t policy;
  if constexpr (Hint == L2Hint::evict_first) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  }
  return policy;
}

namespace detail {

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

}  // namespace detail

/// A tensor copy with a cache hint, of two dimensions. Called by one thread.
/// @param to, at   as for `cuda::ptx::cp_async_bulk_tensor`: the place in this block, {contiguous, other} coordinate.
/// @param barrier  in this block; with CtaGroup 2, in either block of the pair.
/// Source: PTX ISA, "cp.async.bulk.tensor" (`.L2::cache_hint`).
template <int CtaGroup>
__device__ inline void copy_tensor(void* to, const void* tensor_map, const int32_t (&at)[2], const uint64_t* barrier,
                                   uint64_t policy) {
  using detail::shared_address;
  if constexpr (CtaGroup == 1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3}], [%4], %5;"
        :
        : "r"(shared_address(to)), "l"(tensor_map), "r"(at[0]), "r"(at[1]), "r"(shared_address(barrier)), "l"(policy)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2.L2::cache_hint "
        "[%0], [%1, {%2, %3}], [%4], %5;"
        :
        : "r"(shared_address(to)), "l"(tensor_map), "r"(at[0]), "r"(at[1]), "r"(shared_address(barrier)), "l"(policy)
        : "memory");
  }
}

/// The same, to several blocks of the cluster.
/// @param blocks  bit i: the block of rank i gets the copy.
/// Source: PTX ISA, "cp.async.bulk.tensor" (`.multicast::cluster`, `.L2::cache_hint`).
template <int CtaGroup>
__device__ inline void copy_tensor_to_blocks(void* to, const void* tensor_map, const int32_t (&at)[2],
                                             const uint64_t* barrier, uint16_t blocks, uint64_t policy) {
  using detail::shared_address;
  if constexpr (CtaGroup == 1) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;"
        :
        : "r"(shared_address(to)), "l"(tensor_map), "r"(at[0]), "r"(at[1]), "r"(shared_address(barrier)), "h"(blocks),
          "l"(policy)
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
        ".cta_group::2.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;"
        :
        : "r"(shared_address(to)), "l"(tensor_map), "r"(at[0]), "r"(at[1]), "r"(shared_address(barrier)), "h"(blocks),
          "l"(policy)
        : "memory");
  }
}

/// A bulk copy to several blocks of the cluster, and a tensor copy of two dimensions. `cuda::ptx` refuses both for
/// sm_120a, for which ptxas assembles them. Called by one thread. Source: PTX ISA, "cp.async.bulk",
/// "cp.async.bulk.tensor" (`.multicast::cluster`).
__device__ inline void copy_bulk_to_blocks(void* to, const void* from, uint32_t bytes, const uint64_t* barrier,
                                           uint16_t blocks) {
  using detail::shared_address;
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
      :
      : "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(blocks)
      : "memory");
}
__device__ inline void copy_tensor_to_blocks(void* to, const void* tensor_map, const int32_t (&at)[2],
                                             const uint64_t* barrier, uint16_t blocks) {
  using detail::shared_address;
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;"
      :
      : "r"(shared_address(to)), "l"(tensor_map), "r"(at[0]), "r"(at[1]), "r"(shared_address(barrier)), "h"(blocks)
      : "memory");
}

}  // namespace stagecraft::ptx
