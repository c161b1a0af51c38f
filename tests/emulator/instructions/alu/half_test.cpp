// Half-precision arithmetic against the definition of rounding, computed in long double.
#include <gtest/gtest.h>

#include "handler_fixture.hpp"
#include "rounding_oracle.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

struct Half {
  Type type, pair;
  const FloatFormat& format;
};
const Half kFormats[] = {{Type::f16, Type::f16x2, kF16}, {Type::bf16, Type::bf16x2, kBf16}};

class HalfArithmeticTest : public HandlerTest {
 protected:
  /// Returns random patterns; half of them have exponents near those of the pattern before, so that sums interact.
  std::vector<uint16_t> halves(size_t count) {
    std::vector<uint16_t> values(count);
    uint16_t last = 0;
    for (uint16_t& value : values) {
      const uint64_t bits = random();
      value = static_cast<uint16_t>(bits);
      if ((bits >> 40 & 3) == 0) value = static_cast<uint16_t>((last & 0xff00u) + (bits & 0x3ffu));
      if ((bits >> 42 & 15) == 0) value &= 0x83ffu;
      last = value;
    }
    return values;
  }
  static long double exact(const Half& half, uint16_t bits) { return value_of_half(half.format, bits); }
};

TEST_P(HalfArithmeticTest, SumsAndProductsAreRoundedOnce) {
  for (const Half& half : kFormats) {
    const auto a = halves(60'000), b = halves(60'000);
    const auto sums = apply<uint16_t>(find(Operation::add, half.type), 0, a, b);
    const auto differences = apply<uint16_t, 2>(find(Operation::sub, half.pair), 0, a, b);
    const auto products = apply<uint16_t, 2>(find(Operation::multiply, half.pair), 0, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const long double x = exact(half, a[i]), y = exact(half, b[i]);
      // If they are more than 64 binary digits apart, the sum is not exact in long double either, which does not
      // matter.
      ASSERT_EQ(sums[i], round_to(half.format, x + y)) << std::hex << a[i] << " + " << b[i];
      ASSERT_EQ(differences[i], round_to(half.format, x - y)) << std::hex << a[i] << " - " << b[i];
      ASSERT_EQ(products[i], round_to(half.format, x * y)) << std::hex << a[i] << " * " << b[i];
    }
  }
}

TEST_P(HalfArithmeticTest, FusedMultiplyAddIsRoundedOnce) {
  for (const Half& half : kFormats) {
    auto a = halves(100'000), b = halves(100'000), c = halves(100'000);
    for (size_t i = 0; i < a.size(); i += 4) {
      // A second rounding shows where c is half a unit from the product, or nearly cancels it.
      const long double product = exact(half, a[i]) * exact(half, b[i]);
      c[i] = static_cast<uint16_t>(round_to(half.format, i % 8 == 0 ? -product : product * 0x1p-12L));
    }
    const auto results = apply<uint16_t>(find(Operation::multiply_add, half.type), 0, a, b, c);
    for (size_t i = 0; i < a.size(); ++i) {
      const long double product = exact(half, a[i]) * exact(half, b[i]), z = exact(half, c[i]);
      const long double sum = product + z, part = sum - product;
      const long double error = std::isfinite(sum) ? (product - (sum - part)) + (z - part) : 0;
      ASSERT_EQ(results[i], round_to(half.format, sum, RoundingMode::nearest, error))
          << std::hex << a[i] << " * " << b[i] << " + " << c[i];
    }
  }
}

TEST_P(HalfArithmeticTest, ModifiersFlushSaturateAndClamp) {
  const std::vector<uint16_t> a = {0x0001, 0x8001, 0x3c00, 0xbc00, 0x7e00, 0x7c00, 0x4400, 0x03ff};
  const std::vector<uint16_t> one(a.size(), 0x3c00), zero(a.size(), 0x0000);
  const auto flushed = apply<uint16_t>(find(Operation::multiply, Type::f16, kFlagged), kHalfFlush, a, one);
  EXPECT_EQ(flushed, (std::vector<uint16_t>{0, 0x8000, 0x3c00, 0xbc00, 0x7fff, 0x7c00, 0x4400, 0}));
  const auto saturated = apply<uint16_t>(find(Operation::add, Type::f16, kFlagged), kHalfSaturate, a, zero);
  EXPECT_EQ(saturated, (std::vector<uint16_t>{1, 0, 0x3c00, 0, 0, 0x3c00, 0x3c00, 0x03ff}));
  const auto relu = apply<uint16_t>(find(Operation::multiply_add, Type::f16, kFlagged), kHalfRelu, a, one, zero);
  EXPECT_EQ(relu, (std::vector<uint16_t>{1, 0, 0x3c00, 0, 0x7fff, 0x7c00, 0x4400, 0x03ff}));
  const std::vector<uint16_t> outside(a.size(), 0x7ff7);
  const auto ignored =
      apply<uint16_t>(find(Operation::multiply_add, Type::bf16, kFlagged), kHalfOutOfBounds, outside, a, a);
  EXPECT_EQ(ignored, zero);
}

TEST_P(HalfArithmeticTest, MinimumAndMaximumOrderZerosAndTreatNanAsAbsent) {
  for (const Half& half : kFormats) {
    const auto a = halves(60'000), b = halves(60'000);
    const auto least = apply<uint16_t, 2>(find(Operation::minimum, half.pair), 0, a, b);
    const auto most = apply<uint16_t>(find(Operation::maximum, half.type), 0, a, b);
    const auto most_nan = apply<uint16_t>(find(Operation::maximum, half.type, kFlagged), kHalfNan, a, b);
    const auto signs = apply<uint16_t>(find(Operation::minimum, half.type, kFlagged), kHalfXorSign, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const long double x = exact(half, a[i]), y = exact(half, b[i]);
      const bool x_nan = std::isnan(x), y_nan = std::isnan(y);
      const auto choose = [&](bool greater, uint16_t left, uint16_t right) -> uint16_t {
        const long double u = exact(half, left), v = exact(half, right);
        if (x_nan && y_nan) return 0x7fff;
        if (x_nan) return right;
        if (y_nan) return left;
        if (u == v) return std::signbit(u) != greater ? left : right;
        return (u > v) == greater ? left : right;
      };
      ASSERT_EQ(least[i], choose(false, a[i], b[i])) << std::hex << a[i] << ' ' << b[i];
      ASSERT_EQ(most[i], choose(true, a[i], b[i])) << std::hex << a[i] << ' ' << b[i];
      ASSERT_EQ(most_nan[i], x_nan || y_nan ? 0x7fff : choose(true, a[i], b[i]));
      const auto size = choose(false, a[i] & 0x7fffu, b[i] & 0x7fffu);
      const uint16_t sign = x_nan && y_nan ? 0 : (a[i] ^ b[i]) & 0x8000u;
      ASSERT_EQ(signs[i], size | sign) << std::hex << a[i] << ' ' << b[i];
    }
  }
}

TEST_P(HalfArithmeticTest, ExponentialAndTangentAreCloseForEveryNumber) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  for (const Half& half : kFormats) {
    const auto powers = apply<uint16_t>(find(Operation::exponential2, half.type), 0, all);
    const auto tangents = apply<uint16_t, 2>(find(Operation::hyperbolic_tangent, half.pair), 0, all);
    for (size_t i = 0; i < all.size(); ++i) {
      const long double x = exact(half, all[i]);
      // Both have an error in float and are cut off: an error of one unit in the last place is allowed.
      const auto near = [&](uint16_t result, long double expected) {
        const auto code = round_to(half.format, expected);
        // ex2 of bf16 has no subnormal results, which f16 cannot have.
        if (result == 0 && std::fabs(expected) < 0x1p-126L) return true;
        return result == code || (std::isfinite(expected) && std::abs(int(result) - int(code)) <= 1);
      };
      ASSERT_TRUE(near(powers[i], exp2l(x))) << std::hex << i << " gives " << powers[i];
      ASSERT_TRUE(near(tangents[i], tanhl(x))) << std::hex << i << " gives " << tangents[i];
    }
  }
}

STAGECRAFT_ALL_LEVELS(HalfArithmeticTest);

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
