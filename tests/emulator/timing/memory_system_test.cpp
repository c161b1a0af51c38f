#include "emulator/timing/memory_system.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace stagecraft::emulator::timing {
namespace {

/// L2 of an H200, from which multiprocessors read lines.
class SharedReadsTest : public testing::Test {
 protected:
  const ChipModel& chip = *find_chip_model("H200");
  MemorySystem memory{chip, 1980, nullptr};
  uint32_t next_line = 1 << 20;

  static std::vector<LineRequest> lines(uint32_t first, uint32_t count) {
    std::vector<LineRequest> all(count);
    for (uint32_t i = 0; i < count; ++i) all[i] = request_of(first + i, 0xf);
    return all;
  }
  /// How many of two reads of the same 16 lines went over the way to a group, at `first` and `second`.
  double served(uint32_t first, double at, uint32_t second, double later, bool shared = true) {
    const auto same = lines(next_line += 16, 16);
    const double before = memory.paths_busy();
    memory.read(at, first, same, 0, shared);
    const double one = memory.paths_busy() - before;
    memory.read(later, second, same, 0, shared);
    return (memory.paths_busy() - before) / one;
  }
};

// tests/silicon/results/nvidia-h200-2026-11-23-joined-requests-counters.jsonl, `pairs of two TPCs of a GPC` and `pairs
// of two GPCs`: multiprocessors 2 and 18 are of one GPC, 2 and 4 are not.
TEST_F(SharedReadsTest, AreOfOneGroupAtTheSameTime) {
  EXPECT_NEAR(served(2, 0, 18, 50), 1, 0.01);
  EXPECT_NEAR(served(2, 10'000, 18, 10'100), 2, 0.01);
  EXPECT_NEAR(served(2, 20'000, 4, 20'000), 2, 0.01);
  EXPECT_NEAR(served(2, 30'000, 18, 30'000, /*shared=*/false), 2, 0.01);
}

TEST_F(SharedReadsTest, ServeFourAtMost) {
  const auto same = lines(0, 16);
  memory.read(0, 2, same, 0, true);
  const double one = memory.paths_busy();
  for (const uint32_t other : {3u, 18u, 19u}) memory.read(0, other, same, 0, true);
  EXPECT_EQ(memory.paths_busy(), one);
  memory.read(0, 34, same, 0, true);
  EXPECT_EQ(memory.paths_busy(), 2 * one);
}

// The same file without counters, `groups of 2, a TPC` and `groups of 2, first of each TPC`, by skew.
TEST_F(SharedReadsTest, OfAPairGoOnWhileTheyWaitForTheWay) {
  const double line_cycles = 128 / (chip.group_rate / 1.98);
  const auto fill = [&](double at, double cycles) {
    memory.read(at, 34, lines(next_line += 1 << 16, static_cast<uint32_t>(cycles / line_cycles)), 0, true);
    next_line += 1 << 16;
  };
  fill(0, 1500);
  EXPECT_NEAR(served(2, 0, 3, 500), 1, 0.01);
  fill(10'000, 1500);
  EXPECT_NEAR(served(2, 10'000, 18, 10'500), 2, 0.01);
  fill(20'000, 1500);
  EXPECT_NEAR(served(2, 20'000, 3, 21'000), 2, 0.01);
}

}  // namespace
}  // namespace stagecraft::emulator::timing
