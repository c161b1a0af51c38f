// Compares the product that a tensor core computed with the reference, element by element.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <type_traits>

namespace stagecraft::harness {

/// Half a unit in the last place of T, at 1: how far rounding to nearest moves a number, relative to it.
template <typename T>
inline constexpr double kRounding = std::is_same_v<T, __nv_bfloat16> ? 0x1p-8
                                    : std::is_same_v<T, __half>      ? 0x1p-11
                                    : std::is_same_v<T, float>       ? 0x1p-24
                                                                     : 0;

/// How far an element may be from the exact product, for operands within [-1, 1] of random sign.
///
/// Products are exact: those of all operand types fit in an f32. Two things lose bits.
///
/// *Rounding the sum to the output type* moves it by half a unit in its last place, `output_epsilon` of the sum.
///
/// *Adding up in f32.* A tensor core adds the products of one instruction to the accumulator at once. It truncates each
/// of these `mma_k` + 1 numbers to the place of the largest one, of which at least one bit more than the 24 of an f32
/// is kept, and then the sum to an f32: 1 + (mma_k + 1) / 2 units of 2^-23, of the largest number that occurs. wgmma
/// keeps fewer of 8-bit operands: 13 after the point of the largest, and of the sum. The largest number that occurs is
/// a running sum; all stay within the final one and four times the root of `k`, which is twelve standard deviations of
/// a sum of `k` products of uniform operands. Source: PTX ISA, "tcgen05.mma" (at least single precision); how an H200
/// truncates was measured.
struct ProductTolerance {
  size_t k = 1;                    ///< products per element
  double output_epsilon = 0x1p-8;  ///< `kRounding` of the output type
  size_t mma_k = 16;               ///< products that one instruction adds: 32 bytes of an operand's row
  int kept_bits = 24;              ///< bits after the point of the largest number that are kept of each
  int sum_bits = 23;               ///< bits after the point of the sum of one instruction

  /// The largest absolute error allowed where the exact element is `exact`.
  double operator()(double exact) const {
    const double instructions = std::ceil(static_cast<double>(k) / static_cast<double>(mma_k));
    const double lost = std::ldexp(1, -sum_bits) + static_cast<double>(mma_k + 1) * std::ldexp(1, -kept_bits);
    const double running_sum = std::abs(exact) + 4 * std::sqrt(static_cast<double>(k));
    const double accumulation_error = instructions * lost * running_sum;
    return (std::abs(exact) + accumulation_error) * output_epsilon + accumulation_error;
  }
};

/// What a comparison found.
struct Comparison {
  size_t wrong = 0;         ///< elements further from the reference than allowed; NaN counts
  size_t worst = 0;         ///< index of the element that exceeds its tolerance most
  double worst_excess = 0;  ///< its error divided by its tolerance
  /// The largest error relative to the reference's element, or where that one nearly cancels out, to the root mean
  /// square of the whole product.
  double max_relative_error = 0;
};

/// Compares every element; `actual` and `reference` have the same size.
template <typename T>
Comparison compare(std::span<const T> actual, std::span<const double> reference, const ProductTolerance& tolerance) {
  double squares = 0;
  for (const double exact : reference) squares += exact * exact;
  const double typical = std::sqrt(squares / static_cast<double>(std::max<size_t>(reference.size(), 1)));

  Comparison result;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double error = std::abs(static_cast<double>(static_cast<float>(actual[i])) - reference[i]);
    const double allowed = tolerance(reference[i]);
    const double excess = std::isnan(error) ? HUGE_VAL : error / allowed;
    if (excess > 1) ++result.wrong;
    if (excess > result.worst_excess) {
      result.worst_excess = excess;
      result.worst = i;
    }
    const double scale = std::max(std::abs(reference[i]), typical);
    if (scale > 0) result.max_relative_error = std::max(result.max_relative_error, error / scale);
  }
  return result;
}

}  // namespace stagecraft::harness
