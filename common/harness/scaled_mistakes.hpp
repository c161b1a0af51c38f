// Which mistake makes a wrong product of scaled operands: what product_mistakes.hpp needs to know about their scales.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/block_scaling.hpp"
#include "harness/comparison.hpp"
#include "harness/product_mistakes.hpp"

namespace stagecraft::harness {

/// A matrix, and for each of its elements the scale that belongs to it, row-major.
struct ScaledOperand {
  std::vector<double> elements, scales;
  int block;  ///< elements along K that share a scale

  ScaledValues view() const { return {elements, scales, block}; }
};

/// The elements and scales of a matrix.
template <typename Type>
ScaledOperand parts_of(const BlockScaledMatrix& matrix) {
  constexpr size_t kPerByte = element_bits<typename Type::Element> == 4 ? 2 : 1;
  const size_t count = matrix.rows * matrix.columns;
  ScaledOperand parts{std::vector<double>(count), std::vector<double>(count), Type::block};
  for (size_t i = 0; i < count; ++i) {
    const auto row = static_cast<uint32_t>(i / matrix.columns);
    const auto block = static_cast<uint32_t>(i % matrix.columns / Type::block);
    const uint32_t offset = scale_factor_offset(row, block, static_cast<uint32_t>(matrix.padded_blocks));
    const auto bits = static_cast<uint8_t>(matrix.elements[i / kPerByte] >> (i % kPerByte == 1 ? 4 : 0));
    parts.elements[i] = number_of<typename Type::Element>(kPerByte == 2 ? bits & 15 : bits);
    parts.scales[i] = number_of<typename Type::Scale>(matrix.scale_factors[offset]);
  }
  return parts;
}

/// The same of a matrix of e4m3.
/// @param block_rows  rows that share a scale.
inline ScaledOperand parts_of(const BlockwiseMatrix& matrix, size_t block_rows) {
  const size_t count = matrix.rows * matrix.columns;
  ScaledOperand parts{std::vector<double>(count), std::vector<double>(count), 128};
  for (size_t i = 0; i < count; ++i) {
    const size_t row = i / matrix.columns, k_tile = i % matrix.columns / 128;
    parts.elements[i] = number_of<__nv_fp8_e4m3>(matrix.elements[i]);
    parts.scales[i] = matrix.scales[k_tile * matrix.scales_in_row + row / block_rows];
  }
  return parts;
}

/// `explain_product` for products of scaled operands, in f32 or bf16.
/// @param of_a, of_b   the values of A and B.
/// @param extra_units  as for `compare_scaled`.
template <typename Output>
std::string likely_mistake_of(const std::vector<Output>& c, const ScaledProduct& reference,
                              const std::vector<double>& of_a, const std::vector<double>& of_b, const ScaledOperand& a,
                              const ScaledOperand& b, const ProductShape& shape, double extra_units) {
  const double largest = *std::max_element(reference.magnitude.begin(), reference.magnitude.end());
  const double instructions = std::ceil(static_cast<double>(shape.k) / shape.mma_k);
  const double unit = 0x1p-23 * instructions * (1 + (shape.mma_k + 1) / 2.0 + extra_units);
  const double rounding = std::is_same_v<Output, float> ? 0 : kRounding<Output>;
  const ScaledValues scaled_a = a.view(), scaled_b = b.view();
  const std::vector<double> got = wide_all<Output>(c);
  return explain_product({.shape = shape,
                          .a = of_a,
                          .b = of_b,
                          .sums = reference.exact,
                          .got = got,
                          .allowed =
                              [&](double value, int row, int column) {
                                // Wrong scales may make an element of any size.
                                return unit * std::max({reference.magnitude[size_t(row) * shape.n + column],
                                                        8 * std::abs(value), largest * 0x1p-6}) +
                                       rounding * std::abs(value);
                              },
                          .of_sums = {},
                          .output_bits = std::is_same_v<Output, float> ? 24 : 8,
                          .scaled_a = &scaled_a,
                          .scaled_b = &scaled_b});
}

}  // namespace stagecraft::harness
