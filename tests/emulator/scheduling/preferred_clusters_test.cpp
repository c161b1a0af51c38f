// Which clusters a grid starts when its launch has preferred ones, and which of them a request of launch control gets.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {
namespace {

struct GridOfRegions {
  LaunchRequest request;
  Grid grid;

  explicit GridOfRegions(PreferredClusters preferred, uint64_t seed = 0) {
    request.grid = {32, 4, 1};
    request.cluster = {2, 1, 1};
    request.preferred_cluster = {4, 2, 1};
    request.preferred_clusters = preferred;
    request.seed = seed;
    grid.request = &request;
    grid.region_count = request.grid.count() / request.region().count();
  }

  /// Starts all clusters that are left, each block once. Returns how many of them are preferred ones.
  int start_all(std::set<std::tuple<uint32_t, uint32_t>>& blocks) {
    int preferred = 0;
    while (grid.has_next_cluster()) {
      const Extent3 announced = shape_of_next_cluster(grid);
      const ClusterPlace place = take_next_cluster(grid);
      EXPECT_EQ(place.shape, announced);
      preferred += place.shape == request.preferred_cluster;
      add(place.first_block, place.shape, blocks);
    }
    return preferred;
  }

  static void add(const Extent3& first, const Extent3& shape, std::set<std::tuple<uint32_t, uint32_t>>& blocks) {
    EXPECT_EQ(first.x % shape.x, 0u);
    EXPECT_EQ(first.y % shape.y, 0u);
    for (uint32_t i = 0; i < shape.count(); ++i) {
      EXPECT_TRUE(blocks.insert({first.x + i % shape.x, first.y + i / shape.x}).second) << "a block starts twice";
    }
  }
};

TEST(PreferredClustersTest, StartEachBlockOnce) {
  for (const PreferredClusters preferred : {PreferredClusters::some, PreferredClusters::all, PreferredClusters::none}) {
    GridOfRegions regions(preferred);
    std::set<std::tuple<uint32_t, uint32_t>> blocks;
    const int found = regions.start_all(blocks);
    EXPECT_EQ(blocks.size(), 128u);
    if (preferred == PreferredClusters::all) {
      EXPECT_EQ(found, 16);
    } else if (preferred == PreferredClusters::none) {
      EXPECT_EQ(found, 0);
    } else {
      EXPECT_GT(found, 0);
      EXPECT_LT(found, 16);
    }
  }
}

TEST(PreferredClustersTest, AreTakenOverByClustersOfTheirSize) {
  GridOfRegions regions(PreferredClusters::none);
  std::set<std::tuple<uint32_t, uint32_t>> blocks;
  const auto take = [&](const Extent3& shape) {
    const auto first = take_cluster_of_shape(regions.grid, shape);
    if (first) GridOfRegions::add(*first, shape, blocks);
    return first.has_value();
  };
  EXPECT_TRUE(take({2, 1, 1}));  // divides the first region
  EXPECT_TRUE(take({4, 2, 1}));  // a region of which nothing has started
  EXPECT_TRUE(take({2, 1, 1}));  // another part of the first
  int whole = 0;
  while (take({4, 2, 1})) ++whole;
  EXPECT_EQ(whole, 14);
  EXPECT_TRUE(regions.grid.has_next_cluster()) << "the rest of the first region is left to those of its size";
  EXPECT_EQ(regions.start_all(blocks), 0);
  EXPECT_EQ(blocks.size(), 128u);
  EXPECT_FALSE(take({2, 1, 1}));
}

TEST(PreferredClustersTest, OfOtherSeedsAreOthers) {
  std::set<std::set<uint32_t>> choices;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    GridOfRegions regions(PreferredClusters::some, seed);
    std::set<uint32_t> chosen;
    while (regions.grid.has_next_cluster()) {
      const ClusterPlace place = take_next_cluster(regions.grid);
      if (place.shape == regions.request.preferred_cluster)
        chosen.insert(place.first_block.x + 64 * place.first_block.y);
    }
    choices.insert(chosen);
  }
  EXPECT_EQ(choices.size(), 4u);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
