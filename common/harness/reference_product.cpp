#include "harness/reference_product.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <atomic>
#include <thread>

namespace stagecraft::harness {

std::vector<double> multiply_by_transposed(std::span<const double> a, std::span<const double> b, size_t m, size_t n,
                                           size_t k) {
  using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Operand = Eigen::Map<const Matrix>;
  using Product = Eigen::Map<Matrix>;
  std::vector<double> c(m * n);
  // Eigen's own threads would need OpenMP, which clang does not always have.
  constexpr size_t kRows = 256;
  std::atomic<size_t> next_row{0};
  const auto work = [&] {
    for (size_t row; (row = next_row.fetch_add(kRows)) < m;) {
      const size_t rows = std::min(kRows, m - row);
      Product(&c[row * n], rows, n).noalias() = Operand(&a[row * k], rows, k) * Operand(b.data(), n, k).transpose();
    }
  };
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();  // joins
  return c;
}

}  // namespace stagecraft::harness
