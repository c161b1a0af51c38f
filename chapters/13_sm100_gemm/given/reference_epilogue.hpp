// What the epilogue makes of a sum, in double precision, and how far a kernel's result may be from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/comparison.hpp"
#include "verification.hpp"

namespace stagecraft {

/// A number, and how far what a kernel computes for it in f32 may be from it. A value that is infinite or NaN is exact;
/// an infinite error permits anything.
struct Bounded {
  double value = 0, error = 0;
};

/// The same where `exact.value` is not finite, or rounds to infinity from `limit` on.
inline Bounded with_overflow(Bounded exact, double limit) {
  const double magnitude = std::abs(exact.value);
  if (std::isnan(exact.error) || exact.error == HUGE_VAL) return {exact.value, HUGE_VAL};
  if (!std::isfinite(exact.value)) return {exact.value, 0};
  if (magnitude - exact.error >= limit) return {std::copysign(HUGE_VAL, exact.value), 0};
  return {exact.value, magnitude + exact.error >= limit ? HUGE_VAL : exact.error};
}

/// What f32 makes of the result of an operation. Source: IEEE 754, "Rounding-direction attributes" (half a unit beyond
/// the largest number, and more, becomes infinite).
inline Bounded in_f32(Bounded exact) {
  if (std::isfinite(exact.value)) {
    exact.error += std::max((std::abs(exact.value) + exact.error) * 0x1p-24, 0x1p-150);
  }
  return with_overflow(exact, 0x1.ffffffp127);
}

/// The product, before it is rounded.
inline Bounded operator*(Bounded x, Bounded y) {
  const double value = x.value * y.value;
  if (std::isfinite(x.value) && std::isfinite(y.value)) {
    return {value, std::abs(x.value) * y.error + std::abs(y.value) * x.error + x.error * y.error};
  }
  // Infinity times a number of which not even the sign is known.
  const bool is_known = (std::abs(x.value) > x.error || x.error == 0) && (std::abs(y.value) > y.error || y.error == 0);
  return {value, is_known ? 0 : HUGE_VAL};
}

/// The scales of A and B where factors are in device memory.
inline constexpr float kAScale = 1.5, kBScale = -0.5;

/// The epilogue in double precision, and how far its results may be off.
///
/// Each step rounds to f32, as a kernel does, and passes the error of what it gets on: a sum has the error of
/// harness::ProductTolerance, a factor multiplies it, an activation by at most 1.13, the steepest slope of any here,
/// and rounds to about 21 bits.
class ReferenceEpilogue {
 public:
  ReferenceEpilogue(const GemmCase& run, const std::vector<float>& row_scales, const std::vector<float>& column_scales,
                    const std::vector<float>& bias, const std::vector<float>& c)
      : run_(run),
        row_scales_(row_scales),
        column_scales_(column_scales),
        bias_(bias),
        c_(c),
        sums_{.k = static_cast<size_t>(run.problem.k),
              .output_epsilon = 0,
              .mma_k = static_cast<size_t>(256 / bits_of(run.problem.a.type))} {}

  /// What goes into the activation.
  /// @param product  the batch, or the group, whose matrix of B gave the sum.
  Bounded before_activation(double sum, int64_t batch, int64_t product, int64_t row, int64_t column) const {
    const auto& [m, n, k, batches, a, b, d, fusion, c, second, groups] = run_.problem;
    Bounded exact, result{sum, sums_(sum)};
    const auto multiply = [&](float factor) {
      exact = result * Bounded{factor};
      result = in_f32(exact);
    };
    const auto add = [&](double term) {
      const double rounding = std::abs(term) * 0x1p-24;
      const Bounded fused = in_f32({exact.value + term, exact.error + rounding});
      result = in_f32({result.value + term, result.error + rounding});
      // Whether it rounds the product first is a kernel's matter.
      if (std::isfinite(fused.value) != std::isfinite(result.value)) result.error = HUGE_VAL;
      exact = result;
    };
    multiply(fusion.device_factors ? run_.alpha * kAScale * kBScale : run_.alpha);
    if (fusion.row_scales) multiply(row_scales_[batch * m + row]);
    if (fusion.column_scales) multiply(column_scales_[product * n + column]);
    if (fusion.c && run_.beta != 0) add(static_cast<double>(run_.beta) * c_[(batch * m + row) * n + column]);
    if (fusion.bias) add(bias_[product * n + column]);
    return result;
  }

  /// What comes out of it. `gate` is the left one of two columns, if there are two.
  Bounded activated(Bounded x, Bounded gate) const {
    const auto logistic = [](double y) { return 1 / (1 + std::exp(-y)); };
    const auto times = [](Bounded argument, double slope) -> Bounded {
      constexpr double kSteepest = 1.13, kFunctions = 0x1p-19;
      const double value = argument.value * slope;
      if (!std::isfinite(argument.value)) return {value, argument.error};
      return {value, kSteepest * argument.error + kFunctions * std::abs(argument.value) + 0x1p-126};
    };
    switch (run_.problem.fusion.activation) {
      case GemmActivation::none: return x;
      case GemmActivation::relu: return {std::max(x.value, 0.0), x.error};
      case GemmActivation::gelu: return times(x, 0.5 * (1 + std::erf(std::sqrt(0.5) * x.value)));
      case GemmActivation::gelu_tanh:
        return times(x, logistic(2 * std::sqrt(2 / M_PI) * (x.value + 0.044715 * std::pow(x.value, 3))));
      case GemmActivation::silu: return times(x, logistic(x.value));
      case GemmActivation::gated_silu: return in_f32(times(gate, logistic(gate.value)) * x);
    }
    return x;
  }

  /// What is stored.
  Bounded scaled(Bounded y) const { return run_.problem.fusion.scale ? in_f32(y * Bounded{run_.scale}) : y; }

 private:
  const GemmCase& run_;
  const std::vector<float>&row_scales_, &column_scales_, &bias_, &c_;
  harness::ProductTolerance sums_;
};

/// How far an element is from the reference; infinite where it is a number and the other is none.
inline double difference_of(double actual, Bounded expected) {
  if (actual == expected.value || expected.error == HUGE_VAL) return 0;
  if (std::isnan(actual) || std::isnan(expected.value)) {
    return std::isnan(actual) && std::isnan(expected.value) ? 0 : HUGE_VAL;
  }
  return std::abs(actual - expected.value);
}

/// The larger number; NaN is larger than any.
inline double larger(double x, double y) { return std::isnan(x) || x > y ? x : y; }

/// In place of an error: no kernel may write the element.
inline constexpr double kUntouched = -1;

/// A number as a type holds it, and the error with rounding.
/// @param factor  its scale factor, of a block-scaled type.
inline Bounded stored(Bounded exact, DataType type, double factor) {
  if (exact.error == kUntouched) return exact;
  if (std::isnan(exact.value) || std::isnan(factor)) return {NAN, 0};
  double relative = 0x1p-24, smallest = 0x1p-149, largest = HUGE_VAL, limit = HUGE_VAL;
  switch (type) {
    case DataType::mxfp4:
    case DataType::nvfp4: {
      const double most =
          (std::abs(exact.value) + exact.error) / factor;  // numbers are 0.5 apart, from 2 on 1, from 4 on 2
      relative = 0;
      smallest = (most < 2 ? 0.25 : most < 4 ? 0.5 : 1) * factor * (1 + 0x1p-20);  // the device divides in f32
      largest = 6 * factor;
      break;
    }
    case DataType::bf16:
      relative = 0x1p-8;
      smallest = 0x1p-134;
      limit = 0x1.ffp127;
      break;
    case DataType::f16:
      relative = 0x1p-11;
      smallest = 0x1p-25;
      limit = 65520;
      break;
    case DataType::mxfp8:
    case DataType::e4m3:
      relative = 0x1p-4;
      smallest = 0x1p-10 * factor;
      largest = 448 * factor;
      break;  // beyond it saturates
    default: break;
  }
  const auto [value, error] = with_overflow(exact, limit);
  if (std::isinf(value)) return {std::clamp(value, -largest, largest), largest == HUGE_VAL ? error : smallest};
  return {std::clamp(value, -largest, largest), error + std::max((std::abs(value) + error) * relative, smallest)};
}

}  // namespace stagecraft
