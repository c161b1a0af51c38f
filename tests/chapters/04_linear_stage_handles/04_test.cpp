// Tests of chapter 04: full rows first, which the untouched exercise can do, then those that have little in them.
#include <gtest/gtest.h>

#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/random.hpp"
#include "harness/unwritten.hpp"
#include "launches.hpp"

using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;
using stagecraft::harness::Random;
using stagecraft::harness::random_values;
using stagecraft::harness::spell_unwritten;

namespace {

/// Rows of these lengths; a negative length: a corrupt row that long.
void expect_right_sums(std::vector<int> lengths, uint64_t seed) {
  const int rows = static_cast<int>(lengths.size());
  auto in = random_values<float>(rows * kRowPitch, seed);
  std::vector<double> expected;
  for (int row = 0; row < rows; ++row) {
    if (lengths[row] < 0) {
      lengths[row] = -lengths[row];
      in[row * kRowPitch] = kSpoilt;
    }
    double sum = 0;
    for (int i = 0; i < lengths[row]; ++i) sum += in[row * kRowPitch + i];
    expected.push_back(lengths[row] > 0 && in[row * kRowPitch] == kSpoilt ? kSpoilt : sum);
  }
  DeviceBuffer<float> in_there(in, "the rows"), sums(rows, "the sums");
  DeviceBuffer<int> lengths_there(lengths, "the lengths");
  sums.poison();
  launch_sum_sparse_rows(in_there.data(), lengths_there.data(), sums.data(), rows);
  finish_kernel("sum_sparse_rows");
  const std::vector<float> got = sums.to_host();
  for (int row = 0; row < rows; ++row) {
    ASSERT_NEAR(got[row], expected[row], 1e-4)
        << "row " << row << " has " << lengths[row] << " numbers" << (expected[row] == kSpoilt ? " and is spoilt" : "")
        << spell_unwritten(got[row]);
  }
}

TEST(Chapter04, FullRows) { ASSERT_NO_FATAL_FAILURE(expect_right_sums(std::vector<int>(20, kLongestRow), 1)); }

TEST(Chapter04, Todo1And2EmptyRows) {
  ASSERT_NO_FATAL_FAILURE(expect_right_sums({0}, 2));
  ASSERT_NO_FATAL_FAILURE(expect_right_sums(std::vector<int>(10, 0), 3));
  ASSERT_NO_FATAL_FAILURE(expect_right_sums({512, 0, 4, 0, 0, 0, 0, 128, 512, 0, 36}, 4));
}

TEST(Chapter04, Todo1And2SpoiltRows) {
  ASSERT_NO_FATAL_FAILURE(expect_right_sums({-4}, 5));
  ASSERT_NO_FATAL_FAILURE(expect_right_sums({-512, 512, -8, -8, -8, -8, 256, 12, -512}, 6));
}

TEST(Chapter04, Todo1And2AllKindsOfRows) {
  Random random(7);
  std::vector<int> lengths;
  for (int row = 0; row < 200; ++row) {
    const int length = static_cast<int>(random.bits() % (kLongestRow / 4 + 1)) * 4;
    const int kind = static_cast<int>(random.bits() % 4);
    lengths.push_back(kind == 0 ? 0 : kind == 1 ? -length : length);
  }
  ASSERT_NO_FATAL_FAILURE(expect_right_sums(lengths, 8));
}

}  // namespace
