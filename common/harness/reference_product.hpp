// What a matrix product should have given: every element in double precision, on all cores of the host.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

namespace stagecraft::harness {

/// C = A * B transposed in double precision. All matrices are row-major; A is m x k, B is n x k, C is m x n.
///
/// T converts to float without loss. Takes about m * n * k / 10^9 seconds of one core.
template <typename T>
std::vector<double> reference_product(std::span<const T> a, std::span<const T> b, size_t m, size_t n, size_t k) {
  // Four rows of A meet four rows of B at a time, so that a value read is used four times. The four are interleaved
  // and padded with zeros: the innermost loops run over contiguous memory and always to four.
  constexpr size_t kBlock = 4;
  using Block = std::array<double, kBlock>;
  const auto interleave = [k](std::span<const T> matrix, size_t rows, size_t first_row, Block* out) {
    for (size_t i = 0; i < k; ++i) {
      for (size_t r = 0; r < kBlock; ++r) {
        const size_t row = first_row + r;
        out[i][r] = row < rows ? static_cast<double>(static_cast<float>(matrix[row * k + i])) : 0.0;
      }
    }
  };

  const size_t b_blocks = (n + kBlock - 1) / kBlock;
  std::vector<Block> b_interleaved(b_blocks * k);
  for (size_t block = 0; block < b_blocks; ++block) {
    interleave(b, n, block * kBlock, &b_interleaved[block * k]);
  }

  std::vector<double> c(m * n);
  std::atomic<size_t> next_row{0};
  const auto work = [&] {
    std::vector<Block> a_block(k);
    for (size_t row; (row = next_row.fetch_add(kBlock)) < m;) {
      interleave(a, m, row, a_block.data());
      for (size_t block = 0; block < b_blocks; ++block) {
        const Block* b_block = &b_interleaved[block * k];
        std::array<Block, kBlock> sums{};
        for (size_t i = 0; i < k; ++i) {
          for (size_t r = 0; r < kBlock; ++r) {
            for (size_t s = 0; s < kBlock; ++s) sums[r][s] += a_block[i][r] * b_block[i][s];
          }
        }
        for (size_t r = 0; r < std::min(kBlock, m - row); ++r) {
          const size_t column = block * kBlock;
          std::copy_n(sums[r].begin(), std::min(kBlock, n - column), &c[(row + r) * n + column]);
        }
      }
    }
  };

  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) helpers.emplace_back(work);
  work();
  helpers.clear();  // joins
  return c;
}

}  // namespace stagecraft::harness
