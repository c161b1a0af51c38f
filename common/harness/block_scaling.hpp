// Matrices of block-scaled types on the host: made from floats, laid out as the device takes them, and with the exact
// values that they stand for.
#pragma once

#include <cuda_fp8.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "stagecraft/block_scaled_types.hpp"
#include "stagecraft/tile.hpp"

namespace stagecraft::harness {

// ---- Numbers of few bits --------------------------------------------------------------------------------------------

/// The largest number of an element type. Source: OCP Microscaling Formats 1.0, section 5.3.
template <typename Element>
inline constexpr float kLargest = std::is_same_v<Element, __nv_fp4_e2m1>   ? 6
                                  : std::is_same_v<Element, __nv_fp8_e4m3> ? 448
                                                                           : 57344;  // e5m2

/// The number that the bits of an element, or of a scale factor, stand for.
template <typename Element>
double number_of(uint8_t bits) {
  if constexpr (std::is_same_v<Element, __nv_fp4_e2m1>) {
    constexpr double kNumbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    return bits & 8 ? -kNumbers[bits & 7] : kNumbers[bits & 7];
  } else if constexpr (std::is_same_v<Element, __nv_fp8_e8m0>) {
    return bits == 0xff ? NAN : std::ldexp(1.0, bits - 127);
  } else {
    Element element;
    element.__x = bits;
    return static_cast<float>(element);
  }
}

/// The bits of the number that is nearest to `value`, of two the one with an even code; the largest one beyond it.
template <typename Element>
uint8_t nearest_bits(float value) {
  if constexpr (std::is_same_v<Element, __nv_fp4_e2m1>) {
    const float size = std::abs(value);
    const int code = (size > 0.25f) + (size >= 0.75f) + (size > 1.25f) + (size >= 1.75f) + (size > 2.5f) +
                     (size >= 3.5f) + (size > 5);
    return static_cast<uint8_t>(std::signbit(value) ? code | 8 : code);
  } else {
    return Element(value).__x;
  }
}

/// The bits of the scale factor for a block whose largest element has the size `largest`.
///
/// A power of two brings the largest element into the same octave as the type's largest number, which may cut it off
/// (OCP Microscaling Formats 1.0, section 6.3). A float of four bits brings it to that number itself.
template <typename Scale, typename Element>
uint8_t scale_factor_bits(float largest) {
  if constexpr (std::is_same_v<Scale, __nv_fp8_e8m0>) {
    if (largest == 0) return 0;
    return static_cast<uint8_t>(std::clamp(std::ilogb(largest) - std::ilogb(kLargest<Element>) + 127, 0, 254));
  } else {
    return Scale(largest / kLargest<Element>).__x;
  }
}

// ---- Matrices -------------------------------------------------------------------------------------------------------

/// A matrix with a scale factor for each row and block of K.
struct BlockScaledMatrix {
  size_t rows;                         ///< along M or N
  size_t columns;                      ///< along K
  size_t padded_rows;                  ///< that have scale factors: a multiple of 128
  size_t padded_blocks;                ///< that have scale factors: a multiple of 4
  std::vector<uint8_t> elements;       ///< row-major; of 4 bits, two in a byte, the lower one first
  std::vector<uint8_t> scale_factors;  ///< in atoms, as ScaleFactorTile; 0 beyond the matrix
  std::vector<double> values;          ///< row-major: each element times its scale factor, exactly
};

/// Quantises a row-major matrix.
/// @tparam Type    a BlockScaledType.
/// @param columns  an even number; the last block may be shorter.
template <typename Type>
BlockScaledMatrix quantise(std::span<const float> matrix, size_t rows, size_t columns) {
  using Element = typename Type::Element;
  using Scale = typename Type::Scale;
  constexpr size_t kBlock = Type::block;
  constexpr size_t kPerByte = element_bits<Element> == 4 ? 2 : 1;
  const size_t blocks = (columns + kBlock - 1) / kBlock;
  BlockScaledMatrix result{.rows = rows,
                           .columns = columns,
                           .padded_rows = (rows + 127) / 128 * 128,
                           .padded_blocks = (blocks + 3) / 4 * 4,
                           .elements = std::vector<uint8_t>(rows * columns / kPerByte),
                           .scale_factors = {},
                           .values = std::vector<double>(rows * columns)};
  result.scale_factors.resize(result.padded_rows * result.padded_blocks);
  for (size_t row = 0; row < rows; ++row) {
    for (size_t block = 0; block < blocks; ++block) {
      const size_t begin = row * columns + block * kBlock, end = std::min(begin + kBlock, (row + 1) * columns);
      float largest = 0;
      for (size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(matrix[i]));
      const uint8_t scale_bits = scale_factor_bits<Scale, Element>(largest);
      const double scale = number_of<Scale>(scale_bits);
      result.scale_factors[scale_factor_offset(static_cast<uint32_t>(row), static_cast<uint32_t>(block),
                                               static_cast<uint32_t>(result.padded_blocks))] = scale_bits;
      for (size_t i = begin; i < end; ++i) {
        const uint8_t bits = nearest_bits<Element>(scale == 0 ? 0 : static_cast<float>(matrix[i] / scale));
        result.elements[i / kPerByte] |= static_cast<uint8_t>(i % kPerByte == 1 ? bits << 4 : bits);
        result.values[i] = number_of<Element>(bits) * scale;
      }
    }
  }
  return result;
}

/// A matrix of 8-bit floats with an f32 scale for each block of rows and columns.
struct BlockwiseMatrix {
  size_t rows;                    ///< along M or N
  size_t columns;                 ///< along K
  std::vector<uint8_t> elements;  ///< row-major
  /// A row of scales for each block of columns, one for each block of rows, and padding to a multiple of four.
  std::vector<float> scales;
  size_t scales_in_row;        ///< with the padding
  std::vector<double> values;  ///< row-major: each element times its scale, exactly
};

/// Quantises a row-major matrix.
/// @param block_rows, block_columns  that share a scale: 1 x 128 for activations, 128 x 128 for weights, as DeepSeek-V3
///                                   has them.
template <typename Element>
BlockwiseMatrix quantise_blockwise(std::span<const float> matrix, size_t rows, size_t columns, size_t block_rows,
                                   size_t block_columns) {
  const size_t across = (columns + block_columns - 1) / block_columns;
  BlockwiseMatrix result{.rows = rows,
                         .columns = columns,
                         .elements = std::vector<uint8_t>(rows * columns),
                         .scales = {},
                         .scales_in_row = ((rows + block_rows - 1) / block_rows + 3) / 4 * 4,
                         .values = std::vector<double>(rows * columns)};
  result.scales.resize(across * result.scales_in_row);
  const auto scale_of = [&](size_t i) -> float& {
    return result.scales[i % columns / block_columns * result.scales_in_row + i / columns / block_rows];
  };
  for (size_t i = 0; i < rows * columns; ++i) scale_of(i) = std::max(scale_of(i), std::abs(matrix[i]));
  for (float& scale : result.scales) scale /= kLargest<Element>;
  for (size_t i = 0; i < rows * columns; ++i) {
    const float scale = scale_of(i);
    result.elements[i] = nearest_bits<Element>(scale == 0 ? 0 : matrix[i] / scale);
    result.values[i] = number_of<Element>(result.elements[i]) * scale;
  }
  return result;
}

/// Random numbers of very different size, as weights and activations are: uniform within [-1, 1) times a power of two
/// from 2^-6 to 2^6, which changes with the row and every 16 columns, and times a number from 1/4 to 1, which changes
/// every 128 rows and columns: so large a block has some of the largest power nearly always. A scale factor that is
/// taken from another block or another row is nearly always another one.
inline std::vector<float> random_uneven_values(size_t rows, size_t columns, uint64_t seed) {
  constexpr size_t kTile = 128;
  Random random(seed);
  const size_t tiles_in_row = (columns + kTile - 1) / kTile;
  std::vector<float> tile_sizes((rows + kTile - 1) / kTile * tiles_in_row);
  for (float& size : tile_sizes) size = 0.625f + 0.375f * random.uniform();
  std::vector<float> values(rows * columns);
  int exponent = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t row = i / columns, column = i % columns;
    if (column % 16 == 0) exponent = static_cast<int>(random.bits() % 13) - 6;
    values[i] = tile_sizes[row / kTile * tiles_in_row + column / kTile] * std::ldexp(random.uniform(), exponent);
  }
  return values;
}

// ---- On the device --------------------------------------------------------------------------------------------------

/// The parts of a BlockScaledMatrix in device memory.
struct BlockScaledBuffers {
  DeviceBuffer<uint8_t> elements;       ///< as in the matrix
  DeviceBuffer<uint8_t> scale_factors;  ///< as in the matrix

  /// @param name  what the matrix is, for messages: "A".
  BlockScaledBuffers(const BlockScaledMatrix& matrix, const std::string& name)
      : elements(matrix.elements, name), scale_factors(matrix.scale_factors, name + "'s scale factors") {}
};

/// The parts of a BlockwiseMatrix in device memory.
struct BlockwiseBuffers {
  DeviceBuffer<uint8_t> elements;  ///< as in the matrix
  DeviceBuffer<float> scales;      ///< as in the matrix

  /// @param name  what the matrix is, for messages.
  BlockwiseBuffers(const BlockwiseMatrix& matrix, const std::string& name)
      : elements(matrix.elements, name), scales(matrix.scales, name + "'s scales") {}
};

// ---- Products -------------------------------------------------------------------------------------------------------

/// A product of scaled matrices in double, and what limits its error.
struct ScaledProduct {
  std::vector<double> exact;      ///< m x n, row-major
  std::vector<double> magnitude;  ///< the same of the absolute values: no running sum can be larger
};

/// A * B transposed, for values of A (m x k) and B (n x k).
inline ScaledProduct scaled_product(std::span<const double> a, std::span<const double> b, size_t m, size_t n,
                                    size_t k) {
  const auto sizes = [](std::span<const double> values) {
    std::vector<double> result(values.begin(), values.end());
    for (double& value : result) value = std::abs(value);
    return result;
  };
  return {.exact = multiply_by_transposed(a, b, m, n, k),
          .magnitude = multiply_by_transposed(sizes(a), sizes(b), m, n, k)};
}

/// Compares each element of a product, in f32 or bf16, with the exact one. The operands' values differ so much in size
/// that ProductTolerance does not apply; the running sums are limited by the magnitudes instead, and the error of each
/// instruction is the one that ProductTolerance explains.
/// @param mma_k        products that one instruction adds.
/// @param extra_units  more roundings of 2^-23 for each instruction, such as a multiplication by a scale in f32.
template <typename Values>
Comparison compare_scaled(const Values& actual, const ScaledProduct& reference, size_t k, size_t mma_k,
                          double extra_units = 0) {
  using Output = std::remove_cvref_t<decltype(actual[0])>;
  constexpr double kRounded = std::is_same_v<Output, float> ? 0 : kRounding<Output>;  // f32 is what is summed in
  const double instructions = std::ceil(static_cast<double>(k) / static_cast<double>(mma_k));
  const double units = instructions * (1 + static_cast<double>(mma_k + 1) / 2 + extra_units);
  Comparison result;
  for (size_t i = 0; i < reference.exact.size(); ++i) {
    const double error = std::abs(static_cast<double>(static_cast<float>(actual[i])) - reference.exact[i]);
    const double allowed = units * 0x1p-23 * reference.magnitude[i] + kRounded * std::abs(reference.exact[i]);
    const double excess = std::isnan(error) ? HUGE_VAL : error == 0 ? 0 : error / allowed;
    if (excess > 1) ++result.wrong;
    if (excess > result.worst_excess) {
      result.worst_excess = excess;
      result.worst = i;
    }
    if (reference.magnitude[i] > 0) {
      result.max_relative_error = std::max(result.max_relative_error, error / reference.magnitude[i]);
    }
  }
  return result;
}

}  // namespace stagecraft::harness
