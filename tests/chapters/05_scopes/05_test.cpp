// Tests of chapter 05, in the order of its TODOs.
#include <gtest/gtest.h>

#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "harness/unwritten.hpp"
#include "launches.hpp"

using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;
using stagecraft::harness::random_values;
using stagecraft::harness::spell_unwritten;

namespace {

double sum_of_row(const std::vector<float>& in, int row) {
  double sum = 0;
  for (int i = 0; i < kRow; ++i) sum += in[row * kRow + i];
  return sum;
}

TEST(Chapter05, Todo1And2SumsThePositiveRows) {
  for (const int rows : {1, kStages, 4 * kStages + 1, 40}) {
    const auto in = random_values<float>(rows * kRow, rows);  // every second row begins with a negative number
    DeviceBuffer<float> in_there(in, "the rows"), sums(rows, "the sums");
    sums.poison();
    launch_sum_positive_rows(in_there.data(), sums.data(), rows);
    finish_kernel("sum_positive_rows");
    const std::vector<float> got = sums.to_host();
    for (int row = 0; row < rows; ++row) {
      const bool is_left_out = in[row * kRow] < 0;
      ASSERT_NEAR(got[row], is_left_out ? 0 : sum_of_row(in, row), 1e-4)
          << "row " << row << " of " << rows << " begins with " << in[row * kRow]
          << (is_left_out ? ": its sum must be 0" : spell_unwritten(got[row]));
    }
  }
}

TEST(Chapter05, Todo3EveryBlockOfTheClusterSumsEveryRow) {
  for (const int rows : {1, kStages, 4 * kStages + 1, 40}) {
    const auto in = random_values<float>(rows * kRow, 100 + rows);
    DeviceBuffer<float> in_there(in, "the rows"), sums(kClusterSize * rows, "the sums");
    sums.poison();
    launch_sum_rows_in_cluster(in_there.data(), sums.data(), rows);
    finish_kernel("sum_rows_in_cluster");
    const std::vector<float> got = sums.to_host();
    for (int block = 0; block < kClusterSize; ++block) {
      for (int row = 0; row < rows; ++row) {
        ASSERT_NEAR(got[block * rows + row], sum_of_row(in, row), 1e-4)
            << "row " << row << " in block " << block << spell_unwritten(got[block * rows + row]);
      }
    }
  }
}

}  // namespace
