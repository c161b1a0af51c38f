// The fused sums of operands of all sizes. This file is compiled once per level, so nothing here may call an inline
// function of another header (host/isa_level.hpp), except the compiler's intrinsics, which are always inlined.
//
// Sums are formed in doubles that begin at 1.5 * 2^52 times the last bit that is kept. Additions to them drop what is
// after that bit, as the chip does. The processor must round towards zero for that; because all sums are positive, this
// rounds a product down, and one unit is added again for each negative product that lost bits. Such products are
// counted with bytes, of a block's rows at once, and so is the largest exponent found: the exponents of products, and
// of the last bits of products, are sums of those of the factors. What does not fit, such as infinities, is left to
// `fused_sum`.
#include "emulator/engines/tensor_core/fused_panels.hpp"
#include "emulator/engines/tensor_core/fused_vectors.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

constexpr int kWideFractionBits = 52, kWideBias = 1023;
constexpr int kMostAligned = 120;  // the largest exponent for which all sums are normal numbers
constexpr int kNoExponent = -1000;

// A block of D: kRows rows by kColumns columns, as vectors of rows. Its sums stay in the processor's registers. Its
// parts are computed step by step, because each step's operations depend on each other, and a processor does those of
// different vectors at the same time.
constexpr uint32_t kColumns = STAGECRAFT_ISA_LEVEL == 4 ? 4 : 2, kVectors = kRows / kWidth;

struct alignas(64) Block {
  const float* a;  ///< its rows, at the first k
  const float* b;  ///< its columns, at the first k
  float* cells[kVectors];
  alignas(64) Ints largest[kColumns][kVectors];   ///< exponents of products
  alignas(64) Ints start[kColumns][kVectors];     ///< upper words of what the sums begin at; the lower ones are 0
  alignas(64) Floats addend[kColumns][kVectors];  ///< C, without the bits that are lost
  alignas(64) Ints lost[kColumns][kVectors];      ///< negative products that lost bits
  alignas(64) int8_t cut[kColumns][kRows];        ///< products with a lower last bit lose bits
  bool loses_bits;                                ///< whether any product does
  bool is_unfit;                                  ///< whether any row is to be computed on its own
};

// Finds the largest exponents of products.
template <uint32_t kDepth>
[[gnu::always_inline]] inline void align_products(const uint8_t* a, const uint32_t* b, int base, Block& block) {
  alignas(64) RowBytes largest[kColumns] = {};
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
      block.largest[n][i] = select(byte >= 2 * kLeastByte, byte + base, Ints{} + kNoExponent);
    }
  }
}

// Returns the upper words of the doubles at which sums begin that are aligned to these exponents: 1.5 * 2^52 times the
// last bit that is kept.
template <typename Exponent>
[[gnu::always_inline]] inline Exponent start_for(Exponent aligned, const FusedSum& how) {
  return (2 * aligned + (2 * (kWideFractionBits + kWideBias - how.fraction_bits) + 1)) << (kWideFractionBits - 1 - 32);
}

// Takes C into account.
[[gnu::always_inline]] inline void align_addend(const FusedOperands& operands, Block& block) {
  const int kept = operands.shape.sum.fraction_bits;
  const int lost_of_all = kept + operands.in_a.last + operands.in_b.last;
  Ints loses_bits{}, unfit{};
  for (uint32_t n = 0; n < kColumns; ++n) {
    for (uint32_t i = 0; i < kVectors; ++i) {
      const Ints c = operands.shape.accumulate ? (Ints)load_floats(block.cells[i] + n * kPanelLanes) : Ints{};
      const Ints magnitude = c & INT32_MAX;
      const Ints exponent = larger(magnitude >> kFractionBits, Ints{} + 1) - kBias;
      Ints aligned = larger(block.largest[n][i], select(magnitude != 0, exponent, Ints{} + kNoExponent));
      aligned &= aligned != kNoExponent;  // all terms are zero
      unfit |= aligned > kMostAligned;
      block.start[n][i] = start_for(aligned, operands.shape.sum);
      const Ints bits = smaller(larger(aligned - exponent - (kept - kFractionBits), Ints{}), Ints{} + 31);
      block.addend[n][i] = (Floats)(c & ((Ints{} - 1) << bits) & (bits <= kFractionBits));
      const Ints lost = aligned - lost_of_all;
      loses_bits |= lost > 0;
      const Ints cut = smaller(larger(lost, Ints{}) + 2 * kLeastLast, Ints{} + kMostCut);
      *reinterpret_cast<SignedBytes*>(block.cut[n] + i * kWidth) = __builtin_convertvector(cut, SignedBytes);
    }
  }
  block.loses_bits = any(loses_bits);
  block.is_unfit = any(unfit);
}

// Counts the negative products that lose bits.
template <uint32_t kDepth>
[[gnu::always_inline]] inline void count_lost_bits(const WideOperands& operands, uint32_t row, uint32_t column,
                                                   Block& block) {
  for (uint32_t n = 0; n < kColumns; ++n) {
    for (uint32_t i = 0; i < kVectors; ++i) block.lost[n][i] = Ints{};
  }
  if (!block.loses_bits) return;
  const int8_t* const a = operands.a_last_bits + row;
  const uint32_t* const b = operands.b_last_bits + column * kDepth;
  const uint32_t* const rows = operands.b_rows + column * kDepth;
  alignas(64) SignedRowBytes cut[kColumns], count[kColumns] = {};
  for (uint32_t n = 0; n < kColumns; ++n) cut[n] = *reinterpret_cast<const SignedRowBytes*>(block.cut[n]);
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kDepth; ++k) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < kColumns; ++n) {
      const RowWords factor = RowWords{} + b[n * kDepth + k];
      const int8_t* const factors = a + rows[n * kDepth + k] + k * kPanelLanes;
      const SignedRowBytes last = *reinterpret_cast<const SignedRowBytes*>(factors) + (SignedRowBytes)factor;
      count[n] -= (SignedRowBytes)(last < cut[n]);
    }
  }
  for (uint32_t n = 0; n < kColumns; ++n) {
    alignas(kRows) uint8_t bytes[kRows];
    *reinterpret_cast<RowBytes*>(bytes) = (RowBytes)count[n];
    for (uint32_t i = 0; i < kVectors; ++i) block.lost[n][i] = load_bytes(bytes + i * kWidth);
  }
}

// Rounds two halves of a vector of sums.
template <SumResult kResult>
[[gnu::always_inline]] inline Ints round_sums(Doubles first, Doubles last) {
  const HalfFloats low = __builtin_convertvector(first, HalfFloats), high = __builtin_convertvector(last, HalfFloats);
  // What is rounded to zero loses its sign when zero is added.
  Ints result = (Ints)(join(low, high) + Floats{});
  if constexpr (kResult == SumResult::f32_13bits) {
    result = (Ints)((Floats)(result & ~0x3ff) + Floats{});
  } else if constexpr (kResult == SumResult::odd) {
    const Doubles first_error = widen(low) - first;
    const Doubles last_error = widen(high) - last;
    const Floats error =
        join(__builtin_convertvector(first_error, HalfFloats), __builtin_convertvector(last_error, HalfFloats));
    result |= (error != 0) & 1;
    constexpr int32_t kHalfOfLeastF16 = (kBias - 25) << kFractionBits;
    result &= (result & INT32_MAX) > kHalfOfLeastF16;
  }
  return result;
}

// Forms the sums.
template <uint32_t kDepth, SumResult kResult>
[[gnu::always_inline]] inline void add_products(const double* a, const double* b, const Block& block,
                                                Ints (&result)[kColumns][kVectors]) {
  alignas(64) Doubles sum[kColumns][2 * kVectors];
#pragma GCC unroll 4
  for (uint32_t n = 0; n < kColumns; ++n) {
#pragma GCC unroll 2
    for (uint32_t i = 0; i < kVectors; ++i) {
      const Ints lost = block.lost[n][i], start = block.start[n][i];
      const HalfFloats* const c = reinterpret_cast<const HalfFloats*>(&block.addend[n][i]);
      sum[n][2 * i] = interleave_first(lost, start) + widen(c[0]);
      sum[n][2 * i + 1] = interleave_last(lost, start) + widen(c[1]);
    }
  }
  for (uint32_t k = 0; k < kDepth; ++k) {
    alignas(64) Doubles rows[2 * kVectors];
#pragma GCC unroll 4
    for (uint32_t i = 0; i < 2 * kVectors; ++i) {
      rows[i] = *reinterpret_cast<const Doubles*>(a + k * kPanelLanes + i * kHalf);
    }
#pragma GCC unroll 4
    for (uint32_t n = 0; n < kColumns; ++n) {
      const Doubles factor = broadcast(b[n * kDepth + k]);
#pragma GCC unroll 4
      for (uint32_t i = 0; i < 2 * kVectors; ++i) sum[n][i] = multiply_add(rows[i], factor, sum[n][i]);
    }
  }
#pragma GCC unroll 4
  for (uint32_t n = 0; n < kColumns; ++n) {
#pragma GCC unroll 2
    for (uint32_t i = 0; i < kVectors; ++i) {
      const Ints start = block.start[n][i];
      result[n][i] = round_sums<kResult>(sum[n][2 * i] - interleave_first(Ints{}, start),
                                         sum[n][2 * i + 1] - interleave_last(Ints{}, start));
    }
  }
}

// Computes the sums that do not fit.
template <uint32_t kDepth>
[[gnu::noinline]] void add_unfit(const FusedOperands& operands, const Block& block,
                                 Ints (&result)[kColumns][kVectors]) {
  for (uint32_t n = 0; n < kColumns; ++n) {
    for (uint32_t row = 0; row < kRows; ++row) {
      const uint32_t i = row / kWidth, lane = row % kWidth;
      if (block.start[n][i][lane] <= start_for(kMostAligned, operands.shape.sum)) continue;
      const float c = operands.shape.accumulate ? block.cells[i][n * kPanelLanes + lane] : 0.0f;
      const float sum = fused_sum(block.a + row, kPanelLanes, block.b + n * kDepth, 1, kDepth, c, operands.shape.sum);
      result[n][i][lane] = static_cast<int32_t>(Pattern{.value = sum}.bits);
    }
  }
}

template <uint32_t kDepth, SumResult kResult>
void multiply_depth(const FusedOperands& operands, const WideOperands& prepared, float* d, const FusedPart& part) {
  const uint32_t last_column = part.n + part.columns, last_row = part.m + part.rows;
  for (uint32_t column = part.n; column < last_column; column += kColumns) {
    for (uint32_t row = part.m; row < last_row; row += kRows) {
      Block block;
      block.a = operands.a + row;
      block.b = operands.b + column * kDepth;
      for (uint32_t i = 0; i < kVectors; ++i) {
        const uint32_t first = row + i * kWidth;
        block.cells[i] = d + column * kPanelLanes + first + first / 16 * operands.shape.lane_gap;
      }
      align_products<kDepth>(prepared.a_exponents + row, prepared.b_exponents + column * kDepth, prepared.base, block);
      align_addend(operands, block);
      count_lost_bits<kDepth>(prepared, row, column, block);
      alignas(64) Ints result[kColumns][kVectors];
      add_products<kDepth, kResult>(prepared.a_doubles + row, prepared.b_doubles + column * kDepth, block, result);
      if (block.is_unfit) add_unfit<kDepth>(operands, block, result);
      for (uint32_t n = 0; n < kColumns; ++n) {
        for (uint32_t i = 0; i < kVectors; ++i) {
          *reinterpret_cast<LooseInts*>(block.cells[i] + n * kPanelLanes) = result[n][i];
        }
      }
    }
  }
}

template <SumResult kResult>
void multiply_part(const FusedOperands& operands, const WideOperands& prepared, float* d, const FusedPart& part) {
  switch (operands.shape.k) {
    case 8: return multiply_depth<8, kResult>(operands, prepared, d, part);
    case 16: return multiply_depth<16, kResult>(operands, prepared, d, part);
    default: return multiply_depth<32, kResult>(operands, prepared, d, part);
  }
}

}  // namespace

// Not inlined: it has much on the stack, which compilers touch page by page.
[[gnu::noinline]] bool multiply_wide(const FusedOperands& operands, float* d, const FusedPart* parts, uint32_t count) {
  WideOperands prepared;
  if (!prepare_wide(operands, prepared)) return false;
  for (uint32_t i = 0; i < count; ++i) {
    switch (operands.shape.sum.result) {
      case SumResult::f32: multiply_part<SumResult::f32>(operands, prepared, d, parts[i]); break;
      case SumResult::f32_13bits: multiply_part<SumResult::f32_13bits>(operands, prepared, d, parts[i]); break;
      case SumResult::odd: multiply_part<SumResult::odd>(operands, prepared, d, parts[i]); break;
    }
  }
  return true;
}

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
