// What the kernels of this folder have in common: rows go through a ring of stages from one warp to another.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "harness/random.hpp"

namespace stagecraft::tests {

inline constexpr int kRow = 64;   ///< words in a row: two for each lane
inline constexpr int kRows = 41;  ///< many rounds of any ring here, and no multiple of its depth
inline constexpr int kThreads = 64;

/// Sends random rows through `kernel(in, out, rows)`, which must write each word plus its row's number to the same
/// place.
template <typename Kernel>
void expect_rows_arrive(Kernel kernel, int rows = kRows) {
  harness::Random random(static_cast<uint64_t>(rows) * 7919);
  std::vector<uint32_t> words(static_cast<size_t>(rows) * kRow);
  for (uint32_t& word : words) word = static_cast<uint32_t>(random.bits());
  const harness::DeviceBuffer<uint32_t> in(words, "the rows");
  harness::DeviceBuffer<uint32_t> out(words.size(), "the rows that arrived");
  out.poison();
  kernel<<<1, kThreads>>>(in.data(), out.data(), rows);
  harness::check(cudaDeviceSynchronize(), "run the kernel");
  const std::vector<uint32_t> arrived = out.to_host();
  for (size_t i = 0; i < words.size(); ++i) {
    ASSERT_EQ(arrived[i], words[i] + i / kRow) << "row " << i / kRow << ", word " << i % kRow;
  }
}

}  // namespace stagecraft::tests
