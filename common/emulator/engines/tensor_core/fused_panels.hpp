// The fused sums of fused_sum.hpp for panels, compiled for several levels of the host's instruction set. Only files of
// the same level include this.
#pragma once

#include <cstdint>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/host/isa_level.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {

inline constexpr uint32_t kFusedDepth = 32;   ///< most elements along K of one fused sum that vectors compute
inline constexpr uint32_t kNarrowDepth = 64;  ///< the same in fixed point, of 8-bit elements with a sparse A
inline constexpr uint32_t kFusedColumns = 256;

/// What the values of a panel have in common.
struct OperandRange {
  int least = 0, most = 0;  ///< exponents of what is not zero
  int last = 0;             ///< all values are multiples of 2^last
  bool is_normal = false;   ///< no value is subnormal, infinite or not-a-number
  bool is_finite = false;
};

/// The operands of one instruction.
struct FusedOperands {
  FusedOperands(const float* a, const float* b, const MultiplyShape& shape) : a(a), b(b), shape(shape) {}

  const float* a;  ///< [k][128]
  const float* b;  ///< [n][shape.k]
  MultiplyShape shape;

  /// Whether plain fp32 sums are exact, and so equal to fused ones, if all values that are added to are at most `bound`
  /// in magnitude and do not change when `rounder` is added and subtracted again.
  bool exact = false;
  float bound = 0, rounder = 0;

  OperandRange in_a, in_b;

  /// Exponents that are added to those of a row's (column's) elements; perhaps null.
  const int32_t* a_scales = nullptr;
  const int32_t* b_scales = nullptr;
};

/// Part of D.
struct FusedPart {
  uint16_t m, rows;     ///< multiples of a block's two vectors
  uint16_t n, columns;  ///< multiples of 4
};

// The exponent of a product is the sum of its factors' exponents, and so is that of its last bit. Both are added as
// bytes. The byte of an exponent is 64 for the least of the operand, and 0 for zero, so that of a product that is not
// zero is at least 128.
inline constexpr int kLeastByte = 64;
// The byte of a last bit is -64 for 2^last. The sum of two is at most 18, unless one of them is that of a factor whose
// product is not counted.
inline constexpr int kLeastLast = -64, kNotCounted = 100, kMostCut = 36;

inline constexpr uint32_t kMostByteRows = 64;  ///< rows whose bytes are read at once, perhaps after the last

/// What sums in fixed point need besides the elements (fused_narrow_isa.cpp).
struct NarrowOperands {
  int base;  ///< the exponent of a product is this and its byte
  alignas(64) uint8_t a_exponents[kNarrowDepth * kPanelLanes + kMostByteRows];
  alignas(64) uint32_t b_exponents[kFusedColumns * kNarrowDepth];  ///< each in all four bytes
};

/// Distances in `WideOperands::a_last_bits` to what is for positive elements of A, and for none.
inline constexpr uint32_t kPositiveRows = kFusedDepth * kPanelLanes, kNoRows = 2 * kPositiveRows;

/// What sums in doubles need of each element (fused_wide_isa.cpp).
struct WideOperands {
  int base;  ///< the exponent of a product is this and its byte
  alignas(64) uint8_t a_exponents[kFusedDepth * kPanelLanes];
  alignas(64) uint32_t b_exponents[kFusedColumns * kFusedDepth];  ///< each in all four bytes
  alignas(64) int8_t a_last_bits[3 * kFusedDepth * kPanelLanes];  ///< of negative, of positive and of no elements
  alignas(64) uint32_t b_last_bits[kFusedColumns * kFusedDepth];  ///< each in all four bytes
  /// Elements of A with which the product is negative: a distance in `a_last_bits`.
  alignas(64) uint32_t b_rows[kFusedColumns * kFusedDepth];
  alignas(64) double a_doubles[kFusedDepth * kPanelLanes];
  alignas(64) double b_doubles[kFusedColumns * kFusedDepth];
};

/// Finds the ranges of the operands, and whether plain sums are exact.
void examine(FusedOperands& operands);

/// Prepares the operands for vectors. Returns false if they do not fit: their exponents differ by more than 63, or some
/// are infinities or not-a-number, or K is not 8, 16 or 32, or in fixed point 64; or, for fixed point, products are not
/// those of fp32.
bool prepare_narrow(const FusedOperands& operands, NarrowOperands& prepared);
bool prepare_wide(const FusedOperands& operands, WideOperands& prepared);

/// D (+)= A * B for some parts of D. Both return false, and do nothing, if the operands do not fit. The processor must
/// round towards zero.
bool multiply_narrow(const FusedOperands& operands, float* d, const FusedPart* parts, uint32_t count);
bool multiply_wide(const FusedOperands& operands, float* d, const FusedPart* parts, uint32_t count);

/// Does the same without scale factors for all operands that were examined, and in any rounding mode.
void multiply_fused(const FusedOperands& operands, float* d, const FusedPart* parts, uint32_t count);

/// `PanelKernels::multiply_scaled`, and its part for the kinds that add groups first.
void multiply_scaled(void* d, const float* a, const float* b, const MultiplyShape& shape, const BlockScales& scales);
void multiply_groups(float* d, const float* a, const float* b, const MultiplyShape& shape, const BlockScales& scales);

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
