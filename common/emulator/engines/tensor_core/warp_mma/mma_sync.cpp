// mma.sync: a warp multiplies two small matrices in its registers and adds a third.
//
// The forms are those of sm_80 to sm_100 that ptxas 13.0 accepts: f16 (also m8n8k4), bf16, tf32, 8-bit floats,
// integers of 8 and 4 bits, single bits, f64. The narrower floats of .kind::f8f6f4 and the block-scaled kinds need
// sm_120a.
#include "emulator/engines/tensor_core/warp_mma/mma_sync.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>

#include "emulator/engines/tensor_core/warp_mma/mma_tile.hpp"
#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"
#include "emulator/state/grid.hpp"

namespace stagecraft::emulator::machine {

using ptx::Type;

namespace {

using Registers = MmaTile::Registers;

struct MmaSyncDetail : OpDetail {
  MmaTile tile;
};

Outcome multiply(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_warp(fragment, mask, "mma.sync.aligned") == 0) return Outcome::blocked;
  const MmaTile& tile = static_cast<const MmaSyncDetail*>(op.detail)->tile;
  tile.multiply(fragment, tile);
  return Outcome::next;
}

struct Shape {
  std::string_view name;
  uint32_t m, k;
};
constexpr std::array<Shape, 11> kShapes{{{"m8n8k4", 8, 4},
                                         {"m8n8k16", 8, 16},
                                         {"m8n8k32", 8, 32},
                                         {"m8n8k128", 8, 128},
                                         {"m16n8k4", 16, 4},
                                         {"m16n8k8", 16, 8},
                                         {"m16n8k16", 16, 16},
                                         {"m16n8k32", 16, 32},
                                         {"m16n8k64", 16, 64},
                                         {"m16n8k128", 16, 128},
                                         {"m16n8k256", 16, 256}}};

Shape take_shape(Translation& t) {
  const std::string_view name =
      t.modifiers.require_one_of({"m8n8k4", "m8n8k16", "m8n8k32", "m8n8k128", "m16n8k4", "m16n8k8", "m16n8k16",
                                  "m16n8k32", "m16n8k64", "m16n8k128", "m16n8k256"});
  return *std::find_if(kShapes.begin(), kShapes.end(), [&](const Shape& shape) { return shape.name == name; });
}

/// The types that are multiplied: bits of an element, and the shapes that exist.
struct Elements {
  std::string_view types;
  uint32_t bits;
  std::string_view shapes;  ///< each with a space after it
};

std::optional<Elements> elements_of(std::string_view a, std::string_view b) {
  const auto both = [&](std::string_view first, std::string_view second) {
    return (a == first || a == second) && (b == first || b == second);
  };
  if (both("f16", "f16")) return Elements{"f16", 16, "m8n8k4 m16n8k8 m16n8k16 "};
  if (both("bf16", "bf16")) return Elements{"bf16", 16, "m16n8k8 m16n8k16 "};
  if (both("tf32", "tf32")) return Elements{"tf32", 32, "m16n8k4 m16n8k8 "};
  if (both("e4m3", "e5m2")) return Elements{"e4m3 and e5m2", 8, "m16n8k16 m16n8k32 "};
  if (both("s8", "u8")) return Elements{"s8 and u8", 8, "m8n8k16 m16n8k16 m16n8k32 "};
  if (both("s4", "u4")) return Elements{"s4 and u4", 4, "m8n8k32 m16n8k32 m16n8k64 "};
  if (both("b1", "b1")) return Elements{"b1", 1, "m8n8k128 m16n8k128 m16n8k256 "};
  if (both("f64", "f64")) return Elements{"f64", 64, "m8n8k4 m16n8k4 m16n8k8 m16n8k16 "};
  return std::nullopt;
}

/// Whether D and C can have these types.
bool are_accumulators(const Elements& elements, const Shape& shape, std::string_view d, std::string_view c) {
  if (elements.types == "f64") return d == "f64" && c == "f64";
  if (elements.bits == 1 || elements.bits == 4 || elements.types == "s8 and u8") return d == "s32" && c == "s32";
  if (elements.types == "bf16" || elements.types == "tf32") return d == "f32" && c == "f32";
  if (shape.name == "m8n8k4") return (d == "f32" || d == "f16") && (c == "f16" || c == d);
  return (d == "f32" || d == "f16") && c == d;
}

void take_sources(Translation& t, size_t index, uint32_t count, Type type, const char* what, Registers& registers) {
  const ptx::Operand& operand = t.operand(index);
  const bool is_vector = operand.kind == ptx::OperandKind::vector;
  const size_t given = is_vector ? operand.list.size() : 1;
  if (given != count) t.illegal(fmt::format("{} has {} registers, and needs {}", what, given, count));
  for (uint32_t i = 0; i < count; ++i) registers[i] = t.source(is_vector ? operand.list[i] : operand, type);
}

void take_destinations(Translation& t, uint32_t count, Type type, Registers& registers) {
  const ptx::Operand& operand = t.operand(0);
  const bool is_vector = operand.kind == ptx::OperandKind::vector;
  const size_t given = is_vector ? operand.list.size() : 1;
  if (given != count) t.illegal(fmt::format("D has {} registers, and needs {}", given, count));
  for (uint32_t i = 0; i < count; ++i) registers[i] = t.destination(is_vector ? operand.list[i] : operand, type);
}

void translate_mma_sync(Translation& t) {
  const auto take_type = [&] {
    return t.modifiers.require_one_of(
        {"f16", "f32", "f64", "s32", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1"});
  };
  if (t.modifiers.has("sp") || t.modifiers.has("sp::ordered_metadata")) {
    t.unsupported("mma.sp (sparse A) is not implemented; dense mma.sync is");
  }
  // The kind adds nothing for 8-bit floats, and ptxas accepts it for sm_100a too.
  const bool eight_bits = t.modifiers.has("e4m3") || t.modifiers.has("e5m2");
  const bool narrower = t.modifiers.has("e3m2") || t.modifiers.has("e2m3") || t.modifiers.has("e2m1");
  if (t.architecture().major == 10 && eight_bits && !narrower) t.modifiers.take("kind::f8f6f4");
  if (t.modifiers.has("block_scale") || t.modifiers.has("kind::f8f6f4") || t.modifiers.has("kind::mxf8f6f4") ||
      t.modifiers.has("kind::mxf4") || t.modifiers.has("kind::mxf4nvf4")) {
    t.unsupported("the kinds of mma.sync with 4-bit and 6-bit floats or block scaling need sm_120a");
  }
  auto detail = std::make_unique<MmaSyncDetail>();
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  const Shape shape = take_shape(t);
  const std::string_view a_layout = t.modifiers.require_one_of({"row", "col"});
  const std::string_view b_layout = t.modifiers.require_one_of({"row", "col"});
  const std::string_view d = take_type(), a = take_type(), b = take_type(), c = take_type();
  const std::optional<Elements> elements = elements_of(a, b);
  if (!elements) t.illegal(fmt::format("no mma.sync multiplies .{} by .{}", a, b));
  if (elements->shapes.find(fmt::format("{} ", shape.name)) == std::string_view::npos) {
    t.illegal(fmt::format("shape .{} does not exist for {}; there are {}", shape.name, elements->types,
                          elements->shapes.substr(0, elements->shapes.size() - 1)));
  }
  if (!are_accumulators(*elements, shape, d, c)) {
    t.illegal(fmt::format("D in .{} and C in .{} do not exist for {} in shape .{}", d, c, elements->types, shape.name));
  }
  const bool quad_pairs = shape.name == "m8n8k4" && a == "f16";
  if (!quad_pairs && (a_layout != "row" || b_layout != "col")) {
    t.illegal("the layouts must be .row.col; only .m8n8k4 of f16 has others");
  }
  MmaTile& tile = detail->tile;
  tile.m = shape.m;
  tile.k = shape.k;
  tile.a_format = element_format_of(a);
  tile.b_format = element_format_of(b);
  tile.d_type = accumulator_of(d);
  tile.c_type = accumulator_of(c);
  tile.a_along_k = a_layout == "row";
  tile.b_along_k = b_layout == "col";
  tile.quad_pairs = quad_pairs;
  tile.single_bits = elements->bits == 1;
  const bool doubles = elements->bits == 64;
  if (doubles) tile.rounding = take_f64_rounding(t);
  if (elements->bits == 1) {
    tile.exclusive_or = t.modifiers.require_one_of({"xor", "and"}) == "xor";
    t.modifiers.require("popc");
  } else if (tile.d_type == Accumulator::s32) {
    tile.saturate = t.modifiers.take("satfinite");
  }

  const Type word = doubles ? Type::b64 : Type::b32;
  tile.pieces = doubles ? shape.k : shape.k * elements->bits / 32;
  tile.a_count = quad_pairs ? 2 : shape.m * tile.pieces / kWarpSize;
  tile.b_count = quad_pairs ? 2 : kFragmentColumns * tile.pieces / kWarpSize;
  tile.d_elements = quad_pairs ? 8 : shape.m * kFragmentColumns / kWarpSize;
  const auto registers_for = [&](Accumulator type) {
    return type == Accumulator::f16 ? tile.d_elements / 2 : tile.d_elements;
  };
  take_sources(t, 1, tile.a_count, word, "A", tile.a);
  take_sources(t, 2, tile.b_count, word, "B", tile.b);
  take_sources(t, 3, registers_for(tile.c_type), word, "C", tile.c);
  take_destinations(t, registers_for(tile.d_type), word, tile.d);
  choose_multiply(tile);
  t.emit(multiply).detail = t.keep(std::move(detail));
}

}  // namespace

void add_mma_sync(InstructionSet& set) { set.add("mma", translate_mma_sync, kOrdinary, InstructionClass::warp_matrix); }

}  // namespace stagecraft::emulator::machine
