// Clocks keep one time for a warp, and bytes share histories. These tests compare them with lists for each single lane
// and byte.
#include "emulator/checks/ordering/shadow_memory.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace stagecraft::emulator::checks {
namespace {

using machine::kAllLanes;

TEST(VectorClockTest, KnowsTheLanesOfAWarpApart) {
  VectorClock clock;
  clock.raise(3, kAllLanes, 5);
  clock.raise(3, 0x0000ffff, 9);
  EXPECT_EQ(clock.of_warp(3), 5u);
  EXPECT_EQ(clock.at(3 * 32 + 0), 9u);
  EXPECT_EQ(clock.at(3 * 32 + 16), 5u);
  EXPECT_EQ(clock.at(2 * 32), 0u);
  clock.raise(3, 0xffff0000, 9);
  EXPECT_EQ(clock.of_warp(3), 9u);
}

TEST(VectorClockTest, JoinsLanesThatDifferInEither) {
  VectorClock one, other;
  one.raise(0, 1u << 4, 7);
  other.raise(0, kAllLanes, 2);
  other.raise(VectorClock::kFirstOther + 1, 3);
  EXPECT_FALSE(one.is_within(other));
  EXPECT_FALSE(other.is_within(one));
  one.join(other);
  EXPECT_EQ(one.at(4), 7u);
  EXPECT_EQ(one.at(5), 2u);
  EXPECT_EQ(one.at(VectorClock::kFirstOther + 1), 3u);
  EXPECT_TRUE(other.is_within(one));
  EXPECT_FALSE(one.is_within(other));
}

/// The runs of cells that a range has, as (offset, count, bytes of each).
struct RunOfCells {
  uint32_t offset, count, bytes;
  bool operator==(const RunOfCells&) const = default;
};

std::vector<RunOfCells> write(ShadowMemory& shadow, uint32_t offset, uint32_t bytes, uint32_t unit,
                              const PastAccess& access) {
  std::vector<RunOfCells> runs;
  shadow.update(offset, bytes, unit, [&](const Cells& cells) {
    runs.push_back({cells.offset, cells.count, cells.bytes});
    return shadow.begin(cells, access);
  });
  return runs;
}

TEST(ShadowMemoryTest, KeepsBytesTogetherUntilTheyAreAccessedApart) {
  ShadowMemory shadow;
  const PastAccess first{0, 1, 1, PastAccess::kWrites}, second{1, 1, 1, PastAccess::kWrites};
  EXPECT_EQ(write(shadow, 2048, 512, 512, first), (std::vector<RunOfCells>{{2048, 32, 16}}));
  EXPECT_EQ(write(shadow, 2052, 2, 2, second), (std::vector<RunOfCells>{{2052, 1, 2}}));
  // A third range sees the three parts into which this has divided the row.
  EXPECT_EQ(write(shadow, 2048, 16, 16, first), (std::vector<RunOfCells>{{2048, 2, 2}, {2052, 1, 2}, {2054, 5, 2}}));
}

TEST(ShadowMemoryTest, TellsWhichLaneOfARowTouchedAByte) {
  ShadowMemory shadow;
  const PastAccess row{7, 1024, 1, PastAccess::kWrites | PastAccess::kRow | 2u << PastAccess::kRowShift};
  write(shadow, 1024, 128, 4, row);
  std::vector<machine::LaneMask> lanes;
  shadow.for_each_write(1032, 8, [&](const PastAccess& write, uint32_t) { lanes.push_back(write.lanes); });
  EXPECT_EQ(lanes, (std::vector<machine::LaneMask>{1u << 2, 1u << 3}));
}

TEST(ShadowMemoryTest, CopiesAHistoryOnlyForPartOfItsCells) {
  ShadowMemory shadow;
  const PastAccess first{0, 1, 1, PastAccess::kWrites}, read{1, 1, 1, 0};
  write(shadow, 0, 64, 16, first);
  const auto note_read = [&](uint32_t offset, uint32_t bytes) {
    bool copied = false;
    shadow.update(offset, bytes, 16, [&](const Cells& cells) {
      const uint32_t after = shadow.own(cells);
      copied = after != cells.history;
      shadow.add_read(after, read);
      return after;
    });
    return copied;
  };
  EXPECT_TRUE(note_read(16, 16));
  EXPECT_FALSE(note_read(16, 16));
  uint32_t reads = 0;
  shadow.update(0, 64, 16, [&](const Cells& cells) {
    reads += static_cast<uint32_t>(shadow.history(cells.history).reads.size());
    return cells.history;
  });
  EXPECT_EQ(reads, 2u);
}

}  // namespace
}  // namespace stagecraft::emulator::checks
