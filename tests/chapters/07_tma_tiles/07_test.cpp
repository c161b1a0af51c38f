// Tests of chapter 07, in the order of its TODOs.
#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "harness/comparison.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/product_mistakes.hpp"
#include "harness/random.hpp"
#include "harness/reference_product.hpp"
#include "launches.hpp"

using stagecraft::harness::Comparison;
using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;
using stagecraft::harness::fresh_seed;
using stagecraft::harness::likely_mistake;
using stagecraft::harness::ProductTolerance;
using stagecraft::harness::random_values;
using stagecraft::harness::reference_product;

namespace {

/// The name of an element of the matrix.
std::string element(int row, int column) {
  return "matrix[" + std::to_string(row) + "][" + std::to_string(column) + "]";
}

/// What a value is, for a message: "matrix[3][4]".
std::string name_of(float value, const std::vector<float>& matrix, int columns) {
  for (size_t i = 0; i < matrix.size(); ++i) {
    if (matrix[i] == value) return element(static_cast<int>(i) / columns, static_cast<int>(i) % columns);
  }
  return value == 0 ? "0" : "nothing that is in the matrix";
}

/// Brings one box and checks each of its elements.
void check_box(const std::vector<float>& matrix, int rows, int columns, int row, int column) {
  const DeviceBuffer<float> there(matrix, "the matrix");
  DeviceBuffer<float> out(kBoxRows * kBoxColumns, "the box");
  out.poison();
  launch_copy_box(there.data(), rows, columns, row, column, out.data());
  finish_kernel("copy_one_box");
  const std::vector<float> got = out.to_host();
  for (int r = 0; r < kBoxRows; ++r) {
    for (int c = 0; c < kBoxColumns; ++c) {
      const int from_row = row + r, from_column = column + c;
      const bool inside = from_row >= 0 && from_row < rows && from_column >= 0 && from_column < columns;
      const float expected = inside ? matrix[from_row * columns + from_column] : 0;
      const float is = got[r * kBoxColumns + c];
      if (is == expected) continue;
      FAIL() << "element [" << r << "][" << c << "] of the box at row " << row << ", column " << column
             << " of a matrix of " << rows << " x " << columns << " should be "
             << (inside ? element(from_row, from_column) : "0, because it is outside") << "; it is "
             << name_of(is, matrix, columns);
    }
  }
}

TEST(Chapter07, Todo1To3ABoxComesFromItsPlaceInTheMatrix) {
  constexpr int kRows = 40, kColumns = 68;
  const auto matrix = random_values<float>(kRows * kColumns, fresh_seed());
  for (const auto& [row, column] : {std::pair{0, 0}, {8, 32}, {5, 12}, {32, 36}}) {
    check_box(matrix, kRows, kColumns, row, column);
    if (HasFatalFailure()) return;
  }
}

TEST(Chapter07, Todo3WhatIsOutsideReadsAsZero) {
  for (const auto& [rows, columns] : {std::pair{40, 68}, {3, 4}, {1, 100}, {21, 32}}) {
    const auto matrix = random_values<float>(rows * columns, fresh_seed() + rows);
    for (const auto& [row, column] : {std::pair{rows - 3, columns - 4}, {-2, -8}, {rows, columns}, {-1000, 1000}}) {
      check_box(matrix, rows, columns, row, column);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Chapter07, Todo4EachLaneReadsARowOfASwizzledTile) {
  constexpr int kChunk = 4;  // floats in 16 bytes
  const auto matrix = random_values<float>(kTileRows * kBoxColumns, fresh_seed());
  const DeviceBuffer<float> there(matrix, "the matrix");
  DeviceBuffer<float> out(matrix.size(), "the rows");
  out.poison();
  launch_read_rows(there.data(), out.data());
  finish_kernel("read_rows");
  const std::vector<float> got = out.to_host();
  for (int row = 0; row < kTileRows; ++row) {
    for (int column = 0; column < kBoxColumns; ++column) {
      const float is = got[row * kBoxColumns + column];
      if (is == matrix[row * kBoxColumns + column]) continue;
      FAIL() << "chunk " << column / kChunk << " of row " << row << " was read from the place of another: its element "
             << column % kChunk << " should be " << element(row, column) << "; it is "
             << name_of(is, matrix, kBoxColumns);
    }
  }
}

/// Whether C[row][column] is right where row and column agree modulo 8, and wrong nearly everywhere else. That
/// is the result when the chunks of both tiles are not where the kernel reads them: rows alike are then mixed up alike.
bool only_rows_alike_agree(const std::vector<float>& got, const std::vector<double>& expected, int columns) {
  size_t wrong_alike = 0, wrong = 0, others = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const bool alike = i / columns % 8 == i % columns % 8;
    const bool differs = !(std::abs(got[i] - expected[i]) < 1e-3);
    (alike ? wrong_alike : wrong) += differs;
    others += !alike;
  }
  return wrong_alike == 0 && others > 0 && 10 * wrong > 9 * others;
}

/// Multiplies random matrices and checks every element.
void check_product(int m, int n, int k) {
  const auto a = random_values<__nv_bfloat16>(size_t(m) * k, fresh_seed() + m);
  const auto b = random_values<__nv_bfloat16>(size_t(n) * k, fresh_seed() - n);
  const DeviceBuffer<__nv_bfloat16> a_there(a, "A"), b_there(b, "B");
  DeviceBuffer<float> c(size_t(m) * n, "C");
  c.poison();
  launch_multiply(a_there.data(), b_there.data(), c.data(), m, n, k);
  finish_kernel("multiply");
  const std::vector<float> got = c.to_host();
  const std::vector<double> expected = reference_product<__nv_bfloat16>(a, b, m, n, k);
  if (only_rows_alike_agree(got, expected, n)) {
    FAIL() << "C is right only where the row of A and the row of B have the same number modulo 8: the tiles are not "
              "swizzled as chunk_at() takes them to be. What does the tensor map say?";
  }
  const ProductTolerance tolerance{.k = static_cast<size_t>(k), .output_epsilon = 0x1p-24};
  const Comparison found = stagecraft::harness::compare<float>(got, expected, tolerance);
  if (found.wrong == 0) return;
  FAIL() << found.wrong << " of " << got.size() << " elements of C are wrong, M x N x K = " << m << " x " << n << " x "
         << k << likely_mistake<float, __nv_bfloat16>(got, expected, a, b, {m, n, k, kTileM, kTileN, kTileK}, tolerance)
         << "\nthe worst is C[" << found.worst / n << "][" << found.worst % n << "] = " << got[found.worst]
         << ", which should be " << expected[found.worst] << " (seed " << fresh_seed() << ")";
}

TEST(Chapter07, Todo5And6OneTileOfEachMatrix) { check_product(kTileM, kTileN, kTileK); }

TEST(Chapter07, Todo5And6TilesGoAroundTheRing) { check_product(kTileM, kTileN, 9 * kTileK); }

TEST(Chapter07, Todo5And6MatricesThatNoTileFits) {
  for (const auto& [m, n, k] : {std::array{1, 1, 8}, {130, 33, 72}, {77, 100, 200}, {300, 20, 520}}) {
    check_product(m, n, k);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
