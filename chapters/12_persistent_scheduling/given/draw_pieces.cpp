// This program draws the lesson's picture of pieces from what the library says: who computes which part of K of which
// tile, with whole tiles, with each tile split along K, and with even shares of all k-tiles. Nothing is run on a
// device.
//   draw_pieces         prints the picture
//   draw_pieces FILE    fails when FILE is not the picture
#include <algorithm>
#include <cstdint>
#include <string>

#include "harness/drawing.hpp"
#include "harness/picture.hpp"
#include "stagecraft/tile_work.hpp"

namespace {

using namespace stagecraft;

constexpr uint32_t kBlocks = 4, kSplits = 2;
constexpr ProductTiles kProduct{.rows = 1, .columns = 5, .k_tiles = 8};
constexpr int kLeft = 100, kTop = 56, kWide = 42, kHigh = 34, kPitch = kBlocks * 34 + 62;

/// The turns of all blocks by a fixed schedule, over time counted in k-tiles.
template <typename Tiles>
void draw_turns(harness::Drawing& out, int panel, const std::string& name, const Tiles& tiles) {
  const int top = kTop + panel * kPitch;
  int longest = 0;
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const int y = top + static_cast<int>(block) * kHigh;
    out.words("quiet end", kLeft - 8, y + 21, "block " + std::to_string(block));
    int at = 0;
    for (uint32_t unit = block; unit < tiles.units(); unit += kBlocks) {
      for (uint32_t index = 0; index < tiles.works(unit); ++index) {
        const Work work = tiles.work(unit, index, 0);
        const int x = kLeft + at * kWide, width = work.k_tiles * kWide;
        out.box("tone" + std::to_string(work.column), x, y, width, kHigh - 4);
        out.words("small middle", x + width / 2, y + (work.is_whole() ? 19 : 13),
                  "tile " + std::to_string(work.column));
        if (!work.is_whole()) {
          out.words(
              "small middle", x + width / 2, y + 26,
              "K " + std::to_string(work.first_k_tile) + " to " + std::to_string(work.first_k_tile + work.k_tiles - 1));
        }
        at += work.k_tiles;
      }
    }
    longest = std::max(longest, at);
  }
  out.words("", kLeft, top - 12, name + ": " + std::to_string(longest) + " k-tiles of time");
}

std::string draw() {
  harness::Drawing out(
      810, kTop + 3 * kPitch - 26,
      "Five tiles of eight k-tiles by four blocks: whole tiles leave three blocks idle half of the time, two pieces "
      "of each tile two of them a third, and even shares of all k-tiles none");
  out.words("", 20, 20, "5 tiles of C, 8 k-tiles each, by 4 blocks");
  draw_turns(out, 0, "whole tiles", WholeTiles<>(kProduct));
  draw_turns(out, 1, "each tile in 2 pieces (SplitK)", SplitK<>(kProduct, kSplits));
  draw_turns(out, 2, "even shares of all k-tiles (StreamK)", StreamK<>(kProduct, kBlocks));
  return out.finish();
}

}  // namespace

int main(int argc, char** argv) {
  return stagecraft::harness::print_or_compare(draw(), argc > 1 ? argv[1] : nullptr, "the library says", argv[0]);
}
