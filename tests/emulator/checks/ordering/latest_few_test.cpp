#include "emulator/checks/ordering/latest_few.hpp"

#include <gtest/gtest.h>

namespace stagecraft::emulator::checks {
namespace {

TEST(LatestFewTest, KeepsTheLatestInTheirOrder) {
  LatestFew<int, 4> few;
  EXPECT_EQ(few.begin(), few.end());
  for (int added = 1; added <= 30; ++added) {
    few.push_back(added);
    std::vector<int> expected;
    for (int value = added > 4 ? added - 3 : 1; value <= added; ++value) expected.push_back(value);
    ASSERT_EQ(std::vector<int>(few.begin(), few.end()), expected);
    ASSERT_EQ(std::vector<int>(few.rbegin(), few.rend()), std::vector<int>(expected.rbegin(), expected.rend()));
  }
}

}  // namespace
}  // namespace stagecraft::emulator::checks
