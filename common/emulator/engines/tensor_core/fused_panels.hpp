// The fused sums of fused_sum.hpp for panels, compiled for several levels of the host's instruction set. Only the file
// of the same level that has the functions of panel_kernels.hpp includes this.
#pragma once

#include <cstdint>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/host/isa_level.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {

inline constexpr uint32_t kFusedDepth = 32;  ///< most elements along K of one fused sum
inline constexpr uint32_t kFusedColumns = 256;

/// What the values of a panel have in common.
struct OperandRange {
  int least = 0, most = 0;  ///< exponents of what is not zero
  int last = 0;             ///< all values are multiples of 2^last
  bool is_normal = false;   ///< no value is subnormal, infinite or not-a-number
};

/// The operands of one instruction, as `multiply_fused` needs them.
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

  bool is_prepared = false;  ///< whether the following is set
  bool by_vectors = false;   ///< otherwise all elements are computed one by one
  int base = 0;              ///< the exponent of a product is this and its byte: the sum of its factors' bytes
  alignas(64) uint8_t a_exponents[kFusedDepth * kPanelLanes];
  alignas(64) uint32_t b_exponents[kFusedColumns * kFusedDepth];  ///< each in all four bytes
};

/// Finds out whether plain sums are exact.
void examine(FusedOperands& operands);

/// D (+)= A * B for `rows` rows from row m on (multiples of a block's two vectors) and `columns` columns from column n
/// on.
void multiply_fused(FusedOperands& operands, float* d, uint32_t m, uint32_t rows, uint32_t n, uint32_t columns);

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
