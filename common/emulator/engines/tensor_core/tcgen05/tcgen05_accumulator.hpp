// D of a tcgen05.mma in the tensor memory of one block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_mma_operation.hpp"

namespace stagecraft::emulator::machine {

inline constexpr uint32_t kAccumulatorRun = 16;  ///< rows of D in adjacent lanes, whatever the layout

/// Returns the panel lane of row 0 for the columns in lane group `group` of D. If D's columns are split, each group of
/// lanes has its own copy of an A in tensor memory, and of the metadata of a sparse A.
inline uint32_t panel_lane(const Tcgen05Mma& operation, uint32_t group) {
  return operation.a_in_tensor_memory || operation.shape.sparse
             ? group * kTensorLanes / column_groups(layout_of(operation))
             : 0;
}

/// A block's part of D in tensor memory, as runs of 16 rows in adjacent lanes.
class TensorAccumulator {
 public:
  TensorAccumulator(const Tcgen05Mma& operation, TensorMemory& memory)
      : operation_(operation),
        layout_(layout_of(operation)),
        m_(rows_of_block(operation)),
        n_(operation.shape.n),
        base_(memory.column(cell_at(operation.d).column) + cell_at(operation.d).lane) {}

  /// Returns the cells of rows m to m + 15 in column n.
  uint32_t* run(uint32_t m, uint32_t n) const {
    const TensorCell cell = accumulator_cell(layout_, m, n, n_);
    return base_ + size_t{cell.column} * kTensorLanes + cell.lane;
  }
  /// Calls visit(cell, m, n) for all elements.
  template <typename Visit>
  void for_each(Visit visit) const {
    for (uint32_t n = 0; n < n_; ++n) {
      for (uint32_t m = 0; m < m_; m += kAccumulatorRun) {
        uint32_t* const cells = run(m, n);
        for (uint32_t i = 0; i < kAccumulatorRun; ++i) visit(cells[i], m + i, n);
      }
    }
  }
  /// Computes D (+)= A * B in place, in fp32.
  void multiply(const PanelSpace& space) const {
    const uint32_t lane_gap = layout_ == AccumulatorLayout::f ? kAccumulatorRun : 0;
    for_each_group(space, operation_.accumulate, lane_gap, [&](uint32_t n) { return run(0, n); });
  }
  /// Does the same in `space.d`, where column n begins at n * kPanelLanes.
  void multiply_aside(PanelSpace& space, bool accumulate) const {
    for_each_group(space, accumulate, 0, [&](uint32_t n) { return space.d + size_t{n} * kPanelLanes; });
  }

 private:
  // Sums of floats are fused as those of Hopper's mma.sync, for all formats and with all 23 bits in f32. Sources:
  // MMA-Sim (arXiv 2511.10909) and sf-tensor/tcgen05 (6f19f22), for cta_group::1; for pairs, the .ws form and
  // scale-input-d it is unconfirmed. The block-scaled kinds have plain sums here, or those of scaled_sum.hpp.
  FusedSum sum_of_operation() const {
    const InstructionDescriptor& shape = operation_.shape;
    if (shape.d == AccumulatorFormat::s32 || is_block_scaled(shape.kind)) return {};
    return sum_of(shape.a, shape.b, shape.d == AccumulatorFormat::f16 ? SumResult::odd : SumResult::f32);
  }
  template <typename ColumnAt>
  void for_each_group(const PanelSpace& space, bool accumulate, uint32_t lane_gap, ColumnAt column_at) const {
    const uint32_t groups = column_groups(layout_), k = operation_.shape.k;
    const MultiplyShape part{m_, n_ / groups, k, lane_gap, accumulate, sum_of_operation()};
    for (uint32_t group = 0; group < groups; ++group) {
      const uint32_t n = group * part.n;
      panel_kernels().multiply(column_at(n), space.a + panel_lane(operation_, group), space.b + size_t{n} * k, part);
    }
  }

  const Tcgen05Mma& operation_;
  AccumulatorLayout layout_;
  uint32_t m_, n_;
  uint32_t* base_;
};

/// Elements of B that are infinite or not-a-number. Where a sparse A has no element, the chip does not multiply, and a
/// product of 0 must not become not-a-number: the panel has zeros for them, and D gets those that count afterwards.
class SpecialFactors {
 public:
  /// Takes them out of the panel of B.
  void take_out(const InstructionDescriptor& shape, PanelSpace& space);
  void add_to(const Tcgen05Mma& operation, const TensorAccumulator& accumulator, const PanelSpace& space) const;

 private:
  struct Factor {
    uint32_t n, k;
    float value;
  };
  std::vector<Factor> factors_;
};

/// Spreads the elements of a sparse A, which are in the panel one after another, to their places along K, as the
/// metadata of the block say. Throws Fault if they say what is not legal.
void spread_sparse_a(const Tcgen05Mma& operation, const TensorUnit& unit, PanelSpace& space);

/// Announces scale factors of a block that are NaN, where the panels say that their rows take part.
void announce_nan_scales(const Tcgen05Mma& operation, const TensorUnit& unit, const PanelSpace& space,
                         const NanScales& issued);
/// Computes D (+)= A * B for a block-scaled kind, from panels that it may change.
void execute_scaled(const Tcgen05Mma& operation, const TensorAccumulator& accumulator, TensorMemory& memory,
                    PanelSpace& space);

}  // namespace stagecraft::emulator::machine
