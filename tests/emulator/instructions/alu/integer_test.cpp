// Integer and bit handlers against the definitions of the PTX ISA, written out bit by bit; comparisons.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "handler_fixture.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

class IntegerTest : public HandlerTest {
 protected:
  template <typename T>
  void check_arithmetic(Type type) {
    using Wide = __int128;
    const auto a = integers<T>(20'000), b = integers<T>(20'000), c = integers<T>(20'000);
    const auto low = apply<T>(find(Operation::mad_lo, type), 0, a, b, c);
    const auto high = apply<T>(find(Operation::mad_hi, type), 0, a, b, c);
    const auto difference = apply<T>(find(Operation::sub, type), 0, a, b);
    const auto quotient = apply<T>(find(Operation::divide, type), 0, a, b);
    const auto rest = apply<T>(find(Operation::remainder, type), 0, a, b);
    const auto least = apply<T>(find(Operation::minimum, type), 0, a, b);
    const auto sad = apply<T>(find(Operation::sad, type), 0, a, b, c);
    const auto below = test(find(Operation::compare_lt, type), kNoSecondDestination, a, b);
    const auto not_above = test(find(Operation::compare_le, type), kNoSecondDestination, a, b);
    const auto equal = test(find(Operation::compare_eq, type), kNoSecondDestination, a, b);
    for (size_t i = 0; i < a.size(); ++i) {
      const Wide x = a[i], y = b[i];
      ASSERT_EQ(low[i], static_cast<T>(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y) + c[i]));
      const Wide product = std::is_same_v<T, uint64_t>
                               ? static_cast<Wide>((static_cast<unsigned __int128>(a[i]) * b[i]) >> 64)
                               : (x * y) >> (8 * sizeof(T));
      ASSERT_EQ(high[i], static_cast<T>(product + c[i])) << +a[i] << ' ' << +b[i];
      ASSERT_EQ(difference[i], static_cast<T>(x - y));
      ASSERT_EQ(quotient[i], static_cast<T>(b[i] == 0 ? -1 : x / y)) << +a[i] << " / " << +b[i];
      ASSERT_EQ(rest[i], static_cast<T>(b[i] == 0 ? -1 : x % y)) << +a[i] << " % " << +b[i];
      ASSERT_EQ(least[i], x < y ? a[i] : b[i]);
      ASSERT_EQ(sad[i], static_cast<T>((x < y ? y - x : x - y) + c[i]));
      ASSERT_EQ(below[i], x < y);
      ASSERT_EQ(not_above[i], x <= y);
      ASSERT_EQ(equal[i], x == y);
    }
  }

  template <typename T, typename S>
  void check_bits(Type bits, Type unsigned_type, Type signed_type) {
    constexpr uint32_t kWidth = 8 * sizeof(T);
    const auto a = integers<T>(20'000), base = integers<T>(20'000);
    auto start = integers<uint32_t>(20'000), length = integers<uint32_t>(20'000);
    for (size_t i = 0; i < a.size(); i += 2) start[i] %= 70, length[i] %= 70;
    const auto left = apply<T>(find(Operation::shift_left, bits), 0, a, start);
    const auto right = apply<T>(find(Operation::shift_right, unsigned_type), 0, a, start);
    const auto arithmetic = apply<T>(find(Operation::shift_right, signed_type), 0, a, start);
    const auto field = apply<T>(find(Operation::extract_field, unsigned_type), 0, a, start, length);
    const auto signed_field = apply<T>(find(Operation::extract_field, signed_type), 0, a, start, length);
    const auto inserted = apply<T>(find(Operation::insert_field, bits), 0, a, base, start, length);
    const auto ones = apply<uint32_t>(find(Operation::population, bits), 0, a);
    const auto zeros = apply<uint32_t>(find(Operation::leading_zeros, bits), 0, a);
    const auto reversed = apply<T>(find(Operation::reverse, bits), 0, a);
    const auto leading = apply<uint32_t>(find(Operation::find_leading, signed_type), 0, a);
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(left[i], start[i] >= kWidth ? T{0} : static_cast<T>(a[i] << start[i]));
      ASSERT_EQ(right[i], start[i] >= kWidth ? T{0} : static_cast<T>(a[i] >> start[i]));
      ASSERT_EQ(arithmetic[i], static_cast<T>(static_cast<S>(a[i]) >> std::min(start[i], kWidth - 1)));
      // PTX excludes operands beyond 255: 32-bit fields take the low byte of them, 64-bit fields all.
      const auto taken = [](uint32_t operand) { return kWidth == 32 ? operand & 255 : std::min(operand, 255u); };
      const uint32_t position = taken(start[i]), count = taken(length[i]);
      const uint32_t last = std::min(position + count - 1, kWidth - 1);
      const bool sign = count != 0 && (a[i] >> last & 1) != 0;
      T expected = 0, expected_signed = 0, expected_inserted = base[i];
      for (uint32_t k = 0; k < kWidth; ++k) {
        const bool inside = k < count && position + k < kWidth;
        const bool bit = inside && (a[i] >> (position + k) & 1) != 0;
        expected |= static_cast<T>(bit) << k;
        expected_signed |= static_cast<T>(inside ? bit : sign) << k;
        if (inside) {
          const T target = T{1} << (position + k);
          expected_inserted = (a[i] >> k & 1) != 0 ? expected_inserted | target : expected_inserted & ~target;
        }
      }
      ASSERT_EQ(field[i], expected) << a[i] << ' ' << position << ' ' << count;
      ASSERT_EQ(signed_field[i], expected_signed) << a[i] << ' ' << position << ' ' << count;
      ASSERT_EQ(inserted[i], expected_inserted) << a[i] << ' ' << position << ' ' << count;
      ASSERT_EQ(ones[i], static_cast<uint32_t>(std::popcount(a[i])));
      ASSERT_EQ(zeros[i], static_cast<uint32_t>(std::countl_zero(a[i])));
      T mirror = 0;
      for (uint32_t k = 0; k < kWidth; ++k) mirror |= (a[i] >> k & 1) << (kWidth - 1 - k);
      ASSERT_EQ(reversed[i], mirror);
      const T size = static_cast<S>(a[i]) < 0 ? static_cast<T>(~a[i]) : a[i];
      ASSERT_EQ(leading[i], static_cast<uint32_t>(std::bit_width(size)) - 1);
    }
  }
};

TEST_P(IntegerTest, ArithmeticOfEveryWidth) {
  check_arithmetic<uint16_t>(Type::u16);
  check_arithmetic<int16_t>(Type::s16);
  check_arithmetic<uint32_t>(Type::u32);
  check_arithmetic<int32_t>(Type::s32);
  check_arithmetic<uint64_t>(Type::u64);
  check_arithmetic<int64_t>(Type::s64);
}

TEST_P(IntegerTest, WideProductsAndSaturation) {
  const auto a = integers<int32_t>(20'000), b = integers<int32_t>(20'000), c = integers<int32_t>(20'000);
  const auto wide = apply<int64_t>(find(Operation::mul_wide, Type::s32), 0, a, b);
  const auto sum = apply<int32_t>(find(Operation::add_saturate, Type::s32), 0, a, b);
  const auto high = apply<int32_t>(find(Operation::mad_hi_saturate, Type::s32), 0, a, b, c);
  const auto clamp = [](int64_t v) { return static_cast<int32_t>(std::clamp<int64_t>(v, INT32_MIN, INT32_MAX)); };
  for (size_t i = 0; i < a.size(); ++i) {
    const int64_t product = int64_t{a[i]} * b[i];
    ASSERT_EQ(wide[i], product);
    ASSERT_EQ(sum[i], clamp(int64_t{a[i]} + b[i]));
    ASSERT_EQ(high[i], clamp((product >> 32) + c[i]));
  }
}

TEST_P(IntegerTest, FieldsShiftsAndCounts) {
  check_bits<uint32_t, int32_t>(Type::b32, Type::u32, Type::s32);
  check_bits<uint64_t, int64_t>(Type::b64, Type::u64, Type::s64);
}

TEST_P(IntegerTest, EveryLookUpTable) {
  const auto a = integers<uint32_t>(64), b = integers<uint32_t>(64), c = integers<uint32_t>(64);
  for (uint64_t table = 0; table < 256; ++table) {
    const auto results = apply<uint32_t>(find(Operation::lop3, Type::b32), table, a, b, c);
    for (size_t i = 0; i < a.size(); ++i) {
      uint32_t expected = 0;
      for (int k = 0; k < 32; ++k) {
        const uint32_t row = (a[i] >> k & 1) * 4 + (b[i] >> k & 1) * 2 + (c[i] >> k & 1);
        expected |= static_cast<uint32_t>(table >> row & 1) << k;
      }
      ASSERT_EQ(results[i], expected) << table;
    }
  }
}

TEST_P(IntegerTest, BytePermutationTakesAnySelector) {
  const auto a = integers<uint32_t>(20'000), b = integers<uint32_t>(20'000), c = integers<uint32_t>(20'000);
  const auto results = apply<uint32_t>(find(Operation::permute, Type::b32), 0, a, b, c);
  for (size_t i = 0; i < a.size(); ++i) {
    const uint64_t bytes = uint64_t{b[i]} << 32 | a[i];
    uint32_t expected = 0;
    for (int k = 0; k < 4; ++k) {
      const uint32_t selector = c[i] >> (4 * k) & 15;
      const auto byte = static_cast<uint32_t>(bytes >> (8 * (selector & 7)) & 255);
      expected |= (selector < 8 ? byte : (byte & 128) != 0 ? 255u : 0u) << (8 * k);
    }
    ASSERT_EQ(results[i], expected);
  }
}

TEST_P(IntegerTest, FloatingComparisonsAreFalseForNan) {
  const auto a = floats(20'000), b = floats(20'000);
  const auto less = test(find(Operation::compare_lt, Type::f32), kNoSecondDestination, a, b);
  const auto unequal = test(find(Operation::compare_ne, Type::f32), kNoSecondDestination, a, b);
  const auto flushed = test(find(Operation::compare_eq, Type::f32, kFlush), kNoSecondDestination, a, b);
  const auto flush = [](float v) { return std::fpclassify(v) == FP_SUBNORMAL ? 0.0f : v; };
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(less[i], a[i] < b[i]);
    ASSERT_EQ(unequal[i], a[i] < b[i] || a[i] > b[i]);
    ASSERT_EQ(flushed[i], flush(a[i]) == flush(b[i]));
  }
}

STAGECRAFT_ALL_LEVELS(IntegerTest);

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
