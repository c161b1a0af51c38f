// This program draws the picture of chapter 07 from the layout functions of the library: where the chunks of a tile
// are, without a swizzle and with one.
//   draw_swizzle         prints the picture
//   draw_swizzle FILE    fails when FILE is not the picture
#include <sstream>
#include <string>

#include "harness/picture.hpp"
#include "stagecraft/tile.hpp"

namespace {

using stagecraft::PlainTile;
using stagecraft::Tile;

constexpr int kRows = 8, kChunks = 8, kFloatsPerChunk = 4, kBytesPerChunk = 16;
constexpr int kMarked = 2;  // the chunk of each row that the picture follows
constexpr int kWide = 40, kHigh = 24, kTop = 78;

/// Draws a grid of what is in shared memory, line by line. `offset_of(row, column)` gives an element's place in bytes.
template <typename OffsetOf>
void draw_grid(std::ostream& out, int left, const std::string& title, const OffsetOf& offset_of) {
  int chunk_at[kRows][kChunks] = {};
  for (int row = 0; row < kRows; ++row) {
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const int place = static_cast<int>(offset_of(row, chunk * kFloatsPerChunk)) / kBytesPerChunk;
      chunk_at[place / kChunks][place % kChunks] = chunk;
    }
  }
  out << "  <text x=\"" << left << "\" y=\"26\">" << title << "</text>\n";
  out << "  <text x=\"" << left << "\" y=\"48\" class=\"quiet\">banks</text>\n";
  for (int place = 0; place < kChunks; ++place) {
    out << "  <text x=\"" << left + place * kWide + kWide / 2 << "\" y=\"" << kTop - 10 << "\" class=\"quiet middle\">"
        << 4 * place << "-" << 4 * place + 3 << "</text>\n";
  }
  for (int row = 0; row < kRows; ++row) {
    const int y = kTop + row * kHigh;
    out << "  <text x=\"" << left - 8 << "\" y=\"" << y + 17 << "\" class=\"quiet end\">row " << row << "</text>\n";
    for (int place = 0; place < kChunks; ++place) {
      const int x = left + place * kWide;
      const bool marked = chunk_at[row][place] == kMarked;
      out << "  <rect" << (marked ? " class=\"filled\"" : "") << " x=\"" << x << "\" y=\"" << y << "\" width=\""
          << kWide << "\" height=\"" << kHigh << "\"/><text x=\"" << x + kWide / 2 << "\" y=\"" << y + 17
          << "\" class=\"middle\">" << chunk_at[row][place] << "</text>\n";
    }
  }
}

std::string draw() {
  std::ostringstream out;
  out << R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 830 334" width="830" height="334" role="img" font-family="sans-serif" font-size="13">
  <title>Eight rows of eight chunks of 16 bytes in shared memory. Without a swizzle chunk 2 of all rows is in banks 8 to 11; with the swizzle of 128 bytes it is in other banks in each row</title>
  <style>
    :root { color-scheme: light dark; }
    text { fill: #222; } .quiet { fill: #666; font-size: 12px; } .middle { text-anchor: middle; } .end { text-anchor: end; }
    rect { stroke: #777; fill: none; } .filled { fill: #d8e8f8; stroke: #36c; }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd; } .quiet { fill: #aaa; } rect { stroke: #888; } .filled { fill: #1d3147; stroke: #6af; }
    }
  </style>
)";
  draw_grid(out, 60, "row by row: chunk 2 is always in the same banks",
            [](int row, int column) { return PlainTile<float, kRows, 32>::offset_of(row, column); });
  draw_grid(out, 450, "128-byte swizzle: in other banks in each row",
            [](int row, int column) { return Tile<float, kRows, 32>::offset_of(row, column); });
  out << "  <text x=\"60\" y=\"" << kTop + kRows * kHigh + 28
      << "\" class=\"quiet\">The number in a cell says which chunk of its row is there.</text>\n";
  out << "  <text x=\"60\" y=\"" << kTop + kRows * kHigh + 46
      << "\" class=\"quiet\">A cell is 16 bytes, four banks; a line is 128 bytes, all 32.</text>\n";
  out << "</svg>\n";
  return out.str();
}

}  // namespace

int main(int argc, char** argv) {
  return stagecraft::harness::print_or_compare(draw(), argc > 1 ? argv[1] : nullptr, "the layout functions say",
                                               argv[0]);
}
