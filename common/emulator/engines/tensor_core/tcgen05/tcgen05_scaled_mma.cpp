// The arithmetic of tcgen05.mma with scale factors.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/scaled_sum.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_accumulator.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

namespace {

/// The scale factors of one operand that one quarter of the lanes reads.
class Scales {
 public:
  Scales(TensorMemory& memory, uint32_t address, uint32_t id, const Tcgen05Mma& operation)
      : memory_(memory),
        base_(scale_base(address)),
        id_(id),
        block_(operation.shape.k / operation.scales_per_slice),
        ue4m3_(operation.shape.scale_ue4m3) {}

  bool is_nan(uint32_t code) const { return ue4m3_ ? (code & 0x7f) == 0x7f : code == 0xff; }
  uint32_t column_of(uint32_t row) const { return base_.column + scale_cell(row, 0).column; }
  uint32_t word(uint32_t row, uint32_t quarter) const {
    const TensorCell cell = scale_cell(row, quarter);
    return memory_.column(base_.column + cell.column)[cell.lane];
  }
  uint32_t code(uint32_t row, uint32_t k, uint32_t quarter) const {
    return word(row, quarter) >> 8 * (id_ + k / block_) & 0xff;
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
bool execute_scaled_in_fp32(const Tcgen05Mma& operation, const TensorAccumulator& accumulator, const Scales& scales_a,
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
void execute_scaled_in_double(const Tcgen05Mma& operation, const TensorAccumulator& accumulator, const Scales& scales_a,
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
        uint32_t& cell =
            accumulator.run(m / kAccumulatorRun * kAccumulatorRun, part.first_column + n)[m % kAccumulatorRun];
        double sum = operation.accumulate ? std::bit_cast<float>(cell) : 0.0;
        for (uint32_t k = 0; k < shape.k; ++k) sum += a[k] * b[n * shape.k + k];
        cell = std::bit_cast<uint32_t>(static_cast<float>(sum));
      }
    }
  }
}

// Scale factors of one quarter of the lanes as the sums need them.
struct SplitScales {
  std::vector<int32_t> exponents;
  std::vector<float> significands;
  bool operator==(const SplitScales&) const = default;
};

// Splits the factors of `rows` rows. Those of a row's next group are `group_step` places on, those of the next row
// `row_step`.
SplitScales split(const Scales& scales, uint32_t first_row, uint32_t rows, const Tcgen05Mma& operation,
                  uint32_t quarter, uint32_t groups, uint32_t row_step, uint32_t group_step) {
  const int least = operation.shape.scale_ue4m3 ? kLeastUe4m3 : kLeastUe8m0;
  const size_t count = size_t{groups - 1} * group_step + size_t{rows - 1} * row_step + 1;
  SplitScales result{std::vector<int32_t>(count), std::vector<float>(count)};
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t group = 0; group < groups; ++group) {
      const float value = scales.value(first_row + row, group * operation.shape.k / groups, quarter);
      const ScaledFactor factor = factor_of(value, least);
      const size_t at = row * row_step + group * group_step;
      result.exponents[at] = std::isnan(value) ? kNoScale : factor.exponent;
      result.significands[at] = std::isnan(value) ? 0.0f : static_cast<float>(factor.significand);
    }
  }
  return result;
}

// Adds as scaled_sum.hpp says. Quarters with the same factors of B are computed together.
void execute_scaled_fused(const Tcgen05Mma& operation, const TensorAccumulator& accumulator, const Scales& scales_a,
                          const Scales& scales_b, PanelSpace& space) {
  constexpr uint32_t kPartRows = 32, kQuarters = 4;
  const InstructionDescriptor& shape = operation.shape;
  const uint32_t groups = shape.kind == MmaKind::mxf8f6f4 ? 1 : shape.stored_k() / kScaledGroup;
  const FusedSum sum = sum_of(shape.a, shape.b, SumResult::f32);
  std::array<SplitScales, kQuarters> b;
  for (uint32_t quarter = 0; quarter < kQuarters; ++quarter) {
    const uint32_t columns = part_of_quarter(operation, quarter).columns;
    b[quarter] = split(scales_b, 0, columns, operation, quarter, groups, groups, 1);
  }
  const bool together = layout_of(operation) == AccumulatorLayout::d && b[1] == b[0] && b[2] == b[0] && b[3] == b[0];
  SplitScales a{std::vector<int32_t>(groups * kPanelLanes), std::vector<float>(groups * kPanelLanes)};
  for (uint32_t quarter = 0; quarter < kQuarters; ++quarter) {
    const QuarterPart part = part_of_quarter(operation, quarter);
    const uint32_t lane = together ? quarter * kPartRows : 0;
    const SplitScales rows = split(scales_a, part.first_row, kPartRows, operation, quarter, groups, 1, kPanelLanes);
    for (uint32_t group = 0; group < groups; ++group) {
      const auto from = static_cast<ptrdiff_t>(group * kPanelLanes);
      std::copy_n(rows.exponents.begin() + from, kPartRows, a.exponents.begin() + from + lane);
      std::copy_n(rows.significands.begin() + from, kPartRows, a.significands.begin() + from + lane);
    }
    if (together && quarter + 1 < kQuarters) continue;
    const uint32_t first_row = together ? 0 : part.first_row, panel_lane = together ? 0 : part.panel_lane;
    const MultiplyShape multiply{
        together ? kTensorLanes : kPartRows, part.columns, shape.k, 0, operation.accumulate, sum};
    panel_kernels().multiply_scaled(accumulator.run(first_row, part.first_column), space.a + panel_lane,
                                    space.b + size_t{part.first_column} * shape.k, multiply,
                                    {groups, a.exponents.data(), b[quarter].exponents.data(), a.significands.data(),
                                     b[quarter].significands.data()});
  }
}

// Which rows of one operand have a scale factor that is NaN. Words that are all ones, as shared memory is that nothing
// has written, count where there are no others.
class NanRows {
 public:
  NanRows(NanScales found, char operand, const Scales& scales, const InstructionDescriptor& shape, uint32_t step)
      : scales_(scales), k_(shape.k), step_(step) {
    found.operand = operand;
    found.ue4m3 = shape.scale_ue4m3;
    found_.fill(found);
    found_[1].all_ones = true;
  }
  /// @param row  of which the quarter has the factors
  /// @param name  its number in the operand
  /// @param element  returns that of a place along K. A row of zeros is taken for padding.
  template <typename Element>
  void look_at(uint32_t row, uint32_t name, uint32_t quarter, Element element) {
    const uint32_t word = scales_.word(row, quarter);
    if (word == kPoisonPattern || seen_[name]) return;
    for (uint32_t first = 0; first < k_; first += step_) {
      const uint32_t code = scales_.code(row, first, quarter);
      if (!scales_.is_nan(code)) continue;
      uint32_t k = first;
      while (k < first + step_ && element(k) == 0.0f) ++k;
      if (k == first + step_) continue;
      NanScales& found = found_[word == kAllOnes];
      if (found.count++ == 0) {
        found.first = found.last = name;
        found.code = static_cast<uint8_t>(code);
        found.column = scales_.column_of(row);
      }
      found.last = std::max(found.last, name);
      seen_[name] = true;
      return;
    }
  }
  void announce(const Grid& grid) const {
    const NanScales& found = found_[found_[0].count == 0];
    if (found.count == 0) return;
    for (Observer* observer : grid.memory_observers) observer->nan_scales_used(found);
  }

 private:
  static constexpr uint32_t kAllOnes = 0xffffffff;

  const Scales& scales_;
  uint32_t k_, step_;
  std::array<NanScales, 2> found_;
  std::array<bool, 256> seen_{};  ///< by row: each quarter of the lanes has the factors of all of B
};

}  // namespace

void announce_nan_scales(const Tcgen05Mma& operation, const TensorUnit& unit, const PanelSpace& space,
                         const NanScales& issued) {
  const InstructionDescriptor& shape = operation.shape;
  const Scales scales_a(*unit.memory, operation.scales_a, shape.scale_id_a, operation);
  const Scales scales_b(*unit.memory, operation.scales_b, shape.scale_id_b, operation);
  const uint32_t step = shape.k / operation.scales_per_slice;
  NanScales found = issued;
  found.rank = unit.block->rank;
  NanRows a(found, 'A', scales_a, shape, step), b(found, 'B', scales_b, shape, step);
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    const QuarterPart part = part_of_quarter(operation, quarter);
    for (uint32_t i = 0; i < 32; ++i) {
      const float* const elements = space.a + part.panel_lane + i;
      a.look_at(part.first_row + i, part.first_row + i, quarter, [&](uint32_t k) { return elements[k * kPanelLanes]; });
    }
    for (uint32_t n = 0; n < part.columns; ++n) {
      const float* const elements = space.b + size_t{part.first_column + n} * shape.k;
      b.look_at(n, part.first_column + n, quarter, [&](uint32_t k) { return elements[k]; });
    }
  }
  a.announce(*unit.block->cluster->grid);
  b.announce(*unit.block->cluster->grid);
}

void execute_scaled(const Tcgen05Mma& operation, const TensorAccumulator& accumulator, TensorMemory& memory,
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

}  // namespace stagecraft::emulator::machine
