// The fused sums of operands whose products fp32 holds exactly. This file is compiled once per level, so nothing here
// may call an inline function of another header (host/isa_level.hpp), except the compiler's intrinsics, which are
// always inlined.
//
// Sums are formed in integers of 32 bits, in units of the last bit that is kept: a product is scaled by a power of two,
// and its conversion drops what is after that bit, as the chip does. The largest exponent of an element's products is
// found with bytes, for many rows at once: exponents of products are sums of those of the factors. Few elements do not
// fit, such as those with infinities in C, and are left to `fused_sum`.
#include "emulator/engines/tensor_core/fused_panels.hpp"
#include "emulator/engines/tensor_core/fused_terms.hpp"
#include "emulator/engines/tensor_core/fused_vectors.hpp"
#include "emulator/engines/tensor_core/scaled_sum.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

// A block of D, of vectors of rows.
constexpr uint32_t kColumns = STAGECRAFT_ISA_LEVEL == 4 ? 4 : 2, kVectors = kRows / kWidth;
constexpr uint32_t kByteRows = 2 * kRows;
static_assert(kByteRows <= kMostByteRows);

template <uint32_t kDepth>
constexpr uint32_t kChunks = kDepth > kTermsOfInts ? kDepth / kTermsOfInts : 1;

constexpr uint8_t kNoProducts = 2 * kLeastByte - 1;  // a byte that is below those of products

struct Block {
  const float* a;            ///< its rows, at the first k
  const float* b;            ///< its columns, at the first k
  float* cells[kVectors];    ///< of its first column
  const uint8_t* exponents;  ///< [column][kByteRows]: of the largest product's exponent, less kNoProducts; or 0
  int base;                  ///< to be added to it
  uint32_t row, column;      ///< of its first element
};

// Finds the largest exponents of products.
template <uint32_t kDepth>
[[gnu::always_inline]] inline void find_largest(const uint8_t* a, const uint32_t* b, uint8_t* exponents) {
  alignas(64) WideBytes largest[kColumns];
  for (uint32_t n = 0; n < kColumns; ++n) largest[n] = WideBytes{} + kNoProducts;
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kDepth; ++k) {
    const WideBytes factor = *reinterpret_cast<const WideBytes*>(a + k * kPanelLanes);
#pragma GCC unroll 4
    for (uint32_t n = 0; n < kColumns; ++n) {
      largest[n] = larger(largest[n], factor + (WideBytes)(WideWords{} + b[n * kDepth + k]));
    }
  }
  for (uint32_t n = 0; n < kColumns; ++n) {
    *reinterpret_cast<WideBytes*>(exponents + n * kByteRows) = largest[n] - kNoProducts;
  }
}

[[gnu::always_inline]] inline Ints addend(const FusedOperands& operands, const Block& block, uint32_t n, uint32_t i) {
  return operands.shape.accumulate ? load_ints(block.cells[i] + n * kPanelLanes) : Ints{};
}

// Adds products in units. Not inlined: with what surrounds it, compilers do not keep all sums in registers.
template <uint32_t kDepth>
[[gnu::noinline]] void add_products(const float* a, const float* b, const Floats (&scale)[kColumns][kVectors],
                                    Ints (&sums)[kChunks<kDepth>][kColumns][kVectors]) {
  constexpr uint32_t kCount = kDepth / kChunks<kDepth>;
  for (uint32_t chunk = 0; chunk < kChunks<kDepth>; ++chunk) {
    alignas(64) Ints sum[kColumns][kVectors] = {};
    for (uint32_t k = chunk * kCount; k < (chunk + 1) * kCount; ++k) {
#pragma GCC unroll 4
      for (uint32_t n = 0; n < kColumns; ++n) {
        const float factor = b[n * kDepth + k];
#pragma GCC unroll 2
        for (uint32_t i = 0; i < kVectors; ++i) {
          const Floats row = load_floats(a + k * kPanelLanes + i * kWidth);
          sum[n][i] = add(sum[n][i], whole(row * factor * scale[n][i]));
        }
      }
    }
#pragma GCC unroll 4
    for (uint32_t n = 0; n < kColumns; ++n) {
#pragma GCC unroll 2
      for (uint32_t i = 0; i < kVectors; ++i) sums[chunk][n][i] = sum[n][i];
    }
  }
}

// Computes the sums of a vector that do not fit.
[[gnu::noinline]] void add_unfit(const FusedOperands& operands, const Block& block, uint32_t n, uint32_t i,
                                 const Ints& unfit, Ints& result) {
  const MultiplyShape& shape = operands.shape;
  for (uint32_t lane = 0; lane < kWidth; ++lane) {
    if (unfit[lane] == 0) continue;
    const float c = shape.accumulate ? block.cells[i][n * kPanelLanes + lane] : 0.0f;
    const float* const a = block.a + i * kWidth + lane;
    const float* const b = block.b + n * shape.k;
    float sum;
    if (operands.a_scales == nullptr) {
      sum = fused_sum(a, kPanelLanes, b, 1, shape.k, c, shape.sum);
    } else {
      const uint32_t row = block.row + i * kWidth + lane, column = block.column + n;
      sum = scaled_products({a, kPanelLanes, shape.sum.a_least, operands.a_scales[row]},
                            {b, 1, shape.sum.b_least, operands.b_scales[column]}, shape.k, c);
    }
    result[lane] = static_cast<int32_t>(Pattern{.value = sum}.bits);
  }
}

// Returns the exponents of scale factors.
[[gnu::always_inline]] inline Ints scales_of(const FusedOperands& operands, const Block& block, uint32_t n,
                                             uint32_t i) {
  return *reinterpret_cast<const LooseInts*>(operands.a_scales + block.row + i * kWidth) +
         operands.b_scales[block.column + n];
}

template <uint32_t kDepth, SumResult kResult, bool kScaled>
[[gnu::always_inline]] inline void multiply_block(const FusedOperands& operands, const Block& block) {
  const int kept = operands.shape.sum.fraction_bits;
  alignas(64) Floats scale[kColumns][kVectors];
  alignas(64) Ints exponents[kColumns][kVectors];
  for (uint32_t n = 0; n < kColumns; ++n) {
    for (uint32_t i = 0; i < kVectors; ++i) {
      const Ints of_products = load_bytes(block.exponents + n * kByteRows + i * kWidth) + block.base;
      const Ints of_c = (addend(operands, block, n, i) >> kFractionBits) & 255;
      if constexpr (kScaled) {
        const Ints added = scales_of(operands, block, n, i);
        exponents[n][i] = larger(of_products + added, of_c);
        // What is much smaller than C vanishes, however much smaller it is.
        scale[n][i] = powers(larger(2 * kBias + kept - exponents[n][i] + added, Ints{} + 1));
      } else {
        exponents[n][i] = larger(of_products, of_c);
        scale[n][i] = scale_for(exponents[n][i], kept);
      }
    }
  }
  alignas(64) Ints sums[kChunks<kDepth>][kColumns][kVectors];
  add_products<kDepth>(block.a, block.b, scale, sums);
#pragma GCC unroll 4
  for (uint32_t n = 0; n < kColumns; ++n) {
#pragma GCC unroll 2
    for (uint32_t i = 0; i < kVectors; ++i) {
      const Ints c = addend(operands, block, n, i), exponent = exponents[n][i];
      alignas(64) Ints terms[kChunks<kDepth> + 1];
      for (uint32_t chunk = 0; chunk < kChunks<kDepth>; ++chunk) terms[chunk] = sums[chunk][n][i];
      terms[kChunks<kDepth>] = whole((Floats)c * scale_for(exponent, kept));
      const Ints no_products = load_bytes(block.exponents + n * kByteRows + i * kWidth) == 0;
      Ints unfit;
      Ints rounded = round_terms<kResult>(terms, c, exponent, no_products, kept, unfit);
      // Rows and columns that fill up a tile have the least scale factor, and zeros.
      if constexpr (kScaled) unfit |= (exponent < kLeastExponent) & ~no_products;
      if (any(unfit)) [[unlikely]] {
        add_unfit(operands, block, n, i, unfit, rounded);
      }
      *reinterpret_cast<LooseInts*>(block.cells[i] + n * kPanelLanes) = rounded;
    }
  }
}

template <uint32_t kDepth, SumResult kResult, bool kScaled = false>
void multiply_depth(const FusedOperands& operands, const NarrowOperands& prepared, float* d, const FusedPart& part) {
  const uint32_t last_column = part.n + part.columns, last_row = part.m + part.rows;
  alignas(64) uint8_t exponents[kColumns * kByteRows];
  for (uint32_t column = part.n; column < last_column; column += kColumns) {
    for (uint32_t group = part.m; group < last_row; group += kByteRows) {
      find_largest<kDepth>(prepared.a_exponents + group, prepared.b_exponents + column * kDepth, exponents);
      const uint32_t end = group + kByteRows < last_row ? group + kByteRows : last_row;
      for (uint32_t row = group; row < end; row += kRows) {
        Block block;
        block.a = operands.a + row;
        block.b = operands.b + column * kDepth;
        for (uint32_t i = 0; i < kVectors; ++i) {
          const uint32_t first = row + i * kWidth;
          block.cells[i] = d + column * kPanelLanes + first + first / 16 * operands.shape.lane_gap;
        }
        block.exponents = exponents + (row - group);
        block.row = row;
        block.column = column;
        block.base = prepared.base + kBias + kNoProducts;
        multiply_block<kDepth, kResult, kScaled>(operands, block);
      }
    }
  }
}

template <SumResult kResult>
void multiply_part(const FusedOperands& operands, const NarrowOperands& prepared, float* d, const FusedPart& part) {
  switch (operands.shape.k) {
    case 8: return multiply_depth<8, kResult>(operands, prepared, d, part);
    case 16: return multiply_depth<16, kResult>(operands, prepared, d, part);
    case 64: return multiply_depth<64, kResult>(operands, prepared, d, part);
    default: return multiply_depth<32, kResult>(operands, prepared, d, part);
  }
}

}  // namespace

// Not inlined: it has much on the stack, which compilers touch page by page.
[[gnu::noinline]] bool multiply_narrow(const FusedOperands& operands, float* d, const FusedPart* parts,
                                       uint32_t count) {
  NarrowOperands prepared;
  if (!prepare_narrow(operands, prepared)) return false;
  for (uint32_t i = 0; i < count; ++i) {
    if (operands.a_scales != nullptr) {
      if (operands.shape.k == 64) {
        multiply_depth<64, SumResult::f32, true>(operands, prepared, d, parts[i]);
      } else {
        multiply_depth<32, SumResult::f32, true>(operands, prepared, d, parts[i]);
      }
      continue;
    }
    switch (operands.shape.sum.result) {
      case SumResult::f32: multiply_part<SumResult::f32>(operands, prepared, d, parts[i]); break;
      case SumResult::f32_13bits: multiply_part<SumResult::f32_13bits>(operands, prepared, d, parts[i]); break;
      case SumResult::odd: multiply_part<SumResult::odd>(operands, prepared, d, parts[i]); break;
    }
  }
  return true;
}

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
