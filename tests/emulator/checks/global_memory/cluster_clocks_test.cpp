#include "emulator/checks/global_memory/cluster_clocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "emulator/checks/global_memory/grid_knowledge.hpp"

namespace stagecraft::emulator::checks {
namespace {

SharedClock clock_of(Time time) {
  auto clock = std::make_shared<VectorClock>();
  clock->raise(ThreadKnowledge::component_of(0, 0), time);
  return clock;
}

Time time_in(const ClusterClocks& clocks, uint32_t cluster) {
  const VectorClock* const found = clocks.find(cluster);
  return found == nullptr ? 0 : found->at(ThreadKnowledge::component_of(0, 0));
}

TEST(ClusterClocksTest, SaysTheSameAsAMap) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::array<ClusterClocks, 3> clocks;
    std::array<std::map<uint32_t, Time>, 3> plain;
    const uint32_t most = 1u << random() % 20;
    for (int step = 0; step < 60; ++step) {
      const size_t one = random() % 3, other = random() % 3;
      if (random() % 3 != 0) {
        const uint32_t cluster = static_cast<uint32_t>(random()) % most;
        const Time time = 1 + random() % 9;
        clocks[one].add(cluster, clock_of(time));
        plain[one][cluster] = std::max(plain[one][cluster], time);
      } else {
        clocks[one].join(clocks[other]);
        for (const auto& [cluster, time] : plain[other]) plain[one][cluster] = std::max(plain[one][cluster], time);
      }
    }
    for (size_t each = 0; each < 3; ++each) {
      std::vector<uint32_t> clusters, expected;
      clocks[each].for_each([&](uint32_t cluster) { clusters.push_back(cluster); });
      for (const auto& [cluster, time] : plain[each]) {
        expected.push_back(cluster);
        ASSERT_EQ(time_in(clocks[each], cluster), time);
      }
      ASSERT_EQ(clusters, expected);
      ASSERT_EQ(clocks[each].find(most), nullptr);
    }
  }
}

TEST(ClusterClocksTest, IsTheSameTreeWhereNothingIsNew) {
  ClusterClocks all, one;
  for (uint32_t cluster = 0; cluster < 1000; ++cluster) all.add(cluster, clock_of(5));
  one.add(77, clock_of(4));
  ClusterClocks both = one;
  both.join(all);
  EXPECT_TRUE(both.is_same(all));
  both.join(one);
  EXPECT_TRUE(both.is_same(all));
}

TEST(ForeignTest, IsNotChangedWhereOthersShareIt) {
  const auto of_cluster = [](uint32_t cluster, Time time) {
    auto made = std::make_shared<Foreign>();
    made->clusters.add(cluster, clock_of(time));
    return SharedForeign(std::move(made));
  };
  SharedForeign known = joined(of_cluster(3, 5), of_cluster(1, 2));
  const SharedForeign shared = known;
  known = joined(known, of_cluster(2, 1));
  EXPECT_EQ(shared->clusters.count(), 2u);
  EXPECT_EQ(known->clusters.count(), 3u);
  EXPECT_EQ(joined(known, shared), known);
  EXPECT_EQ(joined(shared, known), known);
}

// A ticket hands on what all before have released: 20,000 of them would be 200 million entries if each had a list.
TEST(ForeignTest, GrowsByAFewPartsWithEachTicket) {
  SharedForeign counter;
  std::vector<SharedForeign> seen;
  for (uint32_t block = 0; block < 20000; ++block) {
    seen.push_back(counter);
    auto own = std::make_shared<Foreign>();
    own->clusters.add(block, clock_of(1));
    counter = joined(counter, joined(seen.back(), own));
  }
  EXPECT_EQ(counter->clusters.count(), 20000u);
  EXPECT_EQ(seen.back()->clusters.count(), 19999u);
}

}  // namespace
}  // namespace stagecraft::emulator::checks
