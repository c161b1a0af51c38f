#include "emulator/engines/tensor_core/scaled_sum.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace stagecraft::emulator::machine {
namespace {

constexpr int kNoLeast = -10000;     // below all exponents
constexpr uint32_t kMostTerms = 65;  // the products of mxf8f6f4 with all of K if A is sparse, and C

/// The terms of one sum.
class Terms {
 public:
  void add(const ScaledFactor& term) { terms_[count_++] = term; }
  void add_c(float c) {
    if (c != 0) add(factor_of(c, kLeastOfF32));
  }

  // Returns the sum in f32, with `fraction_bits` bits of each term after the point of the one that aligns them, or that
  // of `least`.
  float sum(int fraction_bits, int least) const {
    int largest = least;
    double special = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      largest = std::max(largest, terms_[i].exponent);
      special += terms_[i].significand;
    }
    if (std::isnan(special)) return std::bit_cast<float>(0x7fffffffu);
    if (std::isinf(special)) return static_cast<float>(special);
    double sum = 0;
    for (uint32_t i = 0; i < count_; ++i) {
      sum += std::trunc(std::ldexp(terms_[i].significand, fraction_bits + terms_[i].exponent - largest));
    }
    return rounded_towards_zero(std::ldexp(sum, largest - fraction_bits));
  }

 private:
  static float rounded_towards_zero(double sum) {
    if (sum == 0) return 0.0f;
    const int exponent = std::max(std::ilogb(sum), kLeastOfF32);
    if (exponent > kMostOfF32) return static_cast<float>(std::copysign(HUGE_VAL, sum));
    const double whole = std::trunc(std::ldexp(sum, 23 - exponent));
    return whole == 0 ? 0.0f : static_cast<float>(std::ldexp(whole, exponent - 23));
  }

  std::array<ScaledFactor, kMostTerms> terms_;
  uint32_t count_ = 0;
};

}  // namespace

ScaledFactor factor_of(float value, int least_exponent) {
  if (value == 0 || !std::isfinite(value)) return {value, least_exponent};
  const int exponent = std::max(std::ilogb(value), least_exponent);
  return {std::ldexp(double{value}, -exponent), exponent};
}

float scaled_products(std::span<const ScaledFactor> a, std::span<const ScaledFactor> b, const ScaledFactor& scale_a,
                      const ScaledFactor& scale_b, float c) {
  constexpr int kFractionBits = 25;
  const double scale = scale_a.significand * scale_b.significand;  // 1, or not-a-number
  const int exponent = scale_a.exponent + scale_b.exponent;
  Terms terms;
  terms.add_c(c);
  for (size_t k = 0; k < a.size(); ++k) {
    const double significand = a[k].significand * b[k].significand * scale;
    if (significand != 0) terms.add({significand, a[k].exponent + b[k].exponent + exponent});
  }
  return terms.sum(kFractionBits, kNoLeast);
}

float scaled_groups(std::span<const float> a, std::span<const float> b, std::span<const ScaledFactor> scales_a,
                    std::span<const ScaledFactor> scales_b, float c) {
  constexpr int kFractionBits = 35;
  const size_t part = a.size() / scales_a.size(), group = a.size() / kScaledGroups;
  Terms terms;
  terms.add_c(c);
  for (size_t first = 0; first < a.size(); first += group) {
    const ScaledFactor &x = scales_a[first / part], &y = scales_b[first / part];
    const double scale = x.significand * y.significand;
    double sum = 0;
    bool has_products = std::isnan(scale);
    for (size_t k = first; k < first + group; ++k) {
      const double product = double{a[k]} * double{b[k]} * scale;
      sum += product;
      has_products |= product != 0;
    }
    if (has_products) terms.add({sum, x.exponent + y.exponent});
  }
  return terms.sum(kFractionBits, kLeastAligned);
}

float scaled_products(const ScaledRow& a, const ScaledRow& b, uint32_t k, float c) {
  std::array<ScaledFactor, kMostTerms> x, y;
  const auto scale_of = [](const ScaledRow& row) {
    return row.scale == kNoScale ? ScaledFactor{NAN, 0} : ScaledFactor{1, row.scale};
  };
  for (uint32_t i = 0; i < k; ++i) {
    x[i] = factor_of(a.values[i * a.step], a.least);
    y[i] = factor_of(b.values[i * b.step], b.least);
  }
  return scaled_products({x.data(), k}, {y.data(), k}, scale_of(a), scale_of(b), c);
}

float scaled_groups(const ScaledGroups& a, const ScaledGroups& b, uint32_t depth, float c) {
  std::array<float, kPanelDepth> values[2];
  std::array<ScaledFactor, kScaledGroups> scales[2];
  for (uint32_t operand = 0; operand < 2; ++operand) {
    const ScaledGroups& from = operand == 0 ? a : b;
    for (uint32_t k = 0; k < depth; ++k) values[operand][k] = from.values[k * from.step];
    for (uint32_t i = 0; i < kScaledGroups; ++i) {
      const int32_t exponent = from.exponents[i * from.step];
      scales[operand][i] =
          exponent == kNoScale ? ScaledFactor{NAN, 0} : ScaledFactor{from.significands[i * from.step], exponent};
    }
  }
  return scaled_groups(std::span<const float>(values[0].data(), depth), std::span<const float>(values[1].data(), depth),
                       scales[0], scales[1], c);
}

}  // namespace stagecraft::emulator::machine
