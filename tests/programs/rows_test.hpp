// What most unusual kernels are given: rows of numbers, of each of which they compute the sum.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "device_arrays.hpp"
#include "stagecraft/warp.hpp"

inline constexpr int kRow = 64;
inline constexpr uint32_t kAll = 0xffffffff;

__device__ inline uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

/// Called by a whole warp.
__device__ inline uint32_t sum_of_row(const uint32_t* row) {
  return __reduce_add_sync(kAll, row[stagecraft::lane_index()] + row[stagecraft::lane_index() + stagecraft::kWarpSize]);
}

class RowsTest : public DeviceArrays {
 protected:
  static constexpr int kRows = 9;
  std::vector<uint32_t> numbers = [] {
    std::vector<uint32_t> values(kRows * kRow);
    std::iota(values.begin(), values.end(), 1u);
    return values;
  }();
  uint32_t* in = upload(numbers);
  uint32_t* out = upload(std::vector<uint32_t>(1024, 0));

  uint32_t row_sum(int row) const {
    return std::accumulate(numbers.begin() + row * kRow, numbers.begin() + (row + 1) * kRow, 0u);
  }
  /// Expects the sums in `out`, one after another, as often as there are `copies`.
  /// @param factor  how often each number was added
  void expect_row_sums(int copies = 1, uint32_t factor = 1) {
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const auto got = download(out, copies * kRows);
    for (int i = 0; i < copies * kRows; ++i) EXPECT_EQ(got[i], factor * row_sum(i % kRows)) << i;
  }
  /// Expects three times the numbers in `tripled`.
  void expect_tripled(const uint32_t* tripled) {
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    const auto got = download(tripled, kRows * kRow);
    for (int i = 0; i < kRows * kRow; ++i) EXPECT_EQ(got[i], 3 * numbers[i]) << i;
  }
};
