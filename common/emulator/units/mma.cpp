#include "emulator/units/mma.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "emulator/machine/fault.hpp"
#include "emulator/units/matrix_operand.hpp"
#include "emulator/units/mma_kernels.hpp"

namespace stagecraft::emulator::units {

using machine::Block;
using machine::Fault;
using machine::FaultKind;

namespace {

constexpr uint32_t kOperandColumns = 8;  // of A in tensor memory: 32 bytes along K
constexpr uint32_t kRun = 16;            // rows of D in adjacent lanes, whatever the layout

// Scale factor addresses carry a byte offset in their upper two bits (CUTLASS), which the instruction does not read.
TensorCell scale_base(uint32_t address) { return cell_at(address & 0x3fffffff); }

AccumulatorLayout layout_of(const MmaOperation& operation) {
  if (operation.shape.m == 128) return AccumulatorLayout::d;
  if (!operation.weight_stationary) return AccumulatorLayout::f;
  return operation.shape.m == 64 ? AccumulatorLayout::e : AccumulatorLayout::g;
}

uint32_t columns_of_d(const MmaOperation& operation) { return operation.shape.n / column_groups(layout_of(operation)); }

SharedMatrix matrix_a(const MmaOperation& operation) {
  const InstructionDescriptor& shape = operation.shape;
  return {operation.a, shape.a, shape.a_mn_major, shape.m, shape.k};
}
SharedMatrix matrix_b(const MmaOperation& operation) {
  const InstructionDescriptor& shape = operation.shape;
  return {operation.b, shape.b, shape.b_mn_major, shape.n, shape.k};
}

// D and a TMEM-resident A begin at lane 0, except for layout f: its half-used quarters may also begin at lane 16.
void check_lane(uint32_t address, AccumulatorLayout layout, std::string_view what) {
  const uint32_t lane = cell_at(address).lane;
  if (lane == 0 || (lane == 16 && layout == AccumulatorLayout::f)) return;
  throw Fault(FaultKind::illegal_instruction, fmt::format("{}: address 0x{:x} is in lane {}", what, address, lane),
              {is_unwritten_word(address)       ? kUnwrittenWord
               : layout == AccumulatorLayout::f ? "legal for M = 64: lane 0 or 16"
                                                : "legal: lane 0 (M = 64 may also begin at lane 16)"});
}

void check_tensor_a(const MmaOperation& operation, const Block& block, const TensorMemory& memory) {
  const AccumulatorLayout layout = layout_of(operation);
  constexpr const char* kWhat = "tcgen05.mma, A in tensor memory";
  if (operation.weight_stationary && operation.shape.m != 128) {
    throw Fault(
        FaultKind::illegal_instruction,
        fmt::format("tcgen05.mma.ws with M {} and A in tensor memory is not implemented yet", operation.shape.m),
        {"A may lie in shared memory, or M be 128"});
  }
  if (operation.shape.a_mn_major) {
    throw Fault(FaultKind::illegal_instruction,
                "tcgen05.mma: bit 15 of the instruction descriptor (A is MN-major) with A in tensor memory",
                {"legal: 0; A in tensor memory is always K-major"});
  }
  check_lane(operation.a_address, layout, kWhat);
  if (cell_at(operation.a_address).lane != cell_at(operation.d).lane) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("tcgen05.mma: A begins in lane {} and D in lane {}", cell_at(operation.a_address).lane,
                            cell_at(operation.d).lane),
                {"legal: both in lane 0, or both in lane 16"});
  }
  memory.require(block, cell_at(operation.a_address), kTensorLanes - cell_at(operation.a_address).lane, kOperandColumns,
                 kWhat);
}

void check_scales(const MmaOperation& operation, const Block& block, const TensorMemory& memory) {
  const InstructionDescriptor& shape = operation.shape;
  const auto check_one = [&](uint32_t address, uint32_t id, uint32_t rows, const char* what) {
    if (id % operation.scales_per_slice != 0) {
      throw Fault(FaultKind::illegal_instruction,
                  fmt::format("{}: scale factor id {} of the instruction descriptor, with {} scale factors per row",
                              what, id, operation.scales_per_slice),
                  {operation.scales_per_slice == 2 ? "legal: 0 or 2" : "legal: 0"});
    }
    const TensorCell base = scale_base(address);
    if (base.lane != 0) {
      throw Fault(FaultKind::illegal_instruction,
                  fmt::format("{}: address 0x{:x} is in lane {}", what, address, base.lane),
                  {"legal: lane 0; the factors of 32 rows are repeated in each quarter of the lanes"});
    }
    memory.require(block, base, kTensorLanes, (rows + 31) / 32, what);
  };
  check_one(operation.scales_a, shape.scale_id_a, shape.m, "tcgen05.mma, scale factors of A");
  check_one(operation.scales_b, shape.scale_id_b, shape.n, "tcgen05.mma, scale factors of B");
}

void negate(float* values, size_t count) {
  for (size_t i = 0; i < count; ++i) values[i] = -values[i];
}

void load_operands(const MmaOperation& operation, const Block& block, TensorMemory& memory, PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  if (!operation.a_in_tensor_memory) {
    load_a(matrix_a(operation), block, space);
  } else {
    const TensorCell base = cell_at(operation.a_address);
    if (shape.m == kTensorLanes) {
      load_a(memory.column(base.column), shape.a, space);
    } else {
      for (uint32_t column = 0; column < kOperandColumns; ++column) {
        const uint32_t* const from = memory.column(base.column + column) + base.lane;
        for (uint32_t m = 0; m < shape.m; ++m) {
          space.cells[column * kPanelLanes + m] = from[accumulator_cell(AccumulatorLayout::f, m, 0, shape.n).lane];
        }
      }
      load_a(space.cells, shape.a, space);
    }
  }
  load_b(matrix_b(operation), block, space);
  if (shape.negate_a) negate(space.a, size_t{shape.k} * kPanelLanes);
  if (shape.negate_b) negate(space.b, size_t{shape.k} * shape.n);
}

// D in tensor memory, as runs of 16 rows in adjacent lanes.
class Accumulator {
 public:
  Accumulator(const MmaOperation& operation, TensorMemory& memory)
      : layout_(layout_of(operation)),
        m_(operation.shape.m),
        n_(operation.shape.n),
        base_(memory.column(cell_at(operation.d).column) + cell_at(operation.d).lane) {}

  /// The cells of rows m to m + 15 in column n.
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
  /// D (+)= A * B in place, in fp32.
  void multiply(const PanelSpace& space, const MultiplyShape& whole) const {
    MultiplyShape part = whole;
    part.n = n_ / column_groups(layout_);
    part.lane_gap = layout_ == AccumulatorLayout::f ? kRun : 0;
    for (uint32_t n = 0; n < n_; n += part.n) {
      mma_kernels().multiply(run(0, n), space.a, space.b + size_t{n} * whole.k, part);
    }
  }

 private:
  AccumulatorLayout layout_;
  uint32_t m_, n_;
  uint32_t* base_;
};

// Puts back what an operation wrote to lanes that it must not write.
class DisabledLanes {
 public:
  DisabledLanes(const MmaOperation& operation, TensorMemory& memory)
      : memory_(memory), first_(cell_at(operation.d).column), columns_(columns_of_d(operation)) {
    if (operation.disabled == std::array<uint32_t, 4>{}) return;
    for (uint32_t lane = 0; lane < kTensorLanes; ++lane) {
      if (operation.disabled[lane / 32] >> lane % 32 & 1) lanes_.push_back(lane);
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

MultiplyShape multiply_shape(const MmaOperation& operation) {
  return {operation.shape.m, operation.shape.n, operation.shape.k, 0, operation.accumulate};
}

void execute_f32(const MmaOperation& operation, const Accumulator& accumulator, PanelSpace& space) {
  if (operation.accumulate && operation.scale_d != 0) {
    const float scale = std::ldexp(1.0f, -static_cast<int>(operation.scale_d));
    accumulator.for_each([&](uint32_t& cell, uint32_t, uint32_t) {
      cell = std::bit_cast<uint32_t>(std::bit_cast<float>(cell) * scale);
    });
  }
  accumulator.multiply(space, multiply_shape(operation));
}

// Sums in fp32 over the K of the instruction, D included, and one rounding to f16.
void execute_f16(const MmaOperation& operation, const Accumulator& accumulator, PanelSpace& space) {
  if (operation.accumulate) {
    const float scale = std::ldexp(1.0f, -static_cast<int>(operation.scale_d));
    accumulator.for_each([&](const uint32_t& cell, uint32_t m, uint32_t n) {
      space.d[n * kPanelLanes + m] = from_f16(cell & 0xffff) * scale;
    });
  }
  mma_kernels().multiply(space.d, space.a, space.b, multiply_shape(operation));
  accumulator.for_each([&](uint32_t& cell, uint32_t m, uint32_t n) { cell = to_f16(space.d[n * kPanelLanes + m]); });
}

// The sum over the K of one instruction is below 2^24 in magnitude, thus exact in fp32.
void execute_s32(const MmaOperation& operation, const Accumulator& accumulator, PanelSpace& space) {
  MultiplyShape shape = multiply_shape(operation);
  shape.accumulate = false;
  mma_kernels().multiply(space.d, space.a, space.b, shape);
  accumulator.for_each([&](uint32_t& cell, uint32_t m, uint32_t n) {
    const int64_t before = operation.accumulate ? static_cast<int32_t>(cell) : 0;
    int64_t sum = before + static_cast<int64_t>(space.d[n * kPanelLanes + m]);
    if (operation.shape.saturate) {
      sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
    }
    cell = static_cast<uint32_t>(sum);
  });
}

/// The scale factors of one operand, as one quarter of the lanes sees them.
class Scales {
 public:
  Scales(TensorMemory& memory, uint32_t address, uint32_t id, const MmaOperation& operation)
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

// Whether the factors of all rows can be multiplied to fp32 elements without overflow or loss, in the products as well.
bool are_moderate(const Scales& scales, uint32_t rows, const InstructionDescriptor& shape, uint32_t step,
                  uint32_t quarter) {
  if (shape.scale_ue4m3) return true;
  constexpr uint32_t kOne = 127, kRange = 40;  // 2^40, beside elements below 2^16
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t k = 0; k < shape.k; k += step) {
      const uint32_t code = scales.code(row, k, quarter);
      if (code < kOne - kRange || code > kOne + kRange) return false;
    }
  }
  return true;
}

// Scales the panels, and multiplies as usual. Nearly always possible.
bool execute_scaled_in_fp32(const MmaOperation& operation, const Accumulator& accumulator, const Scales& scales_a,
                            const Scales& scales_b, PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  const uint32_t step = shape.k / operation.scales_per_slice;
  for (uint32_t n = 0; n < shape.n; ++n) {
    for (uint32_t k = 0; k < shape.k; k += step) {
      for (uint32_t quarter = 1; quarter < 4; ++quarter) {
        if (scales_b.code(n, k, quarter) != scales_b.code(n, k, 0)) return false;
      }
    }
  }
  if (!are_moderate(scales_b, shape.n, shape, step, 0)) return false;
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    if (!are_moderate(scales_a, shape.m, shape, step, quarter)) return false;
  }
  for (uint32_t first = 0; first < shape.k; first += step) {
    for (uint32_t m = 0; m < shape.m; ++m) {
      const float scale = scales_a.value(m, first, m / 32);
      for (uint32_t k = first; k < first + step; ++k) space.a[k * kPanelLanes + m] *= scale;
    }
    for (uint32_t n = 0; n < shape.n; ++n) {
      const float scale = scales_b.value(n, first, 0);
      for (uint32_t k = first; k < first + step; ++k) space.b[n * shape.k + k] *= scale;
    }
  }
  accumulator.multiply(space, multiply_shape(operation));
  return true;
}

// Scales each element before it is multiplied, in double: a scale factor alone may exceed fp32's range where the
// product does not. Each quarter of the lanes reads its own copy of the factors.
void execute_scaled_in_double(const MmaOperation& operation, const Accumulator& accumulator, const Scales& scales_a,
                              const Scales& scales_b, const PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  std::vector<double> b(size_t{shape.n} * shape.k);
  std::vector<double> a(shape.k);
  for (uint32_t quarter = 0; quarter < 4; ++quarter) {
    for (uint32_t n = 0; n < shape.n; ++n) {
      for (uint32_t k = 0; k < shape.k; ++k) {
        b[n * shape.k + k] = double{space.b[n * shape.k + k]} * scales_b.value(n, k, quarter);
      }
    }
    for (uint32_t m = 32 * quarter; m < 32 * quarter + 32; ++m) {
      for (uint32_t k = 0; k < shape.k; ++k) {
        a[k] = double{space.a[k * kPanelLanes + m]} * scales_a.value(m, k, quarter);
      }
      for (uint32_t n = 0; n < shape.n; ++n) {
        uint32_t& cell = accumulator.run(m / kRun * kRun, n)[m % kRun];
        double sum = operation.accumulate ? std::bit_cast<float>(cell) : 0.0;
        for (uint32_t k = 0; k < shape.k; ++k) sum += a[k] * b[n * shape.k + k];
        cell = std::bit_cast<uint32_t>(static_cast<float>(sum));
      }
    }
  }
}

void execute_scaled(const MmaOperation& operation, const Accumulator& accumulator, TensorMemory& memory,
                    PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  const Scales scales_a(memory, operation.scales_a, shape.scale_id_a, operation);
  const Scales scales_b(memory, operation.scales_b, shape.scale_id_b, operation);
  if (!execute_scaled_in_fp32(operation, accumulator, scales_a, scales_b, space)) {
    execute_scaled_in_double(operation, accumulator, scales_a, scales_b, space);
  }
}

}  // namespace

OperationFootprint footprint_of(const MmaOperation& operation, const Block& block) {
  constexpr uint32_t kAllLanes = 0xff, kLowerHalves = 0x55;  // of groups of 16 lanes
  OperationFootprint footprint;
  // Layout f uses 16 lanes of each quarter: those from the address's lane on.
  const uint32_t lanes =
      layout_of(operation) == AccumulatorLayout::f ? kLowerHalves << cell_at(operation.d).lane / 16 : kAllLanes;
  if (operation.a_in_tensor_memory) {
    footprint.tensor_reads.push_back({cell_at(operation.a_address).column, kOperandColumns, lanes});
  } else {
    append_matrix(matrix_a(operation), block, "A", footprint);
  }
  append_matrix(matrix_b(operation), block, "B", footprint);
  if (is_block_scaled(operation.shape.kind)) {
    const auto add_scales = [&](uint32_t address, uint32_t rows) {
      footprint.tensor_reads.push_back({scale_base(address).column, (rows + 31) / 32, kAllLanes});
    };
    add_scales(operation.scales_a, operation.shape.m);
    add_scales(operation.scales_b, operation.shape.n);
  }
  footprint.tensor_writes.push_back({cell_at(operation.d).column, columns_of_d(operation), lanes});
  footprint.accumulates = operation.accumulate;
  return footprint;
}

void check(const MmaOperation& operation, const Block& block, const TensorMemory& memory) {
  check_lane(operation.d, layout_of(operation), "tcgen05.mma, accumulator");
  memory.require(block, cell_at(operation.d), kTensorLanes - cell_at(operation.d).lane, columns_of_d(operation),
                 "tcgen05.mma, accumulator");
  if (operation.a_in_tensor_memory) {
    check_tensor_a(operation, block, memory);
  } else {
    check(matrix_a(operation), block, "tcgen05.mma, A in shared memory");
  }
  check(matrix_b(operation), block, "tcgen05.mma, B in shared memory");
  if (is_block_scaled(operation.shape.kind)) check_scales(operation, block, memory);
}

void execute(const MmaOperation& operation, const Block& block, TensorMemory& memory) {
  PanelSpace& space = panel_space();
  load_operands(operation, block, memory, space);
  const Accumulator accumulator(operation, memory);
  DisabledLanes disabled(operation, memory);
  if (is_block_scaled(operation.shape.kind)) {
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

}  // namespace stagecraft::emulator::units
