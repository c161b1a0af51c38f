#include "emulator/checks/ordering/vector_clock.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace stagecraft::emulator::checks {
namespace {

constexpr uint32_t kWarps = 5, kThreads = kWarps * machine::kWarpSize, kOthers = 3;

/// A clock that has a time for each component.
struct PlainClock {
  std::map<uint32_t, Time> times;

  Time at(uint32_t component) const { return times.contains(component) ? times.at(component) : 0; }
  void raise(uint32_t component, Time time) { times[component] = std::max(at(component), time); }
  void join(const PlainClock& other) {
    for (const auto& [component, time] : other.times) raise(component, time);
  }
  bool is_within(const PlainClock& other) const {
    return std::all_of(times.begin(), times.end(),
                       [&](const auto& each) { return each.second <= other.at(each.first); });
  }
};

void expect_same(const VectorClock& clock, const PlainClock& plain) {
  for (uint32_t thread = 0; thread < kThreads; ++thread) ASSERT_EQ(clock.at(thread), plain.at(thread)) << thread;
  for (uint32_t other = 0; other < kOthers; ++other) {
    ASSERT_EQ(clock.at(VectorClock::kFirstOther + other), plain.at(VectorClock::kFirstOther + other));
  }
  for (uint32_t warp = 0; warp < kWarps; ++warp) {
    Time earliest = plain.at(warp * machine::kWarpSize);
    for (uint32_t lane = 1; lane < machine::kWarpSize; ++lane) {
      earliest = std::min(earliest, plain.at(warp * machine::kWarpSize + lane));
    }
    ASSERT_EQ(clock.of_warp(warp), earliest);
  }
}

/// Lanes as programs have them: all, one, a few, all but one, or any.
machine::LaneMask random_lanes(std::mt19937& random) {
  const uint32_t any = static_cast<uint32_t>(random());
  switch (random() % 5) {
    case 0: return machine::kAllLanes;
    case 1: return 1u << any % machine::kWarpSize;
    case 2: return 0x01010101u;
    case 3: return ~(1u << any % machine::kWarpSize);
    default: return any;
  }
}

TEST(VectorClockTest, SaysTheSameAsOneWithATimeForEachComponent) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::array<VectorClock, 3> clocks;
    std::array<PlainClock, 3> plain;
    const Time latest = 2 + random() % 40;
    for (int step = 0; step < 60; ++step) {
      const size_t i = random() % clocks.size(), k = random() % clocks.size();
      const Time time = static_cast<Time>(random() % latest);
      if (random() % 3 == 0) {
        clocks[i].join(clocks[k]);
        plain[i].join(plain[k]);
      } else if (random() % 8 == 0) {
        const uint32_t other = VectorClock::kFirstOther + static_cast<uint32_t>(random()) % kOthers;
        clocks[i].raise(other, time);
        plain[i].raise(other, time);
      } else {
        const uint32_t warp = static_cast<uint32_t>(random()) % kWarps;
        const machine::LaneMask lanes = random_lanes(random);
        clocks[i].raise(warp, lanes, time);
        machine::for_each_lane(lanes, [&](uint32_t lane) { plain[i].raise(warp * machine::kWarpSize + lane, time); });
      }
      ASSERT_NO_FATAL_FAILURE(expect_same(clocks[i], plain[i]));
      ASSERT_EQ(clocks[i].is_within(clocks[k]), plain[i].is_within(plain[k]));
      ASSERT_EQ(clocks[k].is_within(clocks[i]), plain[k].is_within(plain[i]));
    }
  }
}

}  // namespace
}  // namespace stagecraft::emulator::checks
