// This program draws the picture of chapter 07 from the layout functions of the library: where the chunks of a tile
// are, without a swizzle and with one.
//   draw_swizzle         prints the picture
//   draw_swizzle FILE    fails when FILE is not the picture
#include <string>

#include "harness/drawing.hpp"
#include "harness/picture.hpp"
#include "stagecraft/tile.hpp"

namespace {

using stagecraft::PlainTile;
using stagecraft::Tile;
using stagecraft::harness::Drawing;

constexpr int kRows = 8, kChunks = 8, kFloatsPerChunk = 4, kBytesPerChunk = 16;
constexpr int kMarked = 2;  // the chunk of each row that the picture follows
constexpr int kWide = 40, kHigh = 24, kTop = 78;

/// Draws a grid of what is in shared memory, line by line. `offset_of(row, column)` gives an element's place in bytes.
template <typename OffsetOf>
void draw_grid(Drawing& out, int left, const std::string& title, const OffsetOf& offset_of) {
  int chunk_at[kRows][kChunks] = {};
  for (int row = 0; row < kRows; ++row) {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int place = static_cast<int>(offset_of(row, chunk * kFloatsPerChunk)) / kBytesPerChunk;
      chunk_at[place / kChunks][place % kChunks] = chunk;
    }
  }
  out.words("", left, 26, title);
  out.words("quiet", left, 48, "banks");
  for (int place = 0; place < kChunks; ++place) {
    out.words("quiet middle", left + place * kWide + kWide / 2, kTop - 10,
              std::to_string(4 * place) + "-" + std::to_string(4 * place + 3));
  }
  for (int row = 0; row < kRows; ++row) {
    const int y = kTop + row * kHigh;
    out.words("quiet end", left - 8, y + 17, "row " + std::to_string(row));
    for (int place = 0; place < kChunks; ++place) {
      const int x = left + place * kWide, chunk = chunk_at[row][place];
      out.box(chunk == kMarked ? "filled" : "", x, y, kWide, kHigh);
      out.words("middle", x + kWide / 2, y + 17, std::to_string(chunk));
    }
  }
}

std::string draw() {
  Drawing out(
      830, 334,
      "Eight rows of eight chunks of 16 bytes in shared memory. Without a swizzle chunk 2 of all rows is in banks "
      "8 to 11; with the swizzle of 128 bytes it is in other banks in each row");
  draw_grid(out, 60, "row by row: chunk 2 is always in the same banks",
            [](int row, int column) { return PlainTile<float, kRows, 32>::offset_of(row, column); });
  draw_grid(out, 450, "128-byte swizzle: in other banks in each row",
            [](int row, int column) { return Tile<float, kRows, 32>::offset_of(row, column); });
  out.words("quiet", 60, kTop + kRows * kHigh + 28, "The number in a cell says which chunk of its row is there.");
  out.words("quiet", 60, kTop + kRows * kHigh + 46, "A cell is 16 bytes, four banks; a line is 128 bytes, all 32.");
  return out.finish();
}

}  // namespace

int main(int argc, char** argv) {
  return stagecraft::harness::print_or_compare(draw(), argc > 1 ? argv[1] : nullptr, "the layout functions say",
                                               argv[0]);
}
