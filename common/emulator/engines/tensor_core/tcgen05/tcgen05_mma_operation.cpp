#include "emulator/engines/tensor_core/tcgen05/tcgen05_mma_operation.hpp"

#include <fmt/format.h>

#include <string_view>

#include "emulator/state/fault.hpp"

namespace stagecraft::emulator::machine {

TensorCell scale_base(uint32_t address) { return cell_at(address & 0x3fffffff); }

uint32_t rows_of_block(const Tcgen05Mma& operation) { return operation.shape.m / operation.shape.blocks; }
uint32_t columns_of_block(const Tcgen05Mma& operation) { return operation.shape.n / operation.shape.blocks; }

AccumulatorLayout layout_of(const Tcgen05Mma& operation) {
  const uint32_t rows = rows_of_block(operation);
  if (rows == 128) return AccumulatorLayout::d;
  if (operation.shape.blocks == 2) return operation.shape.sparse ? AccumulatorLayout::f : AccumulatorLayout::e;
  if (!operation.weight_stationary) return AccumulatorLayout::f;
  return rows == 64 ? AccumulatorLayout::e : AccumulatorLayout::g;
}

uint32_t columns_of_d(const Tcgen05Mma& operation) { return operation.shape.n / column_groups(layout_of(operation)); }

SharedMatrix matrix_a(const Tcgen05Mma& operation) {
  const InstructionDescriptor& shape = operation.shape;
  return {operation.a, shape.a, shape.a_mn_major, rows_of_block(operation), shape.stored_k()};
}
SharedMatrix matrix_b(const Tcgen05Mma& operation) {
  const InstructionDescriptor& shape = operation.shape;
  const uint32_t row_bytes = shape.sparse ? 64 : 32;
  return {operation.b, shape.b, shape.b_mn_major, columns_of_block(operation), shape.k, row_bytes};
}

uint32_t lane_of_row(const Tcgen05Mma& operation, uint32_t panel_lane) {
  if (layout_of(operation) != AccumulatorLayout::f) return panel_lane;
  return cell_at(operation.d).lane + accumulator_cell(AccumulatorLayout::f, panel_lane, 0, 1).lane;
}

namespace {

// The metadata of a sparse A: their first column, and how many there are.
struct MetadataColumns {
  uint32_t first, count;
};
MetadataColumns metadata_columns(const Tcgen05Mma& operation) {
  const uint32_t base = cell_at(operation.metadata).column;
  return has_paired_metadata(operation.shape.kind) ? MetadataColumns{base + operation.shape.selector, 1}
                                                   : MetadataColumns{base, 2};
}

// Throws Fault unless D, or an A in tensor memory, begins at a legal lane: lane 0, or with layout f, which uses half of
// each quarter, lane 16.
void check_lane(uint32_t address, AccumulatorLayout layout, std::string_view what) {
  const uint32_t lane = cell_at(address).lane;
  if (lane == 0 || (lane == 16 && layout == AccumulatorLayout::f)) return;
  throw Fault(FaultKind::illegal_instruction, fmt::format("{}: address 0x{:x} is in lane {}", what, address, lane),
              {is_unwritten_word(address)       ? kUnwrittenWord
               : layout == AccumulatorLayout::f ? "legal for M = 64: lane 0 or 16"
                                                : "legal: lane 0 (M = 64 may also begin at lane 16)"});
}

void check_tensor_a(const Tcgen05Mma& operation, const TensorUnit& unit) {
  const AccumulatorLayout layout = layout_of(operation);
  constexpr const char* kWhat = "tcgen05.mma, A in tensor memory";
  // With 64 rows each half of the lanes has its own copy of A, as in a pair: FlashMLA, which runs on B200s, lets the
  // two differ.
  if (layout == AccumulatorLayout::g) {
    throw Fault(FaultKind::illegal_instruction,
                "tcgen05.mma.ws with M 32 and A in tensor memory is not implemented: where A is then is not known here",
                {"put A in shared memory, or use M 64 or 128"});
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
  unit.memory->require(*unit.block, cell_at(operation.a_address), kTensorLanes - cell_at(operation.a_address).lane,
                       kOperandColumns, kWhat);
}

// That metadata begin in an even column: CUTLASS and JAX (Mosaic GPU) name a pair of columns, of which the selector
// chooses one, and an sm_110 was reported to stop at others with "misaligned address". That their lane is that of D:
// PTX ISA, "Alignment restriction" of sparse matrices.
void check_metadata(const Tcgen05Mma& operation, const TensorUnit& unit) {
  constexpr const char* kWhat = "tcgen05.mma.sp, metadata";
  const TensorCell base = cell_at(operation.metadata);
  if (is_unwritten_word(operation.metadata) || base.column % 2 != 0) {
    throw Fault(FaultKind::misaligned_address,
                fmt::format("{}: address 0x{:x} is in column {}", kWhat, operation.metadata, base.column),
                {is_unwritten_word(operation.metadata)
                     ? kUnwrittenWord
                     : "legal: an even column; kind::f16 and kind::tf32 reach the other one by the sparsity selector "
                       "(bits 1:0 of the instruction descriptor)"});
  }
  if (base.lane != cell_at(operation.d).lane) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("{}: they begin in lane {} and D in lane {}", kWhat, base.lane, cell_at(operation.d).lane),
                {layout_of(operation) == AccumulatorLayout::f ? "legal: both in lane 0, or both in lane 16"
                                                              : "legal: both in lane 0"});
  }
  const MetadataColumns columns = metadata_columns(operation);
  unit.memory->require(*unit.block, {base.lane, columns.first}, kTensorLanes - base.lane, columns.count, kWhat);
}

void check_scales(const Tcgen05Mma& operation, const TensorUnit& unit) {
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
    unit.memory->require(*unit.block, base, kTensorLanes, (rows + 31) / 32, what);
  };
  check_one(operation.scales_a, shape.scale_id_a, rows_of_block(operation), "tcgen05.mma, scale factors of A");
  check_one(operation.scales_b, shape.scale_id_b, columns_of_d(operation), "tcgen05.mma, scale factors of B");
}

}  // namespace

OperationFootprint footprint_of(const Tcgen05Mma& operation, const TensorUnits& units) {
  constexpr uint32_t kAllLanes = 0xff, kLowerHalves = 0x55;  // of groups of 16 lanes
  OperationFootprint footprint;
  // Layout f uses 16 lanes of each quarter: those from the address's lane on.
  const uint32_t lanes =
      layout_of(operation) == AccumulatorLayout::f ? kLowerHalves << cell_at(operation.d).lane / 16 : kAllLanes;
  for (const TensorUnit& unit : units) {
    if (!operation.a_in_tensor_memory) append_matrix(matrix_a(operation), *unit.block, "A", footprint);
    append_matrix(matrix_b(operation), *unit.block, "B", footprint);
  }
  if (operation.a_in_tensor_memory) {
    footprint.tensor_reads.push_back({cell_at(operation.a_address).column, kOperandColumns, lanes});
  }
  if (is_block_scaled(operation.shape.kind)) {
    const auto add_scales = [&](uint32_t address, uint32_t rows) {
      footprint.tensor_reads.push_back({scale_base(address).column, (rows + 31) / 32, kAllLanes});
    };
    add_scales(operation.scales_a, rows_of_block(operation));
    add_scales(operation.scales_b, columns_of_d(operation));
  }
  if (operation.shape.sparse) {
    const MetadataColumns columns = metadata_columns(operation);
    footprint.tensor_reads.push_back({columns.first, columns.count, lanes});
  }
  footprint.tensor_writes.push_back({cell_at(operation.d).column, columns_of_d(operation), lanes});
  footprint.accumulates = operation.accumulate;
  footprint.product = {operation.shape.m, operation.shape.n, operation.shape.k, !operation.a_in_tensor_memory,
                       operation.shape.sparse};
  return footprint;
}

void check(const Tcgen05Mma& operation, const TensorUnits& units) {
  check_lane(operation.d, layout_of(operation), "tcgen05.mma, accumulator");
  units.check_each([&](const TensorUnit& unit) {
    unit.memory->require(*unit.block, cell_at(operation.d), kTensorLanes - cell_at(operation.d).lane,
                         columns_of_d(operation), "tcgen05.mma, accumulator");
    if (operation.a_in_tensor_memory) {
      check_tensor_a(operation, unit);
    } else {
      check(matrix_a(operation), *unit.block, "tcgen05.mma, A in shared memory");
    }
    check(matrix_b(operation), *unit.block, "tcgen05.mma, B in shared memory");
    if (is_block_scaled(operation.shape.kind)) check_scales(operation, unit);
    if (operation.shape.sparse) check_metadata(operation, unit);
  });
}

}  // namespace stagecraft::emulator::machine
