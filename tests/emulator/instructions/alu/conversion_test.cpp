// Conversions: against the definition of rounding, and against the host conversions of the CUDA headers.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include "handler_fixture.hpp"
#include "rounding_oracle.hpp"

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Type;

constexpr RoundingMode kModes[] = {RoundingMode::nearest, RoundingMode::down, RoundingMode::up, RoundingMode::zero};

class ConversionTest : public HandlerTest {
 protected:
  static unsigned variant_of(Type source, RoundingMode mode = RoundingMode::nearest) {
    return static_cast<unsigned>(source) | static_cast<unsigned>(mode) << 8;
  }
  /// Returns every float whose lower half is one of a few patterns, which is enough for formats of up to 16 bits.
  static std::vector<float> all_floats() {
    std::vector<float> values;
    for (uint32_t upper = 0; upper < 65536; ++upper) {
      for (const uint32_t lower : {0u, 1u, 0x7fffu, 0x8000u, 0x9000u}) {
        values.push_back(std::bit_cast<float>(upper << 16 | lower));
      }
    }
    return values;
  }
};

TEST_P(ConversionTest, FloatsToHalvesInEveryRoundingMode) {
  const std::vector<float> values = all_floats();
  for (const RoundingMode mode : kModes) {
    const auto f16 =
        apply<uint16_t>(find(Operation::float_to_float, Type::f16, variant_of(Type::f32, mode)), 0, values);
    const auto bf16 =
        apply<uint16_t>(find(Operation::float_to_float, Type::bf16, variant_of(Type::f32, mode)), 0, values);
    for (size_t i = 0; i < values.size(); ++i) {
      const float v = values[i];
      ASSERT_EQ(f16[i], round_to(kF16, v, mode)) << v << " mode " << int(mode);
      ASSERT_EQ(bf16[i], round_to(kBf16, v, mode)) << v << " mode " << int(mode);
      // The headers keep the sign of NaN in some versions; numbers must agree to the bit.
      if (std::isnan(v)) continue;
      const auto header = [&] {
        switch (mode) {
          case RoundingMode::nearest: return __float2half_rn(v);
          case RoundingMode::down: return __float2half_rd(v);
          case RoundingMode::up: return __float2half_ru(v);
          default: return __float2half_rz(v);
        }
      }();
      ASSERT_EQ(f16[i], static_cast<__half_raw>(header).x) << v << " mode " << int(mode);
    }
  }
}

TEST_P(ConversionTest, HalvesToFloatsExactly) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  const auto f16 = apply<float>(find(Operation::float_to_float, Type::f32, variant_of(Type::f16)), 0, all);
  const auto bf16 = apply<float>(find(Operation::float_to_float, Type::f32, variant_of(Type::bf16)), 0, all);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto x = static_cast<float>(value_of_half(kF16, all[i])),
               y = static_cast<float>(value_of_half(kBf16, all[i]));
    ASSERT_TRUE(std::isnan(x) ? std::bit_cast<uint32_t>(f16[i]) == 0x7fffffffu : same_bits(f16[i], x)) << i;
    ASSERT_EQ(std::bit_cast<uint32_t>(bf16[i]), i << 16) << y;  // NaN as well
  }
}

TEST_P(ConversionTest, DoublesToFloatsAndThroughOddToHalves) {
  auto values = doubles(60'000);
  for (size_t i = 0; i < values.size(); i += 3) {
    // Values next to the midpoints of halves, where rounding twice goes wrong.
    const long double middle = value_of_half(kF16, static_cast<uint16_t>(random() & 0x7bfeu)) * (1 + 0x1p-11L);
    values[i] = static_cast<double>(middle) * (1 + (static_cast<int>(random() % 3) - 1) * 0x1p-40);
  }
  const auto odd = apply<float>(find(Operation::odd_float, Type::f32), 0, values);
  const auto f16 = apply<uint16_t>(find(Operation::float_to_float, Type::f16, variant_of(Type::f32)), 0, odd);
  const auto bf16 = apply<uint16_t>(find(Operation::float_to_float, Type::bf16, variant_of(Type::f32)), 0, odd);
  const FloatFormat binary32{8, 23, 127, 0x7f800000u, 0x7f7fffffu, 0x7fffffffu};
  // A NaN keeps its sign and the upper bits of its payload, and is quieted.
  const auto payload_of = [](double nan) {
    const auto bits = std::bit_cast<uint64_t>(nan);
    return static_cast<uint32_t>(bits >> 32 & 0x80000000u) | 0x7fc00000u |
           static_cast<uint32_t>(bits >> 29 & 0x7fffffu);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(f16[i], round_to(kF16, values[i])) << values[i];
    ASSERT_EQ(bf16[i], round_to(kBf16, values[i])) << values[i];
  }
  for (const RoundingMode mode : kModes) {
    const RoundingMode filed = mode == RoundingMode::nearest ? mode : RoundingMode::zero;
    const auto floats = apply<float>(find(Operation::float_to_float, Type::f32, variant_of(Type::f64, filed)),
                                     static_cast<uint64_t>(mode), values);
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t expected = std::isnan(values[i]) ? payload_of(values[i]) : round_to(binary32, values[i], mode);
      ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]), expected) << values[i];
    }
  }
}

template <typename I>
long double wide(I value) {
  return static_cast<long double>(value);
}

#define STAGECRAFT_FROM_INTEGER(I, type)                                                                     \
  {                                                                                                          \
    const auto values = integers<I>(20'000);                                                                 \
    const FloatFormat binary32{8, 23, 127, 0x7f800000u, 0x7f7fffffu, 0x7fffffffu};                           \
    for (const RoundingMode mode : kModes) {                                                                 \
      const RoundingMode filed = mode == RoundingMode::nearest ? mode : RoundingMode::zero;                  \
      const auto m = static_cast<uint64_t>(mode);                                                            \
      const auto f32 =                                                                                       \
          apply<uint32_t>(find(Operation::integer_to_float, Type::f32, variant_of(type, filed)), m, values); \
      const auto f64 =                                                                                       \
          apply<double>(find(Operation::integer_to_float, Type::f64, variant_of(type, filed)), m, values);   \
      const auto f16 =                                                                                       \
          apply<uint16_t>(find(Operation::integer_to_float, Type::f16, variant_of(type, mode)), m, values);  \
      const auto bf16 =                                                                                      \
          apply<uint16_t>(find(Operation::integer_to_float, Type::bf16, variant_of(type, mode)), m, values); \
      for (size_t i = 0; i < values.size(); ++i) {                                                           \
        const long double v = wide(values[i]);                                                               \
        ASSERT_EQ(f32[i], round_to(binary32, v, mode)) << #I " " << values[i] << " mode " << m;              \
        ASSERT_EQ(f16[i], round_to(kF16, v, mode)) << #I " " << values[i] << " mode " << m;                  \
        ASSERT_EQ(bf16[i], round_to(kBf16, v, mode)) << #I " " << values[i] << " mode " << m;                \
        const long double error = static_cast<long double>(f64[i]) - v;                                      \
        ASSERT_FALSE(std::signbit(f64[i]) && v == 0) << "mode " << m;                                        \
        ASSERT_LE(std::fabs(error), std::fabs(v) * 0x1p-52L);                                                \
        if (mode == RoundingMode::down) {                                                                    \
          ASSERT_LE(error, 0);                                                                               \
        }                                                                                                    \
        if (mode == RoundingMode::up) {                                                                      \
          ASSERT_GE(error, 0);                                                                               \
        }                                                                                                    \
        if (mode == RoundingMode::nearest) {                                                                 \
          ASSERT_EQ(f64[i], static_cast<double>(values[i]));                                                 \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
  }

TEST_P(ConversionTest, IntegersToFloatsInEveryRoundingMode) {
  STAGECRAFT_FROM_INTEGER(uint32_t, Type::u32)
  STAGECRAFT_FROM_INTEGER(int32_t, Type::s32)
  STAGECRAFT_FROM_INTEGER(uint64_t, Type::u64)
  STAGECRAFT_FROM_INTEGER(int64_t, Type::s64)
}

/// PTX ISA, "cvt": saturate, and NaN by the types.
template <typename I>
I integer_of(long double value, RoundingMode mode, bool from_double) {
  if (std::isnan(value)) {
    return from_double || sizeof(I) == 8 ? static_cast<I>(uint64_t{1} << (8 * sizeof(I) - 1)) : I{0};
  }
  const long double rounded = mode == RoundingMode::nearest ? rintl(value)
                              : mode == RoundingMode::down  ? floorl(value)
                              : mode == RoundingMode::up    ? ceill(value)
                                                            : truncl(value);
  if (rounded < static_cast<long double>(std::numeric_limits<I>::min())) return std::numeric_limits<I>::min();
  if (rounded > static_cast<long double>(std::numeric_limits<I>::max())) return std::numeric_limits<I>::max();
  return static_cast<I>(rounded);
}

#define STAGECRAFT_TO_INTEGER(I, Lane, type)                                                                          \
  for (const RoundingMode mode : kModes) {                                                                            \
    const auto from_float = apply<Lane>(find(Operation::float_to_integer, type, variant_of(Type::f32, mode)), 0, f);  \
    const auto from_double = apply<Lane>(find(Operation::float_to_integer, type, variant_of(Type::f64, mode)), 0, d); \
    for (size_t i = 0; i < f.size(); ++i) {                                                                           \
      ASSERT_EQ(from_float[i], static_cast<Lane>(integer_of<I>(f[i], mode, false))) << #I " " << f[i];                \
      ASSERT_EQ(from_double[i], static_cast<Lane>(integer_of<I>(d[i], mode, true))) << #I " " << d[i];                \
    }                                                                                                                 \
  }

TEST_P(ConversionTest, FloatsToIntegersSaturate) {
  auto f = floats(20'000);
  auto d = doubles(20'000);
  for (size_t i = 0; i < f.size(); i += 2) {
    // Near integers and halves of all sizes.
    const long double base =
        ldexpl(1, static_cast<int>(random() % 70)) + static_cast<long double>(random() % 9) / 2 - 2;
    f[i] = static_cast<float>(random() % 2 != 0 ? base : -base);
    d[i] = static_cast<double>(random() % 2 != 0 ? base : -base);
  }
  STAGECRAFT_TO_INTEGER(uint8_t, uint32_t, Type::u8)
  STAGECRAFT_TO_INTEGER(int8_t, uint32_t, Type::s8)
  STAGECRAFT_TO_INTEGER(uint16_t, uint32_t, Type::u16)
  STAGECRAFT_TO_INTEGER(int16_t, uint32_t, Type::s16)
  STAGECRAFT_TO_INTEGER(uint32_t, uint32_t, Type::u32)
  STAGECRAFT_TO_INTEGER(int32_t, uint32_t, Type::s32)
  STAGECRAFT_TO_INTEGER(uint64_t, uint64_t, Type::u64)
  STAGECRAFT_TO_INTEGER(int64_t, uint64_t, Type::s64)
}

TEST_P(ConversionTest, NarrowFloatsAgreeWithTheCudaHeaders) {
  const std::vector<float> a = all_floats();
  std::vector<float> b(a.rbegin(), a.rend());
  const auto e4m3 = apply<uint16_t>(find(Operation::narrow_pair, Type::f32, unsigned(NarrowFormat::e4m3)), 0, a, b);
  const auto e5m2 = apply<uint16_t>(find(Operation::narrow_pair, Type::f32, unsigned(NarrowFormat::e5m2)), 0, a, b);
  const auto e2m3 = apply<uint16_t>(find(Operation::narrow_pair, Type::f32, unsigned(NarrowFormat::e2m3)), 0, a, b);
  const auto e3m2 = apply<uint16_t>(find(Operation::narrow_pair, Type::f32, unsigned(NarrowFormat::e3m2)), 0, a, b);
  const auto e2m1 = apply<uint16_t>(find(Operation::narrow_pair, Type::f32, unsigned(NarrowFormat::e2m1)), 0, a, b);
  for (size_t i = 0; i < a.size(); ++i) {
    const auto pair = [&](auto convert, unsigned shift) { return unsigned(convert(a[i])) << shift | convert(b[i]); };
    ASSERT_EQ(e4m3[i], pair([](float v) { return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E4M3); }, 8)) << a[i];
    ASSERT_EQ(e5m2[i], pair([](float v) { return __nv_cvt_float_to_fp8(v, __NV_SATFINITE, __NV_E5M2); }, 8)) << a[i];
    ASSERT_EQ(e2m3[i], pair([](float v) { return __nv_cvt_float_to_fp6(v, __NV_E2M3, cudaRoundNearest); }, 8)) << a[i];
    ASSERT_EQ(e3m2[i], pair([](float v) { return __nv_cvt_float_to_fp6(v, __NV_E3M2, cudaRoundNearest); }, 8)) << a[i];
    ASSERT_EQ(e2m1[i], pair([](float v) { return __nv_cvt_float_to_fp4(v, __NV_E2M1, cudaRoundNearest); }, 4)) << a[i];
  }
}

/// Computes cvt.rs by its definition: the result is the neighbour away from zero if the fraction of the way to it,
/// truncated to units of 2^-bits, and the random number add up to at least 1.
uint32_t round_randomly(const FloatFormat& format, float value, uint32_t random, int bits) {
  const bool negative = std::signbit(value);
  const uint32_t lower = round_to(format, value, RoundingMode::zero);
  const uint32_t upper = round_to(format, value, negative ? RoundingMode::down : RoundingMode::up);
  if (lower == upper) return lower;
  const uint32_t magnitude = ~(1u << (format.exponent_bits + format.fraction_bits));
  const long double below = value_of(format, lower & magnitude), above = value_of(format, upper & magnitude);
  const long double way = (std::abs(static_cast<long double>(value)) - below) / (above - below);
  return floorl(ldexpl(way, bits)) + random >= ldexpl(1, bits) ? upper : lower;
}

uint32_t reversed(uint32_t bits) {
  uint32_t result = 0;
  for (int i = 0; i < 16; ++i) result |= (bits >> i & 1u) << (15 - i);
  return result;
}

TEST_P(ConversionTest, StochasticRoundingIsDecidedByTheRandomBits) {
  const auto inputs = [this](const FloatFormat& format) {
    std::vector<float> values = floats(20'000);
    for (float& value : values) {
      if (random() % 4 == 0) continue;  // the rest has the exponents of the format, and some below it
      const auto exponent = static_cast<uint32_t>(random() % (format.largest >> format.fraction_bits)) + 125 -
                            static_cast<uint32_t>(format.bias) - static_cast<uint32_t>(random() % 24);
      value = std::bit_cast<float>((std::bit_cast<uint32_t>(value) & 0x807fffffu) | (exponent & 0xffu) << 23);
    }
    return values;
  };
  for (const auto& [type, format, bits] : {std::tuple{Type::f16x2, kF16, 13}, std::tuple{Type::bf16x2, kBf16, 16}}) {
    const std::vector<float> a = inputs(format), b = inputs(format);
    const std::vector<uint32_t> words = integers<uint32_t>(a.size());
    const auto packed = apply<uint32_t>(find(Operation::stochastic_halves, type), 0, a, b, words);
    const uint32_t mask = (1u << bits) - 1;
    for (size_t i = 0; i < a.size(); ++i) {
      ASSERT_EQ(packed[i] >> 16, round_randomly(format, a[i], words[i] >> 16 & mask, bits)) << a[i] << " " << words[i];
      ASSERT_EQ(packed[i] & 0xffff, round_randomly(format, b[i], words[i] & mask, bits)) << b[i] << " " << words[i];
    }
  }
  const auto expect_pairs = [&](NarrowFormat narrow, const FloatFormat& format, auto sample) {
    const std::vector<float> a = inputs(format), b = inputs(format);
    const std::vector<uint32_t> words = integers<uint32_t>(a.size());
    const bool nibbles = narrow == NarrowFormat::e2m1;
    for (const uint32_t upper : {0u, 1u}) {
      const Handlers handlers = find(Operation::stochastic_pair, Type::f32, unsigned(narrow));
      const auto pairs = apply<decltype(sample)>(handlers, upper, a, b, words);
      for (size_t i = 0; i < a.size(); ++i) {
        const uint32_t bytes = words[i] >> (8 * upper);
        const uint32_t share = nibbles ? (bytes >> 16 & 0xff) << 8 | (bytes & 0xff) : words[i] >> (16 * upper) & 0xffff;
        const uint32_t pair = round_randomly(format, a[i], reversed(share), 16) << (nibbles ? 4 : 8) |
                              round_randomly(format, b[i], share, 16);
        ASSERT_EQ(pairs[i], pair << (nibbles ? 8 : 16) * upper)
            << "format " << int(narrow) << ": " << a[i] << ", " << b[i] << ", " << words[i];
      }
    }
  };
  expect_pairs(NarrowFormat::e4m3, {4, 3, 7, 0, 0x7e, 0x7f}, uint32_t{});
  expect_pairs(NarrowFormat::e5m2, {5, 2, 15, 0, 0x7b, 0x7f}, uint32_t{});
  expect_pairs(NarrowFormat::e2m3, {2, 3, 1, 0, 0x1f, 0x1f}, uint32_t{});
  expect_pairs(NarrowFormat::e3m2, {3, 2, 3, 0, 0x1f, 0x1f}, uint32_t{});
  expect_pairs(NarrowFormat::e2m1, {2, 1, 1, 0, 0x7, 0x7}, uint16_t{});
}

TEST_P(ConversionTest, EveryNarrowFloatWidensAsInTheCudaHeaders) {
  std::vector<uint16_t> pairs;
  for (uint32_t code = 0; code < 256; ++code) pairs.push_back(static_cast<uint16_t>(code << 8 | (255 - code)));
  const auto expect = [&](NarrowFormat format, auto convert) {
    const auto wide = apply<uint32_t>(find(Operation::widen_pair, Type::f16x2, unsigned(format)), 0, pairs);
    for (size_t i = 0; i < pairs.size(); ++i) {
      ASSERT_EQ(wide[i] >> 16, convert(pairs[i] >> 8)) << std::hex << pairs[i];
      ASSERT_EQ(wide[i] & 0xffff, convert(pairs[i] & 0xff)) << std::hex << pairs[i];
    }
  };
  expect(NarrowFormat::e4m3, [](int c) { return __nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(c), __NV_E4M3).x; });
  expect(NarrowFormat::e5m2, [](int c) { return __nv_cvt_fp8_to_halfraw(static_cast<uint8_t>(c), __NV_E5M2).x; });
  expect(NarrowFormat::e2m3, [](int c) { return __nv_cvt_fp6_to_halfraw(static_cast<uint8_t>(c & 63), __NV_E2M3).x; });
  expect(NarrowFormat::e3m2, [](int c) { return __nv_cvt_fp6_to_halfraw(static_cast<uint8_t>(c & 63), __NV_E3M2).x; });
  const auto wide = apply<uint32_t>(find(Operation::widen_pair, Type::f16x2, unsigned(NarrowFormat::e2m1)), 0, pairs);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto low = static_cast<uint8_t>(pairs[i] & 15), high = static_cast<uint8_t>(pairs[i] >> 4 & 15);
    ASSERT_EQ(wide[i] & 0xffff, __nv_cvt_fp4_to_halfraw(low, __NV_E2M1).x) << i;
    ASSERT_EQ(wide[i] >> 16, __nv_cvt_fp4_to_halfraw(high, __NV_E2M1).x) << i;
  }
}

TEST_P(ConversionTest, ScalesAgreeWithTheCudaHeaders) {
  const std::vector<float> a = all_floats();
  for (const bool up : {false, true}) {
    for (const bool finite : {false, true}) {
      const uint64_t flags = (up ? uint64_t{kNarrowUp} : 0) | (finite ? uint64_t{kNarrowFinite} : 0);
      const auto scales = apply<uint16_t>(find(Operation::scale_pair, Type::f32), flags, a, a);
      for (size_t i = 0; i < a.size(); ++i) {
        const unsigned code =
            __nv_cvt_float_to_e8m0(a[i], finite ? __NV_SATFINITE : __NV_NOSAT, up ? cudaRoundPosInf : cudaRoundZero);
        ASSERT_EQ(scales[i], code << 8 | code) << a[i] << (up ? " up" : "") << (finite ? " finite" : "");
      }
    }
  }
  std::vector<uint16_t> codes;
  for (uint32_t code = 0; code < 256; ++code) codes.push_back(static_cast<uint16_t>(code << 8 | (255 - code)));
  const auto wide = apply<uint32_t>(find(Operation::widen_scale, Type::bf16x2), 0, codes);
  for (size_t i = 0; i < codes.size(); ++i) {
    ASSERT_EQ(wide[i] >> 16, __nv_cvt_e8m0_to_bf16raw(static_cast<uint8_t>(codes[i] >> 8)).x) << i;
    ASSERT_EQ(wide[i] & 0xffff, __nv_cvt_e8m0_to_bf16raw(static_cast<uint8_t>(codes[i])).x) << i;
  }
}

TEST_P(ConversionTest, Tf32KeepsTenFractionBits) {
  const std::vector<float> values = all_floats();
  const FloatFormat tf32{8, 10, 127, 0x3fc00, 0x3fbff, 0x3ffff};
  const auto nearest = apply<uint32_t>(find(Operation::to_tf32, Type::f32, 0), 0, values);
  const auto away = apply<uint32_t>(find(Operation::to_tf32, Type::f32, 1), 0, values);
  const auto zero = apply<uint32_t>(find(Operation::to_tf32, Type::f32, 2), 0, values);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_EQ(nearest[i], 0x7fffe000u);
      ASSERT_EQ(zero[i], 0x7fffe000u);
      ASSERT_EQ(away[i], std::bit_cast<uint32_t>(values[i]) & ~0x1fffu);
      continue;
    }
    ASSERT_EQ(nearest[i], round_to(tf32, values[i]) << 13) << values[i];
    ASSERT_EQ(zero[i], round_to(tf32, values[i], RoundingMode::zero) << 13) << values[i];
    const bool tie = (std::bit_cast<uint32_t>(values[i]) & 0x1fffu) == 0x1000u;
    ASSERT_EQ(away[i], tie ? zero[i] + 0x2000u : nearest[i]) << values[i];
  }
}

TEST_P(ConversionTest, ExtensionReadsTheLowBitsAndFillsTheRegister) {
  const std::vector<uint32_t> values = {0x12345680u, 0xffffff7fu, 0x0000ff00u};
  EXPECT_EQ(apply<uint16_t>(find(Operation::extend, Type::s8, 4 | 2 << 4), 0, values),
            (std::vector<uint16_t>{0xff80, 0x7f, 0}));
  EXPECT_EQ(apply<uint64_t>(find(Operation::extend, Type::u16, 4 | 8 << 4), 0, values),
            (std::vector<uint64_t>{0x5680, 0xff7f, 0xff00}));
  EXPECT_EQ(apply<uint64_t>(find(Operation::extend, Type::s32, 4 | 8 << 4), 0, values),
            (std::vector<uint64_t>{0x12345680, 0xffffffffffffff7fu, 0xff00}));
}

TEST_P(ConversionTest, PackedIntegersAreClamped) {
  const std::vector<int32_t> a = {300, -300, 5, 100000}, b = {-1, 127, -5, -100000};
  const std::vector<uint32_t> c = {0x1234, 0xabcd, 0, 0xffffffffu};
  EXPECT_EQ(apply<uint32_t>(find(Operation::pack_integers, Type::s32), 8 | 0x100, a, b, c),
            (std::vector<uint32_t>{0x12347fffu, 0xabcd807fu, 0x000005fbu, 0xffff7f80u}));
  EXPECT_EQ(apply<uint32_t>(find(Operation::pack_integers, Type::s32), 4, a, b, c),
            (std::vector<uint32_t>{0x1234f0u, 0xabcd0fu, 0x50u, 0xfffffff0u}));
  EXPECT_EQ(apply<uint32_t>(find(Operation::pack_integers, Type::s32), 16, a, b, std::vector<uint32_t>(4)),
            (std::vector<uint32_t>{0x012c0000u, 0x0000007fu, 0x00050000u, 0xffff0000u}));
}

STAGECRAFT_ALL_LEVELS(ConversionTest);

}  // namespace
}  // namespace stagecraft::emulator::machine::alu
