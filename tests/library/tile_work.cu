// Which tile has which number, and which k-tiles of it are whose: on the host, where every number can be tried.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "stagecraft/tile_work.hpp"

namespace stagecraft::tests {
namespace {

// ---- Raster ---------------------------------------------------------------------------------------------------------

constexpr bool visits_each_tile_once(const TileRaster& raster, uint32_t rows, uint32_t columns) {
  std::vector<bool> seen(size_t{rows} * columns, false);
  if (raster.tiles() != rows * columns) return false;
  for (uint32_t number = 0; number < raster.tiles(); ++number) {
    const TilePosition at = raster.position(number);
    if (at.row >= rows || at.column >= columns || seen[at.row * columns + at.column]) return false;
    seen[at.row * columns + at.column] = true;
  }
  return true;
}

static_assert(visits_each_tile_once(TileRaster(4, 5, RasterOrder::along_m, 2), 4, 5));
static_assert(visits_each_tile_once(TileRaster(7, 3, RasterOrder::along_n, 4), 7, 3));
// The figure in the header.
static_assert(TileRaster(4, 5, RasterOrder::along_m, 2).position(10) == TilePosition{1, 2});
static_assert(TileRaster(4, 5, RasterOrder::along_m, 2).position(17) == TilePosition{1, 4});
static_assert(TileRaster(4, 5, RasterOrder::along_n, 2).position(11) == TilePosition{3, 0});
static_assert(TileRaster(4, 5, RasterOrder::along_n, 2).position(18) == TilePosition{2, 4});

TEST(TileRasterTest, VisitsEachTileOnceForAllShapesOrdersAndWidths) {
  for (uint32_t rows = 1; rows <= 13; ++rows) {
    for (uint32_t columns = 1; columns <= 13; ++columns) {
      for (const RasterOrder order : {RasterOrder::along_m, RasterOrder::along_n}) {
        for (const uint32_t width : {0u, 1u, 2u, 3u, 5u, 8u, 13u, 100u}) {
          ASSERT_TRUE(visits_each_tile_once(TileRaster(rows, columns, order, width), rows, columns))
              << rows << " x " << columns << ", order " << static_cast<int>(order) << ", width " << width;
        }
      }
    }
  }
}

TEST(TileRasterTest, VisitsEachTileOnceOfLargeMatrices) {
  EXPECT_TRUE(visits_each_tile_once(TileRaster(1023, 517, RasterOrder::along_m, 16), 1023, 517));
  EXPECT_TRUE(visits_each_tile_once(TileRaster(3, 65535, RasterOrder::along_n, 8), 3, 65535));
}

TEST(TileRasterTest, HasNoTilesWhereTheMatrixHasNone) {
  EXPECT_EQ(TileRaster().tiles(), 0u);
  EXPECT_EQ(TileRaster(0, 7).tiles(), 0u);
  EXPECT_EQ(TileRaster(7, 0, RasterOrder::along_n, 4).tiles(), 0u);
}

TEST(TileRasterTest, GoesDownTheColumnsWithoutAWidth) {
  const TileRaster raster(3, 4);
  for (uint32_t number = 0; number < 12; ++number) {
    EXPECT_EQ(raster.position(number), (TilePosition{number % 3, number / 3}));
  }
}

TEST(TileRasterTest, FinishesAPanelBeforeTheNext) {
  const TileRaster raster(10, 9, RasterOrder::along_m, 4);
  for (uint32_t number = 0; number < raster.tiles(); ++number) {
    EXPECT_EQ(raster.position(number).column / 4, std::min(number / 40, 2u)) << number;
  }
}

// ---- Work -----------------------------------------------------------------------------------------------------------

/// Every k-tile of every tile of C, and what the workspace holds, as the works of all units of all blocks have it.
template <typename Tiles>
void expect_everything_once(const Tiles& tiles, const ProductTiles& product, const std::string& what) {
  SCOPED_TRACE(what);
  using Cluster = typename Tiles::Cluster;
  using Tile = std::tuple<int, int, int>;
  std::map<Tile, std::map<int, Work>> pieces;  // of each tile, by number
  for (uint32_t unit = 0; unit < tiles.units(); ++unit) {
    ASSERT_GE(tiles.works(unit), 1u);
    for (uint32_t index = 0; index < tiles.works(unit); ++index) {
      const Work of_cluster = tiles.work(unit, index, 0);
      for (uint32_t rank = 0; rank < static_cast<uint32_t>(Cluster::blocks); ++rank) {
        const Work work = tiles.work(unit, index, rank);
        EXPECT_EQ(work.row, of_cluster.row + static_cast<int>(Cluster::row(rank)));
        EXPECT_EQ(work.column, of_cluster.column + static_cast<int>(Cluster::column(rank)));
        EXPECT_EQ(work.k_tiles, of_cluster.k_tiles);
        const Tile tile{work.batch, work.row, work.column};
        ASSERT_TRUE(pieces[tile].emplace(static_cast<int>(work.piece), work).second)
            << "tile " << work.row << "," << work.column << " piece " << work.piece << " twice";
      }
    }
  }
  std::set<uint32_t> slots, counters;
  for (const auto& [tile, of_tile] : pieces) {
    int next = 0;
    const Work& first = of_tile.begin()->second;
    ASSERT_EQ(of_tile.size(), first.pieces);
    for (const auto& [number, work] : of_tile) {
      ASSERT_EQ(work.first_k_tile, next) << "pieces follow each other along K";
      ASSERT_TRUE(work.k_tiles > 0 || product.k_tiles == 0);
      next += work.k_tiles;
      ASSERT_EQ(work.pieces, first.pieces);
      ASSERT_EQ(work.first_slot, first.first_slot);
      ASSERT_EQ(work.counter, first.counter);
      if (work.is_whole()) continue;
      ASSERT_LT(work.first_slot + work.piece, tiles.slots());
      ASSERT_TRUE(slots.insert(work.first_slot + work.piece).second) << "a slot for two pieces";
    }
    ASSERT_EQ(next, static_cast<int>(product.k_tiles));
    if (first.is_whole()) continue;
    ASSERT_LT(first.counter, tiles.counters());
    ASSERT_TRUE(counters.insert(first.counter).second) << "a counter for two tiles";
  }
  for (uint32_t batch = 0; batch < product.batches; ++batch) {
    for (uint32_t row = 0; row < product.rows; ++row) {
      for (uint32_t column = 0; column < product.columns; ++column) {
        const Tile tile{static_cast<int>(batch), static_cast<int>(row), static_cast<int>(column)};
        ASSERT_TRUE(pieces.contains(tile)) << batch << "," << row << "," << column;
      }
    }
  }
  const uint32_t rows = (product.rows + Cluster::rows - 1) / Cluster::rows * Cluster::rows;
  const uint32_t columns = (product.columns + Cluster::columns - 1) / Cluster::columns * Cluster::columns;
  EXPECT_EQ(pieces.size(), size_t{rows} * columns * product.batches) << "no tile that no cluster needs";
}

constexpr ProductTiles kProducts[] = {{1, 1, 1},    {1, 1, 0},    {1, 1, 97},    {3, 5, 4},     {4, 4, 1, 3},
                                      {7, 2, 9, 2}, {1, 13, 2},   {12, 12, 16},  {5, 3, 0, 2},  {2, 2, 1000},
                                      {0, 5, 3},    {11, 13, 17}, {16, 9, 8, 2}, {3, 3, 5, 11}, {37, 4, 3}};

template <typename Cluster>
void expect_all_divisions_cover(const std::string& cluster) {
  for (const ProductTiles& product : kProducts) {
    for (const RasterOptions raster : {RasterOptions{}, RasterOptions{RasterOrder::along_n, 3}}) {
      const std::string what = cluster + ", " + std::to_string(product.rows) + " x " + std::to_string(product.columns) +
                               " tiles of " + std::to_string(product.k_tiles) + " k-tiles, " +
                               std::to_string(product.batches) + " batches";
      expect_everything_once(WholeTiles<Cluster>(product, raster), product, what);
      for (const uint32_t splits : {0u, 1u, 2u, 3u, 8u, 64u}) {
        expect_everything_once(SplitK<Cluster>(product, splits, raster), product,
                               what + ", split " + std::to_string(splits));
      }
      for (const uint32_t clusters : {0u, 1u, 2u, 7u, 37u, 148u}) {
        for (const uint32_t least : {0u, 1u, 4u, 1000u}) {
          expect_everything_once(
              StreamK<Cluster>(product, clusters, raster, least), product,
              what + ", stream-K on " + std::to_string(clusters) + ", at least " + std::to_string(least));
        }
      }
    }
  }
}

TEST(TileWorkTest, CoversEachKTileOnceInOneBlock) { expect_all_divisions_cover<OneBlock>("one block"); }
TEST(TileWorkTest, CoversEachKTileOnceInAPair) { expect_all_divisions_cover<ClusterShape<2, 1, 2>>("2x1"); }
TEST(TileWorkTest, CoversEachKTileOnceInAClusterOfFour) { expect_all_divisions_cover<ClusterShape<2, 2>>("2x2"); }
TEST(TileWorkTest, CoversEachKTileOnceInAWideCluster) { expect_all_divisions_cover<ClusterShape<1, 4>>("1x4"); }

TEST(TileWorkTest, MakesNoMorePiecesThanThereAreKTiles) {
  EXPECT_EQ(SplitK<>({2, 2, 3}, 8).units(), 12u);
  EXPECT_EQ(SplitK<>({2, 2, 0}, 8).units(), 4u);
  EXPECT_EQ(SplitK<>({2, 2, 3}, 1).slots(), 0u);
  EXPECT_EQ(SplitK<>({2, 2, 3}, 8).slots(), 12u);
}

uint32_t k_tiles_of(const StreamK<>& tiles, uint32_t unit) {
  uint32_t sum = 0;
  for (uint32_t index = 0; index < tiles.works(unit); ++index) sum += tiles.work(unit, index, 0).k_tiles;
  return sum;
}

TEST(TileWorkTest, SharesOfStreamKDifferByOneKTileAtMost) {
  for (const ProductTiles& product : {ProductTiles{13, 13, 7}, ProductTiles{5, 5, 64}, ProductTiles{40, 40, 3}}) {
    const uint32_t clusters = 148;
    const StreamK<> tiles(product, clusters);
    std::vector<uint32_t> load(clusters);
    for (uint32_t unit = 0; unit < tiles.units(); ++unit) load[unit % clusters] += k_tiles_of(tiles, unit);
    const auto [least, most] = std::minmax_element(load.begin(), load.end());
    EXPECT_LE(*most - *least, 1u) << product.rows << " x " << product.columns;
  }
}

TEST(TileWorkTest, StreamKLeavesTilesWholeThatAreEvenAlready) {
  const StreamK<> tiles({37, 4, 9}, 148);
  EXPECT_EQ(tiles.units(), 148u);
  EXPECT_EQ(tiles.slots(), 0u);
  for (uint32_t unit = 0; unit < tiles.units(); ++unit) EXPECT_TRUE(tiles.work(unit, 0, 0).is_whole());
}

TEST(TileWorkTest, StreamKMakesNoTinyShares) {
  const StreamK<> tiles({1, 1, 64}, 148, {}, /*least=*/8);
  EXPECT_EQ(tiles.units(), 8u);
  for (uint32_t unit = 0; unit < 8; ++unit) EXPECT_EQ(k_tiles_of(tiles, unit), 8u);
}

TEST(TileWorkTest, StreamKBeginsAShareWithItsLastTile) {
  const StreamK<> tiles({3, 1, 4}, 2);  // 12 k-tiles: each of two shares has a tile and a half
  ASSERT_EQ(tiles.units(), 2u);
  EXPECT_EQ(tiles.work(0, 0, 0).row, 1);
  EXPECT_EQ(tiles.work(0, 0, 0).k_tiles, 2);
  EXPECT_EQ(tiles.work(0, 0, 0).piece, 0u);
  EXPECT_EQ(tiles.work(0, 1, 0).row, 0);
  EXPECT_TRUE(tiles.work(0, 1, 0).is_whole());
  EXPECT_EQ(tiles.work(1, 1, 0).row, 1);
  EXPECT_EQ(tiles.work(1, 1, 0).first_k_tile, 2);
  EXPECT_EQ(tiles.work(1, 1, 0).piece, 1u);
}

}  // namespace
}  // namespace stagecraft::tests
