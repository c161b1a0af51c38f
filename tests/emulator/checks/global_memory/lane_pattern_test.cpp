#include "emulator/checks/global_memory/lane_pattern.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace stagecraft::emulator::checks {
namespace {

TEST(LanePatternTest, IsWhatALoopOverTheLanesFinds) {
  std::mt19937 engine(1);
  for (uint32_t round = 0; round < 1000; ++round) {
    const uint32_t bytes = 1u << engine() % 5;
    std::array<uint64_t, machine::kWarpSize> addresses{engine() % 64};
    for (uint32_t lane = 1; lane < machine::kWarpSize; ++lane) {
      const uint64_t steps[] = {0, bytes, bytes, 64 + bytes, ~uint64_t{0}};
      addresses[lane] = addresses[lane - 1] + steps[engine() % std::size(steps)];
    }
    machine::LaneMask follows = 0, repeats = 0, at_fifth = 0;
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) {
      at_fifth |= (addresses[lane] == addresses[5] ? 1u : 0u) << lane;
      if (lane == 0) continue;
      follows |= (addresses[lane] == addresses[lane - 1] + bytes ? 1u : 0u) << lane;
      repeats |= (addresses[lane] == addresses[lane - 1] ? 1u : 0u) << lane;
    }
    const LanePattern found = pattern_of(addresses.data(), bytes);
    ASSERT_EQ(found.follows, follows);
    ASSERT_EQ(found.repeats, repeats);
    ASSERT_EQ(lanes_at(addresses.data(), addresses[5]), at_fifth);
    const machine::LaneMask lanes = (static_cast<machine::LaneMask>(engine()) & machine::kAllLanes << 5) | 1u << 5;
    ASSERT_EQ(lanes_together(addresses.data(), lanes, repeats), lanes & at_fifth);
    for (uint64_t& address : addresses) address += uint64_t{1} << 40;
    addresses.back() = engine() % 4 != 0 ? addresses.back() : uint64_t{1} << 60;
    const LaneLayout layout = layout_of(addresses.data(), bytes);
    ASSERT_EQ(layout.pattern.follows, pattern_of(addresses.data(), bytes).follows);
    ASSERT_EQ(layout.pattern.repeats, pattern_of(addresses.data(), bytes).repeats);
    ASSERT_EQ(layout.least, *std::min_element(addresses.begin(), addresses.end()));
    ASSERT_EQ(layout.greatest, *std::max_element(addresses.begin(), addresses.end()));
  }
}

}  // namespace
}  // namespace stagecraft::emulator::checks
