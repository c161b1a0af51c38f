// The block-scaled types that the tensor core multiplies: what an element is, what a scale factor is, and how many
// elements share one.
#pragma once

#include "stagecraft/element.hpp"

namespace stagecraft {

/// Elements of few bits in blocks along K, each block with a scale factor of eight bits.
/// @tparam Block  elements that share a scale factor.
template <TileElement ElementType, TileElement ScaleType, int Block>
struct BlockScaledType {
  using Element = ElementType;         ///< __nv_fp8_e4m3, __nv_fp8_e5m2 or __nv_fp4_e2m1
  using Scale = ScaleType;             ///< __nv_fp8_e8m0, a power of two; or __nv_fp8_e4m3 without its sign, ue4m3
  static constexpr int block = Block;  ///< 32, or 16
};

//! [types]
/// Eight bits, and a power of two for each 32 elements.
struct Mxfp8 : BlockScaledType<__nv_fp8_e4m3, __nv_fp8_e8m0, 32> {};
/// Four bits, and a power of two for each 32 elements.
struct Mxfp4 : BlockScaledType<__nv_fp4_e2m1, __nv_fp8_e8m0, 32> {};
/// Four bits, and a number of four significant bits for each 16 elements.
struct Nvfp4 : BlockScaledType<__nv_fp4_e2m1, __nv_fp8_e4m3, 16> {};
//! [types]

}  // namespace stagecraft
