#include "emulator/timing/block_places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace stagecraft::emulator::timing {
namespace {

using testing::ElementsAre;

/// The multiprocessors of a chip, and clusters that take places there.
class BlockPlacesTest : public testing::Test {
 protected:
  explicit BlockPlacesTest(std::string_view name = "H200") : chip(*find_chip_model(name)) {
    for (uint32_t i = 0; i < chip.multiprocessors; ++i) places[i].index = i;
  }
  std::vector<uint32_t> take(BlockPlaces& from, uint32_t blocks) {
    std::vector<uint32_t> numbers;
    for (const Multiprocessor* place : from.take(blocks)) numbers.push_back(place->index);
    return numbers;
  }
  /// The group (GPC) of a multiprocessor.
  size_t group_of(uint32_t multiprocessor) const {
    for (size_t group = 0; group < chip.groups.size(); ++group)
      for (const uint32_t pair : chip.groups[group].pairs)
        if (pair == multiprocessor / 2) return group;
    ADD_FAILURE() << "multiprocessor " << multiprocessor << " is in no group";
    return 0;
  }

  const ChipModel& chip;
  std::vector<Multiprocessor> places{chip.multiprocessors, Multiprocessor(chip.l1_bytes_capacity)};
};

// tests/silicon/results/nvidia-h200-2026-11-23-placement.jsonl: {"grid": [132, 1], "threads": 128, "shared": 0}, which
// begins with another group each time.
TEST_F(BlockPlacesTest, SingleBlocksFillOneGroupAfterTheOther) {
  BlockPlaces all(chip, places, 1);
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < chip.multiprocessors; ++i) order.push_back(take(all, 1).at(0));
  EXPECT_THAT(std::vector(order.begin(), order.begin() + 8), ElementsAre(124, 125, 126, 127, 128, 129, 130, 131));
  EXPECT_EQ(std::set(order.begin(), order.end()).size(), chip.multiprocessors);
  const auto group_1 = std::find(order.begin(), order.end(), 2u);
  EXPECT_THAT(std::vector(group_1, group_1 + 16),
              ElementsAre(2, 3, 18, 19, 34, 35, 50, 51, 64, 65, 78, 79, 92, 93, 106, 107));
  EXPECT_TRUE(all.take(1).empty());
}

// The same file: {"grid": [132, 1], "threads": 128, "shared": 204800, "cluster": 2}.
TEST_F(BlockPlacesTest, ClustersOfTwoGoToThePairsOfAllGroupsInTurn) {
  BlockPlaces all(chip, places, 1);
  for (int i = 0; i < 4; ++i) EXPECT_GE(take(all, 2).at(0), 124u);
  for (uint32_t i = 0; i < 62; ++i) EXPECT_THAT(take(all, 2), ElementsAre(2 * i, 2 * i + 1));
  EXPECT_TRUE(all.take(2).empty());
}

// The same file: "cluster": 4 finds 30 places, each in one group, and neighbours are of different groups. The emulated
// GPU runs 33 clusters at once, so the others must not wait.
TEST_F(BlockPlacesTest, AClusterOfFourStaysInAGroup) {
  BlockPlaces all(chip, places, 1);
  EXPECT_THAT(take(all, 4), ElementsAre(0, 1, 16, 17));
  EXPECT_THAT(take(all, 4), ElementsAre(2, 3, 18, 19));
  for (int i = 2; i < 30; ++i) {
    const auto each = take(all, 4);
    for (const uint32_t place : each) EXPECT_EQ(group_of(place), group_of(each.at(0)));
  }
  for (int i = 30; i < 33; ++i) EXPECT_EQ(take(all, 4).size(), 4u);
  EXPECT_TRUE(all.take(4).empty());
}

TEST_F(BlockPlacesTest, AClusterGoesWhereTheFewestBlocksAre) {
  BlockPlaces all(chip, places, 2);
  for (const MultiprocessorGroup& group : chip.groups)
    for (const uint32_t pair : group.pairs)
      if (&group != &chip.groups[5]) places[2 * pair].blocks = places[2 * pair + 1].blocks = 1;
  EXPECT_EQ(group_of(take(all, 1).at(0)), 5u);
  EXPECT_EQ(group_of(take(all, 2).at(0)), 5u);
  EXPECT_EQ(group_of(take(all, 4).at(0)), 5u);
}

class BlockPlacesOfB200Test : public BlockPlacesTest {
 protected:
  BlockPlacesOfB200Test() : BlockPlacesTest("B200") {}
};

TEST_F(BlockPlacesOfB200Test, EachMultiprocessorTakesABlock) {
  BlockPlaces all(chip, places, 1);
  std::set<uint32_t> taken;
  for (uint32_t i = 0; i < chip.multiprocessors; ++i) taken.insert(take(all, 1).at(0));
  EXPECT_EQ(taken.size(), 148u);
  EXPECT_TRUE(all.take(1).empty());
}

TEST_F(BlockPlacesOfB200Test, ClustersWithoutAGroupGoToSeveral) {
  BlockPlaces all(chip, places, 1);
  std::set<uint32_t> taken;
  for (uint32_t i = 0; i < chip.multiprocessors / 4; ++i)
    for (const uint32_t place : take(all, 4)) taken.insert(place);
  EXPECT_EQ(taken.size(), 148u);
}

}  // namespace
}  // namespace stagecraft::emulator::timing
