// The sums of MMAs against a reference that adds in integers of 128 bits, at every level of the processor's
// instructions that is built.
#include "emulator/engines/tensor_core/fused_sum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <vector>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"
#include "emulator/host/isa_level.hpp"
#include "emulator/host/processor_level.hpp"
#include "harness/random.hpp"

namespace stagecraft::emulator::machine {

STAGECRAFT_DECLARE_ISA(const PanelKernels& kernels())

namespace {

using harness::Random;

struct Term {
  bool negative = false;
  unsigned __int128 significand = 0;
  int exponent = 0;  ///< of the significand's last bit
  int leading = 0;   ///< the exponent that aligns
};

struct Fields {
  uint64_t significand;
  int exponent;  ///< of the significand's last bit
  bool negative;
};

Fields fields_of(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), field = bits >> 23 & 255;
  return {(bits & 0x7fffff) | (field != 0 ? 0x800000u : 0u), static_cast<int>(std::max(field, 1u)) - 150,
          bits >> 31 != 0};
}

int leading_of(float value, int least) {
  const Fields fields = fields_of(value);
  const int top = 63 - std::countl_zero(fields.significand);
  return std::max(fields.exponent + top, least);
}

/// The definition, in steps that no vector code has.
float reference(const std::vector<float>& a, const std::vector<float>& b, float c, const FusedSum& how) {
  bool not_a_number = std::isnan(c), positive = c == INFINITY, negative = c == -INFINITY;
  std::vector<Term> terms;
  const auto add = [&](float x, float y, int x_least, int y_least) {
    const Fields f = fields_of(x), g = fields_of(y);
    if (f.significand == 0 || g.significand == 0) return;
    terms.push_back({f.negative != g.negative, static_cast<unsigned __int128>(f.significand) * g.significand,
                     f.exponent + g.exponent, leading_of(x, x_least) + leading_of(y, y_least)});
  };
  for (size_t k = 0; k < a.size(); ++k) {
    const float product = a[k] * b[k];
    if (std::isinf(a[k]) || std::isinf(b[k])) {
      not_a_number |= std::isnan(product);
      positive |= product == INFINITY;
      negative |= product == -INFINITY;
    } else if (std::isnan(a[k]) || std::isnan(b[k])) {
      not_a_number = true;
    } else {
      add(a[k], b[k], how.a_least, how.b_least);
    }
  }
  if (not_a_number || (positive && negative)) return std::bit_cast<float>(0x7fffffffu);
  if (positive || negative) return positive ? INFINITY : -INFINITY;
  add(c, 1.0f, -126, 0);
  if (terms.empty()) return 0.0f;
  int aligned = terms[0].leading;
  for (const Term& term : terms) aligned = std::max(aligned, term.leading);
  const int last = aligned - how.fraction_bits;
  int64_t sum = 0;
  for (const Term& term : terms) {
    const int shift = term.exponent - last;
    const unsigned __int128 kept = shift >= 0     ? term.significand << std::min(shift, 127)
                                   : shift > -128 ? term.significand >> -shift
                                                  : 0;
    sum += term.negative ? -static_cast<int64_t>(kept) : static_cast<int64_t>(kept);
  }
  uint64_t magnitude = static_cast<uint64_t>(std::abs(sum));
  if (magnitude == 0) return 0.0f;
  const int top = 63 - std::countl_zero(magnitude);
  const int digits = how.result == SumResult::f32_13bits ? 13 : 23;
  const int unit = std::max(top + last, -126) - digits;  // exponent of the result's last bit
  bool inexact = false;
  int exponent = last;
  for (; exponent < unit; ++exponent) {
    inexact |= (magnitude & 1) != 0;
    magnitude >>= 1;
  }
  double result = std::ldexp(static_cast<double>(magnitude), exponent);
  if (how.result == SumResult::odd) {
    if (result < 0x1p-25 || (result == 0x1p-25 && !inexact)) return 0.0f;
    if (inexact && exponent == unit) result = std::ldexp(static_cast<double>(magnitude | 1), exponent);
  }
  if (result >= 0x1p128) return sum < 0 ? -INFINITY : INFINITY;
  return sum < 0 && result != 0 ? -static_cast<float>(result) : static_cast<float>(result);
}

/// Numbers with significands of `bits` bits after the point and exponents from `least` to `most`.
std::function<float(Random&)> numbers(int bits, int least, int most) {
  return [=](Random& random) {
    const uint64_t drawn = random.bits();
    const int exponent = least + static_cast<int>(drawn >> 40) % (most - least + 1);
    const float significand = 1.0f + static_cast<float>(drawn & ((1u << bits) - 1)) / static_cast<float>(1u << bits);
    return std::ldexp(drawn >> 63 != 0 ? -significand : significand, exponent);
  };
}

std::function<float(Random&)> with(std::function<float(Random&)> usual, std::vector<float> others, uint32_t one_in) {
  return [=](Random& random) {
    const uint64_t drawn = random.bits() >> 20;
    return drawn % one_in != 0 ? usual(random) : others[drawn / one_in % others.size()];
  };
}

struct Case {
  const char* name;
  uint32_t k;
  FusedSum sum;
  std::function<float(Random&)> element, addend;
};

std::vector<Case> cases() {
  const auto f16 = numbers(10, -14, 15), bf16 = numbers(7, -60, 60), near = numbers(7, -4, 4);
  const std::vector<float> specials{INFINITY, -INFINITY, NAN, 0.0f, -0.0f};
  const std::vector<float> zeros{0.0f, -0.0f};
  const FusedSum wide{25, -126, -126, SumResult::f32}, half{25, -14, -14, SumResult::f32};
  const FusedSum rounded{25, -14, -14, SumResult::odd}, bytes{13, -6, -6, SumResult::f32_13bits};
  return {
      {"f16", 16, half, f16, numbers(23, -40, 40)},
      {"f16 with subnormal numbers", 16, half, numbers(3, -24, -8), numbers(23, -50, -10)},
      {"f16, sums in f16", 16, rounded, numbers(10, -14, 2), numbers(10, -14, 15)},
      {"f16, tiny sums in f16", 16, rounded, with(numbers(2, -14, -11), zeros, 2),
       with(numbers(2, -24, -20), zeros, 2)},
      {"f16, the smallest sums in f16", 16, rounded, with(numbers(0, -14, -13), zeros, 2),
       with(numbers(0, 0, 0), zeros, 1)},
      {"bf16", 16, wide, bf16, numbers(23, -125, 125)},
      {"bf16 near 1", 16, wide, near, numbers(23, -8, 8)},
      {"bf16 of all sizes", 16, wide, numbers(7, -126, 127), numbers(23, -126, 127)},
      {"bf16 with zeros", 16, wide, with(near, zeros, 2), with(numbers(23, -90, 8), zeros, 2)},
      {"bf16 with special values", 16, wide, with(near, specials, 64), with(numbers(23, -8, 8), specials, 8)},
      {"bf16, subnormal sums", 16, wide, numbers(7, -80, -60), numbers(23, -126, -110)},
      {"small integers", 16, wide, with(numbers(1, 0, 2), zeros, 4), numbers(3, 3, 6)},
      {"small integers and other addends", 16, wide, numbers(1, 0, 2),
       with(numbers(3, 3, 6), {0.1f, -0.0f, 1e30f}, 99)},
      {"tf32", 8, wide, numbers(10, -20, 20), numbers(23, -40, 40)},
      {"e4m3", 32, bytes, numbers(3, -6, 8), numbers(13, -12, 16)},
      {"e4m3, K of 64", 64, bytes, numbers(3, -6, 8), numbers(13, -12, 16)},
      {"e4m3 with all bits, K of 64", 64, {25, -6, -6, SumResult::f32}, numbers(3, 0, 8), numbers(23, 0, 16)},
      {"e4m3 of integers", 32, bytes, numbers(1, 0, 1), numbers(3, 3, 6)},
      {"small integers, few bits of which are kept, sums in f16",
       32,
       {13, -6, -6, SumResult::odd},
       numbers(3, 0, 4),
       numbers(3, 3, 12)},
      {"e4m3 with all bits", 32, {25, -6, -6, SumResult::f32}, numbers(3, 0, 8), numbers(23, 0, 16)},
      {"the largest significands", 16, half, [](Random&) { return 2047.0f; }, [](Random&) { return 0x1.fffffep22f; }},
      {"the largest significands, K of 32", 32, half, [](Random&) { return 1.9375f; }, numbers(23, 0, 9)}};
}

class FusedSums : public testing::TestWithParam<Case> {};

TEST_P(FusedSums, AreThoseOfTheDefinitionAtEveryLevel) {
  const Case& one = GetParam();
  const std::vector<std::pair<int, const PanelKernels*>> levels = {
#define STAGECRAFT_LEVEL(level, isa, ...) {level, &isa::kernels()},
      STAGECRAFT_EACH_ISA(STAGECRAFT_LEVEL, )
#undef STAGECRAFT_LEVEL
  };
  for (const uint32_t lane_gap : {0u, 16u}) {
    const MultiplyShape shape{lane_gap == 0 ? 128u : 64u, 24, one.k, lane_gap, true, one.sum};
    Random random(lane_gap + 1);
    std::vector<float> a(one.k * kPanelLanes), b(shape.n * one.k), d(shape.n * kPanelLanes);
    for (float& value : a) value = one.element(random);
    for (float& value : b) value = one.element(random);
    for (float& value : d) value = one.addend(random);
    for (const auto& [level, kernels] : levels) {
      if (level > processor_level()) continue;
      std::vector<float> result = d;
      kernels->multiply(result.data(), a.data(), b.data(), shape);
      for (uint32_t n = 0; n < shape.n; ++n) {
        for (uint32_t m = 0; m < shape.m; ++m) {
          std::vector<float> row, column;
          for (uint32_t k = 0; k < one.k; ++k) {
            row.push_back(a[k * kPanelLanes + m]);
            column.push_back(b[n * one.k + k]);
          }
          const uint32_t at = n * kPanelLanes + m + m / 16 * lane_gap;
          const float expected = reference(row, column, d[at], one.sum);
          ASSERT_EQ(std::bit_cast<uint32_t>(result[at]), std::bit_cast<uint32_t>(expected))
              << "level " << level << ", row " << m << ", column " << n << ", added to " << d[at] << ": " << result[at]
              << ", not " << expected;
          const float scalar = fused_sum(row.data(), 1, column.data(), 1, one.k, d[at], one.sum);
          ASSERT_EQ(std::bit_cast<uint32_t>(scalar), std::bit_cast<uint32_t>(expected)) << "one by one";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FusedSums, testing::ValuesIn(cases()), [](const auto& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); });
  return name;
});

// The variable is read once in a process, so each value has one of its own.
int fraction_bits_with(const char* wish) {
  if (wish == nullptr) {
    unsetenv("STAGECRAFT_MMA_SUMS");
  } else {
    setenv("STAGECRAFT_MMA_SUMS", wish, 1);
  }
  return sum_of(ElementFormat::bf16, ElementFormat::bf16, SumResult::f32).fraction_bits;
}

TEST(FusedSumsDeathTest, AreChosenByTheEnvironment) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(fraction_bits_with(nullptr)), testing::ExitedWithCode(25), "");
  EXPECT_EXIT(std::exit(fraction_bits_with("")), testing::ExitedWithCode(25), "");
  EXPECT_EXIT(std::exit(fraction_bits_with("plain")), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(fraction_bits_with("fused")), testing::ExitedWithCode(25), "");
  EXPECT_EXIT(std::exit(fraction_bits_with("exact")), testing::ExitedWithCode(1),
              "STAGECRAFT_MMA_SUMS is \"exact\", but must be plain or fused");
}

}  // namespace
}  // namespace stagecraft::emulator::machine
