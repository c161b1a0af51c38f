// The arithmetic of tcgen05.mma: loads the operands, multiplies, and writes D in tensor memory.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "emulator/engines/tensor_core/panel_kernels.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_accumulator.hpp"
#include "emulator/engines/tensor_core/tcgen05/tcgen05_mma_operation.hpp"

namespace stagecraft::emulator::machine {

namespace {

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
        for (uint32_t m = 0; m < rows_of_block(operation); ++m) {
          space.cells[column * kPanelLanes + m] = from[accumulator_cell(AccumulatorLayout::f, m, 0, shape.n).lane];
        }
      }
      load_a(space.cells, shape.a, space);
    }
  }
  if (shape.negate_a) negate(space.a, size_t{shape.stored_k()} * kPanelLanes);
  if (shape.sparse) spread_sparse_a(operation, unit, space);
}

// Loads the columns of B of all blocks.
void load_b_of(const TensorUnits& units, const Tcgen05Mma& operation, PanelSpace& space) {
  const InstructionDescriptor& shape = operation.shape;
  const uint32_t columns = columns_of_block(operation);
  for (uint32_t i = 0; i < units.count(); ++i) load_b(matrix_b(operation), *units[i].block, space, i * columns);
  if (shape.negate_b) negate(space.b, size_t{shape.k} * shape.n);
}

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

void execute_f32(const Tcgen05Mma& operation, const TensorAccumulator& accumulator, PanelSpace& space) {
  if (operation.accumulate && operation.scale_d != 0) {
    const float scale = std::ldexp(1.0f, -static_cast<int>(operation.scale_d));
    accumulator.for_each([&](uint32_t& cell, uint32_t, uint32_t) {
      cell = std::bit_cast<uint32_t>(std::bit_cast<float>(cell) * scale);
    });
  }
  accumulator.multiply(space);
}

// Adds over the K of the instruction, including D, and rounds to f16 once.
void execute_f16(const Tcgen05Mma& operation, const TensorAccumulator& accumulator, PanelSpace& space) {
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
void execute_s32(const Tcgen05Mma& operation, const TensorAccumulator& accumulator, PanelSpace& space) {
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

}  // namespace

void execute(const Tcgen05Mma& operation, const TensorUnits& units, const NanScales* observed) {
  PanelSpace& space = panel_space();
  const bool scaled = is_block_scaled(operation.shape.kind);
  SpecialFactors special;
  for (uint32_t i = 0; i < units.count(); ++i) {
    TensorMemory& memory = *units[i].memory;
    // Scaling changes the panel of B, by factors that differ between blocks.
    if (i == 0 || scaled) {
      load_b_of(units, operation, space);
      if (operation.shape.sparse) special.take_out(operation.shape, space);
    }
    load_a_of(units[i], operation, space);
    const TensorAccumulator accumulator(operation, memory);
    DisabledLanes disabled(operation, memory, i);
    if (scaled) {
      if (observed != nullptr) announce_nan_scales(operation, units[i], space, *observed);
      execute_scaled(operation, accumulator, memory, space);
    } else {
      switch (operation.shape.d) {
        case AccumulatorFormat::f32: execute_f32(operation, accumulator, space); break;
        case AccumulatorFormat::f16: execute_f16(operation, accumulator, space); break;
        case AccumulatorFormat::s32: execute_s32(operation, accumulator, space); break;
      }
    }
    special.add_to(operation, accumulator, space);
    disabled.restore();
  }
}

}  // namespace stagecraft::emulator::machine
