// Tests of chapter 06, in the order of its TODOs.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "elapsed.hpp"
#include "harness/device.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "harness/unwritten.hpp"
#include "launches.hpp"

using stagecraft::chapters::milliseconds_of;
using stagecraft::harness::current_device;
using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;
using stagecraft::harness::random_values;
using stagecraft::harness::reason_without_tcgen05;
using stagecraft::harness::spell_unwritten;

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
      ASSERT_NEAR(got[row], expected, 1e-3)
          << "the sum of the squares of row " << row << " of " << rows << spell_unwritten(got[row]);
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
    int early = 0;  // rows except the last whose first half was refilled while the second half was in use
    for (int row = 0; row < rows; ++row) {
      const int most = row + 1 < rows ? 2 * row + 3 : 2 * row + 2;
      ASSERT_LE(got_began[row], most) << "while the consumer still had the second half of row " << row
                                      << ", the producer was further than the free halves allow";
      if (row + 1 < rows && got_began[row] == most) ++early;
      double expected = 0;
      for (int i = 0; i < kRow; ++i) expected += in[row * kRow + i];
      ASSERT_NEAR(got[row], expected, 1e-4) << "the sum of row " << row << " of " << rows << spell_unwritten(got[row]);
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

/// The sum of what `change` makes of each number of a row but the last, and its successor.
template <typename Change>
double sum_of_changes(const std::vector<float>& in, int row, Change change) {
  double sum = 0;
  for (int i = row * kRow; i < (row + 1) * kRow - 1; ++i) sum += change(double{in[i + 1]} - in[i]);
  return sum;
}

TEST(Chapter06, Todo4TheRoughnessOfEveryRow) {
  for (const int rows : {0, 1, kStages, 4 * kStages + 1, 500}) {
    const auto in = random_values<float>(rows * kRow, 23 + rows);
    DeviceBuffer<float> in_there(in, "the rows"), roughness(rows, "the roughness");
    roughness.poison();
    launch_measure_roughness(in_there.data(), roughness.data(), rows);
    finish_kernel("your kernel");
    const std::vector<float> got = roughness.to_host();
    for (int row = 0; row < rows; ++row) {
      const double expected = sum_of_changes(in, row, [](double change) { return std::abs(change); });
      const double of_first_row = sum_of_changes(in, 0, [](double change) { return std::abs(change); });
      const double with_signs = sum_of_changes(in, row, [](double change) { return change; });
      ASSERT_NEAR(got[row], expected, 1e-3)
          << "row " << row << " of " << rows
          << (std::abs(got[row] - with_signs) < 1e-3 ? ": this is the sum of the differences, not of their magnitudes"
              : row > 0 && std::abs(got[row] - of_first_row) < 1e-3
                  ? ": this is that of row 0. Does each role go on to the next stage, and wait for it?"
                  : spell_unwritten(got[row]));
    }
  }
}

TEST(Chapter06, Todo4TheThreeRolesWorkAtTheSameTime) {
  constexpr int kRows = 100;
  constexpr float kMost = 0.7;  // of the time of one warp that does all of it in turn
  const DeviceBuffer<float> in(random_values<float>(kRows * kRow, 9), "the rows");
  DeviceBuffer<float> roughness(kRows, "the roughness");
  const float yours =
      milliseconds_of("your kernel", [&] { launch_measure_roughness(in.data(), roughness.data(), kRows); });
  const float in_turn = milliseconds_of("measure_roughness_in_turn",
                                        [&] { launch_measure_roughness_in_turn(in.data(), roughness.data(), kRows); });
  ASSERT_LT(yours, kMost * in_turn) << "your kernel takes " << yours / in_turn
                                    << " of the time of one warp that does all of it in turn: which role waits for "
                                    << "another, although it does not need its stage?";
}

}  // namespace
