// What a matrix product should have given: every element in double precision, on all cores of the host.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace stagecraft::harness {

/// C = A * B transposed. All matrices are row-major; A is m x k, B is n x k, C is m x n.
std::vector<double> multiply_by_transposed(std::span<const double> a, std::span<const double> b, size_t m, size_t n,
                                           size_t k);

/// C = A * B transposed in double precision, for operands of any type that converts to float without loss.
template <typename T>
std::vector<double> reference_product(std::span<const T> a, std::span<const T> b, size_t m, size_t n, size_t k) {
  const auto widen = [](std::span<const T> matrix) {
    std::vector<double> wide(matrix.size());
    for (size_t i = 0; i < matrix.size(); ++i) wide[i] = static_cast<double>(static_cast<float>(matrix[i]));
    return wide;
  };
  return multiply_by_transposed(widen(a), widen(b), m, n, k);
}

}  // namespace stagecraft::harness
