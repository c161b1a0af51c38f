// This program draws the pictures of chapter 08 from what the library says: the fields of the descriptors, where an
// accumulator is in tensor memory, for each M, and which cells a thread loads.
//   draw_pictures descriptor|accumulator|layouts|fragments         prints a picture
//   draw_pictures descriptor|accumulator|layouts|fragments FILE    fails when FILE is not the picture
#include <cstdint>
#include <iostream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/picture.hpp"
#include "stagecraft/tmem_layout.hpp"
#include "stagecraft/umma_descriptors.hpp"

namespace {

using namespace stagecraft;

constexpr char kStyle[] = R"(  <style>
    :root { color-scheme: light dark; }
    text { fill: #222; } .quiet { fill: #666; font-size: 12px; } .middle { text-anchor: middle; } .end { text-anchor: end; } .small { font-size: 11px; }
    rect { stroke: #777; fill: none; } .filled { fill: #d8e8f8; stroke: #36c; } .fixed { fill: #eee; }
    @media (prefers-color-scheme: dark) {
      text { fill: #ddd; } .quiet { fill: #aaa; } rect { stroke: #888; } .filled { fill: #1d3147; stroke: #6af; } .fixed { fill: #2a2a2a; }
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
void draw_bits(std::ostream& out, int y, int top, const std::vector<Field>& fields) {
  for (const Field& field : fields) {
    const uint64_t bits = ((uint64_t{1} << (field.high - field.low + 1)) - 1) << field.low;
    if ((field.changed & ~bits) != 0) throw std::logic_error("the library has \"" + field.name + "\" in other bits");
    if (field.high > top || field.low <= top - 32) continue;
    const int x = kLeft + (top - field.high) * kBit, width = (field.high - field.low + 1) * kBit,
              middle = x + width / 2;
    out << "  <rect"
        << (field.set            ? " class=\"filled\""
            : field.name.empty() ? " class=\"fixed\""
                                 : "")
        << " x=\"" << x << "\" y=\"" << y << "\" width=\"" << width << "\" height=\"30\"/>\n";
    out << "  <text x=\"" << middle << "\" y=\"" << y - 6 << "\" class=\"quiet middle\">" << field.high;
    if (field.high != field.low) out << ":" << field.low;
    out << "</text>\n  <text x=\"" << middle << "\" y=\"" << y + 20 << "\" class=\"middle\">" << field.value
        << "</text>\n  <text x=\"" << middle << "\" y=\"" << y + 47 << "\" class=\"quiet middle\">" << field.name
        << "</text>\n";
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

  std::ostringstream out;
  out << begin(776, 400,
               "The 64 bits of a shared-memory descriptor: start address, leading and stride byte offset, a constant, "
               "base offset, swizzle; and the 32 bits of an instruction descriptor: formats of D, A and B, N, M");
  out << "  <text x=\"20\" y=\"24\">shared-memory descriptor of a tile of 128 x 64 bf16: its place and its "
         "layout</text>\n";
  draw_bits(out, 60, 63, shared);
  draw_bits(out, 152, 31, shared);
  out << "  <text x=\"20\" y=\"252\">instruction descriptor: what is computed (kind f16; bf16 operands, f32 sums, 128 "
         "x "
         "128)</text>\n";
  draw_bits(out, 288, 31, instruction);
  out << "  <text x=\"20\" y=\"372\" class=\"quiet\">In each box the value that it has for this chapter's MMA. "
         "Coloured: what a program has to say.</text>\n</svg>\n";
  return out.str();
}

// ---- The accumulator ------------------------------------------------------------------------------------------------

std::string draw_accumulator() {
  constexpr int kN = 128, kRow = 2, kTop = 60, kX = 130, kColumnsPerPixel = 1;
  constexpr AccumulatorLayout kLayout = accumulator_layout(/*m=*/128, /*cta_group=*/1);
  std::ostringstream out;
  out << begin(
      800, 384,
      "Tensor memory: 128 lanes by 512 columns. The accumulator of 128 x 128 takes 128 columns; row m is in lane "
      "m, and each of four warps reaches a quarter of the lanes");
  out << "  <text x=\"" << kX << "\" y=\"24\">tensor memory of one multiprocessor: " << kTmemLanes << " lanes, "
      << kTmemColumns << " columns of 32 bits</text>\n";
  out << "  <text x=\"" << kX << "\" y=\"" << kTop - 10 << "\" class=\"quiet\">column 0</text>\n";
  out << "  <text x=\"" << kX + kN / kColumnsPerPixel << "\" y=\"" << kTop - 10 << "\" class=\"quiet middle\">" << kN
      << "</text>\n";
  out << "  <text x=\"" << kX + kTmemColumns / kColumnsPerPixel << "\" y=\"" << kTop - 10 << "\" class=\"quiet end\">"
      << kTmemColumns - 1 << "</text>\n";
  for (int warp = 0; warp < 4; ++warp) {
    const int lane = warp * 32, y = kTop + lane * kRow;
    const int first = accumulator_row(kLayout, lane), last = accumulator_row(kLayout, lane + 31);
    const AccumulatorPlace corner = accumulator_place(kLayout, last, kN - 1, kN);
    if (corner.cell != TmemCell{static_cast<uint32_t>(lane + 31), kN - 1}) throw std::logic_error("another layout");
    out << "  <rect x=\"" << kX << "\" y=\"" << y << "\" width=\"" << kTmemColumns / kColumnsPerPixel << "\" height=\""
        << 32 * kRow << "\"/>\n";
    out << "  <rect class=\"filled\" x=\"" << kX << "\" y=\"" << y << "\" width=\"" << kN / kColumnsPerPixel
        << "\" height=\"" << 32 * kRow << "\"/>\n";
    out << "  <text x=\"" << kX + kN / 2 << "\" y=\"" << y + 28 << "\" class=\"middle\">D, rows</text>\n  <text x=\""
        << kX + kN / 2 << "\" y=\"" << y + 46 << "\" class=\"middle\">" << first << " to " << last << "</text>\n";
    out << "  <text x=\"" << kX - 10 << "\" y=\"" << y + 28 << "\" class=\"end\">warp " << warp
        << "</text>\n  <text x=\"" << kX - 10 << "\" y=\"" << y + 46 << "\" class=\"quiet end\">lanes " << lane
        << " to " << lane + 31 << "</text>\n";
    out << "  <text x=\"" << kX + kTmemColumns + 12 << "\" y=\"" << y + 37 << "\" class=\"quiet\">address + 0x"
        << std::hex << tmem_address({static_cast<uint32_t>(lane), 0}) << std::dec << "</text>\n";
  }
  out << "  <text x=\"" << kX << "\" y=\"" << kTop + 128 * kRow + 28
      << "\" class=\"quiet\">An address is lane &lt;&lt; 16 | column.</text>\n";
  out << "  <text x=\"" << kX << "\" y=\"" << kTop + 128 * kRow + 46
      << "\" class=\"quiet\">A warp reaches a quarter of the lanes, by its number modulo 4.</text>\n</svg>\n";
  return out.str();
}

// ---- All layouts of an accumulator ----------------------------------------------------------------------------------

/// One block's tensor memory, with an accumulator of 128 columns, in steps of 16 lanes.
void draw_layout(std::ostream& out, int x, AccumulatorLayout layout, uint32_t cta, const std::string& head,
                 const std::string& block) {
  constexpr int kN = 128, kTop = 66, kStep = 16, kStepHeight = 24, kWidth = 124;
  out << "  <text x=\"" << x + kWidth / 2 << "\" y=\"24\" class=\"middle\">" << head << "</text>\n  <text x=\""
      << x + kWidth / 2 << "\" y=\"44\" class=\"quiet middle\">" << block << "</text>\n";
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
    out << "  <rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << kWidth << "\" height=\"" << 2 * kStepHeight
        << "\"/>\n  <rect class=\"filled\" x=\"" << x << "\" y=\"" << y << "\" width=\"" << kWidth << "\" height=\""
        << steps * kStepHeight << "\"/>\n";
    out << "  <text x=\"" << x + kWidth / 2 << "\" y=\"" << y + 17 << "\" class=\"quiet middle\">rows " << first
        << " to " << last << "</text>\n";
    if (steps == 1) {
      out << "  <text x=\"" << x + kWidth / 2 << "\" y=\"" << y + 41 << "\" class=\"small middle\">not used</text>\n";
    } else {
      out << "  <text x=\"" << x + kWidth / 2 << "\" y=\"" << y + 39 << "\" class=\"small middle\">columns "
          << begin_column << " to " << begin_column + columns - 1 << "</text>\n";
    }
  }
}

std::string draw_layouts() {
  constexpr int kLeft = 78, kPitch = 130;
  std::ostringstream out;
  out << begin(
      866, 296,
      "Where the rows of an accumulator of 128 columns are in tensor memory: one block with M = 128 and M = 64, "
      "and both blocks of a pair with M = 256 and M = 128");
  for (int warp = 0; warp < 4; ++warp) {
    out << "  <text x=\"" << kLeft - 8 << "\" y=\"" << 96 + warp * 48 << "\" class=\"end\">warp " << warp
        << "</text>\n";
  }
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
  out << "  <text x=\"" << kLeft
      << "\" y=\"284\" class=\"quiet\">N = 128. A pair with M = 128 needs half as many "
         "columns: the right half of D is below the left half.</text>\n</svg>\n";
  return out.str();
}

// ---- Which cells a thread loads -------------------------------------------------------------------------------------

/// The first 16 lanes and 8 columns of a shape: in each cell, the thread that gets it and the register.
void draw_fragment(std::ostream& out, int x, int y, FragmentShape shape, const std::string& name) {
  constexpr uint32_t kLanes = 16, kColumns = 8, kWidth = 36, kHeight = 17;
  const uint32_t registers = kColumns / fragment_columns(shape) * fragment_registers(shape);
  out << "  <text x=\"" << x << "\" y=\"" << y - 10 << "\">" << name << "</text>\n";
  for (uint32_t thread = 0; thread < 32; ++thread) {
    for (uint32_t index = 0; index < registers; ++index) {
      const TmemCell cell = fragment_cell(shape, thread, index);
      if (cell.lane >= kLanes) continue;
      const uint32_t left = x + cell.column * kWidth, top = y + cell.lane * kHeight;
      out << "  <rect" << (thread == 0 ? " class=\"filled\"" : "") << " x=\"" << left << "\" y=\"" << top
          << "\" width=\"" << kWidth << "\" height=\"" << kHeight << "\"/>\n  <text x=\"" << left + kWidth / 2
          << "\" y=\"" << top + 13 << "\" class=\"small middle\">" << thread << ":" << index << "</text>\n";
    }
  }
}

std::string draw_fragments() {
  std::ostringstream out;
  out << begin(
      700, 706,
      "The four shapes of tcgen05.ld: for 16 lanes and 8 columns of tensor memory, which thread of the warp gets "
      "each cell, and in which of its registers");
  draw_fragment(out, 40, 40, FragmentShape::lanes_32x32b, "32x32b (lanes 16 to 31 likewise)");
  draw_fragment(out, 380, 40, FragmentShape::lanes_16x64b, "16x64b");
  draw_fragment(out, 40, 370, FragmentShape::lanes_16x128b, "16x128b");
  draw_fragment(out, 380, 370, FragmentShape::lanes_16x256b, "16x256b");
  out << "  <text x=\"40\" y=\"672\" class=\"quiet\">Lanes go down, columns to the right. 5:2 is register 2 of thread "
         "5.</text>\n  <text x=\"40\" y=\"692\" class=\"quiet\">Coloured: what thread 0 gets.</text>\n</svg>\n";
  return out.str();
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
