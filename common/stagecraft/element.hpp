// The element types of tiles, and their names in the two places that must agree on them: TMA's tensor map
// and the tensor core's instruction descriptor.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <concepts>
#include <cstdint>

struct __nv_fp4_e2m1;  // defined in cuda_fp4.h, which a program needs only to make values of it

namespace stagecraft {

/// An f32 of which the tensor core uses the upper 19 bits: sign, 8 bits of exponent, 10 of mantissa. A matrix of
/// `float` is multiplied as this type, which has the size and the bits of a float.
struct tf32 {
  float value;  ///< the tensor core ignores its lowest 13 bits; TMA rounds them away on the way

  tf32() = default;
  /// Keeps all bits: TMA rounds.
  __host__ __device__ constexpr explicit tf32(float from) : value(from) {}
  /// The value with all its bits.
  __host__ __device__ constexpr explicit operator float() const { return value; }
};

namespace detail {
template <typename Element, typename... Others>
inline constexpr bool is_one_of = (std::same_as<Element, Others> || ...);
}

/// Bits that an element takes in memory: 4 for `__nv_fp4_e2m1`, of which two share a byte, lower one first.
template <typename Element>
inline constexpr int element_bits = 8 * static_cast<int>(sizeof(Element));
/// Two in a byte.
template <>
inline constexpr int element_bits<__nv_fp4_e2m1> = 4;

/// What a tile can hold.
template <typename Element>
concept TileElement =
    detail::is_one_of<Element, __half, __nv_bfloat16, tf32, float, double, __nv_fp8_e4m3, __nv_fp8_e5m2, __nv_fp8_e8m0,
                      __nv_fp4_e2m1, uint8_t, int8_t, uint16_t, uint32_t, int32_t, uint64_t, int64_t>;

}  // namespace stagecraft
