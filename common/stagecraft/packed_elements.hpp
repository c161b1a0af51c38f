// Rounds values to the element type of a matrix, 16 bytes of them at a time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <concepts>
#include <cstdint>

#include "stagecraft/element.hpp"
#include "stagecraft/ptx.hpp"

namespace stagecraft {

namespace detail {

/// Converts two values to `Element`, the first in the lower half of what it returns.
template <typename Element>
struct PairConversion;

template <>
struct PairConversion<__nv_bfloat16> {
  using Word = uint32_t;
  __device__ __forceinline__ static Word convert(float first, float second) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const Word&>(pair);
  }
};
template <>
struct PairConversion<__half> {
  using Word = uint32_t;
  __device__ __forceinline__ static Word convert(float first, float second) {
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const Word&>(pair);
  }
};
template <>
struct PairConversion<__nv_fp8_e4m3> {
  using Word = uint16_t;
  __device__ __forceinline__ static Word convert(float first, float second) {
    return __nv_cvt_float2_to_fp8x2(float2{first, second}, __NV_SATFINITE, __NV_E4M3);
  }
};
template <>
struct PairConversion<__nv_fp8_e5m2> {
  using Word = uint16_t;
  __device__ __forceinline__ static Word convert(float first, float second) {
    return __nv_cvt_float2_to_fp8x2(float2{first, second}, __NV_SATFINITE, __NV_E5M2);
  }
};

template <>
struct PairConversion<__nv_fp4_e2m1> {
  using Word = uint8_t;
  __device__ __forceinline__ static Word convert(float first, float second) {
    return ptx::convert_to_e2m1x2(first, second);
  }
};

}  // namespace detail

/// Two elements of 16 bits in a word, the first in its lower half, rounded as by `pack_elements`. Any thread.
template <typename Element>
__device__ __forceinline__ uint32_t pack_pair(float first, float second) {
  static_assert(element_bits<Element> == 16, "pack_pair: two elements fill a word only if they have 16 bits");
  return detail::PairConversion<Element>::convert(first, second);
}

/// 16 bytes of elements, rounded from as many values: to nearest, to even where there are two.
///
/// Elements of 8 bits and fewer saturate: what is larger than the largest number becomes that number, also infinity.
/// NaN stays NaN, but in e2m1, which has none, it becomes the largest number. Any thread.
/// @tparam Element  float, __nv_bfloat16, __half, __nv_fp8_e4m3, __nv_fp8_e5m2 or __nv_fp4_e2m1.
/// Source: PTX ISA, "cvt" (.rn, .satfinite).
template <typename Element>
__device__ __forceinline__ uint4 pack_elements(const float (&values)[128 / element_bits<Element>]) {
  if constexpr (std::same_as<Element, float>) {
    return {__float_as_uint(values[0]), __float_as_uint(values[1]), __float_as_uint(values[2]),
            __float_as_uint(values[3])};
  } else {
    using Pair = detail::PairConversion<Element>;
    constexpr int kBits = 2 * element_bits<Element>;  // of a pair
    uint32_t words[4] = {};
#pragma unroll
    for (int pair = 0; pair < 128 / kBits; ++pair) {
      words[pair * kBits / 32] |= uint32_t{Pair::convert(values[2 * pair], values[2 * pair + 1])} << pair * kBits % 32;
    }
    return {words[0], words[1], words[2], words[3]};
  }
}

}  // namespace stagecraft
