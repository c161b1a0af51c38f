// Tests of chapter 06, in the order of its TODOs.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "launches.hpp"

using stagecraft::harness::current_device;
using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;
using stagecraft::harness::random_values;
using stagecraft::harness::reason_without_tcgen05;

namespace {

TEST(Chapter06, Todo1SumsTheSquaresOfEveryRow) {
  for (const int rows : {1, kStages, 4 * kStages + 1, 30}) {
    const auto in = random_values<float>(rows * kRow, rows);
    DeviceBuffer<float> in_there(in, "the rows"), sums(rows, "the sums");
    sums.poison();
    launch_sum_squares(in_there.data(), sums.data(), rows);
    finish_kernel("sum_squares");
    const std::vector<float> got = sums.to_host();
    for (int row = 0; row < rows; ++row) {
      double expected = 0;
      for (int i = 0; i < kRow; ++i) expected += double{in[row * kRow + i]} * in[row * kRow + i];
      ASSERT_NEAR(got[row], expected, 1e-3) << "the sum of the squares of row " << row << " of " << rows;
    }
  }
}

TEST(Chapter06, Todo2TheFirstHalfIsFreedEarly) {
  for (const int rows : {1, 2, 12}) {
    const auto in = random_values<float>(rows * kRow, 50 + rows);
    DeviceBuffer<float> in_there(in, "the rows"), sums(rows, "the sums");
    DeviceBuffer<int> began(rows, "the halves begun");
    sums.poison();
    began.poison();
    launch_sum_by_halves(in_there.data(), sums.data(), began.data(), rows);
    finish_kernel("sum_by_halves");
    const std::vector<float> got = sums.to_host();
    const std::vector<int> got_began = began.to_host();
    int early = 0;  // rows, but the last, of which the first half was filled anew while the second half was in use
    for (int row = 0; row < rows; ++row) {
      const int most = row + 1 < rows ? 2 * row + 3 : 2 * row + 2;
      ASSERT_LE(got_began[row], most) << "while the consumer still had the second half of row " << row
                                      << ", the producer was further than the free halves allow";
      if (row + 1 < rows && got_began[row] == most) ++early;
      double expected = 0;
      for (int i = 0; i < kRow; ++i) expected += in[row * kRow + i];
      ASSERT_NEAR(got[row], expected, 1e-4) << "the sum of row " << row << " of " << rows;
    }
    ASSERT_GE(2 * early, rows - 1)  // a chip may cut some of the consumer's naps short
        << "while the consumer still had the second half of a row, the producer had not begun the first half of the "
           "next row: it was not free yet";
  }
}

TEST(Chapter06, Todo3TheTensorCoreArrivesInEveryRound) {
  if (const std::string reason = reason_without_tcgen05(current_device()); !reason.empty()) GTEST_SKIP() << reason;
  for (const int rounds : {1, kStages, 17}) {
    DeviceBuffer<int> seen(std::vector<int>{-1}, "the rounds seen");
    launch_commit_rounds(seen.data(), rounds);
    finish_kernel("commit_rounds");
    const int got = seen.to_host()[0];
    ASSERT_EQ(got, rounds);
  }
}

}  // namespace
