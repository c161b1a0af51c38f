// This program draws the lesson's picture of panels from a run: persistent blocks take their turns, each of them writes
// down its tiles, and the picture shows the tiles of one round and what they read.
//
//     build/draw_panels         prints the picture
//     build/draw_panels FILE    fails when FILE is not the picture
#include <cstdint>
#include <cstdio>
#include <exception>
#include <set>
#include <string>
#include <vector>

#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "harness/kernel_run.hpp"
#include "harness/picture.hpp"
#include "stagecraft/launch.hpp"
#include "stagecraft/tile_scheduler.hpp"
#include "stagecraft/warp.hpp"

namespace {

using namespace stagecraft;
using Tiles = WholeTiles<>;
using Scheduler = StaticScheduler<Tiles>;

constexpr uint32_t kBlocks = 148;              // multiprocessors of a B200
constexpr uint32_t kRows = 48, kColumns = 48;  // M = N = 6144
constexpr uint32_t kRounds = (kRows * kColumns + kBlocks - 1) / kBlocks;

/// Writes the tile of each turn of each block. Called by one thread of each.
__global__ void write_down_turns(const __grid_constant__ Tiles tiles, TilePosition* turns) {
  __shared__ Scheduler::Storage storage;
  Scheduler scheduler{storage, tiles};
  uint32_t round = 0;
  for (auto turn = scheduler.turns(); turn.exists(); turn.next(), ++round) {
    const Work work = turn.work();
    turns[round * gridDim.x + blockIdx.x] = {static_cast<uint32_t>(work.row), static_cast<uint32_t>(work.column)};
  }
}

/// The tiles that the blocks have computed in one round.
std::vector<TilePosition> tiles_of_round(uint32_t width, uint32_t round) {
  const Tiles tiles{{.rows = kRows, .columns = kColumns, .k_tiles = 1},
                    {.order = RasterOrder::along_m, .width = width}};
  const harness::DeviceBuffer<TilePosition> turns(kRounds * kBlocks, "the turns");
  harness::check(launch_kernel(write_down_turns, {.grid = dim3(kBlocks), .block = 1}, tiles, turns.data()),
                 "launch write_down_turns");
  harness::finish_kernel("write_down_turns");
  const std::vector<TilePosition> all = turns.to_host();
  return {all.begin() + round * kBlocks, all.begin() + (round + 1) * kBlocks};
}

constexpr int kCell = 6, kGap = 4, kEdge = 8;
constexpr int kSide = static_cast<int>(kRows) * kCell;

std::string rectangle(int x, int y, int width, int height, const char* kind) {
  char text[160];
  std::snprintf(text, sizeof text, "  <rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", kind, x, y,
                width, height);
  return text;
}

/// Many filled rectangles of one size, as one path.
class Rectangles {
 public:
  Rectangles(int width, int height) : width_(width), height_(height) {}

  void add(int x, int y) {
    char text[80];
    std::snprintf(text, sizeof text, "M%d %dh%dv%dh-%dz", x, y, width_, height_, width_);
    path_ += text;
  }
  std::string draw(const char* kind) const {
    return std::string("  <path class=\"") + kind + "\" d=\"" + path_ + "\"/>\n";
  }

 private:
  int width_, height_;
  std::string path_;
};

std::string words(int x, int y, const std::string& text) {
  return "  <text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\">" + text + "</text>\n";
}

/// The tiles of one round in C, and beside it what they read of A and above it of B.
std::string draw_round(uint32_t width, uint32_t round, int left) {
  const std::vector<TilePosition> tiles = tiles_of_round(width, round);
  const int x = left + kEdge + kGap, y = 60 + kEdge + kGap;
  std::set<uint32_t> rows, columns;
  for (const TilePosition& tile : tiles) {
    rows.insert(tile.row);
    columns.insert(tile.column);
  }
  std::string svg = words(left, 20, width == 1 ? "columns, one after another" : "panels of " + std::to_string(width));
  svg += words(left, 40,
               std::to_string(rows.size()) + " rows of A + " + std::to_string(columns.size()) +
                   " columns of B = " + std::to_string(rows.size() + columns.size()));
  svg +=
      rectangle(x, y, kSide, kSide, "c") + rectangle(left, y, kEdge, kSide, "c") + rectangle(x, 60, kSide, kEdge, "c");
  Rectangles of_a(kEdge, kCell), of_b(kCell, kEdge), of_c(kCell, kCell);
  for (const uint32_t row : rows) of_a.add(left, y + static_cast<int>(row) * kCell);
  for (const uint32_t column : columns) of_b.add(x + static_cast<int>(column) * kCell, 60);
  for (const TilePosition& tile : tiles) {
    of_c.add(x + static_cast<int>(tile.column) * kCell, y + static_cast<int>(tile.row) * kCell);
  }
  return svg + of_a.draw("a") + of_b.draw("b") + of_c.draw("now");
}

std::string draw() {
  constexpr int kWidth = 2 * (kSide + kEdge + kGap) + 60 + 40, kHeight = 60 + kEdge + kGap + kSide + 10;
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-10 0 " + std::to_string(kWidth) + " " +
                    std::to_string(kHeight) + "\" width=\"" + std::to_string(kWidth) + "\" height=\"" +
                    std::to_string(kHeight) + "\" role=\"img\" font-family=\"sans-serif\" font-size=\"14\">\n";
  svg +=
      "  <!-- drawn by build/draw_panels -->\n"
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

int main(int argc, char** argv) try {
  return harness::print_or_compare(draw(), argc > 1 ? argv[1] : nullptr, "the blocks of a run give", argv[0]);
} catch (const std::exception& error) {
  std::fprintf(stderr, "draw_panels: %s\n", error.what());
  return 1;
}
