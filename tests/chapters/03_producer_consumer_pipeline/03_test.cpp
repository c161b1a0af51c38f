// Tests of chapter 03, in the order of its TODOs.
#include <gtest/gtest.h>

#include <algorithm>
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

/// How long the blank page's kernel may take, in the time of one warp that copies and reads in turn.
constexpr float kMostOfTheTimeInTurn = 0.8;

void expect_sums_of_rows(const std::vector<float>& in, const std::vector<float>& sums) {
  for (size_t row = 0; row < sums.size(); ++row) {
    double expected = 0;
    for (int i = 0; i < kRow; ++i) expected += in[row * kRow + i];
    ASSERT_NEAR(sums[row], expected, 1e-4) << "the sum of row " << row << " is wrong" << spell_unwritten(sums[row]);
  }
}

TEST(Chapter03, Todo1TheRingBringsEveryRowOnce) {
  for (const int stages : {1, 2, 4}) {
    for (const int rows : {1, stages, 4 * stages + 1}) {
      const auto in = random_values<float>(rows * kRow, 31 * stages + rows);
      DeviceBuffer<float> in_there(in, "the rows"), sums(rows, "the sums");
      sums.poison();
      launch_sum_rows(in_there.data(), sums.data(), rows, stages);
      finish_kernel("sum_rows");
      SCOPED_TRACE(testing::Message() << rows << " rows through a ring of " << stages << " stages");
      ASSERT_NO_FATAL_FAILURE(expect_sums_of_rows(in, sums.to_host()));
    }
  }
}

/// What the two questions are to be answered in a ring of 2, as one thread plays both roles.
void expect_right_answers(void (*launch)(int* filled, int* free), const char* kernel) {
  struct Moment {
    const char* what;
    int is_filled, is_free;
  };
  constexpr Moment kMoments[kQuestions] = {{"in a fresh ring", 0, 1},
                                           {"when the producer has filled stage 0, and has stage 1 in hand", 1, 1},
                                           {"when it has filled both stages, and has stage 0 in hand", 1, 0},
                                           {"when the consumer has freed stage 0, and has stage 1 in hand", 1, 1},
                                           {"when it has freed both stages, and has stage 0 in hand", 0, 1}};
  DeviceBuffer<int> filled(kQuestions, "whether filled"), free(kQuestions, "whether free");
  filled.poison();
  free.poison();
  launch(filled.data(), free.data());
  finish_kernel(kernel);
  const std::vector<int> got_filled = filled.to_host(), got_free = free.to_host();
  for (int i = 0; i < kQuestions; ++i) {
    ASSERT_EQ(got_filled[i], kMoments[i].is_filled) << "try_wait_producer(), in a ring of 2, " << kMoments[i].what;
    ASSERT_EQ(got_free[i], kMoments[i].is_free) << "try_wait_consumer(), in a ring of 2, " << kMoments[i].what;
  }
}

TEST(Chapter03, Todo2TheAnswersAreRight) {
  ASSERT_NO_FATAL_FAILURE(expect_right_answers(launch_ask_after_each_move, "ask_after_each_move"));
}

TEST(Chapter03, Todo2WorksWhileItWaits) {
  struct Jobs {
    int rows, pieces;
  };
  for (const auto [rows, pieces] : {Jobs{20, 50}, Jobs{20, 1}, Jobs{7, 0}, Jobs{0, 5}}) {
    const auto in = random_values<float>(rows * kRow, 7 * rows + pieces);
    const auto numbers = random_values<float>(pieces * 32, 13 * rows + pieces);
    DeviceBuffer<float> in_there(in, "the rows"), sums(rows, "the sums"), numbers_there(numbers, "the numbers");
    DeviceBuffer<int> while_waiting(1, "the pieces while waiting");
    sums.poison();
    while_waiting.poison();
    launch_two_jobs(in_there.data(), sums.data(), rows, numbers_there.data(), pieces, while_waiting.data());
    finish_kernel("two_jobs");
    SCOPED_TRACE(testing::Message() << rows << " rows, and " << pieces << " pieces to square");
    ASSERT_NO_FATAL_FAILURE(expect_sums_of_rows(in, sums.to_host()));
    const auto squared = numbers_there.to_host();
    for (size_t i = 0; i < numbers.size(); ++i) {
      ASSERT_EQ(squared[i], numbers[i] * numbers[i]) << "number " << i << " must be squared, once";
    }
    if (rows > 0 && pieces > 0) {
      ASSERT_GE(while_waiting.to_host()[0], 1)
          << "no piece was squared while a row was on its way: either the work comes after the wait, or "
             "try_wait_producer() waits itself (try_wait may; test_wait does not)";
    }
  }
}

TEST(Chapter03, Todo3TheQuickWarpIsHeldBackButNotMoreThanNeeded) {
  for (const int steps : {1, kLead, 20}) {
    DeviceBuffer<int> leads(steps, "the leads");
    leads.poison();
    launch_walk_together(leads.data(), steps);
    finish_kernel("walk_together");
    const std::vector<int> got = leads.to_host();
    const int most = *std::max_element(got.begin(), got.end());
    ASSERT_LE(most, kLead) << "the quick warp was " << most << " steps ahead: nothing holds it back in time";
    if (steps > 2 * kLead) {
      ASSERT_EQ(most, kLead) << "the quick warp never was more than " << most << " steps ahead, and may be " << kLead
                             << ": the throttle is on the wrong warp, or it starts closed";
    }
  }
}

TEST(Chapter03, Todo3ASignalIsForTheStageInHand) {
  SCOPED_TRACE("the moves are producer_signal_and_step() and consumer_signal_and_step()");
  ASSERT_NO_FATAL_FAILURE(expect_right_answers(launch_ask_after_each_signal, "ask_after_each_move"));
}

TEST(Chapter03, Todo3AConsumerThatOnlyCountsWaitsAsWell) {
  DeviceBuffer<int> seen(1, "what was seen");
  seen.poison();
  launch_count_a_late_signal(seen.data());
  finish_kernel("count_a_late_signal");
  ASSERT_EQ(seen.to_host()[0], 1) << "consumer_signal_and_step() has returned before the producer's signal";
}

TEST(Chapter03, Todo4TheTensorCoreMultipliesATile) {
  if (const std::string reason = reason_without_tcgen05(current_device()); !reason.empty()) GTEST_SKIP() << reason;
  for (const int k_tiles : {1, kStages, 4 * kStages + 1}) {
    const int k = k_tiles * kTileK;
    const auto a = random_values<__nv_bfloat16>(kTile * k, 7 * k),
               b = random_values<__nv_bfloat16>(kTile * k, 7 * k + 1);
    const DeviceBuffer<__nv_bfloat16> a_there(a, "A"), b_there(b, "B");
    DeviceBuffer<float> c(kTile * kTile, "C");
    c.poison();
    launch_multiply_tile(a_there.data(), b_there.data(), c.data(), k_tiles);
    finish_kernel("multiply_tile");
    const std::vector<float> got = c.to_host();
    for (int i = 0; i < kTile * kTile; ++i) {
      double expected = 0;
      for (int j = 0; j < k; ++j) {
        expected += double{float(a[i / kTile * k + j])} * double{float(b[i % kTile * k + j])};
      }
      ASSERT_NEAR(got[i], expected, 1e-4 * k_tiles) << "row " << i / kTile << ", column " << i % kTile << ", of "
                                                    << k_tiles << " k-tiles" << spell_unwritten(got[i]);
    }
  }
}

TEST(Chapter03, Todo5BothReadersSeeEveryRow) {
  for (const int rows : {0, 1, kStages, 4 * kStages + 1, 500}) {
    const auto in = random_values<float>(rows * kRow, 17 + rows);
    DeviceBuffer<float> in_there(in, "the rows"), smallest(rows, "the smallest"), largest(rows, "the largest");
    smallest.poison();
    largest.poison();
    launch_find_extremes(in_there.data(), smallest.data(), largest.data(), rows);
    finish_kernel("your kernel");
    const auto least = smallest.to_host(), most = largest.to_host();
    for (int row = 0; row < rows; ++row) {
      const auto [low, high] = std::minmax_element(in.begin() + row * kRow, in.begin() + (row + 1) * kRow);
      SCOPED_TRACE(testing::Message() << "row " << row << " of " << rows);
      ASSERT_EQ(least[row], *low) << (least[row] == *high ? "this is the largest number"
                                                          : "the smallest number is wrong")
                                  << spell_unwritten(least[row]);
      ASSERT_EQ(most[row], *high) << (most[row] == *low ? "this is the smallest number" : "the largest number is wrong")
                                  << spell_unwritten(most[row]);
    }
  }
}

TEST(Chapter03, Todo5RowsAreCopiedWhileOthersAreRead) {
  constexpr int kRows = 100;
  const DeviceBuffer<float> in(random_values<float>(kRows * kRow, 5), "the rows");
  DeviceBuffer<float> smallest(kRows, "the smallest"), largest(kRows, "the largest");
  const float yours =
      milliseconds_of("your kernel", [&] { launch_find_extremes(in.data(), smallest.data(), largest.data(), kRows); });
  const float in_turn = milliseconds_of("find_extremes_in_turn", [&] {
    launch_find_extremes_in_turn(in.data(), smallest.data(), largest.data(), kRows);
  });
  ASSERT_LT(yours, kMostOfTheTimeInTurn * in_turn)
      << "your kernel takes " << yours / in_turn << " of the time of one warp that copies and reads in turn: does "
      << "something make the copies wait for the readers, or one reader for the other?";
}

}  // namespace
