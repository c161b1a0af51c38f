// A batch of matrices on the host: values that its type represents exactly, and the bytes of them as a kernel reads
// them.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "harness/block_scaling.hpp"
#include "harness/random.hpp"
#include "stagecraft/block_scaled_types.hpp"
#include "stagecraft/gemm/config.hpp"

namespace stagecraft {

/// Where element (row, column) of matrix `batch` is, in elements from the first.
struct MatrixPlaces {
  int64_t rows = 0, columns = 0, batches = 1;
  Major major = Major::k;  ///< k: row-major; mn: column-major
  int64_t pitch = 0, batch_stride = 0;

  int64_t operator()(int64_t batch, int64_t row, int64_t column) const {
    return batch * batch_stride + (major == Major::k ? row * pitch + column : column * pitch + row);
  }
  /// Elements from the first of all to the last of all.
  int64_t span() const { return (*this)(batches - 1, rows - 1, columns - 1) + 1; }
};

/// Calls `use(an element of the type)`, of the type that `type` names.
template <typename Use>
decltype(auto) with_element(DataType type, Use use) {
  switch (type) {
    case DataType::bf16: return use(__nv_bfloat16{});
    case DataType::f16: return use(__half{});
    case DataType::mxfp8:
    case DataType::fp8_blockwise:
    case DataType::e4m3: return use(__nv_fp8_e4m3{});
    case DataType::e5m2: return use(__nv_fp8_e5m2{});
    default: return use(float{});
  }
}

/// A value rounded to a type; for tf32, the bits that the tensor core would ignore are zero.
inline float rounded(DataType type, float value) {
  if (type == DataType::tf32) return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & ~uint32_t{0x1fff});
  return with_element(type, [&](auto element) { return static_cast<float>(decltype(element)(value)); });
}

/// Random values within [-1, 1] that `type` represents exactly, in logical order: batch, row, column.
inline std::vector<float> random_matrix(DataType type, size_t size, uint64_t seed) {
  harness::Random random(seed);
  std::vector<float> values(size);
  for (float& value : values) value = rounded(type, random.uniform());
  return values;
}

/// The bytes of a batch of matrices in memory. What is between the lines is 0xff, which reads as NaN: a kernel that
/// uses it shows.
inline std::vector<unsigned char> bytes_of(DataType type, const MatrixPlaces& places,
                                           const std::vector<float>& values) {
  const size_t size = bits_of(type) / 8;
  std::vector<unsigned char> bytes(places.span() * size, 0xff);
  with_element(type, [&](auto zero) {
    size_t next = 0;
    for (int64_t batch = 0; batch < places.batches; ++batch) {
      for (int64_t row = 0; row < places.rows; ++row) {
        for (int64_t column = 0; column < places.columns; ++column) {
          const auto element = decltype(zero)(values[next++]);
          std::memcpy(&bytes[places(batch, row, column) * size], &element, size);
        }
      }
    }
  });
  return bytes;
}

/// An operand on the host.
struct HostOperand {
  std::vector<double> values;                ///< what it stands for, in logical order: batch, row, column
  std::vector<unsigned char> bytes;          ///< as a kernel reads them
  std::vector<unsigned char> scale_factors;  ///< where the type has them, as a kernel reads them
};

/// Random values within [-1, 1] of different size: a power of two that changes with each block of rows and columns
/// multiplies them, so that a scale that is taken from another block shows.
inline std::vector<float> random_uneven_matrix(int64_t rows, int64_t columns, int64_t block_rows, int64_t block_columns,
                                               harness::Random& random) {
  const int64_t blocks = (columns + block_columns - 1) / block_columns;
  std::vector<int> exponents((rows + block_rows - 1) / block_rows * blocks);
  for (int& exponent : exponents) exponent = -static_cast<int>(random.bits() % 7);
  std::vector<float> values(rows * columns);
  for (int64_t i = 0; i < std::ssize(values); ++i) {
    values[i] =
        std::ldexp(random.uniform(), exponents[i / columns / block_rows * blocks + i % columns / block_columns]);
  }
  return values;
}

/// A random operand of a block-scaled type.
/// @param groups  rows of each, where a matrix has several groups, whose scale factors are those of matrices.
template <typename Type>
HostOperand random_block_scaled(const MatrixPlaces& places, uint64_t seed, std::vector<int64_t> groups) {
  constexpr int kBits = element_bits<typename Type::Element>;
  harness::Random random(seed);
  HostOperand operand;
  operand.bytes.assign((places.span() * kBits + 7) / 8, 0xff);
  if (groups.empty()) groups.push_back(places.rows);
  for (int64_t batch = 0, first_row = 0; batch < places.batches; ++batch, first_row = 0) {
    for (const int64_t rows : groups) {
      const auto values = random_uneven_matrix(rows, places.columns, 1, Type::block, random);
      const auto matrix = harness::quantise<Type>(values, rows, places.columns);
      const auto append = [](auto& all, const auto& more) { all.insert(all.end(), more.begin(), more.end()); };
      append(operand.values, matrix.values);
      append(operand.scale_factors, matrix.scale_factors);
      const int64_t row_bytes = places.columns * kBits / 8;
      for (int64_t row = 0; row < rows; ++row) {
        std::copy_n(&matrix.elements[row * row_bytes], row_bytes,
                    &operand.bytes[places(batch, first_row + row, 0) * kBits / 8]);
      }
      first_row += rows;
    }
  }
  return operand;
}

/// Which operand: their scales differ.
enum class OperandName { a, b };

/// A random operand of blockwise FP8. The scales of a block of K are side by side for A, those of a block of rows for
/// B.
inline HostOperand random_blockwise(OperandName name, const MatrixPlaces& places, uint64_t seed) {
  constexpr int64_t kBlock = 128;
  const int64_t block_rows = name == OperandName::a ? 1 : kBlock;
  harness::Random random(seed);
  HostOperand operand;
  operand.bytes.assign(places.span(), 0xff);
  for (int64_t batch = 0; batch < places.batches; ++batch) {
    const auto values = random_uneven_matrix(places.rows, places.columns, block_rows, kBlock, random);
    const auto matrix =
        harness::quantise_blockwise<__nv_fp8_e4m3>(values, places.rows, places.columns, block_rows, kBlock);
    operand.values.insert(operand.values.end(), matrix.values.begin(), matrix.values.end());
    const int64_t down = (places.rows + block_rows - 1) / block_rows, across = (places.columns + kBlock - 1) / kBlock;
    std::vector<float> scales;
    if (name == OperandName::a) {
      scales = matrix.scales;
      for (int64_t i = 0; i < std::ssize(scales); ++i) {
        if (i % static_cast<int64_t>(matrix.scales_in_row) >= down) scales[i] = NAN;  // padding, which no kernel uses
      }
    } else {
      for (int64_t i = 0; i < down * across; ++i) {
        scales.push_back(matrix.scales[i % across * static_cast<int64_t>(matrix.scales_in_row) + i / across]);
      }
    }
    const auto* const bytes = reinterpret_cast<const unsigned char*>(scales.data());
    operand.scale_factors.insert(operand.scale_factors.end(), bytes, bytes + scales.size() * sizeof(float));
    for (int64_t row = 0; row < places.rows; ++row) {
      std::copy_n(&matrix.elements[row * places.columns], places.columns, &operand.bytes[places(batch, row, 0)]);
    }
  }
  return operand;
}

/// A random operand, of values within [-1, 1] before they are rounded.
/// @param groups  rows of each, where a matrix has several.
inline HostOperand random_operand(OperandName name, DataType type, const MatrixPlaces& places, uint64_t seed,
                                  const std::vector<int64_t>& groups = {}) {
  if (type == DataType::fp8_blockwise) return random_blockwise(name, places, seed);
  if (type == DataType::mxfp8) return random_block_scaled<Mxfp8>(places, seed, groups);
  if (type == DataType::mxfp4) return random_block_scaled<Mxfp4>(places, seed, groups);
  if (type == DataType::nvfp4) return random_block_scaled<Nvfp4>(places, seed, groups);
  const std::vector<float> values = random_matrix(type, places.batches * places.rows * places.columns, seed);
  return {.values = {values.begin(), values.end()}, .bytes = bytes_of(type, places, values), .scale_factors = {}};
}

/// The value of element number `index` of those that begin at `bytes`; of a block-scaled type, without its scale
/// factor.
inline double value_at(DataType type, const unsigned char* bytes, int64_t index) {
  if (bits_of(type) == 4) return harness::number_of<__nv_fp4_e2m1>(bytes[index / 2] >> index % 2 * 4 & 0xf);
  return with_element(type, [&](auto element) {
    std::memcpy(&element, bytes + index * static_cast<int64_t>(sizeof element), sizeof element);
    return static_cast<double>(static_cast<float>(element));
  });
}

}  // namespace stagecraft
