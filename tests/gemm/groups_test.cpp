// Groups of rows at the limits of what is legal, and counts of masked groups that are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "harness/device.hpp"
#include "verification.hpp"

namespace stagecraft {
namespace {

class GemmGroupsTest : public testing::TestWithParam<GemmSchedule> {
 protected:
  void SetUp() override {
    const std::string reason = harness::reason_without_tcgen05(harness::current_device());
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  static GemmCase product(int64_t n, int64_t k) {
    return {.problem = {.n = n, .k = k}, .request = {.schedule = GetParam()}, .seed = 7};
  }

  static GemmCase contiguous(std::vector<int64_t> rows, int64_t n = 40, int64_t k = 72) {
    GemmCase run = product(n, k);
    run.problem.m = std::accumulate(rows.begin(), rows.end(), int64_t{0});
    run.problem.groups.rows = std::move(rows);
    return run;
  }

  static GemmCase masked(int64_t m, std::vector<int> rows, int64_t n = 40, int64_t k = 72) {
    GemmCase run = product(n, k);
    run.problem.m = m;
    run.problem.groups.masked = std::ssize(rows);
    run.group_rows = std::move(rows);
    return run;
  }

  static void expect_right(const GemmCase& run) {
    const auto plan = GemmPlan::choose(with_strides(run.problem), run.request);
    ASSERT_TRUE(plan) << plan.error().message;
    const GemmVerdict verdict = verify(run, *plan);
    EXPECT_EQ(verdict.wrong, 0u) << verdict.worst;
  }
};

TEST_P(GemmGroupsTest, MayBeAsManyAs256) {
  std::vector<int64_t> rows(256, 1);
  rows[100] = 0;
  rows[200] = 140;
  expect_right(contiguous(rows, 16, 16));
  std::vector<int> counts(rows.begin(), rows.end());
  expect_right(masked(150, counts, 16, 16));
}

TEST_P(GemmGroupsTest, MayHaveAllRowsInOne) {
  expect_right(contiguous({0, 0, 300, 0}));
  expect_right(masked(300, {0, 0, 300, 0}));
}

TEST_P(GemmGroupsTest, MayBeEmptyOrHaveOneRow) {
  expect_right(contiguous({1}));
  expect_right(contiguous({0, 1, 0, 1, 128, 0, 129, 0}));
  expect_right(masked(200, {0, 1, 128, 129}));
}

TEST_P(GemmGroupsTest, MayAllBeEmptyWhereTheyAreMasked) { expect_right(masked(300, {0, 0, 0})); }

TEST_P(GemmGroupsTest, HaveNoRowsWhereTheirCountIsNegative) { expect_right(masked(130, {-1, 130, INT32_MIN, 5})); }

TEST_P(GemmGroupsTest, HaveAllRowsWhereTheirCountIsLarger) { expect_right(masked(130, {131, 3, INT32_MAX})); }

INSTANTIATE_TEST_SUITE_P(Schedules, GemmGroupsTest,
                         testing::Values(GemmSchedule::one_tile, GemmSchedule::persistent,
                                         GemmSchedule::launch_control),
                         [](const auto& info) {
                           std::string name = name_of(info.param);
                           std::erase(name, '-');
                           return name;
                         });

/// TMA stores whole tiles of a group. It must not store one that has a row less or more.
TEST(GemmGroupsOfWholeTiles, EndWhereTheyEnd) {
  const std::string reason = harness::reason_without_tcgen05(harness::current_device());
  if (!reason.empty()) GTEST_SKIP() << reason;
  for (const int64_t first : {127, 128, 129, 255, 256, 257}) {
    for (const bool second_output : {false, true}) {
      GemmCase run{.problem = {.m = first + 128, .n = 64, .k = 64}, .seed = static_cast<uint64_t>(first)};
      run.problem.groups.rows = {first, 128};
      if (second_output) {
        run.problem.fusion = {.activation = GemmActivation::gated_silu, .second_output = true};
        run.problem.second.pitch = 67;  // it is not TMA that stores it
      }
      const auto plan = GemmPlan::choose(with_strides(run.problem), run.request);
      ASSERT_TRUE(plan) << plan.error().message;
      const GemmVerdict verdict = verify(run, *plan);
      EXPECT_EQ(verdict.wrong, 0u) << first << ": " << verdict.worst;
    }
  }
}

}  // namespace
}  // namespace stagecraft
