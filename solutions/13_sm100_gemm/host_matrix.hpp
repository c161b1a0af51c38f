// A batch of matrices on the host: values that its type represents exactly, and the bytes of them as a kernel reads
// them.
#pragma once

#include <algorithm>
#include <bit>
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
  std::vector<unsigned char> scale_factors;  ///< of a block-scaled type, as a kernel reads them
};

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
      std::vector<float> values(rows * places.columns);
      for (float& value : values) value = random.uniform();
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

/// A random operand, of values within [-1, 1] before they are rounded.
/// @param groups  rows of each, where a matrix has several.
inline HostOperand random_operand(DataType type, const MatrixPlaces& places, uint64_t seed,
                                  const std::vector<int64_t>& groups = {}) {
  if (type == DataType::mxfp8) return random_block_scaled<Mxfp8>(places, seed, groups);
  if (type == DataType::mxfp4) return random_block_scaled<Mxfp4>(places, seed, groups);
  if (type == DataType::nvfp4) return random_block_scaled<Nvfp4>(places, seed, groups);
  const std::vector<float> values = random_matrix(type, places.batches * places.rows * places.columns, seed);
  return {.values = {values.begin(), values.end()}, .bytes = bytes_of(type, places, values), .scale_factors = {}};
}

/// The value of the element whose bytes are at `bytes`.
inline double value_at(DataType type, const unsigned char* bytes) {
  return with_element(type, [&](auto element) {
    std::memcpy(&element, bytes, sizeof element);
    return static_cast<double>(static_cast<float>(element));
  });
}

}  // namespace stagecraft
