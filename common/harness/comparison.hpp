// Compares the product that a tensor core computed with the reference, element by element.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace stagecraft::harness {

/// How far an element may be from the exact product, for operands within [-1, 1].
///
/// Three things are added up. Rounding the sum to the output type: half a unit in its last place. Rounding in the f32
/// accumulator, which tensor cores do by truncation, once per instruction (16 products) and in the alignment of the
/// products inside it: a few units in the last place of the running sum each time. The running sum, for operands of
/// random sign, stays within the final sum and four times the root of `k`.
struct ProductTolerance {
  size_t k = 1;                    ///< products per element
  double output_epsilon = 0x1p-8;  ///< half a unit in the last place of the output type, at 1: 2^-8 for bf16

  /// The largest absolute error allowed where the exact element is `exact`.
  double operator()(double exact) const {
    const double accumulations = static_cast<double>(k) / 16 + 16;
    const double running_sum = std::abs(exact) + 4 * std::sqrt(static_cast<double>(k));
    const double accumulation_error = accumulations * 0x1p-22 * running_sum;
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
