// wmma: a warp loads, multiplies and stores fragments; nvcc makes these instructions from mma.h.
//
// A load or a store becomes several Ops: one that computes the addresses, one plain access for each piece that is
// contiguous in memory, and, for elements that are not contiguous, one that joins or splits the registers. So
// everything that observes loads and stores sees these too. A multiplication is one or two tiles of mma.sync.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "emulator/engines/tensor_core/register_fragments.hpp"
#include "emulator/engines/tensor_core/warp_mma/mma_sync.hpp"
#include "emulator/engines/tensor_core/warp_mma/mma_tile.hpp"
#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"
#include "emulator/instructions/memory_access.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

// Names like those of mma_sync.cpp, with which this file is compiled.
namespace wmma {
namespace {

// ---- Shapes and types ----------------------------------------------------------------------------------------------

/// The types that are multiplied: bits of an element, the shapes that exist, each with a space after it, and the types
/// of C and D.
struct Elements {
  std::string_view type;
  uint32_t bits;
  std::string_view shapes;
  std::string_view sums;
};
constexpr std::string_view kWideShapes = "m16n16k16 m8n32k16 m32n8k16 ";
constexpr std::array<Elements, 9> kElements{{{"f16", 16, kWideShapes, "f16 f32 "},
                                             {"bf16", 16, kWideShapes, "f32 "},
                                             {"s8", 8, kWideShapes, "s32 "},
                                             {"u8", 8, kWideShapes, "s32 "},
                                             {"tf32", 32, "m16n16k8 ", "f32 "},
                                             {"s4", 4, "m8n8k32 ", "s32 "},
                                             {"u4", 4, "m8n8k32 ", "s32 "},
                                             {"b1", 1, "m8n8k128 ", "s32 "},
                                             {"f64", 64, "m8n8k4 ", "f64 "}}};

struct Shape {
  std::string_view name;
  uint32_t m, n, k;
};
constexpr std::array<Shape, 7> kShapes{{{"m16n16k16", 16, 16, 16},
                                        {"m8n32k16", 8, 32, 16},
                                        {"m32n8k16", 32, 8, 16},
                                        {"m16n16k8", 16, 16, 8},
                                        {"m8n8k32", 8, 8, 32},
                                        {"m8n8k128", 8, 8, 128},
                                        {"m8n8k4", 8, 8, 4}}};

Shape take_shape(Translation& t) {
  const std::string_view name =
      t.modifiers.require_one_of({"m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8", "m8n8k32", "m8n8k128", "m8n8k4"});
  return *std::find_if(kShapes.begin(), kShapes.end(), [&](const Shape& shape) { return shape.name == name; });
}

bool is_among(std::string_view name, std::string_view names) {
  return names.find(fmt::format("{} ", name)) != std::string_view::npos;
}

const Elements& elements_of(Translation& t, std::string_view type, const Shape& shape) {
  const Elements& elements = *std::find_if(kElements.begin(), kElements.end(),
                                           [&](const Elements& candidate) { return candidate.type == type; });
  if (!is_among(shape.name, elements.shapes)) {
    t.illegal(fmt::format("shape .{} does not exist for .{}; there are: {}", shape.name, type, elements.shapes));
  }
  return elements;
}

WmmaShape fragments_of(const Shape& shape, uint32_t bits) {
  return {shape.m, shape.n, bits == 64 ? shape.k : shape.k * bits / 32};
}

/// Returns the registers of a fragment, which must be `count`.
std::vector<const ptx::Operand*> registers_of(Translation& t, size_t index, size_t count, const char* what) {
  const ptx::Operand& operand = t.operand(index);
  std::vector<const ptx::Operand*> all;
  if (operand.kind == ptx::OperandKind::vector) {
    for (const ptx::Operand& element : operand.list) all.push_back(&element);
  } else {
    all.push_back(&operand);
  }
  if (all.size() != count) t.illegal(fmt::format("{} has {} registers, and needs {}", what, all.size(), count));
  return all;
}

// ---- Loads and stores ----------------------------------------------------------------------------------------------

/// One access: where in the matrix it begins in each lane, in elements.
struct Piece {
  std::array<uint16_t, kWarpSize> lines{};   ///< number of the row, or of the column if the matrix is stored by columns
  std::array<uint16_t, kWarpSize> places{};  ///< place in the row
  RegisterOffset address = kNoRegister;
};

/// A 32-bit register whose elements are moved one by one.
struct Parts {
  RegisterOffset whole = kNoRegister;
  std::vector<RegisterOffset> elements;  ///< from the lowest bits on
};

struct TransferDetail : OpDetail {
  RegisterOffset base = kNoRegister, stride = kNoRegister;
  bool wide = false;            ///< lanes of `base` have 8 bytes, otherwise 4
  uint32_t default_stride = 0;  ///< if there is no operand for it
  uint32_t bits = 0;            ///< of an element
  std::vector<Piece> pieces;
  std::vector<Parts> parts;
};

/// Gathers the whole warp, and computes the address of each piece.
Outcome compute_addresses(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_warp(fragment, mask, "wmma.load or wmma.store") == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const TransferDetail*>(op.detail);
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint64_t base = detail.wide ? lanes_at<uint64_t>(fragment.registers, detail.base)[lane]
                                      : lanes_at<uint32_t>(fragment.registers, detail.base)[lane];
    const uint64_t stride = detail.stride != kNoRegister ? lanes_at<uint32_t>(fragment.registers, detail.stride)[lane]
                                                         : detail.default_stride;
    for (const Piece& piece : detail.pieces) {
      lanes_at<uint64_t>(fragment.registers, piece.address)[lane] =
          base + (piece.lines[lane] * stride + piece.places[lane]) * detail.bits / 8;
    }
  }
  return Outcome::next;
}

Outcome join_parts(Fragment& fragment, const Op& op, LaneMask) {
  const auto& detail = *static_cast<const TransferDetail*>(op.detail);
  for (const Parts& parts : detail.parts) {
    auto* const whole = lanes_at<uint32_t>(fragment.registers, parts.whole);
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      whole[lane] = 0;
      for (size_t i = 0; i < parts.elements.size(); ++i) {
        whole[lane] |= uint32_t{lanes_at<uint16_t>(fragment.registers, parts.elements[i])[lane]} << i * detail.bits;
      }
    }
  }
  return Outcome::next;
}

Outcome split_parts(Fragment& fragment, const Op& op, LaneMask) {
  const auto& detail = *static_cast<const TransferDetail*>(op.detail);
  for (const Parts& parts : detail.parts) {
    for (size_t i = 0; i < parts.elements.size(); ++i) {
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        const uint32_t whole = lanes_at<uint32_t>(fragment.registers, parts.whole)[lane];
        lanes_at<uint16_t>(fragment.registers, parts.elements[i])[lane] =
            static_cast<uint16_t>(whole >> i * detail.bits);
      }
    }
  }
  return Outcome::next;
}

enum class Matrix : uint8_t { a, b, sum };

/// Returns the row and column in the matrix of the first element of a lane's register.
FragmentPlace place_of(const WmmaShape& shape, Matrix matrix, uint32_t lane, uint32_t index, uint32_t per_register) {
  if (matrix == Matrix::sum) {
    const FragmentPlace place = shape.place_in_sum(lane, index * per_register);
    return shape.transposed() ? FragmentPlace{place.column, place.row} : place;
  }
  const bool has_rows = (matrix == Matrix::a) != shape.transposed();
  const FragmentPlace place = has_rows ? shape.place_in_rows(lane, index) : shape.place_in_columns(lane, index);
  const uint32_t k = place.column * per_register;
  return matrix == Matrix::a ? FragmentPlace{place.row, k} : FragmentPlace{k, place.row};
}

void translate_transfer(Translation& t, bool store) {
  t.modifiers.require(store ? "store" : "load");
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  const std::string_view which =
      store ? t.modifiers.require_one_of({"d"}) : t.modifiers.require_one_of({"a", "b", "c"});
  const Matrix matrix = which == "a" ? Matrix::a : which == "b" ? Matrix::b : Matrix::sum;
  const bool by_rows = t.modifiers.require_one_of({"row", "col"}) == "row";
  const Shape shape = take_shape(t);
  bool cluster_wide = false;
  const ptx::Space space = take_space(t.modifiers, cluster_wide);
  const std::string_view type =
      matrix == Matrix::sum ? t.modifiers.require_one_of({"f16", "f32", "s32", "f64"})
                            : t.modifiers.require_one_of({"f16", "bf16", "tf32", "s8", "u8", "s4", "u4", "b1", "f64"});
  uint32_t bits = type == "f64" ? 64 : type == "f16" ? 16 : 32;
  uint32_t operand_bits = bits;
  if (matrix != Matrix::sum) {
    bits = operand_bits = elements_of(t, type, shape).bits;
  } else {
    const bool exists = std::any_of(kElements.begin(), kElements.end(), [&](const Elements& elements) {
      return is_among(shape.name, elements.shapes) && is_among(type, elements.sums);
    });
    if (!exists) t.illegal(fmt::format("there are no sums of .{} in shape .{}", type, shape.name));
  }
  const WmmaShape fragments = fragments_of(shape, operand_bits);
  const uint32_t register_bits = bits == 64 ? 64 : 32, per_register = register_bits / bits;
  // Whether the elements of a register are adjacent in memory: along K, or, in a sum, along the columns before it is
  // transposed.
  const bool along_rows = matrix == Matrix::a || (matrix == Matrix::sum && !fragments.transposed());
  const bool contiguous = per_register == 1 || along_rows == by_rows;
  if (!contiguous && bits < 8) t.illegal(".s4, .u4 and .b1 have A of .row and B of .col");

  const uint32_t in_matrix = matrix == Matrix::a   ? shape.m * shape.k
                             : matrix == Matrix::b ? shape.k * shape.n
                                                   : shape.m * shape.n;
  const uint32_t count = matrix != Matrix::sum && type == "f16" ? 8 : in_matrix / kWarpSize / per_register;
  const ptx::Operand& memory = t.operand(store ? 0 : 1);
  const auto registers = registers_of(t, store ? 1 : 0, count, "the fragment");

  auto detail = std::make_unique<TransferDetail>();
  detail->bits = bits;
  const uint32_t rows = matrix == Matrix::b ? shape.k : shape.m, columns = matrix == Matrix::a ? shape.k : shape.n;
  detail->default_stride = by_rows ? columns : rows;
  AccessDetail where;
  where.name = ptx::spelling(t.instruction);
  where.verb = store ? AccessVerb::writes : AccessVerb::reads;
  where.element_bytes = contiguous ? register_bits / 8 : bits / 8;
  set_address(t, where, memory, space, cluster_wide);
  detail->base = t.address_vector(memory, detail->wide);
  detail->stride = t.optional_source(2, Type::b32);

  struct Access {
    RegisterOffset address, element;
  };
  std::vector<Access> accesses;
  const Type word = register_bits == 64 ? Type::b64 : Type::b32;
  for (uint32_t r = 0; r < count; ++r) {
    const RegisterOffset whole = store ? t.source(*registers[r], word) : t.destination(*registers[r], word);
    Parts parts{whole, {}};
    for (uint32_t e = 0; e < (contiguous ? 1 : per_register); ++e) {
      Piece piece;
      piece.address = t.scratch(8);
      for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
        FragmentPlace place = place_of(fragments, matrix, lane, r, per_register);
        (along_rows ? place.column : place.row) += e;
        piece.lines[lane] = static_cast<uint16_t>(by_rows ? place.row : place.column);
        piece.places[lane] = static_cast<uint16_t>(by_rows ? place.column : place.row);
      }
      if (!contiguous) parts.elements.push_back(t.scratch(2));
      accesses.push_back({piece.address, contiguous ? whole : parts.elements.back()});
      detail->pieces.push_back(piece);
    }
    if (!contiguous) detail->parts.push_back(std::move(parts));
  }

  const TransferDetail* const kept = t.keep(std::move(detail));
  t.emit(compute_addresses).detail = kept;
  if (store && !contiguous) t.emit(split_parts).detail = kept;
  for (const Access& access : accesses) {
    emit_lane_access(t, where, access.address, access.element, contiguous ? register_bits / 8 : 2);
  }
  if (!store && !contiguous) t.emit(join_parts).detail = kept;
}

// ---- Multiplications -----------------------------------------------------------------------------------------------

struct MultiplyDetail : OpDetail {
  std::vector<MmaTile> tiles;  ///< each with D in scratch registers, because D may share registers with the operands
  struct Result {
    RegisterOffset from, to;
  };
  std::vector<Result> results;
  uint32_t bytes = 4;  ///< of a register, in a lane
};

Outcome multiply(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_warp(fragment, mask, "wmma.mma") == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const MultiplyDetail*>(op.detail);
  for (const MmaTile& tile : detail.tiles) tile.multiply(fragment, tile);
  for (const auto& result : detail.results) {
    std::memcpy(fragment.registers + result.to, fragment.registers + result.from, size_t{detail.bytes} * kWarpSize);
  }
  return Outcome::next;
}

void translate_multiply(Translation& t) {
  t.modifiers.require("mma");
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  t.modifiers.require_one_of({"row", "col"});  // fragments have the same layout, however they were loaded
  t.modifiers.require_one_of({"row", "col"});
  const Shape shape = take_shape(t);
  const auto take_type = [&] {
    return t.modifiers.take_one_of({"f16", "f32", "f64", "s32", "bf16", "tf32", "s8", "u8", "s4", "u4", "b1"});
  };
  // For f16 there are only the types of D and C.
  std::vector<std::string_view> types;
  while (const auto type = take_type()) types.push_back(*type);
  if (types.size() == 2) types = {types[0], "f16", "f16", types[1]};
  if (types.size() != 4) t.illegal("the types must be those of D and C for f16, and otherwise of D, A, B and C");
  const auto is_operand = [&](std::string_view type) { return type != "f32" && type != "s32"; };
  if (!is_operand(types[1]) || types[1] != types[2]) {
    t.illegal(fmt::format("no wmma multiplies .{} by .{}; A and B have the same type", types[1], types[2]));
  }
  const Elements& elements = elements_of(t, types[1], shape);
  if (!is_among(types[0], elements.sums) || !is_among(types[3], elements.sums)) {
    t.illegal(fmt::format("D in .{} and C in .{} do not exist for .{}; there are: {}", types[0], types[3], types[1],
                          elements.sums));
  }

  const WmmaShape fragments = fragments_of(shape, elements.bits);
  MmaTile tile;
  tile.m = fragments.tile_rows();
  tile.k = shape.k;
  tile.pieces = fragments.pieces;
  tile.a_format = tile.b_format = element_format_of(elements.type);
  tile.d_type = accumulator_of(types[0]);
  tile.c_type = accumulator_of(types[3]);
  tile.single_bits = elements.bits == 1;
  tile.a_count = fragments.row_registers();
  tile.b_count = fragments.column_registers();
  tile.d_elements = fragments.tile_elements();
  if (elements.bits == 64) tile.rounding = take_f64_rounding(t);
  if (tile.single_bits) {
    tile.exclusive_or = t.modifiers.require_one_of({"xor", "and"}) == "xor";
    t.modifiers.require("popc");
  } else if (tile.d_type == Accumulator::s32) {
    tile.saturate = t.modifiers.take("satfinite");
  }
  // ptxas makes two instructions with half of K.
  if (tile.a_format == ElementFormat::tf32) tile.steps = 2;
  choose_multiply(tile);

  const Type word = elements.bits == 64 ? Type::b64 : Type::b32;
  const auto count_of = [&](uint32_t lines) {
    return elements.type == "f16" ? 8 : lines * fragments.pieces / kWarpSize;
  };
  const auto sums_of = [&](Accumulator type) {
    const uint32_t count = shape.m * shape.n / kWarpSize;
    return type == Accumulator::f16 ? count / 2 : count;
  };
  const auto sources = [&](size_t index, uint32_t count, const char* what) {
    std::vector<RegisterOffset> all;
    for (const ptx::Operand* operand : registers_of(t, index, count, what)) all.push_back(t.source(*operand, word));
    return all;
  };
  std::vector<RegisterOffset> a = sources(1, count_of(shape.m), "A"), b = sources(2, count_of(shape.n), "B");
  const std::vector<RegisterOffset> c = sources(3, sums_of(tile.c_type), "C");
  if (fragments.transposed()) std::swap(a, b);

  auto detail = std::make_unique<MultiplyDetail>();
  detail->bytes = static_cast<uint32_t>(size_of(word));
  for (const ptx::Operand* operand : registers_of(t, 0, sums_of(tile.d_type), "D")) {
    detail->results.push_back({t.scratch(detail->bytes), t.destination(*operand, word)});
  }
  const auto per_tile = [&](Accumulator type) {
    return type == Accumulator::f16 ? tile.d_elements / 2 : tile.d_elements;
  };
  for (uint32_t i = 0; i < fragments.tiles(); ++i) {
    for (uint32_t r = 0; r < tile.a_count; ++r) tile.a[r] = a[fragments.first_row_register(i) + r];
    for (uint32_t r = 0; r < tile.b_count; ++r) tile.b[r] = b[fragments.first_column_register(i) + r];
    for (uint32_t r = 0; r < per_tile(tile.c_type); ++r) tile.c[r] = c[i * per_tile(tile.c_type) + r];
    for (uint32_t r = 0; r < per_tile(tile.d_type); ++r)
      tile.d[r] = detail->results[i * per_tile(tile.d_type) + r].from;
    detail->tiles.push_back(tile);
  }
  t.emit(multiply).detail = t.keep(std::move(detail));
}

void translate_wmma(Translation& t) {
  if (t.modifiers.has("mma")) return translate_multiply(t);
  translate_transfer(t, t.modifiers.has("store"));
}

}  // namespace
}  // namespace wmma

void add_wmma(InstructionSet& set) {
  // A fragment's words are loaded and stored one by one.
  InstructionTraits transfers = kOrdinary;
  transfers.further_operations = InstructionClass::memory;
  InstructionTraits loads = transfers;
  loads.left_out_unread = true;
  // A product of 16 x 16 is two machine instructions of 16 x 8.
  InstructionTraits multiplies = kOrdinary;
  multiplies.machine_instructions = 2;
  set.add("wmma", wmma::translate_wmma, transfers, InstructionClass::free);
  set.add("wmma.load", wmma::translate_wmma, loads, InstructionClass::free);
  set.add("wmma.mma", wmma::translate_wmma, multiplies, InstructionClass::warp_matrix);
}

}  // namespace stagecraft::emulator::machine
