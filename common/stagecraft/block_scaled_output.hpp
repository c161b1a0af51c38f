// D as the next product's operand: elements of 4 or 8 bits, and a scale factor for each 16 or 32 of them in a row, in
// the order in which the tensor core takes scale factors.
#pragma once

#include <cuda_fp8.h>

#include <concepts>
#include <cstdint>

#include "stagecraft/block_scaled_types.hpp"
#include "stagecraft/epilogue_operations.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft {

namespace detail {

/// The largest number of a type, as exponent and mantissa: 1.mantissa * 2^exponent.
template <typename Element>
struct LargestNumber;
template <>
struct LargestNumber<__nv_fp8_e4m3> {
  static constexpr float value = 448;
  static constexpr uint32_t exponent = 8, mantissa = 0x600000;
};
template <>
struct LargestNumber<__nv_fp8_e5m2> {
  static constexpr float value = 57344;
  static constexpr uint32_t exponent = 15, mantissa = 0x600000;
};
template <>
struct LargestNumber<__nv_fp4_e2m1> {
  static constexpr float value = 6;
  static constexpr uint32_t exponent = 2, mantissa = 0x400000;
};

/// The ue8m0 scale factor of a block: the smallest power of two by which no value of the block exceeds the largest
/// number of `Element`, as cuBLAS and CUTLASS choose it; NaN for a block with an infinity or a NaN.
/// @param largest  the largest `magnitude()` of the block.
template <typename Element>
__device__ __forceinline__ uint32_t power_of_two_factor(uint32_t largest) {
  using Largest = LargestNumber<Element>;
  if (largest >= 0x7f800000) return 0xff;
  const uint32_t exponent = (largest + (0x7fffff - Largest::mantissa)) >> 23;  // one more where the mantissa is larger
  return exponent > Largest::exponent ? exponent - Largest::exponent : 0;
}

/// 1 / 2^(factor - 127), exactly.
/// @param factor  in ue8m0, 0 to 253, or 0xff for NaN.
__device__ __forceinline__ float reciprocal_of_factor(uint32_t factor) {
  return factor == 0xff ? __uint_as_float(0x7fffffff) : __uint_as_float((254 - factor) << 23);
}

}  // namespace detail

/// The last operation of an Epilogue whose D is block-scaled: chooses a scale factor for each block of values, stores
/// it, and divides the values by it; the TileWriter then rounds them to `Type::Element`.
///
/// A scale factor has the place that ScaleFactorTile gives it, so that the next product can load D as it is. Those that
/// fill the last atom along a row are written as zeros; those of rows beyond the matrix are not written.
/// @tparam Type  Mxfp8, Mxfp4 or Nvfp4.
/// Sources: OCP Microscaling Formats 1.0; CUTLASS, epilogue/fusion/sm100_visitor_store_tma_warpspecialized.hpp.
template <typename Type>
class ScaleBlocks {
  using Scale = typename Type::Scale;
  static constexpr int kBlock = Type::block;
  static constexpr bool kPowersOfTwo = std::same_as<Scale, __nv_fp8_e8m0>;

 public:
  static constexpr int results_at_once = kBlock;  ///< a thread needs whole blocks

  /// @param factors       scale factors of D, in atoms of 128 rows x 4 blocks, those of a row side by side.
  /// @param columns       of D.
  /// @param batch_stride  scale factors from one matrix to the next.
  /// @param global_scale  of Nvfp4: D holds value * global_scale / factor. It keeps the factors within the range of
  /// e4m3.
  __host__ __device__ ScaleBlocks(Scale* factors, int columns, int64_t batch_stride = 0, float global_scale = 1)
      : factors_(factors),
        blocks_((columns + kBlock - 1) / kBlock),
        batch_stride_(batch_stride),
        global_scale_(global_scale) {}

  /// Divides whole blocks of values of one row by their scale factors, and stores these. Any thread.
  template <int Count>
  __device__ __forceinline__ void operator()(float (&values)[Count], const RowPlace& place) const {
    static_assert(Count % kBlock == 0, "ScaleBlocks: a thread must have whole blocks of values");
#pragma unroll
    for (int first = 0; first < Count; first += kBlock) {
      uint32_t largest = 0;
#pragma unroll
      for (int i = first; i < first + kBlock; ++i) {
        if (i < place.valid) largest = max(largest, detail::magnitude(values[i]));
      }
      uint32_t factor;
      float multiplier;
      if constexpr (kPowersOfTwo) {
        factor = detail::power_of_two_factor<typename Type::Element>(largest);
        multiplier = detail::reciprocal_of_factor(factor);
      } else {
        constexpr float kLargest = detail::LargestNumber<typename Type::Element>::value;
        factor = __nv_cvt_float_to_fp8(__uint_as_float(largest) * global_scale_ / kLargest, __NV_SATFINITE, __NV_E4M3);
        __nv_fp8_e4m3 rounded;
        rounded.__x = static_cast<__nv_fp8_storage_t>(factor);
        multiplier = factor == 0 ? 0 : global_scale_ / static_cast<float>(rounded);
      }
      if (first < place.valid) store_factor(place, (place.column + first) / kBlock, factor);
#pragma unroll
      for (int i = first; i < first + kBlock; ++i) values[i] *= multiplier;
    }
  }

 private:
  /// Stores the scale factor of a block, and with that of a row's last block the zeros that fill the atom.
  __device__ __forceinline__ void store_factor(const RowPlace& place, int block, uint32_t factor) const {
    using Atom = ScaleFactorTile<Scale, 128, 4>;
    const int64_t atom = int64_t{place.row / 128} * ((blocks_ + 3) / 4) + block / 4;
    auto* to = reinterpret_cast<unsigned char*>(factors_) + place.batch * batch_stride_ + atom * Atom::bytes_per_atom +
               Atom::offset_of(place.row % 128, 0);
    to[block % 4] = static_cast<unsigned char>(factor);
    if (block == blocks_ - 1) {
      for (int padding = block % 4 + 1; padding < 4; ++padding) to[padding] = 0;
    }
  }

  Scale* factors_;
  int blocks_;
  int64_t batch_stride_;
  float global_scale_;
};

}  // namespace stagecraft
