#include "emulator/cublas/product.hpp"

#include <algorithm>
#include <cstddef>

namespace stagecraft::emulator::cublas {
namespace {

// A block of A stays in the second-level cache while all columns of B are used.
constexpr int64_t kBlockRows = 512, kBlockDepth = 256;

/// Adds `depth` columns of A, each times a value of B, to as many columns of D as there are in `Columns`.
template <int Columns, typename Value>
void add_columns(Value* d, int64_t m, const Value* a, int64_t rows, int64_t depth, const Value* b, int64_t k) {
  for (int64_t p = 0; p < depth; ++p) {
    const Value* __restrict from = a + p * m;
    for (int column = 0; column < Columns; ++column) {
      Value* __restrict to = d + column * m;
      const Value factor = b[column * k + p];
      for (int64_t i = 0; i < rows; ++i) to[i] += from[i] * factor;
    }
  }
}

}  // namespace

template <typename Value>
std::vector<Value> product(int64_t m, int64_t n, int64_t k, const std::vector<Value>& a, const std::vector<Value>& b) {
  constexpr int kTogether = 4;
  std::vector<Value> d(static_cast<size_t>(m * n));
  for (int64_t p = 0; p < k; p += kBlockDepth) {
    const int64_t depth = std::min(kBlockDepth, k - p);
    for (int64_t i = 0; i < m; i += kBlockRows) {
      const int64_t rows = std::min(kBlockRows, m - i);
      const Value* const block = a.data() + p * m + i;
      int64_t j = 0;
      for (; j + kTogether <= n; j += kTogether) {
        add_columns<kTogether>(d.data() + j * m + i, m, block, rows, depth, b.data() + j * k + p, k);
      }
      for (; j < n; ++j) add_columns<1>(d.data() + j * m + i, m, block, rows, depth, b.data() + j * k + p, k);
    }
  }
  return d;
}

template <typename Value>
std::vector<Value> transposed(const std::vector<Value>& matrix, int64_t rows, int64_t columns) {
  std::vector<Value> result(matrix.size());
  for (int64_t column = 0; column < columns; ++column) {
    for (int64_t row = 0; row < rows; ++row) {
      result[static_cast<size_t>(column * rows + row)] = matrix[static_cast<size_t>(row * columns + column)];
    }
  }
  return result;
}

template std::vector<float> product(int64_t, int64_t, int64_t, const std::vector<float>&, const std::vector<float>&);
template std::vector<double> product(int64_t, int64_t, int64_t, const std::vector<double>&, const std::vector<double>&);
template std::vector<int32_t> product(int64_t, int64_t, int64_t, const std::vector<int32_t>&,
                                      const std::vector<int32_t>&);
template std::vector<float> transposed(const std::vector<float>&, int64_t, int64_t);
template std::vector<double> transposed(const std::vector<double>&, int64_t, int64_t);
template std::vector<int32_t> transposed(const std::vector<int32_t>&, int64_t, int64_t);

}  // namespace stagecraft::emulator::cublas
