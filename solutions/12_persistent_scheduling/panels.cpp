// What the order of the tiles changes: how many different rows of A and columns of B the blocks that run at the same
// time read. Nothing is run on a device: the raster is asked.
//
//     build/panels                   a table
//     build/panels --draw            the lesson's figure, as SVG
//     build/panels --compare FILE    whether the file is that figure
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harness/picture.hpp"
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

// ---- The figure
// -------------------------------------------------------------------------------------------------------

constexpr int kCell = 6, kGap = 4, kEdge = 8;
constexpr int kSide = static_cast<int>(kRows) * kCell;

std::string rectangle(int x, int y, int width, int height, const char* kind) {
  char text[160];
  std::snprintf(text, sizeof text, "  <rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", kind, x, y,
                width, height);
  return text;
}

std::string words(int x, int y, const std::string& text) {
  return "  <text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\">" + text + "</text>\n";
}

/// The tiles of one round in C, and beside it what they read of A and above it of B.
std::string draw_round(uint32_t width, uint32_t round, int left) {
  const int x = left + kEdge + kGap, y = 60 + kEdge + kGap;
  const TileRaster raster(kRows, kColumns, RasterOrder::along_m, width);
  const Round read = round_of(raster, round);
  std::string svg = words(left, 20, width == 1 ? "columns, one after another" : "panels of " + std::to_string(width));
  svg += words(left, 40,
               std::to_string(read.rows.size()) + " rows of A + " + std::to_string(read.columns.size()) +
                   " columns of B = " + std::to_string(read.rows.size() + read.columns.size()));
  svg +=
      rectangle(x, y, kSide, kSide, "c") + rectangle(left, y, kEdge, kSide, "c") + rectangle(x, 60, kSide, kEdge, "c");
  for (const uint32_t row : read.rows) svg += rectangle(left, y + static_cast<int>(row) * kCell, kEdge, kCell, "a");
  for (const uint32_t column : read.columns)
    svg += rectangle(x + static_cast<int>(column) * kCell, 60, kCell, kEdge, "b");
  for (uint32_t number = round * kBlocks; number < (round + 1) * kBlocks; ++number) {
    const TilePosition tile = raster.position(number);
    svg += rectangle(x + static_cast<int>(tile.column) * kCell, y + static_cast<int>(tile.row) * kCell, kCell, kCell,
                     "now");
  }
  return svg;
}

std::string draw() {
  constexpr int kWidth = 2 * (kSide + kEdge + kGap) + 60 + 40, kHeight = 60 + kEdge + kGap + kSide + 10;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-10 0 " + std::to_string(kWidth) + " " +
                    std::to_string(kHeight) + "\" width=\"" + std::to_string(kWidth) + "\" height=\"" +
                    std::to_string(kHeight) + "\" role=\"img\" font-family=\"sans-serif\" font-size=\"14\">\n";
  svg +=
      "  <!-- drawn by build/panels -->\n"
      "  <title>The tiles of one round, column after column and in panels of 12, and the rows of A and columns of B "
      "that "
      "they read</title>\n"
      "  <style>\n"
      "    :root { color-scheme: light dark; }\n"
      "    text { fill: #222; } .c { fill: none; stroke: #888; } .a { fill: #c60; } .b { fill: #06c; } .now { fill: "
      "#9b9; }\n"
      "    @media (prefers-color-scheme: dark) {\n"
      "      text { fill: #ddd; } .a { fill: #f93; } .b { fill: #6af; } .now { fill: #575; }\n"
      "    }\n"
      "  </style>\n";
  svg += draw_round(1, 2, 0) + draw_round(12, 2, kSide + kEdge + kGap + 60);
  return svg + "</svg>\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  if (argc == 1) {
    print_table();
    return 0;
  }
  const bool draws = argc == 2 && option == "--draw", compares = argc == 3 && option == "--compare";
  if (draws || compares) {
    return stagecraft::harness::print_or_compare(draw(), compares ? argv[2] : nullptr, "the raster gives",
                                                 argv[0] + std::string(" --draw"));
  }
  std::fprintf(stderr, "usage: panels [--draw | --compare FILE]\n");
  return 2;
}
