// The functions of fused_panels.hpp. This file is compiled once per level, so nothing here may call an inline function
// of another header (host/isa_level.hpp), except the compiler's intrinsics, which are always inlined.
//
// A product of two significands of at most 11 bits is exact in fp32. Times the power of two for which the last bit that
// is kept is 1, it is converted to an integer, which drops the bits after that, and integers are added exactly. The
// largest exponent is found with bytes, of a block's rows at once. What does not fit, such as infinities, is left to
// `fused_sum`.
#include "emulator/engines/tensor_core/fused_panels.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

#if STAGECRAFT_ISA_LEVEL == 4
constexpr uint32_t kWidth = 16;
#elif STAGECRAFT_ISA_LEVEL == 3
constexpr uint32_t kWidth = 8;
#else
constexpr uint32_t kWidth = 4;
#endif
constexpr uint32_t kRows = 2 * kWidth;  // of a block
constexpr uint32_t kGroup = 16;         // products of significands of 11 bits whose sum fits 32 bits
constexpr int kLeastByte = 64;          // of an exponent; a zero has 0
constexpr int kMostSpread = 63;         // of exponents, so that the sum of two bytes fits a byte
constexpr int kFractionBits = 23, kBias = 127;
// Exponents for which scales and sums are normal numbers.
constexpr int kLeastAligned = -100, kMostAligned = 120, kNoExponent = -1000;

typedef float Floats __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
typedef int32_t Ints __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
typedef uint32_t Words __attribute__((vector_size(4 * kWidth), aligned(4), may_alias));
typedef uint8_t Bytes __attribute__((vector_size(kWidth), aligned(1), may_alias));
typedef uint8_t RowBytes __attribute__((vector_size(kRows), aligned(1), may_alias));
typedef uint32_t RowWords __attribute__((vector_size(kRows), may_alias));

// Not one template, whose argument would lose the alignment.
[[gnu::always_inline]] inline Floats load_floats(const float* from) { return *reinterpret_cast<const Floats*>(from); }
[[gnu::always_inline]] inline Ints load_ints(const float* from) { return *reinterpret_cast<const Ints*>(from); }
[[gnu::always_inline]] inline Words load_words(const float* from) { return *reinterpret_cast<const Words*>(from); }
[[gnu::always_inline]] inline Ints load_bytes(const uint8_t* from) {
  return __builtin_convertvector(*reinterpret_cast<const Bytes*>(from), Ints);
}

[[gnu::always_inline]] inline Ints select(Ints mask, Ints yes, Ints no) { return (mask & yes) | (~mask & no); }
#if STAGECRAFT_ISA_LEVEL == 4
[[gnu::always_inline]] inline Ints larger(Ints a, Ints b) {
  return (Ints)_mm512_maskz_max_epi32(0xffff, (__m512i)a, (__m512i)b);
}
[[gnu::always_inline]] inline Words larger(Words a, Words b) {
  return (Words)_mm512_maskz_max_epu32(0xffff, (__m512i)a, (__m512i)b);
}
#elif STAGECRAFT_ISA_LEVEL == 3
[[gnu::always_inline]] inline Ints larger(Ints a, Ints b) { return (Ints)_mm256_max_epi32((__m256i)a, (__m256i)b); }
[[gnu::always_inline]] inline Words larger(Words a, Words b) { return (Words)_mm256_max_epu32((__m256i)a, (__m256i)b); }
#else
[[gnu::always_inline]] inline Ints larger(Ints a, Ints b) { return select(a > b, a, b); }
[[gnu::always_inline]] inline Words larger(Words a, Words b) {
  const Words mask = (Words)(a > b);
  return (mask & a) | (~mask & b);
}
#endif

[[gnu::always_inline]] inline RowBytes larger(RowBytes a, RowBytes b) {
#if STAGECRAFT_ISA_LEVEL == 4
  return (RowBytes)_mm256_max_epu8((__m256i)a, (__m256i)b);
#elif STAGECRAFT_ISA_LEVEL == 3
  return (RowBytes)_mm_max_epu8((__m128i)a, (__m128i)b);
#else
  const RowBytes mask = (RowBytes)(a > b);
  return (mask & a) | (~mask & b);
#endif
}

[[gnu::always_inline]] inline bool any(Ints mask) {
#if STAGECRAFT_ISA_LEVEL == 4
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif STAGECRAFT_ISA_LEVEL == 3
  return _mm256_testz_si256((__m256i)mask, (__m256i)mask) == 0;
#else
  return (mask[0] | mask[1] | mask[2] | mask[3]) != 0;
#endif
}

// Converts, rounding towards zero. Values are at most 2^31 - 2^27 in magnitude.
[[gnu::always_inline]] inline Floats to_floats(Ints value) {
#if STAGECRAFT_ISA_LEVEL == 4
  return (Floats)_mm512_maskz_cvt_roundepi32_ps(0xffff, (__m512i)value, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#else
  const Ints sign = value >> 31, magnitude = (value ^ sign) - sign;
  const Floats nearest = __builtin_convertvector(magnitude, Floats);
  const Ints too_large = __builtin_convertvector(nearest, Ints) > magnitude;  // -1 if so
  return (Floats)(((Ints)nearest + too_large) | (sign & INT32_MIN));
#endif
}

union Pattern {
  uint32_t bits;
  float value;
};
float power_of_two(int exponent) { return Pattern{static_cast<uint32_t>(exponent + kBias) << kFractionBits}.value; }

using Range = OperandRange;

class RangeFinder {
 public:
  /// Adds `count` adjacent values, a multiple of 16.
  [[gnu::always_inline]] inline void add(const float* values, uint32_t count) {
    for (uint32_t i = 0; i < count; i += kWidth) {
      const Words twice = load_words(values + i) << 1, before = twice - 1;  // without the sign; of zero the largest
      all_ |= twice;
      most_ = larger(most_, twice);
      not_least_ = larger(not_least_, ~before);
    }
  }

  Range range() const {
    uint32_t all = 1u << (kFractionBits + 1), most = 0, not_least = 0;
    for (uint32_t i = 0; i < kWidth; ++i) {
      all |= all_[i];
      if (most_[i] > most) most = most_[i];
      if (not_least_[i] > not_least) not_least = not_least_[i];
    }
    if (most == 0) return {0, 0, 0, true};  // only zeros: as if all were 1
    const int low = static_cast<int>((~not_least + 1) >> 24), high = static_cast<int>(most >> 24);
    const int bits = kFractionBits + 1 - __builtin_ctz(all);  // of the fractions, together
    return {low - kBias, high - kBias, low - kBias - bits, low > 0 && high < 255};
  }

 private:
  Words all_{}, most_{}, not_least_{};  // the last is the complement of the least
};

// Writes the exponents of values: that of `least` is 64.
[[gnu::always_inline]] inline void write_exponents(const float* values, uint32_t count, int least_kept, int least,
                                                   uint8_t* bytes) {
  for (uint32_t i = 0; i < count; i += kWidth) {
    const Ints bits = load_ints(values + i);
    const Ints exponent = larger(((bits >> kFractionBits) & 255) - kBias, Ints{} + least_kept);
    const Ints byte = (exponent - (least - kLeastByte)) & ((bits & INT32_MAX) != 0);
    *reinterpret_cast<Bytes*>(bytes + i) = __builtin_convertvector(byte, Bytes);
  }
}

int bits_for(uint32_t count) {
  int bits = 0;
  while ((1u << bits) < count) ++bits;
  return bits;
}

// A block of D: kRows rows by kColumns columns, as vectors of rows. Its parts are computed step by step, because each
// step's operations depend on each other, and a processor does those of different vectors at the same time.
constexpr uint32_t kColumns = 4, kVectors = kRows / kWidth;

struct alignas(64) Block {
  const float* a;  ///< its rows, at the first k
  const float* b;  ///< its columns, at the first k
  float* cells[kVectors];
  alignas(64) Ints aligned[kColumns][kVectors];  ///< the exponents to which terms are aligned
  alignas(64) Floats scale[kColumns][kVectors];  ///< what makes the last bit that is kept 1
  alignas(64) Ints sum[kColumns][kVectors];
  alignas(64) Ints unfit[kColumns][kVectors];  ///< not 0 in lanes that are to be computed one by one
};

// Finds the largest exponents of products.
template <uint32_t kDepth>
[[gnu::always_inline]] inline void align_products(const uint8_t* a, const uint32_t* b, int base, Block& block) {
  RowBytes largest[kColumns] = {};
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kDepth; ++k) {
    const RowBytes exponents = *reinterpret_cast<const RowBytes*>(a + k * kPanelLanes);
    for (uint32_t n = 0; n < kColumns; ++n) {
      const RowWords factor = RowWords{} + b[n * kDepth + k];
      largest[n] = larger(largest[n], exponents + (RowBytes)factor);
    }
  }
  alignas(kRows) uint8_t bytes[kColumns][kRows];
  for (uint32_t n = 0; n < kColumns; ++n) *reinterpret_cast<RowBytes*>(bytes[n]) = largest[n];
  for (uint32_t n = 0; n < kColumns; ++n) {
    for (uint32_t i = 0; i < kVectors; ++i) {
      const Ints byte = load_bytes(bytes[n] + i * kWidth);
      block.aligned[n][i] = select(byte >= 2 * kLeastByte, byte + base, Ints{} + kNoExponent);
    }
  }
}

// Takes C into account, and begins the sums with it.
[[gnu::always_inline]] inline void align_addend(const FusedOperands& operands, Block& block) {
  const Ints fraction_bits = Ints{} + (operands.shape.sum.fraction_bits + kBias);
  for (uint32_t n = 0; n < kColumns; ++n) {
    for (uint32_t i = 0; i < kVectors; ++i) {
      const Floats c = operands.shape.accumulate ? load_floats(block.cells[i] + n * kPanelLanes) : Floats{};
      const Ints c_bits = (Ints)c & INT32_MAX;
      const Ints c_exponent = larger(c_bits >> kFractionBits, Ints{} + 1) - kBias;
      Ints aligned = larger(block.aligned[n][i], select(c_bits != 0, c_exponent, Ints{} + kNoExponent));
      aligned &= aligned != kNoExponent;  // all terms are zero
      block.unfit[n][i] = (aligned > kMostAligned) | (aligned < kLeastAligned);
      block.aligned[n][i] = aligned;
      block.scale[n][i] = (Floats)((fraction_bits - aligned) << kFractionBits);
      block.sum[n][i] = __builtin_convertvector(c * block.scale[n][i], Ints);
    }
  }
}

// Adds the products of at most kGroup elements along K.
template <uint32_t kDepth>
[[gnu::always_inline]] inline void add_products(const float* a, const float* b, uint32_t first, Block& block) {
  constexpr uint32_t kCount = kDepth < kGroup ? kDepth : kGroup;
  // Sums that could exceed 32 bits: with C, which is less than a 32nd of that, or with another group.
  constexpr int32_t kMost = kDepth > kGroup ? 0x3c000000 : 0x78000000;
  for (uint32_t i = 0; i < kVectors; ++i) {
    Floats scale[kColumns];
    Ints sum[kColumns] = {};
    for (uint32_t n = 0; n < kColumns; ++n) scale[n] = block.scale[n][i];
#pragma GCC unroll 16
    for (uint32_t k = first; k < first + kCount; ++k) {
      const Floats factor = load_floats(a + k * kPanelLanes + i * kWidth);
#pragma GCC unroll 4
      for (uint32_t n = 0; n < kColumns; ++n) {
        sum[n] += __builtin_convertvector(factor * b[n * kDepth + k] * scale[n], Ints);
      }
    }
    for (uint32_t n = 0; n < kColumns; ++n) {
      block.unfit[n][i] |= (sum[n] > kMost) | (sum[n] < -kMost);
      block.sum[n][i] += sum[n];
    }
  }
}

// Rounds the sums and writes them.
template <uint32_t kDepth>
[[gnu::always_inline]] inline void round_sums(const FusedOperands& operands, Block& block) {
  const FusedSum& how = operands.shape.sum;
  const Ints fraction_bits = Ints{} + (how.fraction_bits - kBias);
  for (uint32_t n = 0; n < kColumns; ++n) {
    for (uint32_t i = 0; i < kVectors; ++i) {
      const Ints sum = block.sum[n][i];
      const Floats whole = to_floats(sum);
      Ints result = (Ints)(whole * (Floats)((block.aligned[n][i] - fraction_bits) << kFractionBits));
      if (how.result == SumResult::f32_13bits) {
        result &= ~0x3ff;
      } else if (how.result == SumResult::odd) {
        result |= (__builtin_convertvector(whole, Ints) != sum) & 1;
        constexpr int32_t kHalfOfLeastF16 = (kBias - 25) << kFractionBits;
        result &= (result & INT32_MAX) > kHalfOfLeastF16;
      }
      float* const cells = block.cells[i] + n * kPanelLanes;
      const Ints unfit = block.unfit[n][i];
      if (any(unfit)) [[unlikely]] {
        for (uint32_t lane = 0; lane < kWidth; ++lane) {
          if (unfit[lane] == 0) continue;
          const float sum_of_one = fused_sum(block.a + i * kWidth + lane, kPanelLanes, block.b + n * kDepth, 1, kDepth,
                                             operands.shape.accumulate ? cells[lane] : 0.0f, how);
          result[lane] = static_cast<int32_t>(Pattern{.value = sum_of_one}.bits);
        }
      }
      *reinterpret_cast<Ints*>(cells) = result;
    }
  }
}

template <uint32_t kDepth>
void multiply_depth(const FusedOperands& operands, float* d, uint32_t m, uint32_t rows, uint32_t n, uint32_t columns) {
  for (uint32_t column = n; column < n + columns; column += kColumns) {
    for (uint32_t row = m; row < m + rows; row += kRows) {
      Block block;
      block.a = operands.a + row;
      block.b = operands.b + column * kDepth;
      for (uint32_t i = 0; i < kVectors; ++i) {
        const uint32_t first = row + i * kWidth;
        block.cells[i] = d + column * kPanelLanes + first + first / 16 * operands.shape.lane_gap;
      }
      align_products<kDepth>(operands.a_exponents + row, operands.b_exponents + column * kDepth, operands.base, block);
      align_addend(operands, block);
      for (uint32_t first = 0; first < kDepth; first += kGroup) add_products<kDepth>(block.a, block.b, first, block);
      round_sums<kDepth>(operands, block);
    }
  }
}

void multiply_one_by_one(const FusedOperands& operands, float* d, uint32_t m, uint32_t rows, uint32_t n,
                         uint32_t columns) {
  const MultiplyShape& shape = operands.shape;
  for (uint32_t column = n; column < n + columns; ++column) {
    for (uint32_t row = m; row < m + rows; ++row) {
      float& cell = d[column * kPanelLanes + row + row / 16 * shape.lane_gap];
      cell = fused_sum(operands.a + row, kPanelLanes, operands.b + column * shape.k, 1, shape.k,
                       shape.accumulate ? cell : 0.0f, shape.sum);
    }
  }
}

// Writes the exponents of the operands.
void prepare(FusedOperands& operands) {
  const MultiplyShape& shape = operands.shape;
  const FusedSum& how = shape.sum;
  const Range &a = operands.in_a, &b = operands.in_b;
  const int a_least = a.least > how.a_least ? a.least : how.a_least;
  const int b_least = b.least > how.b_least ? b.least : how.b_least;
  const bool depth_fits = shape.k == 8 || shape.k == 16 || shape.k == 32;
  operands.is_prepared = true;
  operands.by_vectors = depth_fits && a.is_normal && b.is_normal && a.most - a_least <= kMostSpread &&
                        b.most - b_least <= kMostSpread && a.least + b.least >= -126 && a.most + b.most <= 125;
  if (!operands.by_vectors) return;
  operands.base = a_least + b_least - 2 * kLeastByte;
  for (uint32_t k = 0; k < shape.k; ++k) {
    write_exponents(operands.a + k * kPanelLanes, shape.m, how.a_least, a_least,
                    operands.a_exponents + k * kPanelLanes);
  }
  for (uint32_t i = 0; i < shape.n * shape.k; i += kWidth) {
    alignas(16) uint8_t bytes[kWidth];
    write_exponents(operands.b + i, kWidth, how.b_least, b_least, bytes);
    for (uint32_t lane = 0; lane < kWidth; ++lane) operands.b_exponents[i + lane] = bytes[lane] * 0x01010101u;
  }
}

}  // namespace

void examine(FusedOperands& operands) {
  const MultiplyShape& shape = operands.shape;
  RangeFinder in_a, in_b;
  for (uint32_t k = 0; k < shape.k; ++k) in_a.add(operands.a + k * kPanelLanes, shape.m);
  in_b.add(operands.b, shape.n * shape.k);
  const Range a = operands.in_a = in_a.range(), b = operands.in_b = in_b.range();
  // A quarter of what fits is left to C and to the sum.
  const int width = shape.sum.result == SumResult::f32_13bits ? 12 : 22;
  const int last = a.last + b.last, most = last + width;
  operands.exact = a.is_normal && b.is_normal && a.most + b.most + 2 + bits_for(shape.k) <= most &&
                   last >= kLeastAligned && most < kMostAligned;
  if (!operands.exact) return;
  operands.bound = power_of_two(most);
  operands.rounder = 1.5f * power_of_two(last + kFractionBits);
}

void multiply_fused(FusedOperands& operands, float* d, uint32_t m, uint32_t rows, uint32_t n, uint32_t columns) {
  if (!operands.is_prepared) prepare(operands);
  if (!operands.by_vectors) return multiply_one_by_one(operands, d, m, rows, n, columns);
  switch (operands.shape.k) {
    case 8: return multiply_depth<8>(operands, d, m, rows, n, columns);
    case 16: return multiply_depth<16>(operands, d, m, rows, n, columns);
    default: return multiply_depth<32>(operands, d, m, rows, n, columns);
  }
}

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
