// mma.sync: each form against a reference in double precision, with the fragment layouts of CUTLASS.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <random>

#include "emulator/ptx/diagnostics.hpp"
#include "fixtures/kernel_run.hpp"
#include "fixtures/tensor_fixture.hpp"
#include "fragment_layout.hpp"

namespace stagecraft::emulator::machine::testing {
namespace {

constexpr uint32_t kLanes = 32;

// The fragments of one shape, for elements of so many bits.
struct Fragments {
  const char* shape;
  uint32_t m, k, bits;
  FragmentLayout a, b;
};

const std::vector<Fragments>& fragments() {
  static const std::vector<Fragments> all{
      {"m16n8k8", 16, 8, 16, {{{4, 32}, {8, 1}}, {{2, 16}, {2, 8}}}, {{{4, 16}, {8, 1}}, {{2, 8}}}},
      {"m16n8k16",
       16,
       16,
       16,
       {{{4, 32}, {8, 1}}, {{2, 16}, {2, 8}, {2, 128}}},
       {{{4, 16}, {8, 1}}, {{2, 8}, {2, 64}}}},
      {"m16n8k4", 16, 4, 32, {{{4, 16}, {8, 1}}, {{2, 8}}}, {{{4, 8}, {8, 1}}, {{1, 0}}}},
      {"m16n8k8", 16, 8, 32, {{{4, 16}, {8, 1}}, {{2, 8}, {2, 64}}}, {{{4, 8}, {8, 1}}, {{2, 32}}}},
      {"m8n8k16", 8, 16, 8, {{{4, 32}, {8, 1}}, {{4, 8}}}, {{{4, 32}, {8, 1}}, {{4, 8}}}},
      {"m16n8k16", 16, 16, 8, {{{4, 64}, {8, 1}}, {{4, 16}, {2, 8}}}, {{{4, 32}, {8, 1}}, {{4, 8}}}},
      {"m16n8k32",
       16,
       32,
       8,
       {{{4, 64}, {8, 1}}, {{4, 16}, {2, 8}, {2, 256}}},
       {{{4, 32}, {8, 1}}, {{4, 8}, {2, 128}}}},
      {"m8n8k32", 8, 32, 4, {{{4, 64}, {8, 1}}, {{8, 8}}}, {{{4, 64}, {8, 1}}, {{8, 8}}}},
      {"m16n8k32", 16, 32, 4, {{{4, 128}, {8, 1}}, {{8, 16}, {2, 8}}}, {{{4, 64}, {8, 1}}, {{8, 8}}}},
      {"m16n8k64",
       16,
       64,
       4,
       {{{4, 128}, {8, 1}}, {{8, 16}, {2, 8}, {2, 512}}},
       {{{4, 64}, {8, 1}}, {{8, 8}, {2, 256}}}},
      {"m8n8k128", 8, 128, 1, {{{4, 256}, {8, 1}}, {{32, 8}}}, {{{4, 256}, {8, 1}}, {{32, 8}}}},
      {"m16n8k128", 16, 128, 1, {{{4, 512}, {8, 1}}, {{32, 16}, {2, 8}}}, {{{4, 256}, {8, 1}}, {{32, 8}}}},
      {"m16n8k256",
       16,
       256,
       1,
       {{{4, 512}, {8, 1}}, {{32, 16}, {2, 8}, {2, 2048}}},
       {{{4, 256}, {8, 1}}, {{32, 8}, {2, 1024}}}},
      {"m8n8k4", 8, 4, 64, {{{4, 8}, {8, 1}}, {{1, 0}}}, {{{4, 8}, {8, 1}}, {{1, 0}}}},
      {"m16n8k4", 16, 4, 64, {{{4, 16}, {8, 1}}, {{2, 8}}}, {{{4, 8}, {8, 1}}, {{1, 0}}}},
      {"m16n8k8", 16, 8, 64, {{{4, 16}, {8, 1}}, {{2, 8}, {2, 64}}}, {{{4, 8}, {8, 1}}, {{2, 32}}}},
      {"m16n8k16", 16, 16, 64, {{{4, 16}, {8, 1}}, {{2, 8}, {4, 64}}}, {{{4, 8}, {8, 1}}, {{4, 32}}}},
  };
  return all;
}

const Fragments& fragments_of(const std::string& shape, uint32_t bits) {
  const auto found = std::find_if(fragments().begin(), fragments().end(),
                                  [&](const Fragments& each) { return each.shape == shape && each.bits == bits; });
  EXPECT_NE(found, fragments().end());
  return *found;
}

FragmentLayout layout_of_d(uint32_t m) {
  if (m == 8) return {{{4, 16}, {8, 1}}, {{2, 8}}};
  return {{{4, 32}, {8, 1}}, {{2, 16}, {2, 8}}};
}

// A type as PTX spells it, and the values of its codes.
struct Element {
  std::string name;
  uint32_t bits;
  std::function<uint64_t(std::mt19937&)> random;
  std::function<double(uint64_t)> worth;
};

Element element(const std::string& name) {
  if (name == "f64" || name == "f32") {
    const bool wide = name == "f64";
    return {name, wide ? 64u : 32u,
            [wide](std::mt19937& random) -> uint64_t {
              const double value = std::ldexp(static_cast<int>(random() % 2000001) - 1000000, -17);
              return wide ? std::bit_cast<uint64_t>(value + std::ldexp(random(), -60))
                          : std::bit_cast<uint32_t>(static_cast<float>(value));
            },
            [wide](uint64_t code) {
              return wide ? std::bit_cast<double>(code) : double{std::bit_cast<float>(static_cast<uint32_t>(code))};
            }};
  }
  if (name == "s32") {
    return {name, 32,
            [](std::mt19937& random) -> uint64_t {
              // Often close to where sums overflow.
              const uint32_t bits = random();
              return bits % 2 == 0 ? random()
                                   : (bits % 4 == 1 ? 0x7fffffffu - bits / 4 % 999 : 0x80000000u + bits / 4 % 999);
            },
            [](uint64_t code) { return static_cast<int32_t>(static_cast<uint32_t>(code)); }};
  }
  if (name == "b1")
    return {name, 1, [](std::mt19937& random) { return random() & 1; }, [](uint64_t code) { return code; }};
  static const std::vector<std::pair<std::string, ElementFormat>> kFormats{
      {"f16", ElementFormat::f16},   {"bf16", ElementFormat::bf16}, {"tf32", ElementFormat::tf32},
      {"e4m3", ElementFormat::e4m3}, {"e5m2", ElementFormat::e5m2}, {"s8", ElementFormat::s8},
      {"u8", ElementFormat::u8},     {"s4", ElementFormat::s4},     {"u4", ElementFormat::u4}};
  for (const auto& [spelling, format] : kFormats) {
    if (spelling != name) continue;
    return {name, bits_of(format),
            [format = format](std::mt19937& random) { return uint64_t{random_code(format, random)}; },
            [format = format](uint64_t code) { return testing::worth(format, static_cast<uint32_t>(code)); }};
  }
  ADD_FAILURE() << name;
  return {};
}

// Registers of a warp, [register][lane] in words.
struct Registers {
  uint32_t register_bits;
  std::vector<uint32_t> words;

  Registers(uint32_t count, uint32_t bits) : register_bits(bits), words(size_t{count} * kLanes * bits / 32) {}
  void put(uint32_t lane, uint32_t value, uint32_t bits, uint64_t code) {
    for (uint32_t bit = 0; bit < bits; ++bit) {
      const uint32_t place = value * bits + bit, reg = place / register_bits, inside = place % register_bits;
      const size_t word = (size_t{reg} * kLanes + lane) * register_bits / 32 + inside / 32;
      words[word] = (words[word] & ~(1u << inside % 32)) | static_cast<uint32_t>(code >> bit & 1) << inside % 32;
    }
  }
  uint64_t get(uint32_t lane, uint32_t value, uint32_t bits) const {
    uint64_t code = 0;
    for (uint32_t bit = 0; bit < bits; ++bit) {
      const uint32_t place = value * bits + bit, reg = place / register_bits, inside = place % register_bits;
      const size_t word = (size_t{reg} * kLanes + lane) * register_bits / 32 + inside / 32;
      code |= uint64_t{words[word] >> inside % 32 & 1} << bit;
    }
    return code;
  }
  uint32_t count() const { return static_cast<uint32_t>(words.size() * 32 / kLanes / register_bits); }
};

// One instruction: loads A, B and C from memory, executes it, stores D.
std::vector<uint32_t> execute(const std::string& name, const Registers& a, const Registers& b, const Registers& c,
                              uint32_t d_count) {
  KernelRun run(machine::b200());
  const uint32_t bytes = c.register_bits / 8;
  const std::string prefix = bytes == 8 ? "%rd" : "%r";
  std::string body = fmt::format("mov.u32 %r60, %tid.x;\nmul.wide.u32 %rd60, %r60, {};\n", bytes);
  uint32_t next = 10;
  std::vector<uint64_t> parameters;
  std::string lists[3];
  const Registers* const all[] = {&a, &b, &c};
  for (uint32_t matrix = 0; matrix < 3; ++matrix) {
    parameters.push_back(run.upload(all[matrix]->words));
    body += fmt::format("add.s64 %rd61, %rd{}, %rd60;\n", matrix + 1);
    for (uint32_t i = 0; i < all[matrix]->count(); ++i, ++next) {
      body += fmt::format("ld.global.b{} {}{}, [%rd61+{}];\n", 8 * bytes, prefix, next, i * kLanes * bytes);
      lists[matrix] += fmt::format("{}{}{}", i == 0 ? "" : ", ", prefix, next);
    }
  }
  std::string d;
  for (uint32_t i = 0; i < d_count; ++i) d += fmt::format("{}{}{}", i == 0 ? "" : ", ", prefix, next + i);
  body += fmt::format("{} {{{}}}, {{{}}}, {{{}}}, {{{}}};\n", name, d, lists[0], lists[1], lists[2]);
  body += "add.s64 %rd61, %rd0, %rd60;\n";
  for (uint32_t i = 0; i < d_count; ++i) {
    body += fmt::format("st.global.b{} [%rd61+{}], {}{};\n", 8 * bytes, i * kLanes * bytes, prefix, next + i);
  }
  expect_success(run.run(body, parameters, {.threads = kLanes}));
  return {run.out(), run.out() + size_t{d_count} * kLanes * bytes / 4};
}

struct Form {
  std::string shape, a, b, d;
  std::string extra{};  // ".satfinite", ".xor.popc", ".rz"
};

std::string spelling(const Form& form) {
  return fmt::format("mma.sync.aligned.{}.row.col{}.{}.{}.{}.{}", form.shape, form.extra, form.d, form.a, form.b,
                     form.d);
}

void check(const Form& form, uint32_t seed = 1) {
  SCOPED_TRACE(spelling(form));
  std::mt19937 random(seed);
  const Element a = element(form.a), b = element(form.b), d = element(form.d);
  const Fragments& layout = fragments_of(form.shape, a.bits);
  const uint32_t m = layout.m, k = layout.k, n = 8, word = a.bits == 64 ? 64 : 32;
  std::vector<uint64_t> a_codes(m * k), b_codes(n * k), c_codes(m * n);
  for (uint64_t& code : a_codes) code = a.random(random);
  for (uint64_t& code : b_codes) code = b.random(random);
  for (uint64_t& code : c_codes) code = d.random(random);

  const FragmentLayout d_layout = layout_of_d(m);
  const uint32_t d_count = d_layout.value_count() * d.bits / word;
  Registers a_registers(layout.a.value_count() * a.bits / word, word);
  Registers b_registers(layout.b.value_count() * b.bits / word, word);
  Registers c_registers(d_count, word);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < layout.a.value_count(); ++i)
      a_registers.put(lane, i, a.bits, a_codes[layout.a.index(lane, i)]);
    for (uint32_t i = 0; i < layout.b.value_count(); ++i)
      b_registers.put(lane, i, b.bits, b_codes[layout.b.index(lane, i)]);
    for (uint32_t i = 0; i < d_layout.value_count(); ++i)
      c_registers.put(lane, i, d.bits, c_codes[d_layout.index(lane, i)]);
  }
  Registers result(d_count, word);
  result.words = execute(spelling(form), a_registers, b_registers, c_registers, d_count);

  uint32_t wrong = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < d_layout.value_count(); ++i) {
      const uint32_t index = d_layout.index(lane, i), row = index % m, column = index / m;
      double sum = d.worth(c_codes[index]), magnitude = std::abs(sum);
      for (uint32_t step = 0; step < k; ++step) {
        const double left = a.worth(a_codes[row + m * step]), right = b.worth(b_codes[column + n * step]);
        const double product = form.extra == ".xor.popc" ? (left != right ? 1 : 0) : left * right;
        sum += product;
        magnitude += std::abs(product);
      }
      double tolerance = magnitude * std::ldexp(k + 1, form.d == "f64" ? -52 : -24);
      if (form.d == "f16") tolerance += std::abs(sum) * 0x1p-11 + 0x1p-25;
      // With 8-bit floats, each half of the sum is rounded to f16, too.
      if (form.d == "f16" && a.bits == 8) tolerance += magnitude * 0x1p-10;
      if (form.d == "f16" && a.bits == 8 && magnitude > 65504) continue;  // a half may be infinite
      // Too large for f16: infinity, whose code would be worth 65536.
      if (form.d == "f16" && std::abs(sum) > 65504) sum = std::copysign(65536, sum), tolerance = 32;
      if (form.d == "s32") {
        tolerance = 0;
        sum = form.extra == ".satfinite" ? std::clamp(sum, -0x1p31, 0x1p31 - 1)
                                         : static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(sum)));
      }
      const double found = d.worth(result.get(lane, i, d.bits));
      if (!(std::abs(found - sum) <= tolerance) && ++wrong < 4) {
        ADD_FAILURE() << "element (" << row << ", " << column << ") is " << found << ", not " << sum;
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
}

TEST(MmaSync, MultipliesFloatsOf16Bits) {
  for (const std::string shape : {"m16n8k8", "m16n8k16"}) {
    check({shape, "f16", "f16", "f32"});
    check({shape, "f16", "f16", "f16"});
    check({shape, "bf16", "bf16", "f32"});
  }
}

TEST(MmaSync, MultipliesTf32) {
  check({"m16n8k4", "tf32", "tf32", "f32"});
  check({"m16n8k8", "tf32", "tf32", "f32"});
}

TEST(MmaSync, MultipliesFloatsOf8BitsOfMixedTypes) {
  for (const std::string shape : {"m16n8k16", "m16n8k32"}) {
    for (const std::string a : {"e4m3", "e5m2"}) {
      for (const std::string b : {"e4m3", "e5m2"}) {
        for (const std::string d : {"f16", "f32"}) check({shape, a, b, d});
      }
    }
  }
  check({"m16n8k32", "e4m3", "e5m2", "f32", ".kind::f8f6f4"});
}

TEST(MmaSync, MultipliesIntegersAndWrapsOrSaturates) {
  for (const std::string extra : {"", ".satfinite"}) {
    for (const std::string shape : {"m8n8k16", "m16n8k16", "m16n8k32"}) {
      for (const std::string a : {"s8", "u8"}) {
        for (const std::string b : {"s8", "u8"}) check({shape, a, b, "s32", extra});
      }
    }
    for (const std::string shape : {"m8n8k32", "m16n8k32", "m16n8k64"}) {
      for (const std::string a : {"s4", "u4"}) {
        for (const std::string b : {"s4", "u4"}) check({shape, a, b, "s32", extra});
      }
    }
  }
}

TEST(MmaSync, CountsSingleBits) {
  for (const std::string shape : {"m8n8k128", "m16n8k128", "m16n8k256"}) {
    check({shape, "b1", "b1", "s32", ".and.popc"});
    check({shape, "b1", "b1", "s32", ".xor.popc"});
  }
}

TEST(MmaSync, MultipliesDoubles) {
  for (const std::string shape : {"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"}) {
    for (const std::string extra : {"", ".rn", ".rz", ".rm", ".rp"}) check({shape, "f64", "f64", "f64", extra});
  }
}

TEST(MmaSync, RoundsDoublesAsTheInstructionSays) {
  // 1 + 2^-60 in the last place: one more toward +infinity, otherwise not; and negated.
  const auto run = [](const std::string& mode, double c) {
    Registers a(1, 64), b(1, 64), registers_c(2, 64);
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const bool first = lane % 4 == 0;  // k = 0 only
      a.put(lane, 0, 64, std::bit_cast<uint64_t>(first ? std::copysign(0x1p-60, c) : 0.0));
      b.put(lane, 0, 64, std::bit_cast<uint64_t>(first ? 1.0 : 0.0));
      for (uint32_t i = 0; i < 2; ++i) registers_c.put(lane, i, 64, std::bit_cast<uint64_t>(c));
    }
    Registers d(2, 64);
    d.words = execute("mma.sync.aligned.m8n8k4.row.col" + mode + ".f64.f64.f64.f64", a, b, registers_c, 2);
    return std::bit_cast<double>(d.get(5, 1, 64));
  };
  EXPECT_EQ(run(".rp", 1.0), 1.0 + 0x1p-52);
  EXPECT_EQ(run(".rn", 1.0), 1.0);
  EXPECT_EQ(run(".rz", 1.0), 1.0);
  EXPECT_EQ(run(".rm", -1.0), -1.0 - 0x1p-52);
  EXPECT_EQ(run(".rp", -1.0), -1.0);
}

// Four independent products, each in eight lanes. Layouts: CUTLASS, mma_traits_sm70.hpp.
TEST(MmaSync, MultipliesInQuarterWarps) {
  const FragmentLayout along_k{{{8, 1}}, {{4, 8}}}, across_k{{{4, 8}, {2, 4}}, {{4, 1}}};
  const FragmentLayout d16{{{8, 1}}, {{8, 8}}}, d32{{{2, 1}, {2, 16}, {2, 4}}, {{2, 8}, {2, 2}, {2, 32}}};
  std::mt19937 random(5);
  for (const std::string a_layout : {"row", "col"}) {
    for (const std::string b_layout : {"row", "col"}) {
      for (const auto& [d_type, c_type] :
           std::vector<std::pair<std::string, std::string>>{{"f16", "f16"}, {"f32", "f16"}, {"f32", "f32"}}) {
        const std::string name =
            "mma.sync.aligned.m8n8k4." + a_layout + "." + b_layout + "." + d_type + ".f16.f16." + c_type;
        SCOPED_TRACE(name);
        const Element half = element("f16"), c = element(c_type), d = element(d_type);
        const FragmentLayout& a_map = a_layout == "row" ? along_k : across_k;
        const FragmentLayout& b_map = b_layout == "col" ? along_k : across_k;
        const FragmentLayout& c_map = c_type == "f16" ? d16 : d32;
        const FragmentLayout& d_map = d_type == "f16" ? d16 : d32;
        Registers a_registers(2, 32), b_registers(2, 32), c_registers(8 * c.bits / 32, 32), result(8 * d.bits / 32, 32);
        double a_values[4][32], b_values[4][32], c_values[4][64];
        for (uint32_t lane = 0; lane < kLanes; ++lane) {
          const uint32_t pair = lane / 4 % 4, member = lane % 4 + lane / 16 * 4;
          for (uint32_t i = 0; i < 4; ++i) {
            const uint64_t a_code = half.random(random), b_code = half.random(random);
            a_registers.put(lane, i, 16, a_code);
            b_registers.put(lane, i, 16, b_code);
            a_values[pair][a_map.index(member, i)] = half.worth(a_code);
            b_values[pair][b_map.index(member, i)] = half.worth(b_code);
          }
          for (uint32_t i = 0; i < 8; ++i) {
            const uint64_t code = c.random(random);
            c_registers.put(lane, i, c.bits, code);
            c_values[pair][c_map.index(member, i)] = c.worth(code);
          }
        }
        result.words = execute(name, a_registers, b_registers, c_registers, result.count());
        for (uint32_t lane = 0; lane < kLanes; ++lane) {
          const uint32_t pair = lane / 4 % 4, member = lane % 4 + lane / 16 * 4;
          for (uint32_t i = 0; i < 8; ++i) {
            const uint32_t index = d_map.index(member, i), row = index % 8, column = index / 8;
            double sum = c_values[pair][index], magnitude = std::abs(sum);
            for (uint32_t k = 0; k < 4; ++k) {
              const double product = a_values[pair][row + 8 * k] * b_values[pair][column + 8 * k];
              sum += product;
              magnitude += std::abs(product);
            }
            const double tolerance = magnitude * 0x1p-21 + (d_type == "f16" ? std::abs(sum) * 0x1p-11 + 0x1p-25 : 0);
            EXPECT_NEAR(d.worth(result.get(lane, i, d.bits)), sum, tolerance) << "lane " << lane << ", element " << i;
          }
        }
      }
    }
  }
}

TEST(MmaSync, ReadsAllOfCBeforeItWritesD) {
  // D's registers are C's in reverse.
  KernelRun run(machine::h200());
  std::string body = "mov.u32 %r60, %tid.x;\nmul.wide.u32 %rd60, %r60, 4;\nadd.s64 %rd61, %rd0, %rd60;\n";
  for (uint32_t i = 0; i < 4; ++i) body += fmt::format("mov.u32 %r{}, {};\n", i, 100 * (i + 1));
  body +=
      "mov.u32 %r10, 0;\nmma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%r3, %r2, %r1, %r0}, {%r10, %r10}, {%r10}, "
      "{%r0, %r1, %r2, %r3};\n";
  for (uint32_t i = 0; i < 4; ++i) body += fmt::format("st.global.b32 [%rd61+{}], %r{};\n", 128 * i, i);
  expect_success(run.run(body, {}, {.threads = kLanes}));
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(run.out()[32 * i + 7], 100 * (4 - i));
}

std::string refusal(const std::string& instruction) {
  KernelRun run(machine::b200());
  try {
    run.run(instruction, {}, {.threads = kLanes});
  } catch (const std::exception& error) {
    return error.what();
  }
  return "accepted";
}

TEST(MmaSync, RefusesWhatDoesNotExist) {
  const std::string registers = " {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, {%r0, %r1}, {%r0, %r1, %r2, %r3};";
  const auto expect = [&](const std::string& name, const std::string& words) {
    const std::string found = refusal(name + registers);
    EXPECT_NE(found.find(words), std::string::npos) << name << ": " << found;
  };
  expect("mma.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32", "there are m16n8k8 m16n8k16");
  expect("mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32", "no mma.sync multiplies .f16 by .bf16");
  expect("mma.sync.aligned.m16n8k16.row.col.f16.bf16.bf16.f16", "do not exist for bf16");
  expect("mma.sync.aligned.m16n8k16.col.col.f32.bf16.bf16.f32", ".row.col");
  expect("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", "A has 4 registers, and needs 2");
  expect("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m1.e2m1.f32", "sm_120a");
  expect("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32", "sm_120a");
  expect("mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", "sparse");
}

TEST(MmaSync, NeedsTheWholeWarp) {
  KernelRun run(machine::h200());
  const auto result = run.run(
      "mov.u32 %r0, 0;\nmma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%r1, %r2, %r3, %r4}, {%r0, %r0}, {%r0}, "
      "{%r0, %r0, %r0, %r0};",
      {}, {.threads = 16});
  expect_fault(result, machine::FaultKind::illegal_instruction, "16 of 32 threads");
}

}  // namespace
}  // namespace stagecraft::emulator::machine::testing
