// Instructions that `cuda::ptx` of CUDA 13.0 does not wrap. All other PTX of this library comes from there.
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

/// Asks for a tensor map (128 bytes, a `__grid_constant__` parameter or global memory) before its first use.
///
/// Called by one thread. A hint: it changes no result.
/// Source: PTX ISA, "prefetch, prefetchu" (`.tensormap`).
__device__ inline void prefetch_tensor_map(const void* tensor_map) {
  asm volatile("prefetch.tensormap [%0];" : : "l"(tensor_map) : "memory");
}

}  // namespace stagecraft::ptx
