// mma.sync of narrow floats and with scale factors, on compute capability 12.x: each sum against the rules of
// sum_rules.hpp, and against a sum in double precision. Layouts are those of CUTLASS, cute/atom/mma_traits_sm120.hpp;
// the selectors those of the PTX ISA, "Block Scaling for mma.sync". What no selector names has random bits.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "fixtures/kernel_run.hpp"
#include "fragment_layout.hpp"
#include "sum_rules.hpp"

namespace stagecraft::emulator::machine::testing::rules::of_warps {
namespace {

constexpr uint32_t kLanes = 32, kRows = 16, kColumns = 8, kTiles = 32;
// Words of a lane: A, B, C, the scale factors, {byte-id, thread-id} of A and of B.
constexpr uint32_t kB = 4, kC = 6, kScaleA = 10, kScaleB = 11, kSelectors = 12, kWords = 16;

const FragmentLayout kLayoutD{{{4, 32}, {8, 1}}, {{2, 16}, {2, 8}}};

struct Layouts {
  uint32_t k;
  FragmentLayout a, b;
};

const Layouts& layouts_of(const Form& form) {
  static const Layouts bytes{
      32, {{{4, 64}, {8, 1}}, {{4, 16}, {2, 8}, {2, 256}}}, {{{4, 32}, {8, 1}}, {{4, 8}, {2, 128}}}};
  static const Layouts halves_of_bytes{
      64, {{{4, 128}, {8, 1}}, {{8, 16}, {2, 8}, {2, 512}}}, {{{4, 64}, {8, 1}}, {{8, 8}, {2, 256}}}};
  return form.has_groups() ? halves_of_bytes : bytes;
}

const char* type_name(ElementFormat format) {
  switch (format) {
    case ElementFormat::e4m3: return "e4m3";
    case ElementFormat::e5m2: return "e5m2";
    case ElementFormat::e3m2: return "e3m2";
    case ElementFormat::e2m3: return "e2m3";
    default: return "e2m1";
  }
}

std::string spelling(const Form& form) {
  const char* const kind = form.kind == MmaKind::f8f6f4     ? "f8f6f4"
                           : form.kind == MmaKind::mxf8f6f4 ? "mxf8f6f4"
                           : form.kind == MmaKind::mxf4     ? "mxf4"
                                                            : "mxf4nvf4";
  const char* const d = form.d_code == 0 ? "f16" : "f32";
  const std::string scales = form.scales == 0 ? "" : fmt::format(".block_scale.scale_vec::{}X", form.scales);
  const char* const type = form.scales == 0 ? "" : form.ue4m3 ? ".ue4m3" : ".ue8m0";
  return fmt::format("mma.sync.aligned.kind::{}{}.m16n8k{}.row.col.{}.{}.{}.{}{}", kind, scales, layouts_of(form).k, d,
                     type_name(form.a), type_name(form.b), d, type);
}

/// The words of one warp, [word][lane].
struct Tile {
  std::vector<Number> a, b, scales_a, scales_b;
  std::vector<uint32_t> c;
  uint32_t selectors[4] = {};
  std::vector<uint32_t> words = std::vector<uint32_t>(kWords * kLanes);

  // Puts value `index` of a lane, of `bits`, into consecutive words.
  void put(uint32_t word, uint32_t lane, uint32_t index, uint32_t bits, uint32_t code) {
    uint32_t& to = words[(word + index * bits / 32) * kLanes + lane];
    const uint32_t shift = index * bits % 32, mask = (bits == 32 ? ~0u : (1u << bits) - 1) << shift;
    to = (to & ~mask) | (code << shift & mask);
  }
  // Puts the scale factors of a row into the lane and the bytes that the selectors name.
  void put_scales(uint32_t word, uint32_t lane, uint32_t byte, const uint32_t* codes, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) put(word, lane, byte + i, 8, codes[i]);
  }
};

Tile draw_tile(const Form& form, std::mt19937& random) {
  const Layouts& layouts = layouts_of(form);
  Tile tile;
  for (uint32_t& word : tile.words) word = random();
  Matrix a(form.a, kRows, layouts.k, random), b(form.b, kColumns, layouts.k, random);
  draw(a, random);
  draw(b, random);
  tile.a = numbers_of(a);
  tile.b = numbers_of(b);
  const uint32_t bits = form.has_groups() ? 4 : 8;
  const auto contained = [&](ElementFormat format, uint32_t code) {
    return format == ElementFormat::e2m1 && bits == 8 ? code << 2 : code;  // in the middle of its byte
  };
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < layouts.a.value_count(); ++i) {
      const uint32_t index = layouts.a.index(lane, i);
      tile.put(0, lane, i, bits, contained(form.a, a.code(index % kRows, index / kRows)));
    }
    for (uint32_t i = 0; i < layouts.b.value_count(); ++i) {
      const uint32_t index = layouts.b.index(lane, i);
      tile.put(kB, lane, i, bits, contained(form.b, b.code(index % kColumns, index / kColumns)));
    }
  }
  if (form.scales != 0) {
    const std::vector<uint32_t> of_a = draw_scales(form, kRows, random), of_b = draw_scales(form, kColumns, random);
    tile.scales_a = scales_of(of_a, form.ue4m3);
    tile.scales_b = scales_of(of_b, form.ue4m3);
    const uint32_t bytes = 4 / form.scales;
    tile.selectors[0] = random() % bytes * form.scales;
    tile.selectors[1] = random() % 2;
    tile.selectors[2] = random() % bytes * form.scales;
    tile.selectors[3] = random() % 4;
    for (uint32_t row = 0; row < kRows; ++row) {
      tile.put_scales(kScaleA, 4 * (row % 8) + 2 * tile.selectors[1] + row / 8, tile.selectors[0],
                      &of_a[row * form.scales], form.scales);
    }
    for (uint32_t column = 0; column < kColumns; ++column) {
      tile.put_scales(kScaleB, 4 * column + tile.selectors[3], tile.selectors[2], &of_b[column * form.scales],
                      form.scales);
    }
    for (uint32_t i = 0; i < 4; ++i) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) tile.put(kSelectors + i, lane, 0, 32, tile.selectors[i]);
    }
  }
  tile.c.resize(kRows * kColumns);
  for (uint32_t index = 0; index < tile.c.size(); ++index) {
    const uint32_t m = index % kRows, n = index / kRows;
    const int middle = form.scales == 0 ? 0 : tile.scales_a[m * form.scales].raw + tile.scales_b[n * form.scales].raw;
    tile.c[index] = draw_c(form, middle, random);
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) {
      tile.put(kC, lane, i, form.d_code == 0 ? 16 : 32, tile.c[kLayoutD.index(lane, i)]);
    }
  }
  return tile;
}

// Multiplies each tile by a block of its own. `selectors` is how the operands are spelled: empty for registers.
std::vector<uint32_t> multiply(const Form& form, const std::vector<Tile>& tiles, const Architecture& chip,
                               const std::string& selectors = {}) {
  KernelRun run(chip);
  std::vector<uint32_t> words;
  for (const Tile& tile : tiles) words.insert(words.end(), tile.words.begin(), tile.words.end());
  std::string body = fmt::format(
      "mov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\nmad.lo.u32 %r2, %r1, {}, %r0;\nmad.wide.u32 %rd2, %r2, 4, %rd1;\n"
      "mad.lo.u32 %r2, %r1, {}, %r0;\nmad.wide.u32 %rd3, %r2, 4, %rd0;\n",
      kWords * kLanes, 4 * kLanes);
  for (uint32_t i = 0; i < kWords; ++i) {
    body += fmt::format("ld.global.b32 %r{}, [%rd2+{}];\n", 10 + i, i * kLanes * 4);
  }
  for (uint32_t i = 0; i < 4; ++i) body += fmt::format("cvt.u16.u32 %h{}, %r{};\n", i, 10 + kSelectors + i);
  const bool halves = form.d_code == 0;
  body += spelling(form) + (halves ? " {%r30, %r31}" : " {%r30, %r31, %r32, %r33}") +
          ", {%r10, %r11, %r12, %r13}, {%r14, %r15}, " + (halves ? "{%r16, %r17}" : "{%r16, %r17, %r18, %r19}");
  if (form.scales != 0) body += selectors.empty() ? ", {%r20}, {%h0, %h1}, {%r21}, {%h2, %h3}" : selectors;
  body += ";\n";
  for (uint32_t i = 0; i < (halves ? 2 : 4); ++i) {
    body += fmt::format("st.global.b32 [%rd3+{}], %r{};\n", i * kLanes * 4, 30 + i);
  }
  expect_success(
      run.run(body, {run.upload(words)}, {.blocks = static_cast<uint32_t>(tiles.size()), .threads = kLanes}));
  return {run.out(), run.out() + tiles.size() * 4 * kLanes};
}

uint32_t code_in(const Form& form, const uint32_t* d, uint32_t lane, uint32_t i) {
  if (form.d_code != 0) return d[i * kLanes + lane];
  return d[i / 2 * kLanes + lane] >> 16 * (i % 2) & 0xffff;
}

double worth_of(const Number& number) { return std::ldexp(static_cast<double>(number.significand), number.exponent); }

// Compares a finite sum with one in double precision: each term loses less than a unit of its last bit, of 25 after the
// point of the largest, and the result less than one of its own.
void expect_near(const Dot& dot, uint32_t found) {
  const int parts = std::max(dot.parts, 1);
  double sum = worth_of(dot.c);
  int aligned = dot.c.raw;
  for (int k = 0; k < dot.k; ++k) {
    double product = worth_of(dot.a[k]) * worth_of(dot.b[k]);
    int raw = dot.a[k].raw + dot.b[k].raw + 2;
    if (dot.scales_a != nullptr) {
      const Number &x = dot.scales_a[k * parts / dot.k], &y = dot.scales_b[k * parts / dot.k];
      product *= worth_of(x) * worth_of(y);
      raw += x.raw + y.raw;
    }
    sum += product;
    aligned = std::max(aligned, raw);
  }
  const Number word = number_of(found, dot.to_f16 ? kF16 : kF32);
  const double most = dot.to_f16 ? 65504 : 0x1.fffffep127;
  if (std::abs(sum) >= most) {
    EXPECT_GE(word.kind == Number::infinite ? most : std::abs(worth_of(word)), most * 0.999);
    return;
  }
  const double last =
      dot.to_f16 ? std::max(std::abs(sum) * 0x1p-11, 0x1p-25) : std::max(std::abs(sum) * 0x1p-23, 0x1p-149);
  const double tolerance = std::ldexp(dot.k + 1, aligned - 25) + last;
  EXPECT_LE(std::abs((word.kind == Number::infinite ? most : worth_of(word)) - sum), tolerance) << sum;
}

void compare(const Form& form, const std::vector<Tile>& tiles, const std::vector<uint32_t>& found) {
  const auto k = static_cast<int>(layouts_of(form).k);
  uint32_t wrong = 0;
  for (uint32_t tile = 0; tile < tiles.size(); ++tile) {
    const Tile& from = tiles[tile];
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t index = kLayoutD.index(lane, i), m = index % kRows, n = index / kRows;
        const Dot dot{.a = &from.a[m * k],
                      .b = &from.b[n * k],
                      .k = k,
                      .scales_a = form.scales == 0 ? nullptr : &from.scales_a[m * form.scales],
                      .scales_b = form.scales == 0 ? nullptr : &from.scales_b[n * form.scales],
                      .parts = static_cast<int>(form.scales),
                      .c = number_of(from.c[index], form.d_code == 0 ? kF16 : kF32),
                      .to_f16 = form.d_code == 0};
        const uint32_t word = code_in(form, &found[tile * 4 * kLanes], lane, i), expected = word_by_rules(form, dot);
        if (word != expected && ++wrong < 5) {
          ADD_FAILURE() << std::hex << "tile " << tile << ", row " << m << ", column " << n << ", C " << from.c[index]
                        << ": " << word << ", by the rules " << expected;
        }
        if (!special(dot)) expect_near(dot, word);
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
}

std::vector<Form> forms_of_warps() {
  std::vector<Form> all = forms();
  std::erase_if(all, [](const Form& form) { return form.kind != MmaKind::f8f6f4 && form.scales == 0; });
  return all;
}

class MmaSyncRules : public ::testing::TestWithParam<Form> {};

TEST_P(MmaSyncRules, HoldForRandomNumbersOnAllChipsOfTheFamily) {
  const Form& form = GetParam();
  std::seed_seq seed(form.name.begin(), form.name.end());
  std::mt19937 random(seed);
  std::vector<Tile> tiles;
  for (uint32_t i = 0; i < kTiles; ++i) tiles.push_back(draw_tile(form, random));
  const std::vector<uint32_t> found = multiply(form, tiles, rtx5090());
  compare(form, tiles, found);
  EXPECT_EQ(multiply(form, tiles, spark()), found);
}

INSTANTIATE_TEST_SUITE_P(All, MmaSyncRules, ::testing::ValuesIn(forms_of_warps()),
                         [](const auto& info) { return info.param.name; });

TEST(MmaSyncScales, AreOfTheBytesAndThreadsThatConstantsName) {
  std::mt19937 random(7);
  const std::vector<Form> all = forms_of_warps();
  for (const std::string name : {"mx_e4m3_e5m2", "mxf4", "mxf4nvf4_4x_ue4m3"}) {
    const Form& form = *std::find_if(all.begin(), all.end(), [&](const Form& each) { return each.name == name; });
    uint32_t drawn[2][4][2][4] = {};  // each combination is to be drawn once
    for (uint32_t left = (4 / form.scales) * 2 * (4 / form.scales) * 4; left != 0;) {
      const Tile tile = draw_tile(form, random);
      uint32_t& seen = drawn[tile.selectors[1]][tile.selectors[3]][tile.selectors[0] / 2][tile.selectors[2]];
      const uint32_t bit = 1u << tile.selectors[0] % 2;
      if ((seen & bit) != 0) continue;
      seen |= bit;
      --left;
      SCOPED_TRACE(name);
      compare(form, {tile},
              multiply(form, {tile}, rtx5090(),
                       fmt::format(", %r20, {{{}, {}}}, %r21, {{{}, {}}}", tile.selectors[0], tile.selectors[1],
                                   tile.selectors[2], tile.selectors[3])));
    }
  }
}

// ---- What is refused -----------------------------------------------------------------------------------------------

constexpr const char* kRegisters = " {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%r0, %r1, %r2, %r3}";
constexpr const char* kScaleOperands = ", %r4, {0, 0}, %r5, {0, 0}";

std::string answer(const std::string& instruction, const Architecture& chip = rtx5090(),
                   const std::string& target = {}) {
  KernelRun run(chip);
  run.target = target;
  try {
    const LaunchResult result = run.run(instruction + ";", {}, {.threads = kLanes});
    return result.diagnostics.empty() ? "accepted" : result.diagnostics[0].message;
  } catch (const std::exception& error) {
    return error.what();
  }
}

void expect_answer(const std::string& instruction, const std::string& words, const Architecture& chip = rtx5090()) {
  const std::string found = answer(instruction, chip);
  EXPECT_NE(found.find(words), std::string::npos) << instruction << ": " << found;
}

TEST(MmaSyncKinds, AreRefusedOnOtherChipsWithTheirNames) {
  const std::string plain =
      std::string("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e3m2.f32") + kRegisters;
  const std::string scaled =
      std::string("mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0") + kRegisters +
      kScaleOperands;
  for (const std::string& each : {plain, scaled}) {
    expect_answer(each, "this device (NVIDIA B200 (emulated)) is sm_100a; tcgen05.mma has the same kinds", b200());
    expect_answer(each, "this device (NVIDIA H200 (emulated)) is sm_90a; convert the elements", h200());
    EXPECT_EQ(answer(each), "accepted");
    EXPECT_EQ(answer(each, spark()), "accepted");
    EXPECT_EQ(answer(each, spark(), "sm_120f"), "accepted");
    EXPECT_NE(answer(each, rtx5090(), "sm_120").find("compile with -gencode \"arch=compute_120a"), std::string::npos);
  }
  expect_answer(std::string("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32") + kRegisters,
                "8-bit floats need no .kind", h200());
}

TEST(MmaSyncKinds, AreRefusedWherePtxHasNoSuchForm) {
  const auto form = [](const std::string& shape, const std::string& kind, const std::string& types) {
    return "mma.sync.aligned." + shape + ".row.col" + kind + "." + types + kRegisters +
           (kind.find("block_scale") != std::string::npos ? kScaleOperands : "");
  };
  const std::string mx = ".kind::mxf8f6f4.block_scale", nv = ".kind::mxf4nvf4.block_scale";
  expect_answer(form("m16n8k32", "", "f32.e2m1.e4m3.f32"), "need .kind::f8f6f4");
  expect_answer(form("m16n8k16", ".kind::f8f6f4", "f32.e2m1.e4m3.f32"), "there are m16n8k32");
  expect_answer(form("m16n8k32", ".kind::f8f6f4.block_scale", "f32.e4m3.e4m3.f32.ue8m0"), "has no scale factors");
  expect_answer(form("m16n8k32", ".kind::mxf8f6f4", "f32.e4m3.e4m3.f32"), "needs .block_scale");
  expect_answer(form("m16n8k32", ".block_scale", "f32.e4m3.e4m3.f32.ue8m0"), ".block_scale needs .kind");
  expect_answer(form("m16n8k32", mx, "f32.e4m3.e4m3.f32.ue4m3"), ".scale_vec::1X of ue8m0");
  expect_answer(form("m16n8k32", mx + ".scale_vec::2X", "f32.e4m3.e4m3.f32.ue8m0"), ".scale_vec::1X of ue8m0");
  expect_answer(form("m16n8k32", mx, "f16.e4m3.e4m3.f16.ue8m0"), "D in .f16 and C in .f16 do not exist");
  expect_answer(form("m16n8k64", mx, "f32.e2m1.e2m1.f32.ue8m0"), "shape .m16n8k64 does not exist");
  expect_answer(form("m16n8k64", nv, "f32.e2m1.e2m1.f32.ue4m3"), "needs .scale_vec");
  expect_answer(form("m16n8k64", nv + ".scale_vec::2X", "f32.e2m1.e2m1.f32.ue4m3"), ".scale_vec::4X of ue4m3");
  expect_answer(form("m16n8k64", ".kind::mxf4.block_scale", "f32.e2m1.e4m3.f32.ue8m0"), "multiplies .e2m1 by .e4m3");
  expect_answer("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32", "sparse");
}

// Measured on a DGX Spark (docs/sm_120a.md): with a scale factor of 4 for each, the product of two codes is a quarter
// of theirs.
TEST(MmaSyncKinds, ReadTheBitsBelowAnE2m1AsItsMantissa) {
  for (const uint32_t code : {1, 2, 3, 5, 7}) {
    KernelRun run(spark());
    expect_success(run.run(fmt::format("mov.b32 %r0, {};\nmov.b32 %r1, 0x81;\nmov.b32 %r2, 0;\n", code * 0x01010101) +
                               "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e2m1.e2m1.f32.ue8m0 "
                               "{%r4, %r5, %r6, %r7}, "
                               "{%r0, %r0, %r0, %r0}, {%r0, %r0}, {%r2, %r2, %r2, %r2}, {%r1}, {0, 0}, {%r1}, {0, 0};\n"
                               "st.global.b32 [%rd0], %r4;\n",
                           {}, {.threads = kLanes}));
    EXPECT_EQ(std::bit_cast<float>(run.out()[0]), 32 * 0.25f * static_cast<float>(code * code)) << code;
  }
}

TEST(MmaSyncScales, AreRefusedWithSelectorsThatPtxDoesNotAllow) {
  const auto with = [](const std::string& kind, const std::string& operands) {
    const bool packed = kind.find("mxf8") == std::string::npos;
    return std::string("mma.sync.aligned.m16n8k") + (packed ? "64" : "32") + ".row.col" + kind + ".f32." +
           (packed ? "e2m1.e2m1" : "e4m3.e4m3") + ".f32.ue8m0" + kRegisters + operands;
  };
  const std::string mx = ".kind::mxf8f6f4.block_scale", mxf4 = ".kind::mxf4.block_scale";
  EXPECT_EQ(answer(with(mx, ", {%r4}, {3, 1}, {%r5}, {3, 3}")), "accepted");
  expect_answer(with(mx, ", %r4, {4, 0}, %r5, {0, 0}"), "byte-id-a is 4");
  expect_answer(with(mx, ", %r4, {0, 2}, %r5, {0, 0}"), "thread-id-a is 2");
  expect_answer(with(mx, ", %r4, {0, 0}, %r5, {0, 4}"), "thread-id-b is 4");
  expect_answer(with(mxf4, ", %r4, {0, 0}, %r5, {1, 0}"), "byte-id-b is 1");
  expect_answer(with(mx, ", %r4, {%r6, 0}, %r5, {0, 0}"), "byte-id needs a register of 16 bits");
  expect_answer(with(mx, ", %h4, {0, 0}, %r5, {0, 0}"), "scale-a-data needs a register of 32 bits");
  expect_answer(with(mx, ", %r4, 0, %r5, 0"), "followed by {byte-id, thread-id}");
  expect_answer(
      "mov.u32 %r7, %tid.x;\nshr.u32 %r7, %r7, 4;\ncvt.u16.u32 %h0, %r7;\n" + with(mx, ", %r4, {%h0, 0}, %r5, {0, 0}"),
      "byte-id-a is 0 in lane 0 and 1 in lane 16");
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing::rules::of_warps
