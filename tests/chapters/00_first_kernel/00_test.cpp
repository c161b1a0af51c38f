// Tests of chapter 00, in the order of its TODOs.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "launches.hpp"

using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;

namespace {

class Chapter00 : public testing::Test {
 protected:
  /// Where races are looked for, those in global memory are as well: the second kernel counts there.
  static void SetUpTestSuite() {
    const char* const checks = std::getenv("STAGECRAFT_CHECKS");
    if (checks != nullptr && std::string(checks) == "race") setenv("STAGECRAFT_CHECKS", "all", /*replace=*/1);
  }
};

/// What a thread has written in place of its place, where a usual mistake makes just that.
const char* likely_mistake(int got, int thread) {
  const int warp = thread / 32, lane = thread % 32;
  if (got == thread) return ": this is its number in the block";
  if (got == lane) return ": this is its lane alone";
  if (got == warp) return ": this is its warp alone";
  if (got == 100 * lane + warp) return ": its warp and its lane have changed places";
  return "";
}

TEST_F(Chapter00, Todo1EveryThreadKnowsItsWarpAndLane) {
  for (const int threads : {32, 96, 80}) {
    DeviceBuffer<int> places(threads, "the places");
    places.poison();
    launch_write_places(places.data(), threads);
    finish_kernel("write_places");
    const std::vector<int> got = places.to_host();
    for (int thread = 0; thread < threads; ++thread) {
      const int place = 100 * (thread / 32) + thread % 32;  // not in the assertion, which prints it
      ASSERT_EQ(got[thread], place) << "thread " << thread << " of " << threads << " has written " << got[thread]
                                    << likely_mistake(got[thread], thread);
    }
  }
}

TEST_F(Chapter00, Todo2EachWarpCountsOnce) {
  struct Grid {
    int blocks, threads;
  };
  for (const auto [blocks, threads] : {Grid{1, 32}, Grid{3, 128}, Grid{7, 1024}}) {
    DeviceBuffer<int> count(std::vector<int>{1000}, "the count");
    launch_count_warps(count.data(), blocks, threads);
    finish_kernel("count_warps");
    const int counted = count.to_host()[0] - 1000, warps = blocks * threads / 32;
    ASSERT_EQ(counted, warps) << "the warps of " << blocks << (blocks == 1 ? " block of " : " blocks of ") << threads
                              << " threads"
                              << (counted == blocks * threads ? ": this is the number of lanes; every lane has counted"
                                  : counted == blocks         ? ": this is the number of blocks"
                                                              : "");
  }
}

TEST_F(Chapter00, Todo3AReaderWithNothingToDoDoesNotStopTheOthers) {
  for (const auto& limits : {std::vector<int>{1024, 7}, {0, 100}, {33, 0}, {0, 0}}) {
    DeviceBuffer<int> limits_there(limits, "the limits"), sums(2, "the sums");
    sums.poison();
    launch_sum_squares(limits_there.data(), sums.data());
    finish_kernel("sum_squares");
    const std::vector<int> got = sums.to_host();
    for (int reader = 0; reader < 2; ++reader) {
      int expected = 0;
      for (int i = 0; i < limits[reader]; ++i) expected += i * i;
      ASSERT_EQ(got[reader], expected) << "reader " << reader << " adds up the first " << limits[reader] << " squares";
    }
  }
}

}  // namespace
