#include "emulator/engines/tensor_core/tcgen05/tcgen05_copy.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "emulator/engines/tensor_core/matrix_operand.hpp"
#include "emulator/state/fault.hpp"

namespace stagecraft::emulator::machine {

void check(const Tcgen05Copy& operation, const TensorUnits& units) {
  const CopyShape shape = operation.shape;
  const TensorCell cell = cell_at(operation.address);
  // 4x256b writes one lane of each quarter, which the address selects; all other shapes write all lanes.
  const uint32_t last_lane = shape == CopyShape::c4x256b ? 31 : 0;
  if (cell.lane > last_lane) {
    throw Fault(
        FaultKind::illegal_instruction,
        fmt::format("tcgen05.cp: address 0x{:x} is in lane {}", operation.address, cell.lane),
        {last_lane == 0 ? "legal: lane 0" : "legal for 4x256b: lanes 0 to 31, the lane written in each quarter"});
  }
  const uint32_t lanes = shape == CopyShape::c4x256b ? 3 * 32 + 1 : kTensorLanes;
  units.check_each([&](const TensorUnit& unit) {
    unit.memory->require(*unit.block, cell, lanes, row_bytes_of(shape) / 4, "tcgen05.cp");
    check_k_major(operation.source, *unit.block, rows_of(shape), row_bytes_of(shape),
                  "tcgen05.cp, source in shared memory");
  });
}

OperationFootprint footprint_of(const Tcgen05Copy& operation, const TensorUnits& units) {
  constexpr uint32_t kAllLanes = 0xff, kOneOfEachQuarter = 0x55;  // of groups of 16 lanes
  OperationFootprint footprint;
  for (const TensorUnit& unit : units) {
    append_matrix(operation.source, *unit.block, rows_of(operation.shape), row_bytes_of(operation.shape), "the source",
                  footprint);
  }
  const TensorCell cell = cell_at(operation.address);
  footprint.tensor_writes.push_back(
      {cell.column, row_bytes_of(operation.shape) / 4,
       operation.shape == CopyShape::c4x256b ? kOneOfEachQuarter << cell.lane / 16 : kAllLanes});
  return footprint;
}

namespace {

void execute_in(const TensorUnit& unit, const Tcgen05Copy& operation) {
  constexpr uint32_t kMostBytes = 128 * 32;
  constexpr uint32_t kChunk = 16;
  const CopyShape shape = operation.shape;
  const uint32_t rows = rows_of(shape), row_bytes = row_bytes_of(shape);
  std::array<uint8_t, kMostBytes> bytes;
  gather_k_major(operation.source, *unit.block, rows, row_bytes, bytes.data());
  if (operation.unpacked) {
    std::array<uint8_t, kChunk> packed;
    for (uint32_t chunk = 0; chunk < rows * row_bytes; chunk += kChunk) {
      std::memcpy(packed.data(), bytes.data() + chunk, kChunk);
      unpack_chunk(*operation.unpacked, packed.data(), bytes.data() + chunk);
    }
  }
  const TensorCell base = cell_at(operation.address);
  for (uint32_t row = 0; row < rows; ++row) {
    for (uint32_t column = 0; column < row_bytes / 4; ++column) {
      uint32_t word;
      std::memcpy(&word, bytes.data() + row * row_bytes + column * 4, sizeof word);
      for (uint32_t copy = 0; copy < copies_of(shape); ++copy) {
        unit.memory->cell({base.lane + copy_lane(shape, row, copy), base.column + column}) = word;
      }
    }
  }
}

}  // namespace

void execute(const Tcgen05Copy& operation, const TensorUnits& units) {
  for (const TensorUnit& unit : units) execute_in(unit, operation);
}

}  // namespace stagecraft::emulator::machine
