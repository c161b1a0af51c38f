// This program draws the pictures of chapter 14 from what the library says: the way of scale factors from memory to
// tensor memory, and how the columns of tensor memory are divided.
//   draw_scale_factors scale_factors|columns         prints a picture
//   draw_scale_factors scale_factors|columns FILE    fails when FILE is not the picture
#include <cstdint>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "harness/picture.hpp"
#include "problem.cuh"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/scale_factors.hpp"

namespace {

using namespace stagecraft;

constexpr char kStyle[] = R"(  <style>
    :root { color-scheme: light dark; }
    text { fill: #222; } .quiet { fill: #666; font-size: 12px; } .middle { text-anchor: middle; } .end { text-anchor: end; }
    rect { stroke: #777; fill: none; } .one { stroke: #c00; stroke-width: 2; } .arrow { stroke: #777; fill: none; }
    .rows0 { fill: #d8e8f8; } .rows1 { fill: #f8e4c8; } .rows2 { fill: #d9f0d5; } .rows3 { fill: #ecdcf4; } .free { fill: #eee; }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd; } .quiet { fill: #aaa; } rect { stroke: #888; } .one { stroke: #f66; } .free { fill: #2a2a2a; }
      .rows0 { fill: #1d3147; } .rows1 { fill: #473215; } .rows2 { fill: #1c3d1a; } .rows3 { fill: #3a2347; }
    }
  </style>
)";

std::string begin(int width, int height, const std::string& title) {
  std::ostringstream out;
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " << width << " " << height << "\" width=\"" << width
      << "\" height=\"" << height << "\" role=\"img\" font-family=\"sans-serif\" font-size=\"13\">\n  <title>" << title
      << "</title>\n"
      << kStyle;
  return out.str();
}

void draw_rect(std::ostream& out, const std::string& style, int x, int y, int width, int height) {
  out << "  <rect class=\"" << style << "\" x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\""
      << height << "\"/>\n";
}

void draw_text(std::ostream& out, const std::string& style, int x, int y, const std::string& text) {
  out << "  <text" << (style.empty() ? "" : " class=\"" + style + "\"") << " x=\"" << x << "\" y=\"" << y << "\">"
      << text << "</text>\n";
}

// ---- The way of the scale factors -----------------------------------------------------------------------------------

/// An atom: 128 rows and 4 blocks. The picture shows each 32 rows in a colour of their own, and follows one of them.
std::string draw_scale_factors() {
  using Atom = ScaleFactorTile<__nv_fp8_e8m0, 128, 4>;
  using Place = TmemScaleTile<Atom>;
  constexpr int kLine = 16;              // bytes that a lane gets
  constexpr int kRow = 37, kBlock = 2;   // the one that is followed
  constexpr int kTop = 84, kPixels = 3;  // of a row, a line of memory, a lane
  constexpr int kMatrixX = 60, kMatrixBlock = 26;
  constexpr int kMemoryX = 282, kByte = 13;
  constexpr int kTmemX = 570, kTmemByte = 13;
  std::ostringstream out;
  out << begin(880, 530,
               "The scale factors of 128 rows and 4 blocks of K: as a matrix, as 512 bytes in memory, and in tensor "
               "memory, where each quarter of the lanes has a copy");
  draw_text(out, "", kMatrixX, 24, "scale factors");
  draw_text(out, "quiet", kMatrixX, 42, "of 128 rows of A or B,");
  draw_text(out, "quiet", kMatrixX, 58, "4 blocks along K");
  draw_text(out, "", kMemoryX, 24, "in memory, global and shared");
  draw_text(out, "quiet", kMemoryX, 42, "an atom of 512 bytes:");
  draw_text(out, "quiet", kMemoryX, 58, "32 lines of 16");
  draw_text(out, "", kTmemX, 24, "in tensor memory");
  draw_text(out, "quiet", kTmemX, 42, "4 columns of 32 bits, a line in lane l,");
  draw_text(out, "quiet", kTmemX, 58, "l + 32, l + 64 and l + 96");

  for (int group = 0; group < 4; ++group) {
    const std::string style = "rows" + std::to_string(group);
    for (int block = 0; block < 4; ++block) {
      const uint32_t offset = Atom::offset_of(32 * group, block);
      const TmemCell cell = Place::cell_of(32 * group, block);
      const uint32_t byte = Place::byte_of(block);
      // What the rectangles claim, for each of the rows.
      for (int i = 0; i < 32; ++i) {
        const int row = 32 * group + i;
        bool right = Atom::offset_of(row, block) == offset + i * kLine;
        for (uint32_t quarter = 0; quarter < 4; ++quarter) {
          const TmemCell found = Place::cell_of(row, block, quarter);
          right = right && found.column == cell.column && found.lane == cell.lane + i + 32 * quarter;
        }
        if (!right) throw std::logic_error("the library has the scale factors elsewhere");
      }
      draw_rect(out, style, kMatrixX + block * kMatrixBlock, kTop + 32 * group * kPixels, kMatrixBlock, 32 * kPixels);
      draw_rect(out, style, kMemoryX + static_cast<int>(offset) % kLine * kByte,
                kTop + static_cast<int>(offset) / kLine * kPixels, kByte, 32 * kPixels);
      for (int quarter = 0; quarter < 4; ++quarter) {
        draw_rect(out, style, kTmemX + static_cast<int>(cell.column * 4 + byte) * kTmemByte,
                  kTop + (static_cast<int>(cell.lane) + 32 * quarter) * kPixels, kTmemByte, 32 * kPixels);
      }
    }
    draw_text(out, "quiet end", kMatrixX - 6, kTop + 32 * group * kPixels + 52,
              std::to_string(32 * group) + "-" + std::to_string(32 * group + 31));
    draw_text(out, "quiet", kTmemX + 16 * kTmemByte + 8, kTop + 32 * group * kPixels + 52,
              "lanes " + std::to_string(32 * group) + "-" + std::to_string(32 * group + 31));
    draw_text(out, "quiet middle", kMemoryX + group * 4 * kByte + 2 * kByte, kTop - 8,
              std::to_string(4 * group) + "-" + std::to_string(4 * group + 3));
    draw_text(out, "quiet middle", kTmemX + group * 4 * kTmemByte + 2 * kTmemByte, kTop - 8, std::to_string(group));
  }
  draw_text(out, "quiet end", kMemoryX - 6, kTop - 8, "byte");
  draw_text(out, "quiet end", kTmemX - 6, kTop - 8, "column");
  draw_text(out, "quiet end", kMatrixX - 6, kTop - 8, "row");
  draw_text(out, "quiet middle", kMatrixX + 2 * kMatrixBlock, kTop - 8, "block 0 to 3");

  const auto mark = [&](int x, int y, int width) { draw_rect(out, "one", x, y, width, kPixels); };
  const int offset = static_cast<int>(Atom::offset_of(kRow, kBlock));
  mark(kMatrixX + kBlock * kMatrixBlock, kTop + kRow * kPixels, kMatrixBlock);
  mark(kMemoryX + offset % kLine * kByte, kTop + offset / kLine * kPixels, kByte);
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    const TmemCell cell = Place::cell_of(kRow, kBlock, quarter);
    mark(kTmemX + static_cast<int>(cell.column * 4 + Place::byte_of(kBlock)) * kTmemByte,
         kTop + static_cast<int>(cell.lane) * kPixels, kTmemByte);
  }
  draw_text(out, "quiet", kMemoryX, kTop + 32 * kPixels + 24, "the copy engine brings it as it is;");
  draw_text(out, "quiet", kMemoryX, kTop + 32 * kPixels + 48, "tcgen05.cp .32x128b.warpx4 spreads it:");
  draw_text(out, "quiet", kMemoryX, kTop + 32 * kPixels + 64, "32 lines of 128 bits, four times");
  draw_text(out, "quiet", kMatrixX - 40, kTop + 128 * kPixels + 30,
            "Red: the scale factor of row " + std::to_string(kRow) + ", block " + std::to_string(kBlock) +
                ". In memory it is byte " + std::to_string(offset) + ".");
  std::ostringstream place;
  place << "In tensor memory it is byte " << Place::byte_of(kBlock) << " of column "
        << Place::cell_of(kRow, kBlock).column << ", in lanes";
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    place << (quarter == 0 ? " " : quarter == 3 ? " and " : ", ") << Place::cell_of(kRow, kBlock, quarter).lane;
  }
  draw_text(out, "quiet", kMatrixX - 40, kTop + 128 * kPixels + 48, place.str() + ".");
  out << "</svg>\n";
  return out.str();
}

// ---- The division of tensor memory ----------------------------------------------------------------------------------

template <typename Type, int TileN, int Accumulators>
void draw_division(std::ostream& out, int y, const std::string& name) {
  constexpr int kStages = 4, kX = 20, kPixels = 2, kHeight = 40;
  using Output = OutputTilePipeline<TmemTensor<kTileM, TileN>, Accumulators>;
  using Tmem = BlockScaledTmem<Output, Payload<Type, TileN, kStages>>;
  draw_text(out, "", kX, y - 10, name);
  draw_rect(out, "free", kX, y, Tmem::tmem_columns * kPixels, kHeight);
  for (int i = 0; i < Accumulators; ++i) {
    const int width = Output::Accumulator::tmem_columns * kPixels;
    draw_rect(out, "rows0", kX + i * width, y, width, kHeight);
    draw_text(out, "middle", kX + i * width + width / 2, y + 25, "accumulator " + std::to_string(i));
  }
  for (int stage = 0; stage < kStages; ++stage) {
    const int sfa = Tmem::accumulator_columns + stage * Tmem::ScaleFactors::tmem_columns;
    const int of_a = TmemScaleTile<SfaTile<Type>>::tmem_columns;
    draw_rect(out, "rows1", kX + sfa * kPixels, y, of_a * kPixels, kHeight);
    draw_rect(out, "rows2", kX + (sfa + of_a) * kPixels, y, (Tmem::ScaleFactors::tmem_columns - of_a) * kPixels,
              kHeight);
  }
  draw_text(out, "quiet", kX, y + kHeight + 16,
            std::to_string(Tmem::accumulator_columns) + " columns of accumulators, " + std::to_string(kStages) + " x " +
                std::to_string(Tmem::ScaleFactors::tmem_columns) + " of scale factors; " +
                std::to_string(Tmem::tmem_columns) + " are allocated");
}

std::string draw_columns() {
  std::ostringstream out;
  out << begin(1064, 330,
               "How the 512 columns of tensor memory are divided: accumulators first, then for each of four stages the "
               "scale factors of A and of B");
  draw_division<Mxfp8, 128, 2>(out, 44, "MXFP8, tiles of 128 x 128");
  draw_division<Nvfp4, 128, 2>(out, 140, "NVFP4, tiles of 128 x 128");
  draw_division<Nvfp4, 256, 1>(out, 236, "NVFP4, tiles of 128 x 256");
  draw_text(out, "quiet", 20, 318,
            "Blue: accumulators. Orange and green: scale factors of A and of B, for each stage. Grey: not used.");
  out << "</svg>\n";
  return out.str();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  if (which != "scale_factors" && which != "columns") {
    std::cerr << "usage: draw_scale_factors scale_factors|columns [FILE]\n";
    return 2;
  }
  const std::string picture = which == "columns" ? draw_columns() : draw_scale_factors();
  return stagecraft::harness::print_or_compare(picture, argc > 2 ? argv[2] : nullptr, "the library says",
                                               argv[0] + (" " + which));
}
