// This program draws the pictures of chapter 08 from what the library says: the fields of the descriptors, and where an
// accumulator is in tensor memory.
//   draw_pictures descriptor|accumulator         prints a picture
//   draw_pictures descriptor|accumulator FILE    fails when FILE is not the picture
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
    text { fill: #222; } .quiet { fill: #666; font-size: 12px; } .middle { text-anchor: middle; } .end { text-anchor: end; }
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
  out << "  <text x=\"20\" y=\"24\">shared-memory descriptor of a tile of 128 x 64 bf16: where it is and how it "
         "lies</text>\n";
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

}  // namespace

int main(int argc, char** argv) {
  const std::string which = argc > 1 ? argv[1] : "";
  if (which != "descriptor" && which != "accumulator") {
    std::cerr << "usage: draw_pictures descriptor|accumulator [FILE]\n";
    return 2;
  }
  const std::string picture = which == "descriptor" ? draw_descriptors() : draw_accumulator();
  return stagecraft::harness::print_or_compare(picture, argc > 2 ? argv[2] : nullptr, "the library says",
                                               argv[0] + (" " + which));
}
