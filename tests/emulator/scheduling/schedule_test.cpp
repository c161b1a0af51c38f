// A schedule's text, and how a schedule that fails is shrunk.
#include "emulator/scheduling/schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "emulator/scheduling/shrinking.hpp"

namespace stagecraft::emulator::machine {
namespace {

TEST(ScheduleTest, ItsTextReadsBack) {
  const Schedule schedule{{0, 1, 17, 4096}, {8, 0, 3, 1}, {0, 0, 0, 2}};
  EXPECT_EQ(text_of(schedule), "w1.17+4096,c8w0.3,w0.0+2");
  EXPECT_EQ(parse_schedule(text_of(schedule)), schedule);
  EXPECT_EQ(parse_schedule(""), Schedule{});
}

TEST(ScheduleTest, OtherTextsAreRefused) {
  for (const char* text : {"w", "w1", "w1.", "1.2", "w1.2+", "w1.2+0", "w1.2,", ",w1.2", "w1.2 ", "cw1.2", "w-1.2",
                           "w1.2+99999999999999999999", "w99999999999.1"}) {
    EXPECT_EQ(parse_schedule(text), std::nullopt) << text;
  }
}

Schedule switches(uint32_t count) {
  Schedule schedule;
  for (uint32_t i = 0; i < count; ++i) schedule.push_back({0, 0, i, 1});
  return schedule;
}

bool has(const Schedule& schedule, uint32_t choice) {
  return std::any_of(schedule.begin(), schedule.end(), [&](const Switch& each) { return each.choice == choice; });
}

TEST(ShrinkingTest, LeavesTheSwitchesThatMatter) {
  uint32_t runs = 0;
  const auto fails = [&](const Schedule& schedule) {
    ++runs;
    return has(schedule, 3) && has(schedule, 700);
  };
  EXPECT_EQ(shrink(switches(1000), fails, 1000), (Schedule{{0, 0, 3, 1}, {0, 0, 700, 1}}));
  EXPECT_LT(runs, 100u);
}

TEST(ShrinkingTest, LeavesNoneWhereNoneMatters) {
  EXPECT_EQ(shrink(
                switches(1000), [](const Schedule&) { return true; }, 1000),
            Schedule{});
}

TEST(ShrinkingTest, StopsAfterItsRuns) {
  uint32_t runs = 0;
  const Schedule shrunk = shrink(
      switches(1000),
      [&](const Schedule& schedule) {
        ++runs;
        return schedule.size() >= 3 && has(schedule, 1) && has(schedule, 501) && has(schedule, 999);
      },
      7);
  EXPECT_EQ(runs, 7u);
  EXPECT_TRUE(has(shrunk, 1) && has(shrunk, 501) && has(shrunk, 999));
}

}  // namespace
}  // namespace stagecraft::emulator::machine
