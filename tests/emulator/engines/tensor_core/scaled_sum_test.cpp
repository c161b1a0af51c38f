// The sums of block-scaled kinds, on operands for which the model's steps can be followed by hand.
#include "emulator/engines/tensor_core/scaled_sum.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace stagecraft::emulator::machine {
namespace {

constexpr int kLeastE4m3 = -6;
const ScaledFactor kOne{1, 0};

std::vector<ScaledFactor> e4m3(std::vector<float> values) {
  values.resize(32);
  std::vector<ScaledFactor> factors;
  for (const float value : values) factors.push_back(factor_of(value, kLeastE4m3));
  return factors;
}

float products(const std::vector<float>& a, const std::vector<float>& b, float c, int scale_a = 0, int scale_b = 0) {
  return scaled_products(e4m3(a), e4m3(b), {1, scale_a}, {1, scale_b}, c);
}

/// 16 elements for each value: it and zeros.
float groups(const std::vector<float>& a, const std::vector<ScaledFactor>& scales, float c) {
  std::vector<float> x(64), y(64, 1.0f);
  for (size_t i = 0; i < a.size(); ++i) x[16 * i] = a[i];
  const std::vector<ScaledFactor> ones(scales.size(), kOne);
  return scaled_groups(x, y, scales, ones, c);
}

TEST(ScaledSumTest, SplitsNumbers) {
  EXPECT_EQ(factor_of(6.0f, 0).exponent, 2);
  EXPECT_EQ(factor_of(6.0f, 0).significand, 1.5);
  EXPECT_EQ(factor_of(-0.5f, 0).exponent, 0) << "subnormal in e2m1";
  EXPECT_EQ(factor_of(-0.5f, 0).significand, -0.5);
  EXPECT_EQ(factor_of(0x1p-127f, kLeastUe8m0).exponent, -127);
  EXPECT_EQ(factor_of(0x1p-9f, kLeastUe4m3).significand, 0.125);
}

TEST(ScaledSumTest, KeepsTwentyFiveBitsOfProducts) {
  const std::vector<float> ones{1, 1, 1, 1}, six(6, 1.0f);
  EXPECT_EQ(products(ones, ones, 0), 4);
  EXPECT_EQ(products({1}, {1}, 0, 3, -1), 4) << "exponents of scale factors";
  EXPECT_EQ(products(ones, ones, 0x1p25f), 0x1p25f + 4) << "each has the last bit that is kept";
  EXPECT_EQ(products(ones, ones, 0x1p26f), 0x1p26f) << "each has the bit after that";
  EXPECT_EQ(products(six, six, 0x1p25f), 0x1p25f + 4) << "f32 cannot hold 6, and rounds down";
}

TEST(ScaledSumTest, AlignsSubnormalElementsAsTheirFormatDoes) {
  // 2^-9 counts as 2^-6: with C of 2^-26 times that, what is below 2^-31 is lost, not what is below 2^-34.
  EXPECT_EQ(products({0x1p-9f}, {1}, 0x1p-32f), 0x1p-9f);
  EXPECT_EQ(products({0x1p-9f}, {1}, 0x1p-31f), 0x1p-9f + 0x1p-31f);
}

TEST(ScaledSumTest, KeepsThirtyFiveBitsOfGroups) {
  EXPECT_EQ(groups({1, 2, 3, 4}, {kOne, kOne, kOne, kOne}, 0.5f), 10.5f);
  EXPECT_EQ(groups({1, 0, 0, 1}, {kOne, {1, -35}}, -1), 0x1p-35f);
  EXPECT_EQ(groups({1, 0, 0, 1}, {kOne, {1, -36}}, -1), 0.0f);
  // A term is aligned by its scale factors alone: its sum of 6 does not make 2^-35 the bit after the last, but C does.
  EXPECT_EQ(groups({6, 0, -6, 1}, {kOne, kOne, kOne, {1, -35}}, 0), 0x1p-35f);
  EXPECT_EQ(groups({0, 0, 0, 1}, {kOne, kOne, kOne, {1, -35}}, 6), 6.0f);
  EXPECT_EQ(groups({0, 0, 0, 1}, {{1, 36}, kOne}, 0), 1.0f) << "a group of zeros does not align";
  EXPECT_EQ(groups({1, 0, 0, 1}, {{0, 36}, kOne}, 0), 1.0f) << "nor one whose scale factor is zero";
}

TEST(ScaledSumTest, KeepsSmallerBitsWhereCIsZero) {
  // Next to a C that is not zero, what is below 2^-151 or 2^-161 is lost.
  EXPECT_EQ(products({0.5f, 0.5f}, {1, 1}, 0, -149, 0), 0x1p-149f);
  EXPECT_EQ(products({0.125f, 0.125f}, {1, 1}, 0x1p-126f, -149, 0), 0x1p-126f);
  EXPECT_EQ(groups({3, 0, -1, 0}, {{1, -149}, {1, -174}}, 0), 2 * 0x1p-149f) << "the last bit that is kept";
  EXPECT_EQ(groups({3, 0, -1, 0}, {{1, -149}, {1, -175}}, 0), 3 * 0x1p-149f) << "the bit after that";
}

TEST(ScaledSumTest, MultipliesBySignificandsOfScaleFactors) {
  EXPECT_EQ(groups({2, 0, 0, 0}, {{1.75, 3}, kOne}, 0), 28);
  EXPECT_EQ(groups({1, 0, 0, 0}, {factor_of(0x1p-9f, kLeastUe4m3), kOne}, 0), 0x1p-9f);
}

TEST(ScaledSumTest, GivesOneNotANumber) {
  const float result = groups({1, 0, 0, 0}, {{NAN, 0}, kOne}, 0);
  EXPECT_EQ(std::bit_cast<uint32_t>(result), 0x7fffffffu);
  EXPECT_EQ(products({INFINITY}, {1}, 1), INFINITY);
  EXPECT_TRUE(std::isnan(products({INFINITY}, {1}, -INFINITY)));
}

}  // namespace
}  // namespace stagecraft::emulator::machine
