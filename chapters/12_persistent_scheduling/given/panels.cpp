// What the order of the tiles changes: how many different rows of A and columns of B the blocks that run at the same
// time read. Nothing is run on a device: the raster is asked.
//
//     build/panels                   a table
#include <cstdint>
#include <cstdio>
#include <set>
#include <vector>

#include "stagecraft/tile_raster.hpp"

namespace {

using stagecraft::RasterOrder;
using stagecraft::TilePosition;
using stagecraft::TileRaster;

constexpr uint32_t kBlocks = 148;              // multiprocessors of a B200
constexpr uint32_t kRows = 48, kColumns = 48;  // M = N = 6144

/// The rows and columns of tiles that a round reads: blocks `round * kBlocks` and on.
struct Round {
  std::set<uint32_t> rows, columns;
};

Round round_of(const TileRaster& raster, uint32_t round) {
  Round read;
  for (uint32_t number = round * kBlocks; number < (round + 1) * kBlocks && number < raster.tiles(); ++number) {
    const TilePosition tile = raster.position(number);
    read.rows.insert(tile.row);
    read.columns.insert(tile.column);
  }
  return read;
}

uint32_t rounds_of(const TileRaster& raster) { return (raster.tiles() + kBlocks - 1) / kBlocks; }

/// Rows and columns of tiles that are fetched from memory in all rounds together.
/// @param survives  whether L2 still has in a round what the round before has read.
uint32_t fetched(const TileRaster& raster, bool survives) {
  uint32_t sum = 0;
  Round before;
  for (uint32_t round = 0; round < rounds_of(raster); ++round) {
    const Round now = round_of(raster, round);
    for (const uint32_t row : now.rows) sum += before.rows.contains(row) ? 0 : 1;
    for (const uint32_t column : now.columns) sum += before.columns.contains(column) ? 0 : 1;
    if (survives) before = now;
  }
  return sum;
}

void print_table() {
  std::printf("%u x %u tiles of C, %u blocks at a time\n", kRows, kColumns, kBlocks);
  std::printf("         rows of A + columns of B   fetched in all rounds, if L2 keeps ...\n");
  std::printf("  width  that round 2 reads         nothing     all that a round reads\n");
  for (const uint32_t width : {1u, 2u, 4u, 8u, 12u, 16u, 24u, 48u}) {
    const TileRaster raster(kRows, kColumns, RasterOrder::along_m, width);
    const Round second = round_of(raster, 1);
    std::printf("  %5u  %10zu + %2zu = %2zu %18u %20u\n", width, second.rows.size(), second.columns.size(),
                second.rows.size() + second.columns.size(), fetched(raster, false), fetched(raster, true));
  }
}

}  // namespace

int main() {
  print_table();
  return 0;
}
