// The fused sums of mma.sync. This file is compiled once per level, so nothing here may call an inline function of
// another header (host/isa_level.hpp), except the compiler's intrinsics, which are always inlined.
//
// They are formed as in fused_narrow_isa.cpp. A tile is too small for tables of its elements' exponents: the largest
// exponent is found with products of powers of two.
#include "emulator/engines/tensor_core/fused_terms.hpp"
#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"
#include "emulator/host/rounding_scope.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {

bool multiply_fused_tile(const float* rows, const float* columns, uint32_t depth, const FusedSum& how, float* d);

namespace {

constexpr uint32_t kColumns = STAGECRAFT_ISA_LEVEL == 4 ? 8 : 4;
constexpr int32_t kInfinity = 255 << kFractionBits, kMagnitude = INT32_MAX;

/// Elements as powers of two: 0 for zero, and for numbers that are subnormal in their format its least normal one.
struct Powers {
  alignas(64) float values[kTermsOfInts * kFragmentRows];
  int least, most;  ///< exponents of those that are not zero
};

void find_powers(const float* values, uint32_t count, int least_normal, Powers& powers) {
  const Ints least_power = Ints{} + ((least_normal + kBias) << kFractionBits);
  Ints least = Ints{} + kMagnitude, most{};
  for (uint32_t i = 0; i < count; i += kWidth) {
    const Ints magnitude = load_ints(values + i) & kMagnitude, zero = magnitude == 0;
    const Ints power = larger(magnitude & kInfinity, least_power);
    least = smaller(least, power | (zero & kMagnitude));
    most = larger(most, power & ~zero);
    *reinterpret_cast<LooseInts*>(powers.values + i) = power & ~zero;
  }
  int32_t lowest = kMagnitude, highest = 0;
  for (uint32_t i = 0; i < kWidth; ++i) {
    if (least[i] < lowest) lowest = least[i];
    if (most[i] > highest) highest = most[i];
  }
  powers.least = highest == 0 ? 0 : (lowest >> kFractionBits) - kBias;
  powers.most = highest == 0 ? 0 : (highest >> kFractionBits) - kBias;
}

struct Tile {
  const float* rows;
  const float* columns;
  const float* row_powers;
  const float* column_powers;
  uint32_t depth;
  FusedSum sum;
};

// Computes the sums of a vector that do not fit.
[[gnu::noinline]] void add_unfit(const Tile& tile, const float* d, uint32_t row, uint32_t column, const Ints& unfit,
                                 Ints& result) {
  for (uint32_t lane = 0; lane < kWidth; ++lane) {
    if (unfit[lane] == 0) continue;
    const float sum = fused_sum(tile.rows + row + lane, kFragmentRows, tile.columns + column, kFragmentColumns,
                                tile.depth, d[lane], tile.sum);
    result[lane] = static_cast<int32_t>(Pattern{.value = sum}.bits);
  }
}

// Multiplies kWidth rows by kColumns columns.
template <SumResult kResult>
void multiply_block(const Tile& tile, uint32_t row, uint32_t column, float* d) {
  const int kept = tile.sum.fraction_bits;
  alignas(64) Ints largest[kColumns] = {};
  for (uint32_t k = 0; k < tile.depth; ++k) {
    const Floats power = load_floats(tile.row_powers + k * kFragmentRows + row);
    const float* const factors = tile.column_powers + k * kFragmentColumns + column;
#pragma GCC unroll 8
    for (uint32_t n = 0; n < kColumns; ++n) largest[n] = larger(largest[n], (Ints)(power * factors[n]));
  }
  alignas(64) Ints exponents[kColumns], sums[kColumns];
  alignas(64) Floats scale[kColumns];
#pragma GCC unroll 8
  for (uint32_t n = 0; n < kColumns; ++n) {
    const Ints c = load_ints(d + n * kFragmentRows) & kInfinity;
    exponents[n] = larger(larger(largest[n], c) >> kFractionBits, Ints{} + kLeastExponent);
    scale[n] = scale_for(exponents[n], kept);
    sums[n] = Ints{};
  }
  for (uint32_t k = 0; k < tile.depth; ++k) {
    const Floats values = load_floats(tile.rows + k * kFragmentRows + row);
    const float* const factors = tile.columns + k * kFragmentColumns + column;
#pragma GCC unroll 8
    for (uint32_t n = 0; n < kColumns; ++n) sums[n] = add(sums[n], whole(values * factors[n] * scale[n]));
  }
#pragma GCC unroll 8
  for (uint32_t n = 0; n < kColumns; ++n) {
    float* const cells = d + n * kFragmentRows;
    const Ints c = load_ints(cells);
    alignas(64) const Ints terms[] = {sums[n], whole((Floats)c * scale[n])};
    Ints unfit;
    Ints rounded = round_terms<kResult>(terms, c, exponents[n], largest[n] == 0, kept, unfit);
    if (any(unfit)) [[unlikely]] {
      add_unfit(tile, cells, row, column + n, unfit, rounded);
    }
    *reinterpret_cast<LooseInts*>(cells) = rounded;
  }
}

template <SumResult kResult>
void multiply_tile(const Tile& tile, float* d) {
  for (uint32_t row = 0; row < kFragmentRows; row += kWidth) {
    for (uint32_t column = 0; column < kFragmentColumns; column += kColumns) {
      multiply_block<kResult>(tile, row, column, d + column * kFragmentRows + row);
    }
  }
}

}  // namespace

bool multiply_fused_tile(const float* rows, const float* columns, uint32_t depth, const FusedSum& how, float* d) {
  if (depth > kTermsOfInts || how.result == SumResult::f32_13bits) return false;
  Powers row_powers, column_powers;
  find_powers(rows, depth * kFragmentRows, how.a_least, row_powers);
  find_powers(columns, depth * kFragmentColumns, how.b_least, column_powers);
  // Products are exact in fp32, because elements have at most 11 bits.
  if (row_powers.least + column_powers.least < kLeastExponent - kBias) return false;
  if (row_powers.most > kBias || column_powers.most > kBias) return false;  // infinite or not-a-number
  if (row_powers.most + column_powers.most > kMostExponent - kBias) return false;
  const Tile tile{rows, columns, row_powers.values, column_powers.values, depth, how};
  const RoundingScope rounding(RoundingScope::kTowardsZero);
  if (how.result == SumResult::f32) {
    multiply_tile<SumResult::f32>(tile, d);
  } else {
    multiply_tile<SumResult::odd>(tile, d);
  }
  return true;
}

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
