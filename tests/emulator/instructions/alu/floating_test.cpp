// Single- and double-precision handlers against the processor's own scalar arithmetic and the C library.
#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>
#include <numbers>

#include "handler_fixture.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

constexpr int kFenvModes[] = {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO};  // by RoundingMode

/// Computes at run time under a rounding mode, out of the optimiser's sight.
template <typename T, typename Function>
[[gnu::noinline]] T rounded(int mode, Function function) {
  std::fesetround(mode);
  volatile T result = function();
  std::fesetround(FE_TONEAREST);
  return result;
}

float flush(float value) { return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value; }
float saturate(float value) { return value > 0 ? std::min(value, 1.0f) : 0.0f; }

class FloatingTest : public HandlerTest {
 protected:
  static void expect_same(float result, float expected, const std::string& what) {
    if (std::isnan(expected)) {
      ASSERT_EQ(std::bit_cast<uint32_t>(result), 0x7fffffffu) << what;
    } else {
      ASSERT_TRUE(same_bits(result, expected)) << what << ": " << result << ", expected " << expected;
    }
  }
  static void expect_same(double result, double expected, const std::string& what) {
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(result)) << what;
    } else {
      ASSERT_TRUE(same_bits(result, expected)) << what << ": " << result << ", expected " << expected;
    }
  }

  template <typename T>
  void check_arithmetic(Type type, const std::vector<T>& a, const std::vector<T>& b, const std::vector<T>& c) {
    for (int mode = 0; mode < 4; ++mode) {
      const unsigned variant = mode == 0 ? unsigned{kPlain} : unsigned{kDirected};
      const auto m = static_cast<uint64_t>(mode);
      const auto sums = apply<T>(find(Operation::add, type, variant), m, a, b);
      const auto differences = apply<T>(find(Operation::sub, type, variant), m, a, b);
      const auto products = apply<T>(find(Operation::multiply, type, variant), m, a, b);
      const auto fused = apply<T>(find(Operation::multiply_add, type, variant), m, a, b, c);
      const auto quotients = apply<T>(find(Operation::divide, type, variant), m, a, b);
      const auto reciprocals = apply<T>(find(Operation::reciprocal, type, variant), m, a);
      const auto roots = apply<T>(find(Operation::square_root, type, variant), m, a);
      for (size_t i = 0; i < a.size(); ++i) {
        volatile T x = a[i], y = b[i], z = c[i];
        const std::string what = "element " + std::to_string(i) + " mode " + std::to_string(mode);
        const int fenv = kFenvModes[mode];
        expect_same(sums[i], rounded<T>(fenv, [&] { return x + y; }), what + " add");
        expect_same(differences[i], rounded<T>(fenv, [&] { return x - y; }), what + " sub");
        expect_same(products[i], rounded<T>(fenv, [&] { return x * y; }), what + " mul");
        expect_same(fused[i], rounded<T>(fenv, [&] { return std::fma(x, y, z); }), what + " fma");
        expect_same(quotients[i], rounded<T>(fenv, [&] { return x / y; }), what + " div");
        expect_same(reciprocals[i], rounded<T>(fenv, [&] { return T{1} / x; }), what + " rcp");
        expect_same(roots[i], rounded<T>(fenv, [&] { return std::sqrt(x); }), what + " sqrt");
        if (HasFatalFailure()) return;
      }
    }
  }
};

TEST_P(FloatingTest, SinglePrecisionRoundsCorrectlyInEveryMode) {
  auto a = floats(10'000), b = floats(10'000), c = floats(10'000);
  for (size_t i = 0; i < a.size(); i += 5) c[i] = -a[i] * b[i];
  check_arithmetic<float>(Type::f32, a, b, c);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

TEST_P(FloatingTest, DoublePrecisionRoundsCorrectlyInEveryMode) {
  auto a = doubles(10'000), b = doubles(10'000), c = doubles(10'000);
  for (size_t i = 0; i < a.size(); i += 5) c[i] = -a[i] * b[i];
  check_arithmetic<double>(Type::f64, a, b, c);
}

TEST_P(FloatingTest, ModifiersFlushAndSaturate) {
  const auto a = floats(20'000), b = floats(20'000), c = floats(20'000);
  const auto flushed = apply<float>(find(Operation::multiply_add, Type::f32, kFlush), 0, a, b, c);
  const auto saturated = apply<float>(find(Operation::add, Type::f32, kSaturate), 0, a, b);
  const auto both = apply<float>(find(Operation::multiply, Type::f32, kFlush | kSaturate), 0, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    expect_same(flushed[i], flush(std::fma(flush(a[i]), flush(b[i]), flush(c[i]))), "fma.ftz");
    expect_same(saturated[i], saturate(a[i] + b[i]), "add.sat");
    expect_same(both[i], saturate(flush(flush(a[i]) * flush(b[i]))), "mul.ftz.sat");
  }
}

TEST_P(FloatingTest, PairsAreTwoFloats) {
  const auto a = floats(6'400), b = floats(6'400), c = floats(6'400);
  const auto fused = apply<float, 2>(find(Operation::multiply_add, Type::f32x2), 0, a, b, c);
  const auto sums = apply<float, 2>(find(Operation::add, Type::f32x2, kDirected), 3, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    volatile float x = a[i], y = b[i];
    expect_same(fused[i], std::fma(a[i], b[i], c[i]), "fma.f32x2");
    expect_same(sums[i], rounded<float>(FE_TOWARDZERO, [&] { return x + y; }), "add.rz.f32x2");
  }
}

TEST_P(FloatingTest, ExtremesPreferNumbersAndOrderZeros) {
  auto a = floats(20'000), b = floats(20'000);
  for (size_t i = 0; i < a.size(); i += 10) {
    a[i] = i % 20 == 0 ? 0.0f : -0.0f;
    b[i] = -a[i];
  }
  const auto least = apply<float>(find(Operation::minimum, Type::f32), 0, a, b);
  const auto most = apply<float>(find(Operation::maximum, Type::f32, kNan), 0, a, b);
  const auto three = apply<float>(find(Operation::maximum3, Type::f32), 0, a, b, a);
  const std::vector<double> da(a.begin(), a.end()), db(b.begin(), b.end());
  const auto doubled = apply<double>(find(Operation::maximum, Type::f64), 0, da, db);
  for (size_t i = 0; i < a.size(); ++i) {
    const float x = a[i], y = b[i];
    const auto pick = [&](bool greater) {
      if (std::isnan(x)) return y;
      if (std::isnan(y)) return x;
      if (x == y) return std::signbit(x) != greater ? x : y;
      return (x > y) == greater ? x : y;
    };
    expect_same(least[i], pick(false), "min");
    expect_same(three[i], pick(true), "max of three");
    expect_same(doubled[i], static_cast<double>(pick(true)), "max.f64");
    expect_same(most[i], std::isnan(x) || std::isnan(y) ? NAN : pick(true), "max.NaN");
  }
}

TEST_P(FloatingTest, ApproximationsAreWithinTheBoundsOfTheChip) {
  auto a = floats(40'000);
  for (size_t i = 0; i < a.size(); i += 2)
    a[i] = std::ldexp(static_cast<float>(random() % 2001) - 1000.0f, -int(random() % 20));
  const auto power = apply<float>(find(Operation::exponential2, Type::f32), 0, a);
  const auto logarithm = apply<float>(find(Operation::logarithm2, Type::f32), 0, a);
  const auto sine = apply<float>(find(Operation::sine, Type::f32), 0, a);
  const auto cosine = apply<float>(find(Operation::cosine, Type::f32), 0, a);
  const auto tangent = apply<float>(find(Operation::hyperbolic_tangent, Type::f32), 0, a);
  const auto root = apply<float>(find(Operation::reciprocal_root, Type::f32), 0, a);
  const auto quotient = apply<float>(find(Operation::divide_approximate, Type::f32), 0, a, power);
  for (size_t i = 0; i < a.size(); ++i) {
    const double x = a[i];
    // Relative errors that the PTX ISA allows. Those of ex2 double where it squares the result of half the argument.
    const auto within = [](float result, double expected, double bound) {
      if (std::isnan(expected)) return std::bit_cast<uint32_t>(result) == 0x7fffffffu;
      if (std::isinf(result))
        return std::fabs(expected) * (1 + bound) >= 0x1.ffffffp+127 && (result > 0) == (expected > 0);
      return std::fabs(result - expected) <= bound * std::fabs(expected) + 0x1p-149;
    };
    ASSERT_TRUE(within(power[i], std::exp2(x), x < -126 ? 0x1p-21 : 0x1p-22)) << x << " gives " << power[i];
    // The error of lg2 is relative outside (0.5, 2), and absolute within.
    ASSERT_TRUE(within(logarithm[i], std::log2(x), 0x1p-22) ||
                (x > 0.5 && x < 2 && std::fabs(logarithm[i] - std::log2(x)) <= 0x1p-22))
        << x << " gives " << logarithm[i];
    // The chip flushes subnormals and counts turns of 24 bits, rounded toward zero; from 2^23 on these are whole.
    const double product = std::fpclassify(a[i]) == FP_SUBNORMAL ? 0.0 * x : x * static_cast<double>(0x1.45f306p-3f);
    const double turns = std::bit_cast<double>(std::bit_cast<uint64_t>(product) & ~uint64_t{0x1fffffff});
    const double angle = 2 * std::numbers::pi * std::remainder(turns, 1.0);
    const auto near = [](float result, double expected) {
      if (std::isnan(expected)) return std::bit_cast<uint32_t>(result) == 0x7fffffffu;
      return std::fabs(result - expected) <= 0x1p-20;
    };
    ASSERT_TRUE(near(sine[i], std::sin(angle))) << x << " gives " << sine[i];
    ASSERT_TRUE(near(cosine[i], std::cos(angle))) << x << " gives " << cosine[i];
    ASSERT_TRUE(within(tangent[i], std::tanh(x), 0x1p-11)) << x << " gives " << tangent[i];
    ASSERT_TRUE(within(root[i], 1 / std::sqrt(x), 0x1p-22)) << x << " gives " << root[i];
    if (std::fabs(power[i]) <= 0x1p126f) {
      ASSERT_TRUE(within(quotient[i], x / power[i], 0x1p-22)) << x;
    }
  }
}

STAGECRAFT_ALL_LEVELS(FloatingTest);

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
