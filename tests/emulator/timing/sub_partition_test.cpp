#include "emulator/timing/sub_partition.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace stagecraft::emulator::timing {
namespace {

constexpr double kNearCycles = 0.01;

class SubPartitionTest : public testing::Test {
 protected:
  /// A piece that takes `cycles` alone, and issues in `issues` of them.
  static CodePart piece(double cycles, double issues) {
    CodePart part;
    part.cycles = cycles;
    part.pipes[static_cast<size_t>(Pipe::issue)] = issues;
    return part;
  }
  /// Goes on until a time, and notes when each warp has ended.
  void go_on(double until = 1e9) {
    for (;;) {
      const double at = part.next_end();
      if (at < 0 || at > until) return;
      std::vector<uint32_t> ended;
      part.finished(at, ended);
      for (const uint32_t warp : ended) ends[warp] = at;
    }
  }
  SubPartition part;
  std::map<uint32_t, double> ends;
};

TEST_F(SubPartitionTest, WarpsOfABlockShareTheScheduler) {
  for (const uint32_t warp : {0u, 4u}) part.start(0, 0, warp, piece(100, 100));
  go_on();
  EXPECT_NEAR(ends[0], 200, kNearCycles);
  EXPECT_NEAR(ends[4], 200, kNearCycles);
  EXPECT_NEAR(part.issued(), 200, kNearCycles);
}

TEST_F(SubPartitionTest, TheOneThatHasIssuedLessCatchesUp) {
  part.start(0, 0, 0, piece(100, 100));
  go_on(50);
  part.start(50, 0, 4, piece(100, 100));
  go_on();
  // From 50 to 100 the second one issues alone, and then both do.
  EXPECT_NEAR(ends[0], 200, kNearCycles);
  EXPECT_NEAR(ends[4], 200, kNearCycles);
}

TEST_F(SubPartitionTest, AnOlderBlockComesFirst) {
  part.start(0, 7, 28, piece(100, 100));
  go_on(50);
  part.start(50, 3, 12, piece(100, 100));
  go_on();
  EXPECT_NEAR(ends[12], 150, kNearCycles);
  EXPECT_NEAR(ends[28], 200, kNearCycles);
}

TEST_F(SubPartitionTest, WarpsThatWaitInTheirCodeLeaveTheSchedulerToOthers) {
  part.start(0, 0, 0, piece(100, 50));
  part.start(0, 0, 4, piece(100, 25));
  part.start(0, 1, 8, piece(100, 50));
  go_on();
  EXPECT_NEAR(ends[0], 100, kNearCycles);
  EXPECT_NEAR(ends[4], 100, kNearCycles);
  // Half of its speed is left while they run: 50 of the 100 cycles.
  EXPECT_NEAR(ends[8], 150, kNearCycles);
}

}  // namespace
}  // namespace stagecraft::emulator::timing
