#include "emulator/engines/tensor_core/panel_kernels.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "emulator/engines/tensor_core/fused_sum.hpp"
#include "emulator/host/isa_level.hpp"
#include "emulator/settings/table.hpp"

namespace stagecraft::emulator::machine {

STAGECRAFT_DECLARE_ISA(const PanelKernels& kernels())

const PanelKernels& panel_kernels() {
  static const PanelKernels& chosen = STAGECRAFT_CALL_ISA(kernels);
  return chosen;
}

namespace {

constexpr int kZeroExponent = -10000;  // of a term that is zero: it does not align the others
const float kSumNotANumber = std::bit_cast<float>(0x7fffffffu);

/// Infinities and NaN have the exponent after the largest.
int exponent_of(float value, int least) {
  return value == 0 ? kZeroExponent : std::clamp(std::ilogb(value), least, kMostOfF32 + 1);
}

// Rounds a sum that a double represents exactly.
float round_sum(double sum, SumResult result) {
  if (sum == 0) return 0.0f;
  const int exponent = std::max(std::ilogb(sum), kLeastOfF32);
  if (exponent > kMostOfF32) return static_cast<float>(std::copysign(HUGE_VAL, sum));
  const int last = exponent - (result == SumResult::f32_13bits ? 13 : 23);
  const double scaled = std::ldexp(sum, -last), whole = std::trunc(scaled);
  // What is rounded to zero loses its sign.
  constexpr double kHalfOfLeastF16 = 0x1p-25;
  if (result == SumResult::odd ? std::abs(sum) <= kHalfOfLeastF16 : whole == 0) return 0.0f;
  const float rounded = static_cast<float>(std::ldexp(whole, last));
  if (result != SumResult::odd || whole == scaled) return rounded;
  const uint32_t bits = std::bit_cast<uint32_t>(std::copysign(rounded, static_cast<float>(sum)));
  return std::bit_cast<float>(bits | 1u);
}

}  // namespace

int least_exponent(ElementFormat format) {
  switch (format) {
    case ElementFormat::bf16:
    case ElementFormat::tf32: return -126;
    case ElementFormat::f16:
    case ElementFormat::e5m2: return -14;
    case ElementFormat::e4m3: return -6;
    case ElementFormat::e3m2: return -2;
    default: return 0;
  }
}

FusedSum sum_of(ElementFormat a, ElementFormat b, SumResult result, int fraction_bits) {
  static const bool plain = settings::word_of(settings::Setting::mma_sums) == "plain";
  return {plain ? 0 : fraction_bits, least_exponent(a), least_exponent(b), result};
}

float fused_sum(const float* a, uint32_t a_step, const float* b, uint32_t b_step, uint32_t k, float c,
                const FusedSum& how) {
  double special = c;
  int largest = exponent_of(c, kLeastOfF32);
  for (uint32_t i = 0; i < k; ++i) {
    const float x = a[i * a_step], y = b[i * b_step];
    special += double{x} * double{y};
    if (x != 0 && y != 0) largest = std::max(largest, exponent_of(x, how.a_least) + exponent_of(y, how.b_least));
  }
  if (std::isnan(special)) return kSumNotANumber;
  if (std::isinf(special)) return static_cast<float>(special);
  if (largest <= kZeroExponent) return 0.0f;
  const int shift = how.fraction_bits - largest;
  double sum = std::trunc(std::ldexp(double{c}, shift));
  for (uint32_t i = 0; i < k; ++i) sum += std::trunc(std::ldexp(double{a[i * a_step]} * double{b[i * b_step]}, shift));
  return round_sum(std::ldexp(sum, -shift), how.result);
}

}  // namespace stagecraft::emulator::machine
