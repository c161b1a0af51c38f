// mma.sync: a warp multiplies two small matrices in its registers and adds a third.
//
// The forms are those of sm_80 to sm_100 that ptxas 13.0 accepts: f16 (also m8n8k4), bf16, tf32, 8-bit floats,
// integers of 8 and 4 bits, single bits, f64; on compute capability 12.x also the narrower floats of .kind::f8f6f4 and
// the block-scaled kinds.
#include "emulator/engines/tensor_core/warp_mma/mma_sync.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "emulator/engines/tensor_core/warp_mma/mma_tile.hpp"
#include "emulator/engines/tensor_core/warp_mma/warp_mma_kernels.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/function_translator.hpp"
#include "emulator/translation/kernel_translator.hpp"

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
  uint32_t bits;            ///< of an element and its padding
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

// ---- Narrow floats, of compute capability 12.x ---------------------------------------------------------------------

enum class Kind : uint8_t { none, f8f6f4, mxf8f6f4, mxf4, mxf4nvf4 };

/// Takes the kind. `none` is one that needs none: ptxas 13.0 accepts `f8f6f4` for 8-bit floats on sm_100a too, where it
/// changes nothing.
Kind take_kind(Translation& t) {
  const std::optional<std::string_view> name =
      t.modifiers.take_one_of({"kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"});
  const bool narrower = t.modifiers.has("e3m2") || t.modifiers.has("e2m3") || t.modifiers.has("e2m1");
  const bool scaled = t.modifiers.take("block_scale");
  const Architecture& chip = t.architecture();
  if (!name && !narrower && !scaled) return Kind::none;
  if (chip.major == 10 && name == "kind::f8f6f4" && !narrower && !scaled) return Kind::none;
  if (chip.major != 12) {
    const char* const instead = chip.has_tensor_memory() ? "tcgen05.mma has the same kinds here"
                                : narrower || scaled     ? "convert the elements to e4m3, f16 or bf16 here"
                                                         : "8-bit floats need no .kind here";
    t.unsupported(fmt::format(
        "mma.sync of 6-bit and 4-bit floats, and with scale factors, needs sm_120a (RTX 50, RTX PRO Blackwell) or "
        "sm_121a (DGX Spark), and this device ({}) is {}; {}",
        chip.name, chip.target, instead));
  }
  const std::string& target = t.function().kernel_translator().module().target;
  if (!target.ends_with('a') && !target.ends_with('f')) {
    t.unsupported(
        fmt::format("the kinds of mma.sync need PTX for sm_120a or sm_120f, and this is for {}: compile with "
                    "-gencode \"arch=compute_120a,code=[sm_120a,compute_120a]\"",
                    target));
  }
  if (!name) {
    t.illegal(scaled ? ".block_scale needs .kind::mxf8f6f4, .kind::mxf4 or .kind::mxf4nvf4"
                     : "floats of 6 and 4 bits need .kind::f8f6f4");
  }
  if (scaled == (name == "kind::f8f6f4")) {
    t.illegal(scaled ? ".kind::f8f6f4 has no scale factors; .kind::mxf8f6f4 has"
                     : fmt::format(".{} needs .block_scale", *name));
  }
  return name == "kind::f8f6f4"     ? Kind::f8f6f4
         : name == "kind::mxf8f6f4" ? Kind::mxf8f6f4
         : name == "kind::mxf4"     ? Kind::mxf4
                                    : Kind::mxf4nvf4;
}

std::optional<Elements> elements_of(Kind kind, std::string_view a, std::string_view b) {
  if (kind == Kind::none) return elements_of(a, b);
  if (kind == Kind::mxf4 || kind == Kind::mxf4nvf4) {
    return a == "e2m1" && b == "e2m1" ? std::optional(Elements{"e2m1 with scale factors", 4, "m16n8k64 "})
                                      : std::nullopt;
  }
  const auto is_narrow = [](std::string_view type) {
    return type == "e4m3" || type == "e5m2" || type == "e3m2" || type == "e2m3" || type == "e2m1";
  };
  if (!is_narrow(a) || !is_narrow(b)) return std::nullopt;
  const std::optional<Elements> bytes = elements_of(a, b);
  if (kind == Kind::f8f6f4 && bytes) return bytes;
  return Elements{"8-, 6- and 4-bit floats", 8, "m16n8k32 "};
}

/// Takes how many scale factors a row of A has, and their type.
void take_scales(Translation& t, Kind kind, MmaTile& tile) {
  const std::optional<std::string_view> size =
      t.modifiers.take_one_of({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X"});
  tile.scales_ue4m3 = t.modifiers.require_one_of({"ue8m0", "ue4m3"}) == "ue4m3";
  if (kind == Kind::mxf4nvf4 && !size) t.illegal(".kind::mxf4nvf4 needs .scale_vec::2X or .scale_vec::4X");
  tile.scale_count = size == "scale_vec::4X" ? 4 : size == "scale_vec::2X" ? 2 : size || kind == Kind::mxf8f6f4 ? 1 : 2;
  const bool legal = kind == Kind::mxf8f6f4 ? tile.scale_count == 1 && !tile.scales_ue4m3
                     : kind == Kind::mxf4   ? tile.scale_count == 2 && !tile.scales_ue4m3
                                            : tile.scale_count == 4 || (tile.scale_count == 2 && !tile.scales_ue4m3);
  if (!legal) {
    t.illegal(
        "the scale factors are .scale_vec::1X of ue8m0 for .kind::mxf8f6f4, .scale_vec::2X of ue8m0 for .kind::mxf4, "
        "and .scale_vec::2X of ue8m0 or .scale_vec::4X of ue4m3 or ue8m0 for .kind::mxf4nvf4");
  }
}

RegisterOffset take_word(Translation& t, const ptx::Operand& operand, uint32_t bits, const char* what) {
  const Type type = t.register_type(operand);
  if (type != Type::none && 8 * size_of(type) != bits) {
    t.illegal(fmt::format("{} needs a register of {} bits", what, bits));
  }
  return t.source(operand, bits == 16 ? Type::b16 : Type::b32);
}

/// Takes a word with scale factors, and {byte-id, thread-id} after it.
TileScales take_scale_operands(Translation& t, size_t index, const char* name) {
  const ptx::Operand &words = t.operand(index), &selectors = t.operand(index + 1);
  const bool is_vector = words.kind == ptx::OperandKind::vector;
  if (is_vector && words.list.size() != 1) t.illegal(fmt::format("{} is one register", name));
  if (selectors.kind != ptx::OperandKind::vector || selectors.list.size() != 2) {
    t.illegal(fmt::format("{} is followed by {{byte-id, thread-id}}", name));
  }
  return {take_word(t, is_vector ? words.list[0] : words, 32, name), take_word(t, selectors.list[0], 16, "byte-id"),
          take_word(t, selectors.list[1], 16, "thread-id")};
}

// ---- Operands ------------------------------------------------------------------------------------------------------

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
    return t.modifiers.require_one_of({"f16", "f32", "f64", "s32", "bf16", "tf32", "e4m3", "e5m2", "e3m2", "e2m3",
                                       "e2m1", "s8", "u8", "s4", "u4", "b1"});
  };
  if (t.modifiers.has("sp") || t.modifiers.has("sp::ordered_metadata")) {
    t.unsupported("mma.sp (sparse A) is not implemented; dense mma.sync is");
  }
  const Kind kind = take_kind(t);
  auto detail = std::make_unique<MmaSyncDetail>();
  t.modifiers.require("sync");
  t.modifiers.require("aligned");
  const Shape shape = take_shape(t);
  const std::string_view a_layout = t.modifiers.require_one_of({"row", "col"});
  const std::string_view b_layout = t.modifiers.require_one_of({"row", "col"});
  const std::string_view d = take_type(), a = take_type(), b = take_type(), c = take_type();
  const std::optional<Elements> elements = elements_of(kind, a, b);
  if (!elements)
    t.illegal(fmt::format("no mma.sync{} multiplies .{} by .{}", kind == Kind::none ? "" : " of this kind", a, b));
  if (elements->shapes.find(fmt::format("{} ", shape.name)) == std::string_view::npos) {
    t.illegal(fmt::format("shape .{} does not exist for {}; there are {}", shape.name, elements->types,
                          elements->shapes.substr(0, elements->shapes.size() - 1)));
  }
  const bool scaled = kind != Kind::none && kind != Kind::f8f6f4;
  if (scaled ? d != "f32" || c != "f32" : !are_accumulators(*elements, shape, d, c)) {
    t.illegal(fmt::format("D in .{} and C in .{} do not exist for {} in shape .{}", d, c, elements->types, shape.name));
  }
  const bool quad_pairs = shape.name == "m8n8k4" && a == "f16";
  if (!quad_pairs && (a_layout != "row" || b_layout != "col")) {
    t.illegal("the layouts must be .row.col; only .m8n8k4 of f16 has others");
  }
  MmaTile& tile = detail->tile;
  tile.m = shape.m;
  tile.k = shape.k;
  const bool packed = kind == Kind::mxf4 || kind == Kind::mxf4nvf4;
  tile.a_format = packed ? ElementFormat::e2m1_packed : element_format_of(a);
  tile.b_format = packed ? ElementFormat::e2m1_packed : element_format_of(b);
  tile.d_type = accumulator_of(d);
  tile.c_type = accumulator_of(c);
  tile.a_along_k = a_layout == "row";
  tile.b_along_k = b_layout == "col";
  tile.quad_pairs = quad_pairs;
  tile.single_bits = elements->bits == 1;
  tile.bytes_as_halves = elements->types == "e4m3 and e5m2" && t.architecture().major < 12;
  if (scaled) take_scales(t, kind, tile);
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
  if (scaled) {
    tile.a_scales = take_scale_operands(t, 4, "scale-a-data");
    tile.b_scales = take_scale_operands(t, 6, "scale-b-data");
  }
  take_destinations(t, registers_for(tile.d_type), word, tile.d);
  choose_multiply(tile);
  t.emit(multiply).detail = t.keep(std::move(detail));
}

/// As what ptxas makes of it (trace/machine_code.cpp).
InstructionClass class_of_mma_sync(const ptx::Instruction& instruction) {
  const auto has_one_of = [&](std::initializer_list<std::string_view> names) {
    return std::any_of(instruction.modifiers.begin(), instruction.modifiers.end(), [&](const std::string& modifier) {
      return std::find(names.begin(), names.end(), modifier) != names.end();
    });
  };
  // With sums of 16-bit floats, D and C have that type, and A and B may have 8 bits.
  const bool of_bytes = has_one_of({"e4m3", "e5m2", "s8", "u8"}), of_narrower = has_one_of({"e3m2", "e2m3", "e2m1"});
  const bool four_bits = has_one_of({"kind::mxf4", "kind::mxf4nvf4"});
  const bool quick = four_bits || (!of_narrower && (has_one_of({"block_scale"}) || !has_one_of({"f32", "f64"})));
  const bool is_short = has_one_of({"m16n8k4"}) || (has_one_of({"m16n8k8"}) && !has_one_of({"tf32"})) ||
                        (has_one_of({"m16n8k16"}) && of_bytes);
  if (quick) return is_short ? InstructionClass::warp_matrix_quick_short : InstructionClass::warp_matrix_quick;
  return is_short ? InstructionClass::warp_matrix_short : InstructionClass::warp_matrix;
}

}  // namespace

void add_mma_sync(InstructionSet& set) { set.add("mma", translate_mma_sync, kOrdinary, class_of_mma_sync); }

}  // namespace stagecraft::emulator::machine
