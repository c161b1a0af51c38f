// This program draws the pictures of chapter 19: which lane has what of the operands and sums of a product, as loads
// and a product on the device show it; where the rows are that one ldmatrix reads; which slices are in registers when;
// and which lane has which scale factor.
//   draw_fragments fragments|banks|slices|scales         prints a picture
//   draw_fragments fragments|banks|slices|scales FILE    fails when FILE is not the picture
#include <cuda_bf16.h>

#include <array>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "fragments.hpp"
#include "harness/cuda_error.hpp"
#include "harness/device_buffer.hpp"
#include "harness/drawing.hpp"
#include "harness/kernel_run.hpp"
#include "harness/picture.hpp"
#include "problem.cuh"
#include "scale_fragments.hpp"
#include "stagecraft/launch.hpp"

namespace {

using namespace stagecraft;

std::string text(int number) { return std::to_string(number); }

// ---- Who has what of the operands and of the sums
// ---------------------------------------------------------------------

constexpr int kRows = 16, kColumns = 8, kSlice = 16;  // of a product, and its elements along K
using SliceTile16 = Tile<__nv_bfloat16, kRows, 64>;

/// What a lane has of a slice: the places of two neighbouring elements for each register; and its sums.
struct OfLane {
  int a[4], b[4];
  int sums[4];
};

/// Loads tiles in which each element says where it is, and multiplies matrices whose product does.
__global__ void __launch_bounds__(kWarpSize) write_down(OfLane* lanes) {
  __shared__ SliceTile16 places, a, b;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * 64; i += kWarpSize) {
    const int row = i / 64, k = i % 64;
    places.at(row, k) = __int2bfloat16_rn(k < kSlice ? row * kSlice + k : 0);  // 255 at most: exact
    a.at(row, k) = __int2bfloat16_rn(k == 0 ? row : k == 1 ? 1 : 0);
    b.at(row, k) = __int2bfloat16_rn(k == 0 ? kColumns : k == 1 ? row : 0);
  }
  __syncwarp();
  Fragments<kRows, kRows> slice;
  slice.load(places, 0, places, 0, 0);
  OfLane& mine = lanes[threadIdx.x];
  const auto place = [](uint32_t pair) {  // of the first of two elements
    return __bfloat162int_rn(__ushort_as_bfloat16(static_cast<unsigned short>(pair & 0xFFFF)));
  };
  for (int i = 0; i < 4; ++i) {
    mine.a[i] = place(slice.a[0][i]);
    mine.b[i] = place(slice.b[0][i]);
  }
  slice.load(a, 0, b, 0, 0);
  WarpSums<kRows, kRows> sums{};
  multiply<__nv_bfloat16>(sums, slice);
  for (int i = 0; i < 4; ++i) mine.sums[i] = static_cast<int>(sums.of[0][0][i]);
}

std::string draw_fragments() {
  const harness::DeviceBuffer<OfLane> buffer(kWarpSize, "the lanes");
  harness::check(launch_kernel(write_down, {.grid = 1, .block = kWarpSize}, buffer.data()), "launch write_down");
  harness::finish_kernel("write_down");
  const std::vector<OfLane> lanes = buffer.to_host();

  constexpr int kCells = 8, kWide = 36, kHigh = 17, kTop = 64, kPitch = kCells * kWide + 44, kMarked = 5;
  struct Cell {
    int lane = -1, index = -1;
  };
  using Grid = std::array<std::array<Cell, kCells>, kRows>;
  Grid a, b, sums;
  const auto put = [](Grid& grid, int row, int cell, int lane, int index) {
    Cell& at = grid.at(row).at(cell);
    if (at.lane >= 0) throw std::logic_error("two lanes have the same element");
    at = {lane, index};
  };
  for (int lane = 0; lane < static_cast<int>(kWarpSize); ++lane) {
    for (int i = 0; i < 4; ++i) {
      put(a, lanes[lane].a[i] / kSlice, lanes[lane].a[i] % kSlice / 2, lane, i);
      put(b, lanes[lane].b[i] / kSlice, lanes[lane].b[i] % kSlice / 2, lane, i);
      put(sums, lanes[lane].sums[i] / kColumns, lanes[lane].sums[i] % kColumns, lane, i);
    }
  }
  harness::Drawing out(1020, 386,
                       "Lane and register of each pair of elements of A and B, and of each sum: lane 4r + c has row r; "
                       "of A and B the pairs "
                       "of columns 2c and 2c + 8 of rows r and r + 8, of the sums columns 2c and 2c + 1");
  const auto draw = [&](int number, const std::string& title, const std::string& detail, const Grid& grid) {
    const int left = 30 + number * kPitch;
    out.words("", left, 24, title);
    out.words("quiet", left, 44, detail);
    for (int row = 0; row < kRows; ++row) {
      out.words("small end", left - 5, kTop + row * kHigh + 13, text(row));
      for (int cell = 0; cell < kCells; ++cell) {
        const Cell& at = grid[row][cell];
        const int x = left + cell * kWide, y = kTop + row * kHigh;
        out.box(at.lane == kMarked ? "filled" : "", x, y, kWide, kHigh);
        out.words("small middle", x + kWide / 2, y + 13, text(at.lane) + ":" + text(at.index));
      }
    }
  };
  draw(0, "a: 16 rows of A, 16 elements along K", "a cell is two elements: lane : register", a);
  draw(1, "b: 16 rows of B, 16 elements along K", "rows 0 to 7 are one product's, 8 to 15 the next's", b);
  draw(2, "16 x 8 sums", "a cell is one sum", sums);
  out.words(
      "quiet", 30, kTop + kRows * kHigh + 26,
      "Coloured: what lane " + text(kMarked) + " has. Four registers of A, two of B and four sums are one mma.sync.");
  return out.finish();
}

// ---- The banks of one ldmatrix
// ----------------------------------------------------------------------------------------

std::string draw_banks() {
  constexpr int kShown = 8, kWide = 38, kHigh = 22, kTop = 74, kPieces = 8,
                kColumn = 16;  // the second slice's first half
  harness::Drawing out(
      760, 306,
      "Eight rows of 16 bytes, which are one matrix of ldmatrix: row by row, all are in the same four banks; "
      "with the swizzle of 128 bytes, each is in four others");
  const auto draw = [&](int left, const std::string& title, auto offset_of, const std::string& detail) {
    out.words("", left, 24, title);
    out.words("quiet", left, 48, "banks");
    for (int piece = 0; piece < kPieces; ++piece) {
      out.words("small middle", left + piece * kWide + kWide / 2, kTop - 8, text(4 * piece));
    }
    for (int row = 0; row < kShown; ++row) {
      const int at = static_cast<int>(offset_of(row, kColumn));
      if (at / 128 != row) throw std::logic_error("a row is not in its line");
      out.words("small end", left - 5, kTop + row * kHigh + 15, text(row));
      for (int piece = 0; piece < kPieces; ++piece) {
        out.box(at % 128 / 16 == piece ? "filled" : "", left + piece * kWide, kTop + row * kHigh, kWide, kHigh);
      }
    }
    out.words("quiet", left, kTop + kShown * kHigh + 24, detail);
  };
  using Swizzled = Config<__nv_bfloat16>::ATile;
  using Plain = Config<__nv_bfloat16, 1, /*Swizzled=*/false>::ATile;
  draw(40, "row by row", Plain::offset_of, "one row after another: 8 wavefronts");
  draw(420, "swizzled", Swizzled::offset_of, "all eight at once: 1 wavefront");
  out.words("quiet", 40, kTop + kShown * kHigh + 48,
            "A box is 16 bytes, in four banks. Coloured: what one matrix takes of rows 0 to 7.");
  return out.finish();
}

// ---- Slices in registers
// ------------------------------------------------------------------------------------------------

std::string draw_slices() {
  constexpr int kSlices = Config<__nv_bfloat16>::slices, kTiles = 2, kWide = 76, kHigh = 30, kLeft = 128, kTop = 66;
  harness::Drawing out(
      kLeft + (kSlices * kTiles + 1) * kWide + 44, 254,
      "While a slice is multiplied out of one stage of registers, the next is loaded into the other; the stage "
      "in shared memory is free when its last slice is in registers, before that slice is multiplied");
  out.words("", 20, 24, "Slices of two k-tiles, in a warp's instructions from left to right");
  for (int tile = 0; tile < kTiles; ++tile) {
    const int x = kLeft + tile * kSlices * kWide;
    out.box(tile == 0 ? "tone0" : "tone1", x, kTop - 26, kSlices * kWide, 22);
    out.words("middle", x + kSlices * kWide / 2, kTop - 10, "stage " + text(tile) + " of the ring is being read");
  }
  const int y = kTop + 8;
  out.words("end", kLeft - 12, y + 20, "ldmatrix");
  out.words("end", kLeft - 12, y + kHigh + 32, "mma.sync");
  for (int load = 0; load <= kSlices * kTiles; ++load) {  // as in the loop: load, then multiply the one before
    const auto draw = [&](int row, int slice) {
      const int x = kLeft + load * kWide;
      out.box(slice % 2 == 0 ? "tone2" : "tone3", x + 2, y + row * (kHigh + 12), kWide - 4, kHigh);
      out.words("middle", x + kWide / 2, y + row * (kHigh + 12) + 20, "slice " + text(slice % kSlices));
    };
    if (load < kSlices * kTiles) draw(0, load);
    if (load > 0) draw(1, load - 1);
  }
  for (int tile = 1; tile <= kTiles; ++tile) {  // between a load and the product beside it
    const int x = kLeft + tile * kSlices * kWide;
    out.line("one", "M" + text(x - kWide + 2) + " " + text(y + kHigh + 6) + " H" + text(x - 2));
    out.words("small end", x + 4, y + 2 * kHigh + 30, "red: arrive, stage " + text(tile - 1) + " is empty");
  }
  const int legend = y + 2 * kHigh + 54;
  for (const int stage : {0, 1}) {
    out.box(stage == 0 ? "tone2" : "tone3", kLeft + stage * 260, legend, 18, 16);
    out.words("quiet", kLeft + 26 + stage * 260, legend + 13, "registers of fragments[" + text(stage) + "]");
  }
  out.words("quiet", kLeft, legend + 44,
            "After the load of a k-tile's last slice, all that is still to be multiplied is in registers.");
  return out.finish();
}

// ---- Who has which scale factor
// ----------------------------------------------------------------------------------------

/// What the chapter's functions say on the device: the row of each lane, and what fragments of A and B select.
struct Selected {
  int row[kWarpSize];
  int thread_a[2], thread_b[4];
  int byte_mxfp8[4], byte_nvfp4[2];
};

__global__ void write_down_scales(Selected* to) {
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) to->row[lane] = scale_row_of(lane);
  for (int i = 0; i < 2; ++i) to->thread_a[i] = select_scales<Mxfp8>(i, 16, 0).thread;
  for (int i = 0; i < 4; ++i) to->thread_b[i] = select_scales<Mxfp8>(i, 8, 0).thread;
  for (int i = 0; i < 4; ++i) to->byte_mxfp8[i] = select_scales<Mxfp8>(0, 16, i).byte;
  for (int i = 0; i < 2; ++i) to->byte_nvfp4[i] = select_scales<Nvfp4>(0, 16, i).byte;
}

std::string draw_scales() {
  const harness::DeviceBuffer<Selected> buffer(1, "the selectors");
  harness::check(launch_kernel(write_down_scales, {.grid = 1, .block = 1}, buffer.data()), "launch write_down_scales");
  harness::finish_kernel("write_down_scales");
  const Selected said = buffer.to_host().at(0);

  constexpr int kWide = 74, kHigh = 20, kTop = 66, kLeft = 90, kRight = 500;
  harness::Drawing out(
      910, 312,
      "A lane has the four scale factors of one of 32 rows: lanes l mod 4 of a quad have rows that are eight "
      "apart. A product of A takes those of two lanes of each quad, one of B those of one; and of the bytes "
      "one with MXFP8, all four with NVFP4");
  out.words("", kLeft, 24, "Which of 32 rows a lane has");
  out.words("quiet end", kLeft - 8, kTop - 8, "l mod 4 =");
  for (int lane = 0; lane < 4; ++lane)
    out.words("quiet middle", kLeft + lane * kWide + kWide / 2, kTop - 8, text(lane));
  for (int lane = 0; lane < static_cast<int>(kWarpSize); ++lane) {
    const int x = kLeft + lane % 4 * kWide, y = kTop + lane / 4 * kHigh;
    if (lane % 4 == 0) out.words("quiet end", kLeft - 8, y + 15, "l / 4 = " + text(lane / 4));
    out.box("tone" + text(lane % 4), x, y, kWide, kHigh);
    out.words("middle", x + kWide / 2, y + 15, "row " + text(said.row[lane]));
  }
  const int below = kTop + 8 * kHigh + 22;
  for (int i = 0; i < 4; ++i) {
    out.words("small middle", kLeft + said.thread_b[i] * kWide + kWide / 2, below, "b: " + text(said.thread_b[i]));
  }
  for (int i = 0; i < 2; ++i) {
    const int x = kLeft + 2 * said.thread_a[i] * kWide;
    out.line("", "M" + text(x + 6) + " " + text(below + 10) + " H" + text(x + 2 * kWide - 6));
    out.words("small middle", x + kWide, below + 26, "a: " + text(said.thread_a[i]) + " (16 rows)");
  }
  out.words("quiet", kLeft, below + 50, "The selector .thread of a fragment of B (8 rows), and of A.");
  out.words("", kRight, 24, "The four bytes of a lane's register");
  const auto bytes = [&](int y, const std::string& name, int slices, const int* first, int each) {
    out.words("", kRight, y - 8, name);
    for (int byte = 0; byte < 4; ++byte) {
      const int slice = byte / each;
      const int chosen = slice < slices ? first[slice] : -1;
      if (chosen != slice * each) throw std::logic_error("a slice's scale factors are elsewhere");
      out.box("tone" + text(slice), kRight + byte * kWide, y, kWide, 26);
      out.words("small middle", kRight + byte * kWide + kWide / 2, y + 17, "slice " + text(slice));
    }
  };
  bytes(kTop, "MXFP8: a byte for each slice of 32 elements", 4, said.byte_mxfp8, 1);
  if (said.byte_nvfp4[0] != 0 || said.byte_nvfp4[1] != 0)
    throw std::logic_error("a slice of NVFP4 takes all four bytes");
  const int none[1] = {0};
  bytes(kTop + 84, "NVFP4: all four for one slice of 64 elements", 1, none, 4);
  out.words("quiet", kRight, kTop + 136, "The selector .byte is where a slice's bytes begin.");
  return out.finish();
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string which = argc > 1 ? argv[1] : "";
  const char* file = argc > 2 ? argv[2] : nullptr;
  const std::string redraw = argv[0] + (" " + which);
  if (which == "fragments") return harness::print_or_compare(draw_fragments(), file, "a run gives", redraw);
  if (which == "banks") return harness::print_or_compare(draw_banks(), file, "the tiles say", redraw);
  if (which == "slices") return harness::print_or_compare(draw_slices(), file, "the kernel's numbers give", redraw);
  if (which == "scales") return harness::print_or_compare(draw_scales(), file, "the kernel's functions say", redraw);
  std::fputs("usage: draw_fragments fragments|banks|slices|scales [FILE]\n", stderr);
  return 2;
} catch (const std::exception& error) {
  std::fprintf(stderr, "draw_fragments: %s\n", error.what());
  return 1;
}
