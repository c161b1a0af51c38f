// The sums of block-scaled kinds in vectors against those of one element, at every level of the processor's
// instructions that is built.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/scaled_sum.hpp"
#include "emulator/host/isa_level.hpp"
#include "emulator/host/processor_level.hpp"
#include "harness/random.hpp"

namespace stagecraft::emulator::machine {

STAGECRAFT_DECLARE_ISA(const PanelKernels& kernels())

namespace {

using harness::Random;

struct Case {
  const char* name;
  ElementFormat format;
  uint32_t groups = 1;
  int center = 0, spread = 4;  ///< of the exponents of scale factors
  bool ue4m3 = false;
  std::vector<float> specials{0.0f};     ///< some elements
  std::vector<float> addends{0.0f};      ///< some of C
  bool some_scales_are_missing = false;  ///< not-a-number
};

const std::vector<float> kSpecialAddends{INFINITY, -INFINITY, NAN, -0.0f, 0.0f, 0x1.fffffep127f, 1e-45f, -1e-40f};

std::vector<Case> cases() {
  using enum ElementFormat;
  const std::vector<float> infinite{INFINITY, -INFINITY, NAN, 0.0f};
  return {{.name = "e4m3", .format = e4m3},
          {.name = "e5m2", .format = e5m2, .spread = 20, .addends = kSpecialAddends},
          {.name = "e2m3", .format = e2m3, .center = 20, .spread = 1},
          {.name = "e3m2WithoutSomeScales", .format = e3m2, .some_scales_are_missing = true},
          {.name = "e2m1OfAllScales", .format = e2m1, .spread = 127, .addends = kSpecialAddends},
          {.name = "e5m2WithInfinities", .format = e5m2, .specials = infinite},
          {.name = "groups", .format = e2m1_packed, .groups = 4},
          {.name = "groupsOfAllScales",
           .format = e2m1_packed,
           .groups = 4,
           .spread = 127,
           .addends = kSpecialAddends,
           .some_scales_are_missing = true},
          {.name = "groupsOfNearScales", .format = e2m1_packed, .groups = 4, .spread = 18},
          {.name = "groupsWithSignificands", .format = e2m1_packed, .groups = 4, .ue4m3 = true},
          {.name = "groupsWithSignificandsAndSpecialAddends",
           .format = e2m1_packed,
           .groups = 4,
           .ue4m3 = true,
           .addends = kSpecialAddends,
           .some_scales_are_missing = true}};
}

struct Scales {
  std::vector<int32_t> exponents;
  std::vector<float> significands;
};

Scales draw_scales(const Case& one, size_t count, Random& random) {
  Scales scales;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t drawn = random.bits() >> 16;
    const int exponent = one.center - one.spread + static_cast<int>(drawn % (2 * one.spread + 1));
    const float scale = one.ue4m3 ? from_ue4m3(drawn % 127) : std::ldexp(1.0f, std::clamp(exponent, -127, 127));
    const ScaledFactor factor = factor_of(scale, one.ue4m3 ? kLeastUe4m3 : kLeastUe8m0);
    const bool missing = one.some_scales_are_missing && (drawn >> 20 & 63) == 0;
    scales.exponents.push_back(missing ? kNoScale : factor.exponent);
    scales.significands.push_back(missing ? 0.0f : static_cast<float>(factor.significand));
  }
  return scales;
}

class ScaledPanels : public testing::TestWithParam<Case> {};

TEST_P(ScaledPanels, HaveTheSumsOfSingleElementsAtEveryLevel) {
  const Case& one = GetParam();
  const bool grouped = one.groups != 1;
  const uint32_t columns = 24;
  const int least = least_exponent(one.format);
  // With a sparse A, K is twice as long, and half of the elements are zeros.
  for (const auto& [rows, sparse] : {std::pair{128u, false}, {32u, false}, {128u, true}, {32u, true}}) {
    const uint32_t depth = (grouped ? 64 : 32) * (sparse ? 2 : 1);
    Random random(rows);
    const auto draw = [&](const std::vector<float>& specials, bool is_element) {
      const uint64_t drawn = random.bits() >> 8;
      if (drawn % 16 == 0) return specials[drawn / 16 % specials.size()];
      if (is_element) {
        const auto values = values_of(grouped ? ElementFormat::e2m1 : one.format);
        float value = values[drawn >> 8 & (grouped ? 15 : 255)];
        return std::isfinite(value) ? value : 1.0f;
      }
      const int exponent = 2 * one.center - 12 + static_cast<int>(drawn >> 32) % 30;
      return std::ldexp(static_cast<float>(static_cast<int>(drawn & 0xffffff) - 0x800000), exponent - 23);
    };
    std::vector<float> a(depth * kPanelLanes), b(columns * depth), d(columns * kPanelLanes);
    for (float& value : a) value = draw(one.specials, true);
    for (float& value : b) value = draw(one.specials, true);
    for (uint32_t i = 0; sparse && i < a.size(); ++i) {
      if ((i / kPanelLanes + i % kPanelLanes) % 2 == 0) a[i] = 0;
    }
    for (float& value : d) value = draw(one.addends, false);
    const Scales of_a = draw_scales(one, one.groups * kPanelLanes, random);
    const Scales of_b = draw_scales(one, columns * one.groups, random);
    const BlockScales scales{one.groups, of_a.exponents.data(), of_b.exponents.data(), of_a.significands.data(),
                             of_b.significands.data()};
    const MultiplyShape shape{rows, columns, depth, 0, true, {25, least, least, SumResult::f32}};
    std::vector<float> expected = d;
    for (uint32_t n = 0; n < columns; ++n) {
      for (uint32_t m = 0; m < rows; ++m) {
        float& cell = expected[n * kPanelLanes + m];
        const float* const column = &b[n * depth];
        if (grouped) {
          cell = scaled_groups({&a[m], &of_a.significands[m], &of_a.exponents[m], kPanelLanes},
                               {column, &of_b.significands[4 * n], &of_b.exponents[4 * n], 1}, depth, cell);
        } else {
          cell = scaled_products({&a[m], kPanelLanes, least, of_a.exponents[m]}, {column, 1, least, of_b.exponents[n]},
                                 depth, cell);
        }
      }
    }
    const auto compare_level = [&](int level, const PanelKernels& kernels) {
      if (level > processor_level()) return;
      std::vector<float> result = d;
      kernels.multiply_scaled(result.data(), a.data(), b.data(), shape, scales);
      for (size_t i = 0; i < result.size(); ++i) {
        ASSERT_EQ(std::bit_cast<uint32_t>(result[i]), std::bit_cast<uint32_t>(expected[i]))
            << "level " << level << ", element " << i << ", added to " << d[i] << ": " << result[i] << ", not "
            << expected[i];
      }
    };
#define STAGECRAFT_LEVEL(level, isa, ...) compare_level(level, isa::kernels());
    STAGECRAFT_EACH_ISA(STAGECRAFT_LEVEL, )
#undef STAGECRAFT_LEVEL
  }
}

INSTANTIATE_TEST_SUITE_P(All, ScaledPanels, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace stagecraft::emulator::machine
