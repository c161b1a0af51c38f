// The arithmetic of mma.sync, compiled for several levels of the host's instruction set.
//
// Products are fused multiply-adds, one k after another, beginning with C; or fused sums.
#pragma once

#include <cstdint>

#include "emulator/engines/tensor_core/fused_sum.hpp"
#include "emulator/numerics/narrow_floats.hpp"

namespace stagecraft::emulator::machine {

inline constexpr uint32_t kFragmentRows = 16;    // of A, C and D; matrices of 8 rows use the first 8
inline constexpr uint32_t kFragmentColumns = 8;  // of B, C and D
inline constexpr uint32_t kFragmentPieces = 8;   // most 32-bit pieces along K
inline constexpr uint32_t kFragmentDepth = 64;   // most elements along K
inline constexpr uint32_t kFragmentDoubles = 16;

/// One operand: `pieces` 32-bit pieces along K of each row of A (column of B), as [piece][16] ([piece][8]).
struct FragmentOperand {
  ElementFormat format;
  const float* table;  ///< `values_of(format)` for a format of 8 or 4 bits
  const uint32_t* pieces;
};

struct WarpMmaKernels {
  /// Decodes A to rows[k][16] and B to columns[k][8]. Returns the number of elements along K.
  uint32_t (*decode)(const FragmentOperand& a, const FragmentOperand& b, uint32_t pieces, float* rows, float* columns);
  /// d[n * 16 + m] += sum over k of rows[k][m] * columns[k][n].
  void (*multiply)(const float* rows, const float* columns, uint32_t depth, float* d);
  /// Adds as `how` says instead. Returns false, and does nothing, for what is too large, too small or too deep.
  bool (*multiply_fused)(const float* rows, const float* columns, uint32_t depth, const FusedSum& how, float* d);
  /// Multiplies a[k * 16 + m] by b[k * 8 + n] in f64, one k after another; uses the host's rounding mode.
  void (*multiply_doubles)(const double* a, const double* b, uint32_t k, double* d);
};

/// Returns the variant that this processor runs best.
const WarpMmaKernels& warp_mma_kernels();

}  // namespace stagecraft::emulator::machine
