// mma.sync: a warp multiplies two small matrices that lie in its registers and adds a third.
//
// The forms are those of sm_80 to sm_100, as ptxas 13.0 accepts them: f16 (also m8n8k4), bf16, tf32, 8-bit floats,
// integers of 8 and 4 bits, single bits, f64. The narrower floats of .kind::f8f6f4 and the block-scaled kinds need
// sm_120a.
#include "emulator/units/mma_sync.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfenv>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include "emulator/machine/grid.hpp"
#include "emulator/units/mma_kernels.hpp"
#include "emulator/units/register_fragments.hpp"
#include "emulator/units/warp_mma_kernels.hpp"

namespace stagecraft::emulator::units {

using machine::Fault;
using machine::FaultKind;
using machine::Fragment;
using machine::kWarpSize;
using machine::LaneMask;
using machine::Op;
using machine::Outcome;
using machine::RegisterOffset;
using machine::Translation;
using ptx::Type;

namespace {

constexpr size_t kMostRegisters = 8;
using Registers = std::array<RegisterOffset, kMostRegisters>;

enum class Accumulator : uint8_t { f16, f32, s32, f64 };

struct MmaSyncDetail : machine::OpDetail {
  uint32_t m = 16, k = 16;
  uint32_t pieces = 8;  ///< registers along K of one row, in lanes: 32 bits each, of f64 64
  ElementFormat a_format = ElementFormat::f16, b_format = ElementFormat::f16;
  Accumulator d_type = Accumulator::f32, c_type = Accumulator::f32;
  bool saturate = false;
  bool exclusive_or = false;                          ///< single bits: xor instead of and
  bool a_along_k = true, b_along_k = true;            ///< m8n8k4 of f16: A of .row, B of .col
  int rounding = FE_TONEAREST;                        ///< of f64
  uint32_t a_count = 0, b_count = 0, d_elements = 0;  // registers of A and B; elements of C and D per lane
  Registers a{}, b{}, c{}, d{};
};

/// The lanes that execute it; empty when the fragment sleeps.
LaneMask gather_warp(Fragment& fragment, LaneMask mask) {
  mask = machine::converge_warp(fragment, mask);
  if (mask == 0 || mask == machine::kAllLanes) return mask;
  throw Fault(FaultKind::illegal_instruction,
              fmt::format("mma.sync.aligned is executed by {} of 32 threads", std::popcount(mask)),
              {"the whole warp must execute it: 32 threads that have not exited"});
}

// ---- Registers to matrices and back --------------------------------------------------------------------------------

const uint32_t* words(const Fragment& fragment, RegisterOffset offset) {
  return machine::lanes_at<uint32_t>(fragment.registers, offset);
}

/// A as [piece][16] and B as [piece][8].
struct Pieces {
  alignas(64) uint32_t a[kFragmentPieces * kFragmentRows] = {};
  alignas(64) uint32_t b[kFragmentPieces * kFragmentColumns] = {};
};

/// Places of register_fragments.hpp, 8 rows by 4 pieces at a time.
void gather(const Fragment& fragment, const MmaSyncDetail& detail, Pieces& pieces) {
  constexpr uint32_t kRows = 8, kQuad = 4;
  const auto transpose = mma_kernels().transpose;
  for (uint32_t r = 0; r < detail.a_count; ++r) {
    const FragmentPlace place = place_in_a(detail.m, 0, r);
    transpose(words(fragment, detail.a[r]), kQuad, kRows, kQuad, pieces.a + place.column * kFragmentRows + place.row,
              kFragmentRows);
  }
  for (uint32_t r = 0; r < detail.b_count; ++r) {
    transpose(words(fragment, detail.b[r]), kQuad, kRows, kQuad, pieces.b + place_in_b(0, r).column * kFragmentColumns,
              kFragmentColumns);
  }
}

/// Calls visit(lane, element, index in d[n][16]) for all elements of C or D.
template <typename Visit>
void for_each_element(const MmaSyncDetail& detail, Visit visit) {
  for (uint32_t i = 0; i < detail.d_elements; ++i) {
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const FragmentPlace place = place_in_d(lane, i);
      visit(lane, i, place.column * kFragmentRows + place.row);
    }
  }
}

uint16_t* halves(const Fragment& fragment, RegisterOffset offset) {
  return machine::lanes_at<uint16_t>(fragment.registers, offset);
}

float read_float(const Fragment& fragment, const Registers& registers, Accumulator type, uint32_t lane, uint32_t i) {
  if (type == Accumulator::f16) return from_f16(halves(fragment, registers[i / 2])[2 * lane + i % 2]);
  return std::bit_cast<float>(words(fragment, registers[i])[lane]);
}

void write_float(const Fragment& fragment, const Registers& registers, Accumulator type, uint32_t lane, uint32_t i,
                 float value) {
  if (type == Accumulator::f16) {
    halves(fragment, registers[i / 2])[2 * lane + i % 2] = to_f16(value);
  } else {
    machine::lanes_at<float>(fragment.registers, registers[i])[lane] = value;
  }
}

/// C or D as [n][16], in 32-bit words. All of C is read before D is written: they may share registers in any order.
using Matrix = std::array<uint32_t, kFragmentColumns * kFragmentRows>;

Matrix load_words(const Fragment& fragment, const MmaSyncDetail& detail) {
  Matrix matrix{};
  for (uint32_t i = 0; i < detail.d_elements; ++i) {
    const FragmentPlace place = place_in_d(0, i);
    mma_kernels().transpose(words(fragment, detail.c[i]), 4, 8, 4,
                            matrix.data() + place.column * kFragmentRows + place.row, 2 * kFragmentRows);
  }
  return matrix;
}

void store_words(const Fragment& fragment, const MmaSyncDetail& detail, const Matrix& matrix) {
  for (uint32_t i = 0; i < detail.d_elements; ++i) {
    const FragmentPlace place = place_in_d(0, i);
    mma_kernels().transpose(matrix.data() + place.column * kFragmentRows + place.row, 2 * kFragmentRows, 4, 8,
                            machine::lanes_at<uint32_t>(fragment.registers, detail.d[i]), 4);
  }
}

/// Adds the exact sum of an instruction to an integer of C: modulo 2^32, or clamped.
uint32_t add_integer(uint32_t c, int64_t sum, bool saturate) {
  sum += static_cast<int32_t>(c);
  if (saturate) {
    sum = std::clamp<int64_t>(sum, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
  }
  return static_cast<uint32_t>(sum);
}

// ---- Handlers ------------------------------------------------------------------------------------------------------

void multiply_pieces(const MmaSyncDetail& detail, const Pieces& pieces, float* d) {
  const auto table = [](ElementFormat format) { return bits_of(format) <= 8 ? values_of(format).data() : nullptr; };
  warp_mma_kernels().multiply({detail.a_format, table(detail.a_format), pieces.a},
                              {detail.b_format, table(detail.b_format), pieces.b}, detail.pieces, d);
}

Outcome multiply_f32(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_warp(fragment, mask) == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const MmaSyncDetail*>(op.detail);
  Pieces pieces;
  gather(fragment, detail, pieces);
  Matrix d = load_words(fragment, detail);
  multiply_pieces(detail, pieces, reinterpret_cast<float*>(d.data()));
  store_words(fragment, detail, d);
  return Outcome::next;
}

// Sums in fp32, C included, and one rounding to f16.
Outcome multiply_f16(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_warp(fragment, mask) == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const MmaSyncDetail*>(op.detail);
  Pieces pieces;
  gather(fragment, detail, pieces);
  float d[kFragmentColumns * kFragmentRows];
  for_each_element(detail, [&](uint32_t lane, uint32_t i, uint32_t at) {
    d[at] = read_float(fragment, detail.c, Accumulator::f16, lane, i);
  });
  multiply_pieces(detail, pieces, d);
  for_each_element(detail, [&](uint32_t lane, uint32_t i, uint32_t at) {
    write_float(fragment, detail.d, Accumulator::f16, lane, i, d[at]);
  });
  return Outcome::next;
}

Outcome multiply_integers(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_warp(fragment, mask) == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const MmaSyncDetail*>(op.detail);
  Pieces pieces;
  gather(fragment, detail, pieces);
  float sums[kFragmentColumns * kFragmentRows] = {};  // below 2^24 in magnitude, thus exact
  multiply_pieces(detail, pieces, sums);
  Matrix d = load_words(fragment, detail);
  for (size_t i = 0; i < d.size(); ++i) d[i] = add_integer(d[i], static_cast<int64_t>(sums[i]), detail.saturate);
  store_words(fragment, detail, d);
  return Outcome::next;
}

Outcome multiply_bits(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_warp(fragment, mask) == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const MmaSyncDetail*>(op.detail);
  Pieces pieces;
  gather(fragment, detail, pieces);
  Matrix d = load_words(fragment, detail);
  for (uint32_t n = 0; n < kFragmentColumns; ++n) {
    for (uint32_t m = 0; m < detail.m; ++m) {
      int64_t sum = 0;
      for (uint32_t piece = 0; piece < detail.pieces; ++piece) {
        const uint32_t a = pieces.a[piece * kFragmentRows + m], b = pieces.b[piece * kFragmentColumns + n];
        sum += std::popcount(detail.exclusive_or ? a ^ b : a & b);
      }
      uint32_t& cell = d[n * kFragmentRows + m];
      cell = add_integer(cell, sum, false);
    }
  }
  store_words(fragment, detail, d);
  return Outcome::next;
}

Outcome multiply_doubles(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_warp(fragment, mask) == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const MmaSyncDetail*>(op.detail);
  const auto doubles = [&](RegisterOffset offset) { return machine::lanes_at<double>(fragment.registers, offset); };
  double a[kFragmentDoubles * kFragmentRows] = {}, b[kFragmentDoubles * kFragmentColumns] = {};
  double d[kFragmentColumns * kFragmentRows] = {};
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    for (uint32_t r = 0; r < detail.a_count; ++r) {
      const FragmentPlace place = place_in_a(detail.m, lane, r);
      a[place.column * kFragmentRows + place.row] = doubles(detail.a[r])[lane];
    }
    for (uint32_t r = 0; r < detail.b_count; ++r) {
      const FragmentPlace place = place_in_b(lane, r);
      b[place.column * kFragmentColumns + place.row] = doubles(detail.b[r])[lane];
    }
  }
  for_each_element(detail, [&](uint32_t lane, uint32_t i, uint32_t at) { d[at] = doubles(detail.c[i])[lane]; });
  const int before = std::fegetround();
  if (detail.rounding != before) std::fesetround(detail.rounding);
  warp_mma_kernels().multiply_doubles(a, b, detail.k, d);
  if (detail.rounding != before) std::fesetround(before);
  for_each_element(detail, [&](uint32_t lane, uint32_t i, uint32_t at) { doubles(detail.d[i])[lane] = d[at]; });
  return Outcome::next;
}

// m8n8k4 of f16: four products of 8x4 by 4x8 matrices, each of eight lanes.
Outcome multiply_quad_pairs(Fragment& fragment, const Op& op, LaneMask mask) {
  if (gather_warp(fragment, mask) == 0) return Outcome::blocked;
  const auto& detail = *static_cast<const MmaSyncDetail*>(op.detail);
  constexpr uint32_t kPairs = 4, kRows = 8, kDepth = 4;
  float a[kPairs][kRows][kDepth], b[kPairs][kRows][kDepth], d[kPairs][kRows][kRows];
  const auto place = [](Accumulator type, uint32_t lane, uint32_t i) {
    return type == Accumulator::f16 ? place_in_quad_pair_f16(lane, i) : place_in_quad_pair_f32(lane, i);
  };
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t pair = quad_pair_of(lane);
    for (uint32_t i = 0; i < kDepth; ++i) {
      const FragmentPlace in_a = place_in_quad_pair(detail.a_along_k, lane, i);
      const FragmentPlace in_b = place_in_quad_pair(detail.b_along_k, lane, i);
      a[pair][in_a.row][in_a.column] = read_float(fragment, detail.a, Accumulator::f16, lane, i);
      b[pair][in_b.row][in_b.column] = read_float(fragment, detail.b, Accumulator::f16, lane, i);
    }
    for (uint32_t i = 0; i < kRows; ++i) {
      const FragmentPlace at = place(detail.c_type, lane, i);
      d[pair][at.row][at.column] = read_float(fragment, detail.c, detail.c_type, lane, i);
    }
  }
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    const uint32_t pair = quad_pair_of(lane);
    for (uint32_t i = 0; i < kRows; ++i) {
      const FragmentPlace at = place(detail.d_type, lane, i);
      float sum = d[pair][at.row][at.column];
      for (uint32_t k = 0; k < kDepth; ++k) sum += a[pair][at.row][k] * b[pair][at.column][k];
      write_float(fragment, detail.d, detail.d_type, lane, i, sum);
    }
  }
  return Outcome::next;
}

// ---- Translation ---------------------------------------------------------------------------------------------------

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

/// What is multiplied: bits of an element and the shapes that exist.
struct Elements {
  std::string_view types;
  uint32_t bits;
  std::string_view shapes;  ///< each with a space behind it
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

ElementFormat format_of(std::string_view type) {
  constexpr std::array<std::pair<std::string_view, ElementFormat>, 9> kFormats{{{"f16", ElementFormat::f16},
                                                                                {"bf16", ElementFormat::bf16},
                                                                                {"tf32", ElementFormat::tf32},
                                                                                {"e4m3", ElementFormat::e4m3},
                                                                                {"e5m2", ElementFormat::e5m2},
                                                                                {"s8", ElementFormat::s8},
                                                                                {"u8", ElementFormat::u8},
                                                                                {"s4", ElementFormat::s4},
                                                                                {"u4", ElementFormat::u4}}};
  for (const auto& [name, format] : kFormats) {
    if (name == type) return format;
  }
  return ElementFormat::u8;  // b1 and f64, which are not decoded
}

Accumulator accumulator_of(std::string_view type) {
  return type == "f16"   ? Accumulator::f16
         : type == "f32" ? Accumulator::f32
         : type == "s32" ? Accumulator::s32
                         : Accumulator::f64;
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

int take_rounding(Translation& t) {
  const std::optional<std::string_view> mode = t.modifiers.take_one_of({"rn", "rz", "rm", "rp"});
  if (mode == "rz") return FE_TOWARDZERO;
  if (mode == "rm") return FE_DOWNWARD;
  if (mode == "rp") return FE_UPWARD;
  return FE_TONEAREST;
}

}  // namespace

void translate_mma_sync(Translation& t) {
  const auto take_type = [&] {
    return t.modifiers.require_one_of(
        {"f16", "f32", "f64", "s32", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "s4", "u4", "b1"});
  };
  if (t.modifiers.has("sp") || t.modifiers.has("sp::ordered_metadata")) {
    t.unsupported("mma.sp (sparse A) is not implemented; dense mma.sync is");
  }
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
  detail->m = shape.m;
  detail->k = shape.k;
  detail->a_format = format_of(a);
  detail->b_format = format_of(b);
  detail->d_type = accumulator_of(d);
  detail->c_type = accumulator_of(c);
  detail->a_along_k = a_layout == "row";
  detail->b_along_k = b_layout == "col";
  const bool doubles = elements->bits == 64;
  if (doubles) detail->rounding = take_rounding(t);
  if (elements->bits == 1) {
    detail->exclusive_or = t.modifiers.require_one_of({"xor", "and"}) == "xor";
    t.modifiers.require("popc");
  } else if (detail->d_type == Accumulator::s32) {
    detail->saturate = t.modifiers.take("satfinite");
  }

  const Type word = doubles ? Type::b64 : Type::b32;
  detail->pieces = doubles ? shape.k : shape.k * elements->bits / 32;
  detail->a_count = quad_pairs ? 2 : shape.m * detail->pieces / kWarpSize;
  detail->b_count = quad_pairs ? 2 : kFragmentColumns * detail->pieces / kWarpSize;
  detail->d_elements = quad_pairs ? 8 : shape.m * kFragmentColumns / kWarpSize;
  const auto registers_for = [&](Accumulator type) {
    return type == Accumulator::f16 ? detail->d_elements / 2 : detail->d_elements;
  };
  take_sources(t, 1, detail->a_count, word, "A", detail->a);
  take_sources(t, 2, detail->b_count, word, "B", detail->b);
  take_sources(t, 3, registers_for(detail->c_type), word, "C", detail->c);
  take_destinations(t, registers_for(detail->d_type), word, detail->d);
  const machine::Handler handler = quad_pairs                           ? multiply_quad_pairs
                                   : doubles                            ? multiply_doubles
                                   : elements->bits == 1                ? multiply_bits
                                   : detail->d_type == Accumulator::s32 ? multiply_integers
                                   : detail->d_type == Accumulator::f16 ? multiply_f16
                                                                        : multiply_f32;
  t.emit(handler).detail = t.keep(std::move(detail));
}

}  // namespace stagecraft::emulator::units
