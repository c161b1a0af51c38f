// The sums of mxf4 and mxf4nvf4, as scaled_sum.hpp says. This file is compiled once per level, so nothing here may call
// an inline function of another header (host/isa_level.hpp), except the compiler's intrinsics, which are always
// inlined.
//
// The sum of a group's products is exact in fp32, with the significands of the scale factors too: elements are
// multiples of 1/2 up to 6, significands multiples of 1/8 below 2. It is aligned, and added to the others, in doubles.
#include "emulator/engines/tensor_core/fused_panels.hpp"
#include "emulator/engines/tensor_core/fused_terms.hpp"
#include "emulator/engines/tensor_core/scaled_sum.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

constexpr uint32_t kColumns = 4, kVectors = kRows / kWidth;
constexpr uint32_t kGroups = kScaledGroups;
constexpr int kKept = 35;
constexpr int kWideBias = 1023, kUpperFractionBits = 20;  // of a double, and of its upper word
constexpr int kMostAligned = 110;                         // so that no sum overflows

/// The operands, multiplied by the significands of their scale factors. A group spans kGroup elements along K.
template <uint32_t kGroup>
struct Operands {
  static constexpr uint32_t kDepth = kGroups * kGroup;

  Operands(const MultiplyShape& shape, const BlockScales& scales) : shape(shape), scales(scales) {}

  const MultiplyShape& shape;
  const BlockScales& scales;
  alignas(64) float a[kDepth * kPanelLanes];
  alignas(64) float b[kFusedColumns * kDepth];
  /// Bit i: whether element i of the group is not zero. A group without products aligns nothing.
  alignas(64) int32_t a_elements[kGroups * kPanelLanes];
  alignas(64) int32_t b_elements[kFusedColumns * kGroups];
};

template <uint32_t kGroup>
void scale(const float* a, const float* b, Operands<kGroup>& operands) {
  for (uint32_t k = 0; k < kGroups * kGroup; ++k) {
    const float* const significands = operands.scales.a_significands + k / kGroup * kPanelLanes;
    int32_t* const elements = operands.a_elements + k / kGroup * kPanelLanes;
    const int32_t others = k % kGroup == 0 ? 0 : -1;
    for (uint32_t m = 0; m < operands.shape.m; ++m) {
      const float element = a[k * kPanelLanes + m] * significands[m];
      operands.a[k * kPanelLanes + m] = element;
      elements[m] = (elements[m] & others) | int32_t{element != 0} << k % kGroup;
    }
  }
  for (uint32_t group = 0; group < operands.shape.n * kGroups; ++group) {
    const float significand = operands.scales.b_significands[group];
    int32_t elements = 0;
    for (uint32_t i = 0; i < kGroup; ++i) {
      const float element = b[group * kGroup + i] * significand;
      operands.b[group * kGroup + i] = element;
      elements |= int32_t{element != 0} << i;
    }
    operands.b_elements[group] = elements;
  }
}

// The processor rounds towards zero.
[[gnu::always_inline]] inline Doubles whole(Doubles values) {
#if STAGECRAFT_ISA_LEVEL == 4
  return (Doubles)_mm512_maskz_roundscale_pd(0xff, (__m512d)values, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#elif STAGECRAFT_ISA_LEVEL == 3
  return (Doubles)_mm256_round_pd((__m256d)values, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#else
  typedef int64_t Longs __attribute__((vector_size(8 * kHalf)));
  const Longs sign = (Longs)values & INT64_MIN;
  const Doubles magnitude = (Doubles)((Longs)values & INT64_MAX);
  return (Doubles)((Longs)((magnitude + 0x1p52) - 0x1p52) | sign);
#endif
}

/// A vector of sums.
struct Sum {
  alignas(64) Doubles halves[2] = {};

  // Adds what is kept of terms that are multiplied by 2^exponent.
  [[gnu::always_inline]] inline void add(const Floats& terms, Ints exponent) {
    const Ints upper = (exponent + kWideBias) << kUpperFractionBits;
    const HalfFloats* const half = reinterpret_cast<const HalfFloats*>(&terms);
    halves[0] += whole(widen(half[0]) * interleave_first(Ints{}, upper));
    halves[1] += whole(widen(half[1]) * interleave_last(Ints{}, upper));
  }
  [[gnu::always_inline]] inline Floats rounded(Ints exponent) const {
    const Ints upper = (exponent + kWideBias) << kUpperFractionBits;
    const Doubles first = halves[0] * interleave_first(Ints{}, upper);
    const Doubles last = halves[1] * interleave_last(Ints{}, upper);
    // What is rounded to zero loses its sign.
    return join(__builtin_convertvector(first, HalfFloats), __builtin_convertvector(last, HalfFloats)) + Floats{};
  }
};

struct Panels {
  const float* a;
  const float* b;
};

// Computes the sums of a vector that do not fit.
template <uint32_t kGroup>
[[gnu::noinline]] void add_unfit(const Operands<kGroup>& operands, const Panels& panels, uint32_t row, uint32_t column,
                                 const float* cells, const Ints& unfit, Floats& result) {
  const BlockScales& scales = operands.scales;
  for (uint32_t lane = 0; lane < kWidth; ++lane) {
    if (unfit[lane] == 0) continue;
    const uint32_t m = row + lane;
    result[lane] = scaled_groups({panels.a + m, scales.a_significands + m, scales.a_exponents + m, kPanelLanes},
                                 {panels.b + column * kGroups * kGroup, scales.b_significands + column * kGroups,
                                  scales.b_exponents + column * kGroups, 1},
                                 kGroups * kGroup, operands.shape.accumulate ? cells[lane] : 0.0f);
  }
}

// Adds the products of a group.
template <uint32_t kGroup>
[[gnu::always_inline]] inline void add_group(const float* a, const float* b, Floats (&sums)[kColumns][kVectors]) {
  alignas(64) Floats sum[kColumns][kVectors] = {};
  for (uint32_t k = 0; k < kGroup; ++k) {
#pragma GCC unroll 4
    for (uint32_t n = 0; n < kColumns; ++n) {
#pragma GCC unroll 2
      for (uint32_t i = 0; i < kVectors; ++i) {
        sum[n][i] = multiply_add(load_floats(a + k * kPanelLanes + i * kWidth), b[n * kGroups * kGroup + k], sum[n][i]);
      }
    }
  }
#pragma GCC unroll 4
  for (uint32_t n = 0; n < kColumns; ++n) {
#pragma GCC unroll 2
    for (uint32_t i = 0; i < kVectors; ++i) sums[n][i] = sum[n][i];
  }
}

template <uint32_t kGroup>
void multiply_block(const Operands<kGroup>& operands, const Panels& panels, uint32_t row, uint32_t column, float* d) {
  const BlockScales& scales = operands.scales;
  alignas(64) Floats groups[kGroups][kColumns][kVectors];
  for (uint32_t group = 0; group < kGroups; ++group) {
    const uint32_t first = group * kGroup;
    add_group<kGroup>(operands.a + first * kPanelLanes + row, operands.b + column * kGroups * kGroup + first,
                      groups[group]);
  }
  for (uint32_t n = 0; n < kColumns; ++n) {
    for (uint32_t i = 0; i < kVectors; ++i) {
      float* const cells = d + n * kPanelLanes + i * kWidth;
      const Ints c = operands.shape.accumulate ? load_ints(cells) : Ints{};
      const Ints of_c = larger((c >> kFractionBits) & 255, Ints{} + 1) - kBias, least = Ints{} + kLeastAligned;
      alignas(64) Ints aligned = select((c & INT32_MAX) != 0, of_c, least), exponents[kGroups];
      for (uint32_t group = 0; group < kGroups; ++group) {
        const uint32_t in_a = group * kPanelLanes + row + i * kWidth, in_b = (column + n) * kGroups + group;
        exponents[group] = *reinterpret_cast<const LooseInts*>(scales.a_exponents + in_a) + scales.b_exponents[in_b];
        const Ints products =
            *reinterpret_cast<const LooseInts*>(operands.a_elements + in_a) & operands.b_elements[in_b];
        const Ints aligns = (products != 0) | (exponents[group] >= kNoScale / 2);
        aligned = larger(aligned, select(aligns, exponents[group], least));
      }
      Sum sum;
      sum.add((Floats)c, kKept - aligned);
      for (uint32_t group = 0; group < kGroups; ++group) {
        sum.add(groups[group][n][i], exponents[group] + (kKept - aligned));
      }
      Floats result = sum.rounded(aligned - kKept);
      const Ints unfit = aligned > kMostAligned;
      if (any(unfit)) [[unlikely]] {
        add_unfit(operands, panels, row + i * kWidth, column + n, cells, unfit, result);
      }
      *reinterpret_cast<LooseFloats*>(cells) = result;
    }
  }
}

// Not inlined: it has much on the stack, which compilers touch page by page.
template <uint32_t kGroup>
[[gnu::noinline]] void multiply_groups_of(float* d, const float* a, const float* b, const MultiplyShape& shape,
                                          const BlockScales& scales) {
  Operands<kGroup> operands(shape, scales);
  scale(a, b, operands);
  for (uint32_t column = 0; column < shape.n; column += kColumns) {
    for (uint32_t row = 0; row < shape.m; row += kRows) {
      multiply_block(operands, {a, b}, row, column, d + column * kPanelLanes + row);
    }
  }
}

}  // namespace

void multiply_groups(float* d, const float* a, const float* b, const MultiplyShape& shape, const BlockScales& scales) {
  if (shape.k == kGroups * kScaledGroup) return multiply_groups_of<kScaledGroup>(d, a, b, shape, scales);
  multiply_groups_of<2 * kScaledGroup>(d, a, b, shape, scales);
}

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
