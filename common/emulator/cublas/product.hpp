// D = A * B on the host.
#pragma once

#include <cstdint>
#include <vector>

namespace stagecraft::emulator::cublas {

/// The m by n product, column by column.
/// @param a  m by k, column by column
/// @param b  k by n, column by column
template <typename Value>
std::vector<Value> product(int64_t m, int64_t n, int64_t k, const std::vector<Value>& a, const std::vector<Value>& b);

/// The transpose: rows by columns, stored column by column, from a matrix of columns by rows.
template <typename Value>
std::vector<Value> transposed(const std::vector<Value>& matrix, int64_t rows, int64_t columns);

}  // namespace stagecraft::emulator::cublas
