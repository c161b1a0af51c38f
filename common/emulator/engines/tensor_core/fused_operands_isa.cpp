// What the operands of a fused sum have in common, and what its arithmetic needs of each element.
#include "emulator/engines/tensor_core/fused_panels.hpp"
#include "emulator/engines/tensor_core/fused_vectors.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

constexpr int kMostSpread = 63;  // of exponents, so that the sum of two bytes fits a byte
constexpr int kMostBits = 10;    // after the point of an operand's significand
// Exponents for which a bound of exact sums is a normal number.
constexpr int kLeastAligned = -100, kMostAligned = 120;
constexpr int kLastOfF32 = -149;
constexpr int kLeastNarrow = -100;  // of products, so that what is kept of them are multiples of a normal number

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
    if (most == 0) return {0, 0, 0, true, true};  // only zeros: as if all were 1
    const int low = static_cast<int>((~not_least + 1) >> 24), high = static_cast<int>(most >> 24);
    const int bits = kFractionBits + 1 - __builtin_ctz(all);  // of the fractions, together
    return {low - kBias, high - kBias, low - kBias - bits, low > 0 && high < 255, high < 255};
  }

 private:
  Words all_{}, most_{}, not_least_{};  // the last is the complement of the least
};

// Returns the exponents of values from their bits: that of `least` is 64, and of a zero 0.
[[gnu::always_inline]] inline Ints exponents_of(Ints bits, int least_kept, int least) {
  const Ints exponent = larger(((bits >> kFractionBits) & 255) - kBias, Ints{} + least_kept);
  return (exponent - (least - kLeastByte)) & ((bits & INT32_MAX) != 0);
}

// Returns the exponents of the last bits of values that are not zero: that of 2^last is -64.
[[gnu::always_inline]] inline Ints last_bits_of(Ints bits, int last) {
  const Ints field = (bits >> kFractionBits) & 255;
  const Ints significand = (bits & 0x7fffff) | ((field != 0) & 0x800000);
  const Ints trailing = (Ints) __builtin_convertvector(significand & -significand, Floats) >> kFractionBits;
  return larger(field, Ints{} + 1) + trailing - (2 * kBias + kFractionBits + last - kLeastLast);
}

// Returns each byte in all four bytes of a word.
[[gnu::always_inline]] inline Ints four_times(Ints byte) {
  const Ints twice = byte | byte << 8;
  return twice | twice << 16;
}

int bits_for(uint32_t count) {
  int bits = 0;
  while ((1u << bits) < count) ++bits;
  return bits;
}

// Widens two halves of a vector.
[[gnu::always_inline]] inline void write_doubles(const float* values, double* doubles) {
  for (uint32_t i = 0; i < kWidth; i += kHalf) {
    *reinterpret_cast<Doubles*>(doubles + i) = widen(*reinterpret_cast<const HalfFloats*>(values + i));
  }
}

void prepare_a(const FusedOperands& operands, int least, WideOperands& prepared) {
  const MultiplyShape& shape = operands.shape;
  const auto store = [](int8_t* to, Ints value) {
    *reinterpret_cast<SignedBytes*>(to) = __builtin_convertvector(value, SignedBytes);
  };
  const Ints never = Ints{} + kNotCounted;
  for (uint32_t k = 0; k < shape.k; ++k) {
    for (uint32_t m = 0; m < shape.m; m += kWidth) {
      const uint32_t at = k * kPanelLanes + m;
      const Ints bits = load_ints(operands.a + at), last = last_bits_of(bits, operands.in_a.last);
      const Ints exponents = exponents_of(bits, shape.sum.a_least, least);
      store_bytes(prepared.a_exponents + at, exponents);
      store(prepared.a_last_bits + at, select((bits < 0) & (bits != INT32_MIN), last, never));
      store(prepared.a_last_bits + kPositiveRows + at, select(bits > 0, last, never));
      store(prepared.a_last_bits + kNoRows + at, never);
      write_doubles(operands.a + at, prepared.a_doubles + at);
    }
  }
}

void prepare_b(const FusedOperands& operands, int least, WideOperands& prepared) {
  const MultiplyShape& shape = operands.shape;
  const auto store = [](uint32_t* to, Ints value) { *reinterpret_cast<LooseWords*>(to) = (Words)value; };
  for (uint32_t i = 0; i < shape.n * shape.k; i += kWidth) {
    const Ints bits = load_ints(operands.b + i), is_zero = (bits & INT32_MAX) == 0;
    store(prepared.b_exponents + i, four_times(exponents_of(bits, shape.sum.b_least, least)));
    store(prepared.b_last_bits + i, four_times(last_bits_of(bits, operands.in_b.last) & 255 & ~is_zero));
    // A product is negative if its factors' signs differ.
    store(prepared.b_rows + i, select(is_zero, Ints{} + kNoRows, (bits < 0) & kPositiveRows));
    write_doubles(operands.b + i, prepared.b_doubles + i);
  }
}

/// The exponents of the least elements.
struct Least {
  int a, b;
};

// Returns false if the operands fit no vectors.
bool find_least(const FusedOperands& operands, uint32_t most_depth, Least& least) {
  const MultiplyShape& shape = operands.shape;
  const Range &a = operands.in_a, &b = operands.in_b;
  least.a = a.least > shape.sum.a_least ? a.least : shape.sum.a_least;
  least.b = b.least > shape.sum.b_least ? b.least : shape.sum.b_least;
  const bool depth_fits = (shape.k == 8 || shape.k == 16 || shape.k == 32 || shape.k == 64) && shape.k <= most_depth;
  const bool range_fits = a.most - least.a <= kMostSpread && b.most - least.b <= kMostSpread &&
                          a.most - a.last <= kMostSpread + kMostBits && b.most - b.last <= kMostSpread + kMostBits;
  return depth_fits && range_fits && a.is_finite && b.is_finite;
}

}  // namespace

void examine(FusedOperands& operands) {
  const MultiplyShape& shape = operands.shape;
  RangeFinder in_a, in_b;
  for (uint32_t k = 0; k < shape.k; ++k) in_a.add(operands.a + k * kPanelLanes, shape.m);
  in_b.add(operands.b, shape.n * shape.k);
  const Range a = operands.in_a = in_a.range(), b = operands.in_b = in_b.range();
  // A quarter of what fits is left to C and to the sum.
  const int width = shape.sum.fraction_bits < kFractionBits ? shape.sum.fraction_bits - 1 : 22;
  // A sum that rounds to zero as f16 is zero without a sign.
  constexpr int kLeastF16 = -24;
  const int last = a.last + b.last, most = last + width;
  const int least = shape.sum.result == SumResult::odd ? kLeastF16 : kLeastAligned;
  operands.exact = a.is_normal && b.is_normal && a.most + b.most + 2 + bits_for(shape.k) <= most && last >= least &&
                   most < kMostAligned;
  if (!operands.exact) return;
  operands.bound = power_of_two(most);
  operands.rounder = 1.5f * power_of_two(last + kFractionBits);
}

bool prepare_narrow(const FusedOperands& operands, NarrowOperands& prepared) {
  const MultiplyShape& shape = operands.shape;
  Least least;
  if (!find_least(operands, kNarrowDepth, least)) return false;
  const Range &a = operands.in_a, &b = operands.in_b;
  const bool is_exact = a.last + b.last >= kLastOfF32 && a.most + b.most <= kMostAligned - 2;
  if (!is_exact || least.a + least.b < kLeastNarrow) return false;
  prepared.base = least.a + least.b - 2 * kLeastByte;
  for (uint32_t k = 0; k < shape.k; ++k) {
    for (uint32_t m = 0; m < shape.m; m += kWidth) {
      const uint32_t at = k * kPanelLanes + m;
      store_bytes(prepared.a_exponents + at, exponents_of(load_ints(operands.a + at), shape.sum.a_least, least.a));
    }
  }
  for (uint32_t i = 0; i < shape.n * shape.k; i += kWidth) {
    const Ints exponents = exponents_of(load_ints(operands.b + i), shape.sum.b_least, least.b);
    *reinterpret_cast<LooseWords*>(prepared.b_exponents + i) = (Words)four_times(exponents);
  }
  return true;
}

bool prepare_wide(const FusedOperands& operands, WideOperands& prepared) {
  Least least;
  if (!find_least(operands, kFusedDepth, least)) return false;
  prepared.base = least.a + least.b - 2 * kLeastByte;
  prepare_a(operands, least.a, prepared);
  prepare_b(operands, least.b, prepared);
  return true;
}

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
