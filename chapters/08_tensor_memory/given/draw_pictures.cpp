// This program draws the pictures of chapter 08 from what the library says: the fields of the descriptors, where an
// accumulator is in tensor memory, for each M, and which cells a thread loads.
//   draw_pictures descriptor|accumulator|layouts|fragments         prints a picture
//   draw_pictures descriptor|accumulator|layouts|fragments FILE    fails when FILE is not the picture
#include <array>
#include <cstdint>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/drawing.hpp"
#include "harness/picture.hpp"
#include "stagecraft/tmem_layout.hpp"
#include "stagecraft/umma_descriptors.hpp"

namespace {

using namespace stagecraft;
using harness::Drawing;

// ---- Descriptors ----------------------------------------------------------------------------------------------------

/// A field of a word, as the PTX ISA numbers its bits, and the bits that change when the library changes it.
struct Field {
  int high, low;
  std::string name, value;
  uint64_t changed = 0;
  bool set = false;  ///< the chapter sets it
};

constexpr int kBit = 23, kLeft = 20;

/// 32 bits of a word, from bit `top` down. Throws when the library puts a field elsewhere than the picture.
void draw_bits(Drawing& out, int y, int top, const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    const uint64_t bits = ((uint64_t{1} << (field.high - field.low + 1)) - 1) << field.low;
    if ((field.changed & ~bits) != 0) throw std::logic_error("the library has \"" + field.name + "\" in other bits");
    if (field.high > top || field.low <= top - 32) continue;
    const int x = kLeft + (top - field.high) * kBit, width = (field.high - field.low + 1) * kBit,
              middle = x + width / 2;
    out.box(field.set ? "filled" : field.name.empty() ? "free" : "", x, y, width, 30);
    out.words("quiet middle", middle, y - 6,
              std::to_string(field.high) + (field.high != field.low ? ":" + std::to_string(field.low) : ""));
    out.words("middle", middle, y + 20, field.value);
    out.words("quiet middle", middle, y + 47, field.name);
  }
}

template <Mma Instruction>
constexpr uint64_t word_of() {
  return instruction_descriptor<Instruction>();
}

std::string draw_descriptors() {
  using Descriptor = SharedMemoryDescriptor;
  const uint64_t none = Descriptor{}.encode();
  const auto changed = [&](const Descriptor& descriptor) { return descriptor.encode() ^ none; };
  uint64_t swizzles = 0;
  for (const Swizzle swizzle : {Swizzle::bytes_32, Swizzle::bytes_64, Swizzle::bytes_128, Swizzle::bytes_128_atom_32}) {
    swizzles |= changed({.swizzle = swizzle});
  }
  using OperandTile = Tile<__nv_bfloat16, 128, 64, Swizzle::bytes_128>;
  constexpr uint64_t kWord = tile_descriptor<OperandTile>();
  const auto value = [](int high, int low) { return std::to_string(kWord >> low & ((1u << (high - low + 1)) - 1)); };
  const std::vector<Field> shared = {
      {63, 61, "swizzle", value(63, 61), swizzles, true},
      {60, 53, "", "0"},
      {52, 52, "", "0"},
      {51, 49, "base offset", value(51, 49), changed({.base_offset = 7})},
      {48, 46, "always 1", value(48, 46), none},
      {45, 32, "stride byte offset / 16", value(45, 32), changed({.stride_byte_offset = 0x3fff0}), true},
      {31, 30, "", "0"},
      {29, 16, "leading byte offset / 16: of no use here", value(29, 16), changed({.leading_byte_offset = 0x3fff0})},
      {15, 14, "", "0"},
      {13, 0, "start address / 16", "address / 16", changed({.start_address = 0x3fff0}), true},
  };

  constexpr Mma kMma{.m = 128, .n = 128};
  constexpr uint64_t kInstruction = word_of<kMma>();
  const auto of = [](int high, int low) {
    return std::to_string(kInstruction >> low & ((1u << (high - low + 1)) - 1));
  };
  constexpr Mma kOfHalves{.m = 128, .n = 128, .a = ElementFormat::f16, .b = ElementFormat::f16};
  constexpr uint64_t kHalves = word_of<kOfHalves>();
  const std::vector<Field> instruction = {
      {31, 30, "", "0"},
      {29, 29, "", "0"},
      {28, 24, "M / 16", of(28, 24), kInstruction ^ word_of<Mma{.m = 64, .n = 128}>(), true},
      {23, 23, "", "0"},
      {22, 17, "N / 8", of(22, 17), kInstruction ^ word_of<Mma{.m = 128, .n = 240}>(), true},
      {16, 15, "majors", of(16, 15),
       kInstruction ^ word_of<Mma{.m = 128, .n = 128, .a_major = Major::mn, .b_major = Major::mn}>()},
      {14, 13, "negate", of(14, 13),
       kInstruction ^ word_of<Mma{.m = 128, .n = 128, .negate_a = true, .negate_b = true}>()},
      {12, 10, "B", of(12, 10),
       kHalves ^ word_of<Mma{.m = 128, .n = 128, .a = ElementFormat::f16, .b = ElementFormat::bf16}>(), true},
      {9, 7, "A", of(9, 7),
       kHalves ^ word_of<Mma{.m = 128, .n = 128, .a = ElementFormat::bf16, .b = ElementFormat::f16}>(), true},
      {6, 6, "", "0"},
      {5, 4, "D", of(5, 4),
       kHalves ^ word_of<Mma{.m = 128,
                             .n = 128,
                             .a = ElementFormat::f16,
                             .b = ElementFormat::f16,
                             .accumulator = AccumulatorFormat::f16}>(),
       true},
      {3, 0, "", "0"},
  };

  Drawing out(776, 400,
              "The 64 bits of a shared-memory descriptor: start address, leading and stride byte offset, a constant, "
              "base offset, swizzle; and the 32 bits of an instruction descriptor: formats of D, A and B, N, M");
  out.words("", 20, 24, "shared-memory descriptor of a tile of 128 x 64 bf16: its place and its layout");
  draw_bits(out, 60, 63, shared);
  draw_bits(out, 152, 31, shared);
  out.words("", 20, 252, "instruction descriptor: what is computed (kind f16; bf16 operands, f32 sums, 128 x 128)");
  draw_bits(out, 288, 31, instruction);
  out.words("quiet", 20, 372,
            "In each box the value that it has for this chapter's MMA. Coloured: what a program has to say.");
  return out.finish();
}

// ---- The accumulator ------------------------------------------------------------------------------------------------

std::string draw_accumulator() {
  constexpr int kN = 128, kRow = 2, kTop = 60, kX = 130, kColumnsPerPixel = 1;
  constexpr AccumulatorLayout kLayout = accumulator_layout(/*m=*/128, /*cta_group=*/1);
  Drawing out(
      800, 384,
      "Tensor memory: 128 lanes by 512 columns. The accumulator of 128 x 128 takes 128 columns; row m is in lane "
      "m, and each of four warps reaches a quarter of the lanes");
  const int end = kX + static_cast<int>(kTmemColumns) / kColumnsPerPixel;
  out.words("", kX, 24,
            "tensor memory of one SM: " + std::to_string(kTmemLanes) + " lanes, " + std::to_string(kTmemColumns) +
                " columns of 32 bits");
  out.words("quiet", kX, kTop - 10, "column 0");
  out.words("quiet middle", kX + kN / kColumnsPerPixel, kTop - 10, std::to_string(kN));
  out.words("quiet end", end, kTop - 10, std::to_string(kTmemColumns - 1));
  for (int warp = 0; warp < 4; ++warp) {
    const int lane = warp * 32, y = kTop + lane * kRow;
    const int first = accumulator_row(kLayout, lane), last = accumulator_row(kLayout, lane + 31);
    const AccumulatorPlace corner = accumulator_place(kLayout, last, kN - 1, kN);
    if (corner.cell != TmemCell{static_cast<uint32_t>(lane + 31), kN - 1}) throw std::logic_error("another layout");
    out.box("", kX, y, end - kX, 32 * kRow);
    out.box("filled", kX, y, kN / kColumnsPerPixel, 32 * kRow);
    out.words("middle", kX + kN / 2, y + 28, "D, rows");
    out.words("middle", kX + kN / 2, y + 46, std::to_string(first) + " to " + std::to_string(last));
    out.words("end", kX - 10, y + 28, "warp " + std::to_string(warp));
    out.words("quiet end", kX - 10, y + 46, "lanes " + std::to_string(lane) + " to " + std::to_string(lane + 31));
    std::ostringstream address;
    address << "address + 0x" << std::hex << tmem_address({static_cast<uint32_t>(lane), 0});
    out.words("quiet", end + 12, y + 37, address.str());
  }
  out.words("quiet", kX, kTop + 128 * kRow + 28, "An address is lane &lt;&lt; 16 | column.");
  out.words("quiet", kX, kTop + 128 * kRow + 46, "A warp reaches a quarter of the lanes, by its number modulo 4.");
  return out.finish();
}

// ---- All layouts of an accumulator ----------------------------------------------------------------------------------

/// One block's tensor memory, with an accumulator of 128 columns, in steps of 16 lanes.
void draw_layout(Drawing& out, int x, AccumulatorLayout layout, uint32_t cta, const std::string& head,
                 const std::string& block) {
  constexpr int kN = 128, kTop = 66, kStep = 16, kStepHeight = 24, kWidth = 124;
  const int middle = x + kWidth / 2;
  out.words("middle", middle, 24, head);
  out.words("quiet middle", middle, 44, block);
  for (int lane = 0; lane < static_cast<int>(kTmemLanes); lane += 2 * kStep) {
    const int first = accumulator_row(layout, lane, cta), later = accumulator_row(layout, lane + kStep, cta);
    const int steps = later < 0 ? 1 : 2, last = accumulator_row(layout, lane + steps * kStep - 1, cta);
    const int y = kTop + lane / kStep * kStepHeight, columns = accumulator_columns(layout, kN);
    if (last - first != steps * kStep - 1) throw std::logic_error("the rows of a warp are not consecutive");
    const int begin_column = accumulator_column(layout, lane, 0, kN);
    const AccumulatorPlace place = accumulator_place(layout, last, begin_column + columns - 1, kN);
    if (place !=
        AccumulatorPlace{cta, {static_cast<uint32_t>(lane + steps * kStep - 1), static_cast<uint32_t>(columns - 1)}}) {
      throw std::logic_error("accumulator_row() and accumulator_place() differ");
    }
    out.box("", x, y, kWidth, 2 * kStepHeight);
    out.box("filled", x, y, kWidth, steps * kStepHeight);
    out.words("quiet middle", middle, y + 17, "rows " + std::to_string(first) + " to " + std::to_string(last));
    if (steps == 1) {
      out.words("small middle", middle, y + 41, "not used");
    } else {
      out.words("small middle", middle, y + 39,
                "columns " + std::to_string(begin_column) + " to " + std::to_string(begin_column + columns - 1));
    }
  }
}

std::string draw_layouts() {
  constexpr int kLeft = 78, kPitch = 130;
  Drawing out(
      866, 296,
      "Where the rows of an accumulator of 128 columns are in tensor memory: one block with M = 128 and M = 64, "
      "and both blocks of a pair with M = 256 and M = 128");
  for (int warp = 0; warp < 4; ++warp) out.words("end", kLeft - 8, 96 + warp * 48, "warp " + std::to_string(warp));
  const struct {
    int m, cta_group;
    uint32_t cta;
    const char *head, *block;
  } kPanels[] = {{128, 1, 0, "M = 128", "one block"},        {64, 1, 0, "M = 64", "one block"},
                 {256, 2, 0, "pair, M = 256", "even block"}, {256, 2, 1, "pair, M = 256", "odd block"},
                 {128, 2, 0, "pair, M = 128", "even block"}, {128, 2, 1, "pair, M = 128", "odd block"}};
  int x = kLeft;
  for (const auto& panel : kPanels) {
    draw_layout(out, x, accumulator_layout(panel.m, panel.cta_group), panel.cta, panel.head, panel.block);
    x += kPitch;
  }
  out.words("quiet", kLeft, 284,
            "N = 128. A pair with M = 128 needs half as many columns: the right half of D is below the left half.");
  return out.finish();
}

// ---- Which cells a thread loads -------------------------------------------------------------------------------------

/// The first 16 lanes and 8 columns of a shape: in each cell, the thread that gets it and the register.
void draw_fragment(Drawing& out, int x, int y, FragmentShape shape, const std::string& name) {
  constexpr uint32_t kLanes = 16, kColumns = 8;
  constexpr int kWidth = 36, kHeight = 17;
  struct Owner {
    uint32_t thread, index;
  };
  std::array<std::array<Owner, kColumns>, kLanes> owners{};
  const uint32_t registers = kColumns / fragment_columns(shape) * fragment_registers(shape);
  for (uint32_t thread = 0; thread < 32; ++thread) {
    for (uint32_t index = 0; index < registers; ++index) {
      const TmemCell cell = fragment_cell(shape, thread, index);
      if (cell.lane < kLanes) owners[cell.lane][cell.column] = {thread, index};
    }
  }
  out.words("", x, y - 10, name);
  for (const bool of_thread_0 : {true, false}) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      for (uint32_t column = 0; column < kColumns; ++column) {
        const auto [thread, index] = owners[lane][column];
        if ((thread == 0) != of_thread_0) continue;
        const int left = x + static_cast<int>(column) * kWidth, top = y + static_cast<int>(lane) * kHeight;
        out.box(of_thread_0 ? "filled" : "", left, top, kWidth, kHeight);
        out.words("small middle", left + kWidth / 2, top + 13, std::to_string(thread) + ":" + std::to_string(index));
      }
    }
  }
}

std::string draw_fragments() {
  Drawing out(
      700, 706,
      "The four shapes of tcgen05.ld: for 16 lanes and 8 columns of tensor memory, which thread of the warp gets "
      "each cell, and in which of its registers");
  draw_fragment(out, 40, 40, FragmentShape::lanes_32x32b, "32x32b (lanes 16 to 31 likewise)");
  draw_fragment(out, 380, 40, FragmentShape::lanes_16x64b, "16x64b");
  draw_fragment(out, 40, 370, FragmentShape::lanes_16x128b, "16x128b");
  draw_fragment(out, 380, 370, FragmentShape::lanes_16x256b, "16x256b");
  out.words("quiet", 40, 672, "Lanes go down, columns to the right. 5:2 is register 2 of thread 5.");
  out.words("quiet", 40, 692, "Coloured: what thread 0 gets.");
  return out.finish();
}

/// The picture of this name; empty if there is none.
std::string draw(const std::string& which) {
  if (which == "descriptor") return draw_descriptors();
  if (which == "accumulator") return draw_accumulator();
  if (which == "layouts") return draw_layouts();
  if (which == "fragments") return draw_fragments();
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "", picture = draw(which);
  if (picture.empty()) {
    std::cerr << "usage: draw_pictures descriptor|accumulator|layouts|fragments [FILE]\n";
    return 2;
  }
  return stagecraft::harness::print_or_compare(picture, argc > 2 ? argv[2] : nullptr, "the library says",
                                               argv[0] + (" " + which));
}
