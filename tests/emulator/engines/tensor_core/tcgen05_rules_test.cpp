// Sums of tcgen05.mma against the rules of sum_rules.hpp, a million random dot products of which the authors of the
// rules compared with a B200, in each of 46 forms.
//
// STAGECRAFT_RULE_CASES in the environment is the number of dot products of each form.
#include <cstdlib>

#include "sum_rules.hpp"

namespace stagecraft::emulator::machine::testing::rules {
namespace {

constexpr uint32_t kRows = 128, kColumns = 128, kScalesA = 300, kScalesB = 308;

// Puts the scale factors of all rows into all quarters of the lanes.
void put_scales(TensorBlock& bench, uint32_t base, const std::vector<uint32_t>& codes, uint32_t per_row) {
  for (uint32_t row = 0; row * per_row < codes.size(); ++row) {
    uint32_t word = 0;
    for (uint32_t i = 0; i < per_row; ++i) word |= codes[row * per_row + i] << 8 * i;
    for (uint32_t quarter = 0; quarter < 4; ++quarter)
      bench.memory.cell({row % 32 + 32 * quarter, base + row / 32}) = word;
  }
}

class Tcgen05Rules : public ::testing::TestWithParam<Form> {};

TEST_P(Tcgen05Rules, HoldForRandomNumbers) {
  const Form& form = GetParam();
  const char* const asked = std::getenv("STAGECRAFT_RULE_CASES");
  const uint32_t cases = asked != nullptr ? static_cast<uint32_t>(std::strtoul(asked, nullptr, 10)) : kRows * kColumns;
  TensorBlock bench;
  bench.allocate(512);
  std::seed_seq seed(form.name.begin(), form.name.end());
  std::mt19937 random(seed);
  const uint32_t bits = form.scales == 0 ? Instruction{.m = kRows,
                                                       .n = kColumns,
                                                       .d_code = form.d_code,
                                                       .a_code = form.a_code,
                                                       .b_code = form.b_code,
                                                       .saturate = form.saturate}
                                               .bits()
                                         : form.a_code << 7 | form.b_code << 10 | kColumns / 8 << 17 |
                                               uint32_t{!form.ue4m3} << 23 | kRows / 16 << 24;
  Tcgen05Mma operation;
  operation.shape = decode_instruction_descriptor(bits, form.kind, false);
  operation.accumulate = true;
  operation.scales_a = kScalesA;
  operation.scales_b = kScalesB;
  operation.scales_per_slice = form.scales;
  const int k = static_cast<int>(operation.shape.k);
  uint32_t wrong = 0;
  for (uint32_t done = 0; done < cases; done += kRows * kColumns) {
    Matrix a(form.a, kRows, operation.shape.k, random), b(form.b, kColumns, operation.shape.k, random);
    if (!form.is_integer()) {
      draw(a, random);
      draw(b, random);
    }
    operation.a = decode_shared_descriptor(put_k_major(bench, a, 4096, 2), "A");
    operation.b = decode_shared_descriptor(put_k_major(bench, b, 65536, 2), "B");
    const std::vector<uint32_t> codes_a = draw_scales(form, kRows, random),
                                codes_b = draw_scales(form, kColumns, random);
    if (form.scales != 0) {
      put_scales(bench, kScalesA, codes_a, form.scales);
      put_scales(bench, kScalesB, codes_b, form.scales);
    }
    const std::vector<Number> rows = numbers_of(a), columns = numbers_of(b);
    const std::vector<Number> scales_a = scales_of(codes_a, form.ue4m3), scales_b = scales_of(codes_b, form.ue4m3);
    std::vector<uint32_t> addends(kRows * kColumns);
    for (uint32_t n = 0; n < kColumns; ++n) {
      for (uint32_t m = 0; m < kRows; ++m) {
        const int middle = form.scales == 0 ? 0 : scales_a[m * form.scales].raw + scales_b[n * form.scales].raw;
        addends[n * kRows + m] = bench.memory.cell({m, n}) = draw_c(form, middle, random);
      }
    }
    execute(operation, {bench.block, bench.memory});
    for (uint32_t n = 0; n < kColumns; ++n) {
      for (uint32_t m = 0; m < kRows; ++m) {
        const uint32_t c = addends[n * kRows + m], found = bench.memory.cell({m, n});
        uint32_t expected;
        if (form.is_integer()) {
          std::vector<int64_t> products;
          for (int i = 0; i < k; ++i) products.push_back(static_cast<int64_t>(a.value(m, i) * b.value(n, i)));
          expected = integer_sum(products, c, form.saturate);
        } else {
          const Dot dot{.a = &rows[m * k],
                        .b = &columns[n * k],
                        .k = k,
                        .scales_a = form.scales == 0 ? nullptr : &scales_a[m * form.scales],
                        .scales_b = form.scales == 0 ? nullptr : &scales_b[n * form.scales],
                        .parts = static_cast<int>(form.scales),
                        .c = number_of(c, form.d_code == 0 ? kF16 : kF32),
                        .to_f16 = form.d_code == 0};
          expected = word_by_rules(form, dot);
        }
        if (found != expected && ++wrong < 5) {
          ADD_FAILURE() << std::hex << "row " << m << ", column " << n << ", C " << c << ": " << found
                        << ", by the rules " << expected;
        }
      }
    }
  }
  EXPECT_EQ(wrong, 0u);
}

INSTANTIATE_TEST_SUITE_P(All, Tcgen05Rules, ::testing::ValuesIn(forms()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace stagecraft::emulator::machine::testing::rules
