// The table of arithmetic handlers: the vector files fill it, and the translators read it.
//
// The handlers are compiled once per x86-64 level; the table is filled from the best level that this processor has.
#pragma once

#include <cstdint>

#include "emulator/ptx/module.hpp"
#include "emulator/state/op.hpp"

namespace stagecraft::emulator::machine::alu {

/// The two handlers of one operation on one type: for a warp with all lanes active, and for any other mask.
struct Handlers {
  Handler full = nullptr;
  Handler masked = nullptr;
};

/// The operation of a handler. Its operands are `Op::a`, `b`, `c` in the order of the PTX instruction (a fourth source
/// is the offset in `Op::immediate`), unless a comment says otherwise.
enum class Operation : uint8_t {
  // Integer. `mul_wide` and `mad_wide` are named by the type of the narrow operands.
  add,
  sub,
  add_saturate,
  sub_saturate,
  mul_lo,
  mul_hi,
  mul_wide,
  mad_lo,
  mad_hi,
  mad_hi_saturate,
  mad_wide,
  mul24_lo,
  mul24_hi,
  mad24_lo,
  mad24_hi,
  mad24_hi_saturate,
  divide,
  remainder,
  absolute,
  negate,
  minimum,
  maximum,
  minimum_relu,
  maximum_relu,
  sad,
  dp4a,  ///< variant: bit 0 a is signed, bit 1 b is signed
  dp2a,  ///< variant: as dp4a, bit 2 takes the upper half of b
  // With the carry flag, whose offset is `immediate` (low half). Variant: bit 0 reads the flag, bit 1 writes it.
  add_carry,
  sub_carry,
  mad_lo_carry,
  mad_hi_carry,
  // Bits.
  bit_and,
  bit_or,
  bit_xor,
  bit_not,
  logical_not,
  lop3,  ///< immediate: the look-up table
  shift_left,
  shift_right,
  funnel_left,   ///< variant: 1 wraps the shift amount
  funnel_right,  ///< variant: 1 wraps the shift amount
  permute,       ///< variant: Permutation
  population,
  leading_zeros,
  find_leading,  ///< variant: 1 returns the shift amount
  reverse,
  extract_field,
  insert_field,
  field_mask,   ///< variant: 1 wraps
  sign_extend,  ///< variant: 1 wraps
  find_nth_set,
  // Comparison into a predicate. `immediate` is a ComparisonTail; b16, b32, b64 are named by the unsigned type.
  compare_eq,
  compare_ne,
  compare_lt,
  compare_le,
  compare_number,  ///< floating: neither is NaN; f16x2 and bf16x2 take the upper half as second result
  // Comparison of packed halves into 16-bit masks; variant 1 flushes subnormals; immediate: value << 16 | flip.
  mask_eq,
  mask_ne,
  mask_lt,
  mask_le,
  mask_number,
  test_property,    ///< variant: finite, infinite, number, notanumber, normal, subnormal, from 0
  select,           ///< a where the predicate c (xor the low half of immediate) is true, otherwise b
  predicate_logic,  ///< immediate: flip of a in the low half, the rest as ComparisonTail
  copy_sign,
  // Floating point. Variant: a set of Rounding flags.
  multiply,
  multiply_add,
  reciprocal,
  square_root,
  reciprocal_root,
  divide_approximate,
  divide_full,
  reciprocal_approximate,
  root_approximate,
  reciprocal_gross,
  reciprocal_root_gross,
  sine,
  cosine,
  logarithm2,
  exponential2,
  hyperbolic_tangent,
  minimum3,
  maximum3,
  // Conversions. The variant of a conversion is its source type, with the RoundingMode in bits 8 and 9; where
  // the destination is f32 or f64, `zero` stands for every directed mode, which is then in the immediate.
  extend,            ///< variant: source lane bytes | destination lane bytes << 4; the type is that of the value
  clamp_integer,     ///< 64-bit lanes; immediate: highest value; bit 63 set if the lowest is -highest - 1, not 0
  integer_to_float,  ///< from 32- and 64-bit integers
  float_to_integer,  ///< from f32 and f64; integers below 32 bits come as 32-bit lanes
  float_to_float,
  round_to_integral,  ///< variant: RoundingMode
  odd_float,          ///< f64 to f32, rounded to odd
  flush,
  saturate,
  clamp_magnitude,  ///< immediate: the largest magnitude, as bits of an f32
  relu,
  to_tf32,      ///< variant: 0 to nearest even, 1 to nearest with ties away from zero, 2 toward zero
  pack_halves,  ///< variant: RoundingMode
  // Formats below 16 bits; the variant is the NarrowFormat, the immediate NarrowFlags.
  narrow_pair,        ///< two f32, the first to the upper half
  narrow_halves,      ///< f16x2
  widen_pair,         ///< to f16x2
  stochastic_pair,    ///< two of four f32, and a word of random bits; immediate: 1 if they go to the upper half
  stochastic_halves,  ///< two f32 and a word of random bits to f16x2 or bf16x2
  scale_pair,         ///< two f32 to ue8m0x2
  widen_scale,        ///< ue8m0x2 to bf16x2
  pack_integers,  ///< cvt.pack; immediate: bits of a field, and bit 8 if signed; c is shifted up above the two fields
};

/// Bits of the variant of floating-point operations; the definition of an operation shows which of them it has.
enum Variant : uint16_t {
  kPlain = 0,
  kFlush = 1,     ///< .ftz
  kDirected = 2,  ///< rounded as the low two bits of `immediate` say (RoundingMode)
  kSaturate = 4,  ///< .sat
  kNan = 8,       ///< min, max: .NaN
  kXorSign = 16,  ///< min, max: .xorsign.abs
  kFlagged = 32,  ///< half precision: .ftz, .sat, .relu, .oob as in `immediate` (HalfFlag)
  kPair = 64,     ///< u16, s16: two to a 32-bit register
};

/// Rounding modes, with the numbers of the x86 control word.
enum class RoundingMode : uint8_t { nearest = 0, down = 1, up = 2, zero = 3 };

enum HalfFlag : uint64_t {
  kHalfFlush = 1,
  kHalfSaturate = 2,
  kHalfRelu = 4,
  kHalfOutOfBounds = 8,
  kHalfTowardZero = 64,  ///< bf16 fma: .rz
  kHalfNan = 16,         ///< min, max
  kHalfXorSign = 32,     ///< min, max
};

/// `Op::immediate` of a comparison: how its result is combined and where it goes.
///     bits 0-31   vector of the second destination, or kNoRegister
///     bits 32-33  0: none, 1: and, 2: or, 3: xor with the predicate at `Op::c`
///     bit 34      that predicate is negated
///     bit 35      the comparison itself is negated
enum ComparisonTail : uint64_t {
  kNoSecondDestination = 0xffffffffu,
  kCombineShift = 32,
  kNegatePredicate = uint64_t{1} << 34,
  kNegateComparison = uint64_t{1} << 35,
};

enum class NarrowFormat : uint16_t { e4m3, e5m2, e2m3, e3m2, e2m1 };
enum NarrowFlag : uint64_t { kNarrowRelu = 1, kNarrowUp = 2, kNarrowFinite = 4 };

/// Modes of prmt, used as the variant.
enum class Permutation : uint8_t { by_nibble, f4e, b4e, rc8, ecl, ecr, rc16 };

/// The handlers of one level, by operation, type and variant.
class Catalog {
 public:
  /// Adds handlers. Only the vector files call it; it is not inline, so that none of its code is compiled for a higher
  /// level.
  void put(Operation operation, ptx::Type type, uint16_t variant, Handlers handlers);
  /// Returns the handlers of a combination; null handlers when there is none.
  Handlers find(Operation operation, ptx::Type type, uint16_t variant = 0) const;
  size_t size() const;

  Catalog();
  ~Catalog();
  Catalog(const Catalog&) = delete;
  Catalog& operator=(const Catalog&) = delete;

 private:
  struct Table;
  Table* table_;
};

/// Returns the handlers of a level (1, 3 or 4, see isa_level.hpp), which must be built and which this processor must
/// have. They are made on first use and never freed.
const Catalog& catalog_of_level(int level);
/// Returns the handlers of `isa_level()`.
const Catalog& catalog();

}  // namespace stagecraft::emulator::machine::alu
