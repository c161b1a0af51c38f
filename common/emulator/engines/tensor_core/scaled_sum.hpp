// The sum that one block-scaled tcgen05.mma forms for an element of D: like that of fused_sum.hpp, but with scale
// factors.
//
// kind::mxf8f6f4 adds products, to whose exponents those of both scale factors are added, with 25 bits after the point.
// kind::mxf4 and mxf4nvf4 first add the products of 16 elements along K, which is exact, and multiply the sum by the
// significands of both scale factors. What aligns such a term is the exponents of its scale factors alone, even if the
// sum is zero, unless all of its products are; 35 bits after the point are kept, but none below 2^-174. Zeros do not
// align, C among them. The sum becomes an f32, rounded towards zero.
//
// Sources: MMA-Sim (Xie et al., arXiv 2511.10909, and its code at c785138, `nv_fused_dot_add_with_block_scale`);
// sf-tensor/tcgen05 at 6f19f22 (MODEL.md), whose authors compared theirs with a B200, and which is right about zeros:
// in MMA-Sim a C of zero aligns as 2^-126, and groups of zeros align. Where scale factors are ue4m3 it adds four
// products before it drops bits, not 16, except next to a large C. No published word tells these apart, about one in
// three million random ones would, and with ue8m0 it adds 16.
#pragma once

#include <cstdint>
#include <span>

#include "emulator/engines/tensor_core/panel_kernels.hpp"

namespace stagecraft::emulator::machine {

/// A number as significand * 2^exponent. A subnormal number keeps its format's least exponent.
struct ScaledFactor {
  double significand = 0;
  int exponent = 0;
};

/// Returns the parts of a number whose format has this least exponent. Infinities and not-a-number are in the
/// significand.
ScaledFactor factor_of(float value, int least_exponent);

/// Exponents of the least normal scale factors.
inline constexpr int kLeastUe8m0 = -127, kLeastUe4m3 = -6;

/// Elements of A in memory along K that mxf4 and mxf4nvf4 add before they are scaled, and such groups. With a sparse A,
/// a group spans twice as many elements along K.
inline constexpr uint32_t kScaledGroup = 16, kScaledGroups = 4;

/// Exponent that aligns the groups of mxf4 and mxf4nvf4 at least, so that nothing below 2^-174 is kept.
inline constexpr int kLeastAligned = -139;

/// Returns c + the sum of products, as mxf8f6f4 forms it. `a` and `b` have the same size.
float scaled_products(std::span<const ScaledFactor> a, std::span<const ScaledFactor> b, const ScaledFactor& scale_a,
                      const ScaledFactor& scale_b, float c);

/// Returns the same as mxf4 and mxf4nvf4 form it. Both operands have scale factors for equal parts of K, each
/// of whole groups.
float scaled_groups(std::span<const float> a, std::span<const float> b, std::span<const ScaledFactor> scales_a,
                    std::span<const ScaledFactor> scales_b, float c);

/// A row of A or a column of B for mxf8f6f4.
struct ScaledRow {
  const float* values;
  uint32_t step;  ///< from one element to the next
  int least;      ///< exponent of the format's least normal number
  int32_t scale;  ///< exponent, or kNoScale
};
float scaled_products(const ScaledRow& a, const ScaledRow& b, uint32_t k, float c);

/// A row of A or a column of B for mxf4 and mxf4nvf4.
struct ScaledGroups {
  const float* values;
  const float* significands;
  const int32_t* exponents;  ///< or kNoScale
  uint32_t step;             ///< from one element, significand or exponent to the next
};
/// Returns the sum for `k` elements, in kScaledGroups groups.
float scaled_groups(const ScaledGroups& a, const ScaledGroups& b, uint32_t k, float c);

}  // namespace stagecraft::emulator::machine
