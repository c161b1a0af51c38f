// This program draws the pictures of chapter 14 from what the library says: the way of scale factors from memory to
// tensor memory, what an MMA takes of them, and how the columns of tensor memory are divided.
//   draw_scale_factors scale_factors|bytes|columns         prints a picture
//   draw_scale_factors scale_factors|bytes|columns FILE    fails when FILE is not the picture
#include <cstdint>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "harness/drawing.hpp"
#include "harness/picture.hpp"
#include "problem.cuh"
#include "stagecraft/output_tile_pipeline.hpp"
#include "stagecraft/scale_factors.hpp"

namespace {

using namespace stagecraft;
using harness::Drawing;

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
  Drawing out(880, 530,
              "The scale factors of 128 rows and 4 blocks of K: as a matrix, as 512 bytes in memory, and in tensor "
              "memory, where each quarter of the lanes has a copy");
  out.words("", kMatrixX, 24, "scale factors");
  out.words("quiet", kMatrixX, 42, "of 128 rows of A or B,");
  out.words("quiet", kMatrixX, 58, "4 blocks along K");
  out.words("", kMemoryX, 24, "in memory, global and shared");
  out.words("quiet", kMemoryX, 42, "an atom of 512 bytes:");
  out.words("quiet", kMemoryX, 58, "32 lines of 16");
  out.words("", kTmemX, 24, "in tensor memory");
  out.words("quiet", kTmemX, 42, "4 columns of 32 bits, a line in lane l,");
  out.words("quiet", kTmemX, 58, "l + 32, l + 64 and l + 96");

  for (int group = 0; group < 4; ++group) {
    const std::string style = "tone" + std::to_string(group);
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
      out.box(style, kMatrixX + block * kMatrixBlock, kTop + 32 * group * kPixels, kMatrixBlock, 32 * kPixels);
      out.box(style, kMemoryX + static_cast<int>(offset) % kLine * kByte,
              kTop + static_cast<int>(offset) / kLine * kPixels, kByte, 32 * kPixels);
      for (int quarter = 0; quarter < 4; ++quarter) {
        out.box(style, kTmemX + static_cast<int>(cell.column * 4 + byte) * kTmemByte,
                kTop + (static_cast<int>(cell.lane) + 32 * quarter) * kPixels, kTmemByte, 32 * kPixels);
      }
    }
    out.words("quiet end", kMatrixX - 6, kTop + 32 * group * kPixels + 52,
              std::to_string(32 * group) + "-" + std::to_string(32 * group + 31));
    out.words("quiet", kTmemX + 16 * kTmemByte + 8, kTop + 32 * group * kPixels + 52,
              "lanes " + std::to_string(32 * group) + "-" + std::to_string(32 * group + 31));
    out.words("quiet middle", kMemoryX + group * 4 * kByte + 2 * kByte, kTop - 8,
              std::to_string(4 * group) + "-" + std::to_string(4 * group + 3));
    out.words("quiet middle", kTmemX + group * 4 * kTmemByte + 2 * kTmemByte, kTop - 8, std::to_string(group));
  }
  out.words("quiet end", kMemoryX - 6, kTop - 8, "byte");
  out.words("quiet end", kTmemX - 6, kTop - 8, "column");
  out.words("quiet end", kMatrixX - 6, kTop - 8, "row");
  out.words("quiet middle", kMatrixX + 2 * kMatrixBlock, kTop - 8, "block 0 to 3");

  const auto mark = [&](int x, int y, int width) { out.box("one", x, y, width, kPixels); };
  const int offset = static_cast<int>(Atom::offset_of(kRow, kBlock));
  mark(kMatrixX + kBlock * kMatrixBlock, kTop + kRow * kPixels, kMatrixBlock);
  mark(kMemoryX + offset % kLine * kByte, kTop + offset / kLine * kPixels, kByte);
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    const TmemCell cell = Place::cell_of(kRow, kBlock, quarter);
    mark(kTmemX + static_cast<int>(cell.column * 4 + Place::byte_of(kBlock)) * kTmemByte,
         kTop + static_cast<int>(cell.lane) * kPixels, kTmemByte);
  }
  out.words("quiet", kMemoryX, kTop + 32 * kPixels + 24, "TMA brings it as it is;");
  out.words("quiet", kMemoryX, kTop + 32 * kPixels + 48, "tcgen05.cp .32x128b.warpx4 spreads it:");
  out.words("quiet", kMemoryX, kTop + 32 * kPixels + 64, "32 lines of 128 bits, four times");
  out.words("quiet", kMatrixX - 40, kTop + 128 * kPixels + 30,
            "Red: the scale factor of row " + std::to_string(kRow) + ", block " + std::to_string(kBlock) +
                ". In memory it is byte " + std::to_string(offset) + ".");
  std::ostringstream place;
  place << "In tensor memory it is byte " << Place::byte_of(kBlock) << " of column "
        << Place::cell_of(kRow, kBlock).column << ", in lanes";
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    place << (quarter == 0 ? " " : quarter == 3 ? " and " : ", ") << Place::cell_of(kRow, kBlock, quarter).lane;
  }
  out.words("quiet", kMatrixX - 40, kTop + 128 * kPixels + 48, place.str() + ".");
  return out.finish();
}

// ---- What an MMA takes ----------------------------------------------------------------------------------------------

/// A row of a k-tile: its MMAs, its blocks along K, and the cells with its scale factors, in a colour for each MMA.
template <typename Type>
void draw_row_of_tile(Drawing& out, int y, const std::string& name) {
  constexpr int kX = 120, kByte = 6, kHigh = 28, kLine = 42, kScaleByte = 32;
  constexpr Mma kMma = scaled_mma_of<ATile<Type>, BTile<Type, 128>, SfaTile<Type>, 1>();
  constexpr int kBits = element_bits<typename Type::Element>, kMmas = kTileK<Type> / kMma.k();
  constexpr int kBlocks = kMma.k() / Type::block, kMmaWidth = kMma.k() * kBits / 8 * kByte;
  using Place = TmemScaleTile<SfaTile<Type>>;
  out.words("", 20, y - 12,
            name + ": " + std::to_string(kTileK<Type>) + " elements of " + std::to_string(kBits) + " bits along K, " +
                std::to_string(kTileBlocks<Type>) + " scale factors");
  out.words("quiet", 20, y + 18, "128 bytes");
  out.words("quiet", 20, y + kLine + 18, "blocks");
  out.words("quiet", 20, y + 2 * kLine + 18, "cells of 4 bytes");
  for (int i = 0; i < kMmas; ++i) {
    const std::string tone = "tone" + std::to_string(i);
    const int x = kX + i * kMmaWidth;
    out.box(tone, x, y, kMmaWidth, kHigh);
    out.words("middle", x + kMmaWidth / 2, y + 18, "MMA " + std::to_string(i) + ": K = " + std::to_string(kMma.k()));
    for (int block = i * kBlocks; block < (i + 1) * kBlocks; ++block) {
      const int width = kMmaWidth / kBlocks, left = kX + block * width;
      out.box(tone, left, y + kLine, width, kHigh);
      out.words("small middle", left + width / 2, y + kLine + 18, std::to_string(block));
      // The cells of the row, in the order of K; all columns between belong to other rows.
      const int byte = static_cast<int>(Place::byte_of(block)), cell = kX + block / 4 * kMmaWidth;
      out.box(tone, cell + byte * kScaleByte, y + 2 * kLine, kScaleByte, kHigh);
      out.words("small middle", cell + byte * kScaleByte + kScaleByte / 2, y + 2 * kLine + 18, std::to_string(block));
      if (byte == 0) {
        out.words("quiet", cell, y + 2 * kLine + 46, "column " + std::to_string(Place::cell_of(0, block).column));
      }
    }
  }
}

std::string draw_bytes() {
  Drawing out(908, 394,
              "What an MMA takes of a row: 32 bytes of elements, with MXFP8 one byte of one cell of scale factors, "
              "with NVFP4 all "
              "four bytes of a cell");
  draw_row_of_tile<Mxfp8>(out, 44, "MXFP8");
  draw_row_of_tile<Nvfp4>(out, 230, "NVFP4");
  out.words("quiet", 20, 382, "Row 0 of a tile of 128 rows. What has the colour of an MMA is what it takes.");
  return out.finish();
}

// ---- The division of tensor memory ----------------------------------------------------------------------------------

template <typename Type, int TileN, int Accumulators>
void draw_division(Drawing& out, int y, const std::string& name) {
  constexpr int kStages = 4, kX = 20, kPixels = 2, kHeight = 40;
  using Output = OutputTilePipeline<TmemTensor<kTileM, TileN>, Accumulators>;
  using Tmem = BlockScaledTmem<Output, Payload<Type, TileN, kStages>>;
  out.words("", kX, y - 10, name);
  out.box("free", kX, y, Tmem::tmem_columns * kPixels, kHeight);
  for (int i = 0; i < Accumulators; ++i) {
    const int width = Output::Accumulator::tmem_columns * kPixels;
    out.box("tone0", kX + i * width, y, width, kHeight);
    out.words("middle", kX + i * width + width / 2, y + 25, "accumulator " + std::to_string(i));
  }
  for (int stage = 0; stage < kStages; ++stage) {
    const int sfa = Tmem::accumulator_columns + stage * Tmem::ScaleFactors::tmem_columns;
    const int of_a = TmemScaleTile<SfaTile<Type>>::tmem_columns;
    out.box("tone1", kX + sfa * kPixels, y, of_a * kPixels, kHeight);
    out.box("tone2", kX + (sfa + of_a) * kPixels, y, (Tmem::ScaleFactors::tmem_columns - of_a) * kPixels, kHeight);
  }
  out.words("quiet", kX, y + kHeight + 16,
            std::to_string(Tmem::accumulator_columns) + " columns of accumulators, " + std::to_string(kStages) + " x " +
                std::to_string(Tmem::ScaleFactors::tmem_columns) + " of scale factors; " +
                std::to_string(Tmem::tmem_columns) + " are allocated");
}

std::string draw_columns() {
  Drawing out(1064, 330,
              "How the 512 columns of tensor memory are divided: accumulators first, then for each of four stages the "
              "scale factors of A and of B");
  draw_division<Mxfp8, 128, 2>(out, 44, "MXFP8, tiles of 128 x 128");
  draw_division<Nvfp4, 128, 2>(out, 140, "NVFP4, tiles of 128 x 128");
  draw_division<Nvfp4, 256, 1>(out, 236, "NVFP4, tiles of 128 x 256");
  out.words("quiet", 20, 318,
            "Blue: accumulators. Orange and green: scale factors of A and of B, for each stage. Grey: not used.");
  return out.finish();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  const std::string picture = which == "scale_factors" ? draw_scale_factors()
                              : which == "bytes"       ? draw_bytes()
                              : which == "columns"     ? draw_columns()
                                                       : "";
  if (picture.empty()) {
    std::cerr << "usage: draw_scale_factors scale_factors|bytes|columns [FILE]\n";
    return 2;
  }
  return stagecraft::harness::print_or_compare(picture, argc > 2 ? argv[2] : nullptr, "the library says",
                                               argv[0] + (" " + which));
}
