// ldmatrix and stmatrix: a warp moves 8x8 (or 16x16, 16x8, 8x16) matrices between shared memory and registers. Lanes
// give the addresses of rows of 16 bytes; the rows are spread over the registers of all lanes.
//
// Layouts: PTX ISA, "ldmatrix" and "stmatrix"; those of the 8-bit shapes follow CUTLASS's copy traits for SM100.
#include <fmt/format.h>

#include <cstring>

#include "emulator/instructions/families.hpp"
#include "emulator/instructions/memory_access.hpp"
#include "emulator/state/fragments.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {
namespace {

using ptx::Space;
using ptx::Type;

constexpr uint32_t kRowBytes = 16;

enum class MatrixShape : uint8_t {
  m8n8,          ///< 16-bit elements; also ldmatrix.m8n16, whose 8-bit elements have the same places
  m8n8_trans,    ///< the same, rows and columns exchanged
  m16n16_trans,  ///< ldmatrix, 8-bit elements
  m16n8_trans,   ///< stmatrix, 8-bit elements
};

struct MatrixDetail : AccessDetail {
  MatrixShape shape = MatrixShape::m8n8;
  uint32_t packed_bits = 0;  // 4 or 6: rows hold elements of so many bits, which become bytes
  uint32_t register_count = 0;
};

/// Where a byte of a lane's register is among the rows: row number (over all matrices), byte in the row.
struct RowByte {
  uint32_t row, byte;
};

RowByte place_of(MatrixShape shape, uint32_t index, uint32_t lane, uint32_t byte) {
  const uint32_t group = lane / 4, member = lane % 4;
  switch (shape) {
    case MatrixShape::m8n8: return {8 * index + group, 4 * member + byte};
    case MatrixShape::m8n8_trans: return {8 * index + 2 * member + byte / 2, 2 * group + byte % 2};
    case MatrixShape::m16n16_trans: return {16 * (index / 2) + 4 * member + byte, group + 8 * (index % 2)};
    case MatrixShape::m16n8_trans: return {8 * index + 2 * member + byte % 2, group + 8 * (byte / 2)};
  }
  return {};
}

/// Returns element `number` of a row of 4-bit or 6-bit elements, which comes to the low end of a byte. mma.sync needs
/// four bits in the middle of the byte, so kernels shift them (CUTLASS, mma_traits_sm120.hpp, `fp4_shift_A`).
uint8_t expand(const uint8_t* row, uint32_t number, uint32_t bits) {
  const uint32_t position = number * bits;
  uint32_t pair = row[position / 8];
  if (position / 8 + 1 < kRowBytes) pair |= uint32_t{row[position / 8 + 1]} << 8;
  return static_cast<uint8_t>(pair >> position % 8 & ((1u << bits) - 1));
}

/// Waits for the other lanes of the warp. Returns the lanes to go on with; none when the fragment sleeps.
LaneMask gather_warp(Fragment& fragment, const MatrixDetail& detail, LaneMask mask) {
  mask = converge_warp(fragment, mask);
  if (mask == 0 || (detail.suppliers & ~mask) == 0) return mask;
  throw Fault(FaultKind::illegal_instruction,
              fmt::format("`{}` takes the addresses of rows from {}; {} execute it", detail.name,
                          spell_lanes(detail.suppliers), spell_lanes(mask)),
              {"the whole warp must execute it: 32 threads that have not exited"});
}

// The shapes that nearly all kernels use, for a whole warp: a register holds the rows of an 8x8 matrix of 16-bit
// elements one after the other, or the columns.
constexpr uint32_t kRows = 8;

bool moves_whole_rows(const MatrixDetail& detail, LaneMask mask) {
  return mask == kAllLanes && detail.packed_bits == 0 &&
         (detail.shape == MatrixShape::m8n8 || detail.shape == MatrixShape::m8n8_trans);
}

void load_rows(const Fragment& fragment, const MatrixDetail& detail, const uint64_t* pointers) {
  for (uint32_t index = 0; index < detail.register_count; ++index, pointers += kRows) {
    auto* const lanes = lanes_at<uint16_t>(fragment.registers, detail.registers[index]);
    for (uint32_t row = 0; row < kRows; ++row) {
      uint16_t elements[kRows];
      std::memcpy(elements, reinterpret_cast<const void*>(pointers[row]), kRowBytes);
      if (detail.shape == MatrixShape::m8n8) {
        std::memcpy(lanes + kRows * row, elements, kRowBytes);
      } else {
        for (uint32_t column = 0; column < kRows; ++column) lanes[kRows * column + row] = elements[column];
      }
    }
  }
}

void store_rows(const Fragment& fragment, const MatrixDetail& detail, const uint64_t* pointers) {
  for (uint32_t index = 0; index < detail.register_count; ++index, pointers += kRows) {
    const auto* const lanes = lanes_at<uint16_t>(fragment.registers, detail.registers[index]);
    for (uint32_t row = 0; row < kRows; ++row) {
      uint16_t elements[kRows];
      if (detail.shape == MatrixShape::m8n8) {
        std::memcpy(elements, lanes + kRows * row, kRowBytes);
      } else {
        for (uint32_t column = 0; column < kRows; ++column) elements[column] = lanes[kRows * column + row];
      }
      std::memcpy(reinterpret_cast<void*>(pointers[row]), elements, kRowBytes);
    }
  }
}

Outcome load_matrix(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const MatrixDetail*>(op.detail);
  mask = gather_warp(fragment, detail, mask);
  if (mask == 0) return Outcome::blocked;
  uint64_t pointers[kWarpSize];
  detail.locate(fragment, detail, detail.suppliers, pointers);
  if (moves_whole_rows(detail, mask)) {
    load_rows(fragment, detail, pointers);
    return Outcome::next;
  }
  uint8_t rows[kWarpSize][kRowBytes];
  for_each_lane(detail.suppliers, [&](uint32_t lane) {
    const auto* const row = reinterpret_cast<const uint8_t*>(pointers[lane]);
    for (uint32_t byte = 0; byte < kRowBytes; ++byte) {
      rows[lane][byte] = detail.packed_bits != 0 ? expand(row, byte, detail.packed_bits) : row[byte];
    }
  });
  for (uint32_t index = 0; index < detail.register_count; ++index) {
    auto* const lanes = lanes_at<uint8_t>(fragment.registers, detail.registers[index]);
    for_each_lane(mask, [&](uint32_t lane) {
      for (uint32_t byte = 0; byte < 4; ++byte) {
        const RowByte from = place_of(detail.shape, index, lane, byte);
        lanes[4 * lane + byte] = rows[from.row][from.byte];
      }
    });
  }
  return Outcome::next;
}

Outcome store_matrix(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const MatrixDetail*>(op.detail);
  mask = gather_warp(fragment, detail, mask);
  if (mask == 0) return Outcome::blocked;
  note_effect(fragment);
  uint64_t pointers[kWarpSize];
  detail.locate(fragment, detail, detail.suppliers, pointers);
  if (moves_whole_rows(detail, mask)) {
    store_rows(fragment, detail, pointers);
    return Outcome::next;
  }
  uint8_t rows[kWarpSize][kRowBytes] = {};
  for (uint32_t index = 0; index < detail.register_count; ++index) {
    const auto* const lanes = lanes_at<uint8_t>(fragment.registers, detail.registers[index]);
    for_each_lane(mask, [&](uint32_t lane) {
      for (uint32_t byte = 0; byte < 4; ++byte) {
        const RowByte to = place_of(detail.shape, index, lane, byte);
        rows[to.row][to.byte] = lanes[4 * lane + byte];
      }
    });
  }
  for_each_lane(detail.suppliers,
                [&](uint32_t lane) { std::memcpy(reinterpret_cast<void*>(pointers[lane]), rows[lane], kRowBytes); });
  return Outcome::next;
}

MatrixShape take_shape(Translation& t, bool store, uint32_t& packed_bits) {
  const bool trans = t.modifiers.take("trans");
  const std::string_view shape =
      store ? t.modifiers.require_one_of({"m8n8", "m16n8"}) : t.modifiers.require_one_of({"m8n8", "m16n16", "m8n16"});
  const auto packed = t.modifiers.take_one_of({"b4x16_p64", "b6x16_p32"});
  const auto elements = t.modifiers.require_one_of({"b16", "b8", "b8x16"});
  if (packed) packed_bits = packed == "b4x16_p64" ? 4 : 6;
  if (shape != "m8n8" && t.architecture().major < 10) t.unsupported("matrices of bytes need sm_100");
  const bool expands = elements == "b8x16" && packed;
  const bool plain_bytes = elements == "b8" && !packed;
  if (shape == "m8n8" && elements == "b16" && !packed) return trans ? MatrixShape::m8n8_trans : MatrixShape::m8n8;
  if (shape == "m16n16" && trans && (plain_bytes || expands)) return MatrixShape::m16n16_trans;
  if (shape == "m16n8" && trans && plain_bytes) return MatrixShape::m16n8_trans;
  if (shape == "m8n16" && !trans && expands) return MatrixShape::m8n8;
  t.illegal(store ? "legal are .m8n8 with .b16, and .m16n8.trans with .b8"
                  : "legal are .m8n8 with .b16, .m16n16.trans with .b8 or .b8x16 and a packed format, and .m8n16.b8x16 "
                    "with a packed format (.b4x16_p64, .b6x16_p32)");
}

void translate_matrix(Translation& t, bool store) {
  auto detail = std::make_unique<MatrixDetail>();
  detail->name = ptx::spelling(t.instruction);
  detail->verb = store ? AccessVerb::writes : AccessVerb::reads;
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  bool cluster_wide = false;
  const Space space = take_space(t.modifiers, cluster_wide);
  if ((space != Space::none && space != Space::shared) || cluster_wide) t.illegal("matrices must be in .shared memory");
  const std::string_view number = t.modifiers.require_one_of({"x1", "x2", "x4"});
  const uint32_t matrices = static_cast<uint32_t>(number[1] - '0');
  detail->shape = take_shape(t, store, detail->packed_bits);
  const bool tall = detail->shape == MatrixShape::m16n16_trans;
  if (tall && matrices == 4) t.illegal(".m16n16 exists as .x1 and .x2");
  detail->register_count = tall ? 2 * matrices : matrices;
  const uint32_t rows = (tall ? 16 : 8) * matrices;
  detail->suppliers = rows == kWarpSize ? kAllLanes : (1u << rows) - 1;
  detail->bytes = detail->alignment = detail->element_bytes = kRowBytes;
  detail->count = 1;

  const ptx::Operand& registers = t.operand(store ? 1 : 0);
  const bool is_vector = registers.kind == ptx::OperandKind::vector;
  const size_t given = is_vector ? registers.list.size() : 1;
  if (given != detail->register_count) {
    t.illegal(fmt::format("{} registers are given, {} are needed", given, detail->register_count));
  }
  for (uint32_t i = 0; i < detail->register_count; ++i) {
    const ptx::Operand& element = is_vector ? registers.list[i] : registers;
    if (register_bytes_of(t, element, Type::b32) != 4) t.illegal("the registers must have 32 bits");
    detail->registers[i] = store ? t.source(element, Type::b32) : t.destination(element, Type::b32);
  }
  set_address(t, *detail, t.operand(store ? 0 : 1), space);
  choose_locate(*detail);
  Op& op = t.emit(store ? store_matrix : load_matrix);
  op.detail = t.keep(std::move(detail));
}

/// movmatrix: lane t has row t/4, elements 2*(t%4) and the next, and gets column t/4 in their place.
Outcome transpose_matrix(Fragment& fragment, const Op& op, LaneMask mask) {
  mask = converge_warp(fragment, mask);
  if (mask == 0) return Outcome::blocked;
  if (mask != kAllLanes) {
    throw Fault(FaultKind::illegal_instruction,
                fmt::format("`movmatrix.sync.aligned` is executed by {} only", spell_lanes(mask)),
                {"the whole warp must execute it: 32 threads that have not exited"});
  }
  uint16_t elements[8][8];
  std::memcpy(elements, fragment.registers + op.a, sizeof elements);
  auto* const destination = lanes_at<uint16_t>(fragment.registers, op.destination);
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    for (uint32_t half = 0; half < 2; ++half) destination[2 * lane + half] = elements[2 * (lane % 4) + half][lane / 4];
  }
  return Outcome::next;
}

void translate_movmatrix(Translation& t) {
  for (const char* modifier : {"sync", "aligned", "m8n8", "trans", "b16"}) t.modifiers.require(modifier);
  const RegisterOffset source = t.source(1, Type::b32);
  const RegisterOffset destination = t.destination(size_t{0}, Type::b32);
  Op& op = t.emit(transpose_matrix);
  op.a = source;
  op.destination = destination;
}

}  // namespace

void add_matrix_transfers(InstructionSet& set) {
  InstructionTraits loads = kOrdinary;
  loads.memory = MemoryUse::loads;
  loads.only_shared = true;
  InstructionTraits stores = loads;
  stores.memory = MemoryUse::stores;
  loads.left_out_unread = true;
  set.add(
      "ldmatrix", [](Translation& t) { translate_matrix(t, false); }, loads, InstructionClass::memory);
  set.add("movmatrix", translate_movmatrix, kOrdinary, InstructionClass::other);
  set.add(
      "stmatrix", [](Translation& t) { translate_matrix(t, true); }, stores, InstructionClass::memory);
}

}  // namespace stagecraft::emulator::machine
