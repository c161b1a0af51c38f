#include "harness/comparison.hpp"

#include <cuda_bf16.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "harness/random.hpp"
#include "harness/reference_product.hpp"

namespace stagecraft::harness {
namespace {

using Element = __nv_bfloat16;

/// A product and its reference, as a flawless tensor core would give it.
struct Product {
  explicit Product(size_t m, size_t n, size_t k, uint64_t seed = 1)
      : m(m),
        n(n),
        k(k),
        a(random_values<Element>(m * k, seed)),
        b(random_values<Element>(n * k, ~seed)),
        reference(reference_product<Element>(a, b, m, n, k)) {
    for (const double exact : reference) c.push_back(__float2bfloat16_rn(static_cast<float>(exact)));
  }

  Comparison compared() const { return compare<Element>(c, reference, {.k = k}); }

  size_t m, n, k;
  std::vector<Element> a, b;
  std::vector<double> reference;
  std::vector<Element> c;
};

TEST(ReferenceProductTest, AgreesWithTheDefinitionForSizesThatNoBlockDivides) {
  for (const auto& [m, n, k] : {std::array<size_t, 3>{7, 13, 24}, {1, 1, 1}, {600, 5, 24}, {3, 700, 8}}) {
    const Product product(m, n, k);
    for (size_t row = 0; row < m; ++row) {
      for (size_t column = 0; column < n; ++column) {
        double sum = 0;
        for (size_t i = 0; i < k; ++i) {
          sum += static_cast<double>(static_cast<float>(product.a[row * k + i])) *
                 static_cast<double>(static_cast<float>(product.b[column * k + i]));
        }
        ASSERT_DOUBLE_EQ(product.reference[row * n + column], sum) << m << " x " << n << ": " << row << ", " << column;
      }
    }
  }
}

TEST(ComparisonTest, AcceptsAProductThatIsRoundedOnce) {
  for (const size_t k : {8, 512, 4096}) {
    const Comparison found = Product(33, 47, k).compared();
    EXPECT_EQ(found.wrong, 0u) << k;
    EXPECT_LE(found.max_relative_error, 0x1p-8) << k;
    EXPECT_GT(found.max_relative_error, 0x1p-10) << k;
  }
}

TEST(ComparisonTest, AcceptsAnF32AccumulatorThatTruncates) {
  constexpr size_t kLength = 2048;
  Product product(16, 16, kLength);
  for (size_t i = 0; i < product.c.size(); ++i) {
    float sum = 0;
    for (size_t at = 0; at < kLength; at += 16) {
      double partial = sum;
      for (size_t j = at; j < at + 16; ++j) {
        partial += static_cast<double>(static_cast<float>(product.a[i / 16 * kLength + j])) *
                   static_cast<double>(static_cast<float>(product.b[i % 16 * kLength + j]));
      }
      sum = static_cast<float>(partial);
      if (std::abs(static_cast<double>(sum)) > std::abs(partial)) sum = std::nextafter(sum, 0.0f);
    }
    product.c[i] = __float2bfloat16_rn(sum);
  }
  EXPECT_EQ(product.compared().wrong, 0u);
}

TEST(ComparisonTest, ReportsAnElementThatWasNeverWritten) {
  Product product(20, 30, 64);
  __nv_bfloat16_raw poison;
  poison.x = 0xffff;
  product.c[123] = poison;
  const Comparison found = product.compared();
  EXPECT_EQ(found.wrong, 1u);
  EXPECT_EQ(found.worst, 123u);
}

TEST(ComparisonTest, ReportsAMissingSliceOfK) {
  Product product(64, 64, 512);
  for (size_t i = 0; i < product.c.size(); ++i) {
    double sum = product.reference[i];
    for (size_t j = 496; j < 512; ++j) {
      sum -= static_cast<double>(static_cast<float>(product.a[i / 64 * 512 + j])) *
             static_cast<double>(static_cast<float>(product.b[i % 64 * 512 + j]));
    }
    product.c[i] = __float2bfloat16_rn(static_cast<float>(sum));
  }
  EXPECT_GT(product.compared().wrong, product.c.size() * 9 / 10);
}

TEST(ComparisonTest, ReportsElementsThatChangedPlaces) {
  Product product(32, 32, 128);
  std::swap(product.c[5], product.c[6]);
  EXPECT_EQ(product.compared().wrong, 2u);
}

TEST(ComparisonTest, ReportsAResultRoundedToOneBitLess) {
  Product product(64, 64, 256);
  for (size_t i = 0; i < product.c.size(); ++i) {
    int exponent = 0;
    const double mantissa = std::frexp(product.reference[i], &exponent);
    product.c[i] = __float2bfloat16_rn(static_cast<float>(std::ldexp(std::nearbyint(mantissa * 128) / 128, exponent)));
  }
  EXPECT_GT(product.compared().wrong, 500u);
}

TEST(ComparisonTest, ReportsF32SumsOfOperandsThatHadLostBits) {
  constexpr size_t kRows = 32, kLength = 256;
  const std::vector<float> a = random_values<float>(kRows * kLength, 1), b = random_values<float>(kRows * kLength, 2);
  std::vector<float> rounded = a;
  for (float& value : rounded) value = __bfloat162float(__float2bfloat16_rn(value));
  const ProductTolerance tolerance{.k = kLength, .output_epsilon = kRounding<float>, .mma_k = 8};
  const auto sums = [&](const std::vector<float>& operand) {
    const std::vector<double> exact = reference_product<float>(operand, b, kRows, kRows, kLength);
    return std::vector<float>(exact.begin(), exact.end());
  };
  const std::vector<double> reference = reference_product<float>(a, b, kRows, kRows, kLength);
  EXPECT_EQ(compare<float>(sums(a), reference, tolerance).wrong, 0u);
  EXPECT_GT(compare<float>(sums(rounded), reference, tolerance).wrong, kRows * kRows / 2);
}

}  // namespace
}  // namespace stagecraft::harness
