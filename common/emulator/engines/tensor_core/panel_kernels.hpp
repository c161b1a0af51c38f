// The arithmetic of tcgen05.mma and wgmma, compiled for several levels of the host's instruction set.
//
// Both operands are first decoded to panels of floats; every format's values are exact in fp32. Then the products are
// added to D as fused_sum.hpp says, which gives the same bits on every host; where plain sums in fp32 give those bits
// too, as of small integers, they are formed in that faster way. Plain sums are fused multiply-adds, one k after
// another: for each element the order is ((D + a0*b0) + a1*b1) + ..., for every shape and host. The products of all
// formats are exact, so hosts without FMA give the same result, unless a single product overflows or underflows.
#pragma once

#include <cstdint>

#include "emulator/engines/tensor_core/fused_sum.hpp"
#include "emulator/numerics/narrow_floats.hpp"

namespace stagecraft::emulator::machine {

/// Exponents of the least and the largest normal number of f32.
inline constexpr int kLeastOfF32 = -126, kMostOfF32 = 127;

/// Longest K slice of one instruction (kind::mxf4 with a sparse A), in elements.
inline constexpr uint32_t kPanelDepth = 128;

/// Floats from one k (of A's panel) or one n (of D) to the next.
inline constexpr uint32_t kPanelLanes = 128;

struct MultiplyShape {
  uint32_t m = 128;  ///< multiple of 32
  uint32_t n = 8;    ///< multiple of 8
  uint32_t k = 16;
  /// Unused lanes of D between each 16 rows and the next 16: 0, or 16 for M = 64.
  uint32_t lane_gap = 0;
  bool accumulate = false;
  FusedSum sum;  ///< how products are added; must be plain for integers
};

/// The scale factors of a block-scaled instruction as significands and exponents, for equal groups of elements along K.
struct BlockScales {
  uint32_t groups = 1;          ///< 1: mxf8f6f4, which has only exponents; 4: mxf4 and mxf4nvf4
  const int32_t* a_exponents;   ///< [group][128], of not-a-number kNoScale
  const int32_t* b_exponents;   ///< [n][group], the same
  const float* a_significands;  ///< [group][128]
  const float* b_significands;  ///< [n][group]
};
inline constexpr int32_t kNoScale = 1 << 20;

struct PanelKernels {
  /// D[n * 128 + lane(m)] (+)= sum over k of a[k * 128 + m] * b[n * shape.k + k]. D may be cells of tensor memory.
  void (*multiply)(void* d, const float* a, const float* b, const MultiplyShape& shape);
  /// Does the same with scale factors, as scaled_sum.hpp says.
  void (*multiply_scaled)(void* d, const float* a, const float* b, const MultiplyShape& shape,
                          const BlockScales& scales);
  /// Decodes `count` consecutive elements. `table` is `values_of(format)` for a format of 8 or 4 bits.
  void (*decode)(ElementFormat format, const void* elements, uint32_t count, const float* table, float* values);
  /// Decodes A's 32-bit cells [columns][128], each with 1 to 8 elements along K, to a panel [k][128].
  void (*decode_cells)(ElementFormat format, const uint32_t* cells, uint32_t columns, const float* table, float* panel);
  /// out[column * out_stride + row] = in[row * in_stride + column]; rows and columns are multiples of 4.
  void (*transpose)(const uint32_t* in, uint32_t in_stride, uint32_t rows, uint32_t columns, uint32_t* out,
                    uint32_t out_stride);
};

/// Returns the variant that this processor runs best.
const PanelKernels& panel_kernels();

}  // namespace stagecraft::emulator::machine
