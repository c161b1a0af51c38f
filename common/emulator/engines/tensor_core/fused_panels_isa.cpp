// Chooses how fused sums are formed. This file is compiled once per level, so nothing here may call an inline function
// of another header (host/isa_level.hpp), except the compiler's intrinsics, which are always inlined.
#include "emulator/engines/tensor_core/fused_panels.hpp"
#include "emulator/engines/tensor_core/scaled_sum.hpp"
#include "emulator/host/rounding_scope.hpp"

namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE {
namespace {

void multiply_one_by_one(const FusedOperands& operands, float* d, const FusedPart& part) {
  const MultiplyShape& shape = operands.shape;
  const uint32_t last_column = part.n + part.columns, last_row = part.m + part.rows;
  for (uint32_t column = part.n; column < last_column; ++column) {
    for (uint32_t row = part.m; row < last_row; ++row) {
      float& cell = d[column * kPanelLanes + row + row / 16 * shape.lane_gap];
      cell = fused_sum(operands.a + row, kPanelLanes, operands.b + column * shape.k, 1, shape.k,
                       shape.accumulate ? cell : 0.0f, shape.sum);
    }
  }
}

}  // namespace

void multiply_fused(const FusedOperands& operands, float* d, const FusedPart* parts, uint32_t count) {
  {
    const RoundingScope rounding(RoundingScope::kTowardsZero);
    if (multiply_narrow(operands, d, parts, count) || multiply_wide(operands, d, parts, count)) return;
  }
  for (uint32_t i = 0; i < count; ++i) multiply_one_by_one(operands, d, parts[i]);
}

void multiply_scaled(void* d, const float* a, const float* b, const MultiplyShape& shape, const BlockScales& scales) {
  float* const cells = static_cast<float*>(d);
  const RoundingScope rounding(RoundingScope::kTowardsZero);
  if (scales.groups != 1) return multiply_groups(cells, a, b, shape, scales);
  FusedOperands operands(a, b, shape);
  operands.a_scales = scales.a_exponents;
  operands.b_scales = scales.b_exponents;
  examine(operands);
  const FusedPart all{0, static_cast<uint16_t>(shape.m), 0, static_cast<uint16_t>(shape.n)};
  if (multiply_narrow(operands, cells, &all, 1)) return;
  for (uint32_t n = 0; n < shape.n; ++n) {
    for (uint32_t m = 0; m < shape.m; ++m) {
      float& cell = cells[n * kPanelLanes + m];
      cell = scaled_products({a + m, kPanelLanes, shape.sum.a_least, scales.a_exponents[m]},
                             {b + n * shape.k, 1, shape.sum.b_least, scales.b_exponents[n]}, shape.k,
                             shape.accumulate ? cell : 0.0f);
    }
  }
}

}  // namespace stagecraft::emulator::machine::STAGECRAFT_ISA_NAMESPACE
