// Tests of chapter 00, in the order of its TODOs.
#include <gtest/gtest.h>

#include <vector>

#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "launches.hpp"

using stagecraft::harness::DeviceBuffer;
using stagecraft::harness::finish_kernel;

namespace {

TEST(Chapter00, Todo1EveryThreadKnowsItsWarpAndLane) {
  for (const int threads : {32, 96, 80}) {
    DeviceBuffer<int> places(threads, "the places");
    places.poison();
    launch_write_places(places.data(), threads);
    finish_kernel("write_places");
    const std::vector<int> got = places.to_host();
    for (int thread = 0; thread < threads; ++thread) {
      ASSERT_EQ(got[thread], 100 * (thread / 32) + thread % 32)
          << "thread " << thread << " of " << threads << " is lane " << thread % 32 << " of warp " << thread / 32
          << " and must write 100 * warp + lane";
    }
  }
}

TEST(Chapter00, Todo2EachWarpCountsOnce) {
  struct Grid {
    int blocks, threads;
  };
  for (const auto [blocks, threads] : {Grid{1, 32}, Grid{3, 128}, Grid{7, 1024}}) {
    DeviceBuffer<int> count(std::vector<int>{1000}, "the count");
    launch_count_warps(count.data(), blocks, threads);
    finish_kernel("count_warps");
    ASSERT_EQ(count.to_host()[0] - 1000, blocks * threads / 32)
        << blocks << " blocks of " << threads << " threads have " << blocks * threads / 32
        << " warps; a count 32 times as large means that every lane has counted";
  }
}

TEST(Chapter00, Todo3AReaderWithNothingToDoDoesNotStopTheOthers) {
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
