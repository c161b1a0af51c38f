// The arithmetic of tcgen05.mma: loads the operands, multiplies, and writes D in tensor memory.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/scaled_sum.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_mma_operation.hpp"

namespace stagecraft::emulator::machine {

namespace {

constexpr uint32_t kRun = 16;  // rows of D in adjacent lanes, whatever the layout

void negate(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = -values[i];
}

// Loads A of one block. Panel lanes are its rows, or, if A in tensor memory fills all lanes, the lanes of A.
void load_a_of(const TensorUnit& unit, const Tcgen05Mma& operation, PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  if (!operation.a_in_tensor_memory) {
    load_a(matrix_a(operation), *unit.block, space);
  } else {
    const TensorCell base = cell_at(operation.a_address);
    if (layout_of(operation) != AccumulatorLayout::f) {
      load_a(unit.memory->column(base.column), shape.a, space);
    } else {
      for (uint32_t column = 0; column < kOperandColumns; ++column) {
        const uint32_t* const from = unit.memory->column(base.column + column) + base.lane;
        for (uint32_t m = 0; m < shape.m; ++m) {
          space.cells[column * kPanelLanes + m] = from[accumulator_cell(AccumulatorLayout::f, m, 0, shape.n).lane];
        }
      }
      load_a(space.cells, shape.a, space);
    }
  }
  if (shape.negate_a) negate(space.a, size_t{shape.k} * kPanelLanes);
}

// Loads the columns of B of all blocks.
void load_b_of(const TensorUnits& units, const Tcgen05Mma& operation, PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  const uint32_t columns = columns_of_block(operation);
  for (uint32_t i = 0; i < units.count(); ++i) load_b(matrix_b(operation), *units[i].block, space, i * columns);
  if (shape.negate_b) negate(space.b, size_t{shape.k} * shape.n);
}

// Returns the panel lane of row 0 for the columns in lane group `group` of D. If D's columns are split, each group of
// lanes has its own copy of an A in tensor memory.
uint32_t panel_lane(const Tcgen05Mma& operation, uint32_t group) {
  return operation.a_in_tensor_memory ? group * kTensorLanes / column_groups(layout_of(operation)) : 0;
}

// A block's part of D in tensor memory, as runs of 16 rows in adjacent lanes.
class Accumulator {
 public:
  Accumulator(const Tcgen05Mma& operation, TensorMemory& memory)
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
      for (uint32_t m = 0; m < m_; m += kRun) {
        uint32_t* const cells = run(m, n);
        for (uint32_t i = 0; i < kRun; ++i) visit(cells[i], m + i, n);
      }
    }
  }
  /// Computes D (+)= A * B in place, in fp32.
  void multiply(const PanelSpace& space) const {
    const uint32_t lane_gap = layout_ == AccumulatorLayout::f ? kRun : 0;
    for_each_group(space, operation_.accumulate, lane_gap, [&](uint32_t n) { return run(0, n); });
  }
  /// Does the same in `space.d`, where column n begins at n * kPanelLanes.
  void multiply_aside(PanelSpace& space, bool accumulate) const {
    for_each_group(space, accumulate, 0, [&](uint32_t n) { return space.d + size_t{n} * kPanelLanes; });
  }

 private:
  // Sums of floats are fused as those of Hopper's mma.sync, for all formats and with all 23 bits in f32. Source:
  // MMA-Sim (arXiv 2511.10909), for cta_group::1 and floats of 16, 8 and 4 bits and tf32; for pairs, the .ws form,
  // 6-bit floats and scale-input-d it is unconfirmed. The block-scaled kinds have plain sums here, or those of
  // scaled_sum.hpp.
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

// Restores lanes that an operation must not write.
class DisabledLanes {
 public:
  /// `number` is that of the block in the operation. It is unconfirmed that the even block of a pair has the first four
  /// words.
  DisabledLanes(const Tcgen05Mma& operation, TensorMemory& memory, uint32_t number)
      : memory_(memory), first_(cell_at(operation.d).column), columns_(columns_of_d(operation)) {
    constexpr uint32_t kWords = kTensorLanes / 32;
    if (operation.disabled == decltype(operation.disabled){}) return;
    for (uint32_t lane = 0; lane < kTensorLanes; ++lane) {
      if (operation.disabled[number * kWords + lane / 32] >> lane % 32 & 1) lanes_.push_back(lane);
    }
    saved_.reserve(lanes_.size() * columns_);
    visit([&](uint32_t& cell) { saved_.push_back(cell); });
  }
  void restore() {
    size_t next = 0;
    visit([&](uint32_t& cell) { cell = saved_[next++]; });
  }

 private:
  template <typename Visit>
  void visit(Visit visit_cell) {
    if (lanes_.empty()) return;
    for (uint32_t column = 0; column < columns_; ++column) {
      for (const uint32_t lane : lanes_) visit_cell(memory_.column(first_ + column)[lane]);
    }
  }

  TensorMemory& memory_;
  uint32_t first_, columns_;
  std::vector<uint32_t> lanes_;
  std::vector<uint32_t> saved_;
};

void execute_f32(const Tcgen05Mma& operation, const Accumulator& accumulator, PanelSpace& space) {
  if (operation.accumulate && operation.scale_d != 0) {
    const float scale = std::ldexp(1.0f, -static_cast<int>(operation.scale_d));
    accumulator.for_each([&](uint32_t& cell, uint32_t, uint32_t) {
      cell = std::bit_cast<uint32_t>(std::bit_cast<float>(cell) * scale);
    });
  }
  accumulator.multiply(space);
}

// Adds over the K of the instruction, including D, and rounds to f16 once.
void execute_f16(const Tcgen05Mma& operation, const Accumulator& accumulator, PanelSpace& space) {
  if (operation.accumulate) {
    const float scale = std::ldexp(1.0f, -static_cast<int>(operation.scale_d));
    accumulator.for_each([&](const uint32_t& cell, uint32_t m, uint32_t n) {
      space.d[n * kPanelLanes + m] = from_f16(cell & 0xffff) * scale;
    });
  }
  accumulator.multiply_aside(space, operation.accumulate);
  accumulator.for_each([&](uint32_t& cell, uint32_t m, uint32_t n) { cell = to_f16(space.d[n * kPanelLanes + m]); });
}

// Adds integers in fp32: the sum over the K of one instruction is below 2^24 in magnitude, and thus exact.
void execute_s32(const Tcgen05Mma& operation, const Accumulator& accumulator, PanelSpace& space) {
  accumulator.multiply_aside(space, false);
  accumulator.for_each([&](uint32_t& cell, uint32_t m, uint32_t n) {
    const int64_t before = operation.accumulate ? static_cast<int32_t>(cell) : 0;
    int64_t sum = before + static_cast<int64_t>(space.d[n * kPanelLanes + m]);
    if (operation.shape.saturate) {
      sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
    }
    cell = static_cast<uint32_t>(sum);
  });
}

/// The scale factors of one operand that one quarter of the lanes reads.
class Scales {
 public:
  Scales(TensorMemory& memory, uint32_t address, uint32_t id, const Tcgen05Mma& operation)
      : memory_(memory),
        base_(scale_base(address)),
        id_(id),
        block_(operation.shape.k / operation.scales_per_slice),
        ue4m3_(operation.shape.scale_ue4m3) {}

  uint32_t code(uint32_t row, uint32_t k, uint32_t quarter) const {
    const TensorCell cell = scale_cell(row, quarter);
    const uint32_t word = memory_.column(base_.column + cell.column)[cell.lane];
    return word >> 8 * (id_ + k / block_) & 0xff;
  }
  float value(uint32_t row, uint32_t k, uint32_t quarter) const {
    const uint32_t found = code(row, k, quarter);
    return ue4m3_ ? from_ue4m3(found) : from_ue8m0(found);
  }

 private:
  TensorMemory& memory_;
  TensorCell base_;
  uint32_t id_, block_;
  bool ue4m3_;
};

// Whether fp32 elements can be multiplied by the factors of all rows without overflow or loss, including their
// products.
bool are_moderate(const Scales& scales, uint32_t rows, const InstructionDescriptor& shape, uint32_t step,
                  uint32_t quarter) {
  if (shape.scale_ue4m3) return true;
  constexpr uint32_t kOne = 127, kRange = 40;  // factors up to 2^40, for elements below 2^16
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t k = 0; k < shape.k; k += step) {
      const uint32_t code = scales.code(row, k, quarter);
      if (code < kOne - kRange || code > kOne + kRange) return false;
    }
  }
  return true;
}

// The part of D that a quarter of the lanes computes: 32 rows, and all columns or (layout e) half of them. The quarter
// has the scale factors of these only. For layout e this is unconfirmed: CUTLASS's tmem_sf_frg places B's so, but none
// of its kernels uses them.
struct QuarterPart {
  uint32_t first_row, first_column, columns, panel_lane;
};
QuarterPart part_of_quarter(const Tcgen05Mma& operation, uint32_t quarter) {
  const uint32_t groups = column_groups(layout_of(operation)), columns = operation.shape.n / groups;
  const uint32_t group = quarter * groups / 4, row = 32 * (quarter % (4 / groups));
  return {row, group * columns, columns, panel_lane(operation, group) + row};
}

// Scales the panels, and multiplies as usual. Returns false when that could overflow, which is rare.
bool execute_scaled_in_fp32(const Tcgen05Mma& operation, const Accumulator& accumulator, const Scales& scales_a,
                            const Scales& scales_b, PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  const uint32_t step = shape.k / operation.scales_per_slice;
  if (layout_of(operation) != AccumulatorLayout::d) return false;
  for (uint32_t n = 0; n < shape.n; ++n) {
    for (uint32_t k = 0; k < shape.k; k += step) {
      for (uint32_t quarter = 1; quarter < 4; ++quarter) {
        if (scales_b.code(n, k, quarter) != scales_b.code(n, k, 0)) return false;
      }
    }
  }
  if (!are_moderate(scales_b, shape.n, shape, step, 0)) return false;
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    if (!are_moderate(scales_a, kTensorLanes, shape, step, quarter)) return false;
  }
  for (uint32_t first = 0; first < shape.k; first += step) {
    for (uint32_t m = 0; m < kTensorLanes; ++m) {
      const float scale = scales_a.value(m, first, m / 32);
      for (uint32_t k = first; k < first + step; ++k) space.a[k * kPanelLanes + m] *= scale;
    }
    for (uint32_t n = 0; n < shape.n; ++n) {
      const float scale = scales_b.value(n, first, 0);
      for (uint32_t k = first; k < first + step; ++k) space.b[n * shape.k + k] *= scale;
    }
  }
  accumulator.multiply(space);
  return true;
}

// Scales each element in double before it is multiplied, because a scale factor may exceed fp32's range when the
// product does not. Each quarter of the lanes reads its own copy of the factors of its rows and columns.
void execute_scaled_in_double(const Tcgen05Mma& operation, const Accumulator& accumulator, const Scales& scales_a,
                              const Scales& scales_b, const PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  std::vector<double> b(size_t{shape.n} * shape.k);
  std::vector<double> a(shape.k);
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    const QuarterPart part = part_of_quarter(operation, quarter);
    for (uint32_t n = 0; n < part.columns; ++n) {
      for (uint32_t k = 0; k < shape.k; ++k) {
        b[n * shape.k + k] = double{space.b[(part.first_column + n) * shape.k + k]} * scales_b.value(n, k, quarter);
      }
    }
    for (uint32_t i = 0; i < 32; ++i) {
      const uint32_t m = part.first_row + i;
      for (uint32_t k = 0; k < shape.k; ++k) {
        a[k] = double{space.a[k * kPanelLanes + part.panel_lane + i]} * scales_a.value(m, k, quarter);
      }
      for (uint32_t n = 0; n < part.columns; ++n) {
        uint32_t& cell = accumulator.run(m / kRun * kRun, part.first_column + n)[m % kRun];
        double sum = operation.accumulate ? std::bit_cast<float>(cell) : 0.0;
        for (uint32_t k = 0; k < shape.k; ++k) sum += a[k] * b[n * shape.k + k];
        cell = std::bit_cast<uint32_t>(static_cast<float>(sum));
      }
    }
  }
}

// Scale factors of `rows` rows from 0 on for one quarter of the lanes, all of a row together.
std::vector<ScaledFactor> factors_of(const Scales& scales, uint32_t first_row, uint32_t rows,
                                     const Tcgen05Mma& operation, uint32_t quarter) {
  const uint32_t step = operation.shape.k / operation.scales_per_slice;
  const int least = operation.shape.scale_ue4m3 ? kLeastUe4m3 : kLeastUe8m0;
  std::vector<ScaledFactor> factors;
  for (uint32_t row = first_row; row < first_row + rows; ++row) {
    for (uint32_t k = 0; k < operation.shape.k; k += step) {
      factors.push_back(factor_of(scales.value(row, k, quarter), least));
    }
  }
  return factors;
}

// Adds as scaled_sum.hpp says, one element of D after another.
void execute_scaled_fused(const Tcgen05Mma& operation, const Accumulator& accumulator, const Scales& scales_a,
                          const Scales& scales_b, const PanelSpace& space) {
  constexpr uint32_t kPartRows = 32;
  const InstructionDescriptor& shape = operation.shape;
  const uint32_t count = operation.scales_per_slice;
  std::vector<float> row(shape.k);
  std::vector<ScaledFactor> x(shape.k), y(size_t{shape.n} * shape.k);
  for (size_t i = 0; i < y.size(); ++i) y[i] = factor_of(space.b[i], least_exponent(shape.b));
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    const QuarterPart part = part_of_quarter(operation, quarter);
    const std::vector<ScaledFactor> a_scales = factors_of(scales_a, part.first_row, kPartRows, operation, quarter);
    const std::vector<ScaledFactor> b_scales = factors_of(scales_b, 0, part.columns, operation, quarter);
    for (uint32_t i = 0; i < kPartRows; ++i) {
      for (uint32_t k = 0; k < shape.k; ++k) row[k] = space.a[k * kPanelLanes + part.panel_lane + i];
      std::transform(row.begin(), row.end(), x.begin(),
                     [&](float value) { return factor_of(value, least_exponent(shape.a)); });
      for (uint32_t n = 0; n < part.columns; ++n) {
        const uint32_t m = part.first_row + i, column = part.first_column + n;
        uint32_t& cell = accumulator.run(m / kRun * kRun, column)[m % kRun];
        const float c = operation.accumulate ? std::bit_cast<float>(cell) : 0.0f;
        const ScaledFactor *const in_a = &a_scales[i * count], *const in_b = &b_scales[n * count];
        const float sum =
            shape.kind == MmaKind::mxf8f6f4
                ? scaled_products(x, {&y[column * shape.k], shape.k}, *in_a, *in_b, c)
                : scaled_groups(row, {space.b + column * shape.k, shape.k}, {in_a, count}, {in_b, count}, c);
        cell = std::bit_cast<uint32_t>(sum);
      }
    }
  }
}

void execute_scaled(const Tcgen05Mma& operation, const Accumulator& accumulator, TensorMemory& memory,
                    PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  const bool fused = sum_of(shape.a, shape.b, SumResult::f32).fraction_bits != 0;
  const Scales scales_a(memory, operation.scales_a, shape.scale_id_a, operation);
  const Scales scales_b(memory, operation.scales_b, shape.scale_id_b, operation);
  if (fused) return execute_scaled_fused(operation, accumulator, scales_a, scales_b, space);
  if (!execute_scaled_in_fp32(operation, accumulator, scales_a, scales_b, space)) {
    execute_scaled_in_double(operation, accumulator, scales_a, scales_b, space);
  }
}

}  // namespace

void execute(const Tcgen05Mma& operation, const TensorUnits& units) {
  PanelSpace& space = panel_space();
  const bool scaled = is_block_scaled(operation.shape.kind);
  for (uint32_t i = 0; i < units.count(); ++i) {
    TensorMemory& memory = *units[i].memory;
    // Scaling changes the panel of B, by factors that differ between blocks.
    if (i == 0 || scaled) load_b_of(units, operation, space);
    load_a_of(units[i], operation, space);
    const Accumulator accumulator(operation, memory);
    DisabledLanes disabled(operation, memory, i);
    if (scaled) {
      execute_scaled(operation, accumulator, memory, space);
    } else {
      switch (operation.shape.d) {
        case AccumulatorFormat::f32: execute_f32(operation, accumulator, space); break;
        case AccumulatorFormat::f16: execute_f16(operation, accumulator, space); break;
        case AccumulatorFormat::s32: execute_s32(operation, accumulator, space); break;
      }
    }
    disabled.restore();
  }
}

}  // namespace stagecraft::emulator::machine
