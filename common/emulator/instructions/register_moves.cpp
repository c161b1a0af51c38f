// mov: of registers, constants, special registers and vectors.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "emulator/instructions/clocks.hpp"
#include "emulator/instructions/families.hpp"
#include "emulator/state/grid.hpp"
#include "emulator/translation/register_file.hpp"
#include "emulator/translation/translation.hpp"

namespace stagecraft::emulator::machine {

namespace {

using ptx::Type;

template <typename Element>
Outcome move_full(Fragment& fragment, const Op& op, LaneMask) {
  std::memmove(fragment.registers + op.destination, fragment.registers + op.a, sizeof(Element) * kWarpSize);
  return Outcome::next;
}

struct Bits128 {
  uint64_t low, high;
};

template <typename Element>
Outcome move_masked(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* to = lanes_at<Element>(fragment.registers, op.destination);
  const auto* from = lanes_at<Element>(fragment.registers, op.a);
  for_each_lane(mask, [&](uint32_t lane) { to[lane] = from[lane]; });
  return Outcome::next;
}

Outcome move_predicate(Fragment& fragment, const Op& op, LaneMask mask) {
  auto& to = *lanes_at<LaneMask>(fragment.registers, op.destination);
  const LaneMask from = *lanes_at<LaneMask>(fragment.registers, op.a) ^ static_cast<LaneMask>(op.immediate);
  to = (to & ~mask) | (from & mask);
  return Outcome::next;
}

Op& emit_move(Translation& t, uint32_t bytes) {
  switch (bytes) {
    case 0: return t.emit(move_predicate);
    case 2: return t.emit(move_full<uint16_t>, move_masked<uint16_t>);
    case 4: return t.emit(move_full<uint32_t>, move_masked<uint32_t>);
    case 8: return t.emit(move_full<uint64_t>, move_masked<uint64_t>);
    default: return t.emit(move_full<Bits128>, move_masked<Bits128>);
  }
}

/// Moves such as mov.b64 {lo, hi}, %rd: elements are in the order of the vector, the first in the lowest bits.
struct PartsDetail : OpDetail {
  std::vector<RegisterOffset> parts;  ///< kNoRegister for a sink
  uint32_t part_bytes = 0, whole_bytes = 0, whole_stride = 0, part_stride = 0;
};

Outcome unpack(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const PartsDetail*>(op.detail);
  for_each_lane(mask, [&](uint32_t lane) {
    std::byte whole[16];
    std::memcpy(whole, fragment.registers + op.a + lane * detail.whole_stride, detail.whole_bytes);
    for (size_t i = 0; i < detail.parts.size(); ++i) {
      if (detail.parts[i] == kNoRegister) continue;
      std::byte* to = fragment.registers + detail.parts[i] + lane * detail.part_stride;
      std::memset(to, 0, detail.part_stride);
      std::memcpy(to, whole + i * detail.part_bytes, detail.part_bytes);
    }
  });
  return Outcome::next;
}

Outcome pack(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const PartsDetail*>(op.detail);
  for_each_lane(mask, [&](uint32_t lane) {
    std::byte whole[16] = {};
    for (size_t i = 0; i < detail.parts.size(); ++i) {
      std::memcpy(whole + i * detail.part_bytes, fragment.registers + detail.parts[i] + lane * detail.part_stride,
                  detail.part_bytes);
    }
    std::memcpy(fragment.registers + op.destination + lane * detail.whole_stride, whole, detail.whole_stride);
  });
  return Outcome::next;
}

ptx::Type bits_type(uint32_t bytes) {
  switch (bytes) {
    case 1: return ptx::Type::b8;
    case 2: return ptx::Type::b16;
    case 4: return ptx::Type::b32;
    case 8: return ptx::Type::b64;
    default: return ptx::Type::b128;
  }
}

void translate_parts(Translation& t, ptx::Type type) {
  const bool unpacks = t.operand(0).kind == ptx::OperandKind::vector;
  const std::vector<ptx::Operand>& parts = t.operand(unpacks ? 0 : 1).list;
  auto detail = std::make_unique<PartsDetail>();
  detail->whole_bytes = ptx::size_of(type);
  detail->whole_stride = std::max(2u, detail->whole_bytes);
  if (parts.empty() || detail->whole_bytes % parts.size() != 0) {
    t.illegal(fmt::format("{} bits do not divide into {} parts", 8 * detail->whole_bytes, parts.size()));
  }
  detail->part_bytes = detail->whole_bytes / static_cast<uint32_t>(parts.size());
  detail->part_stride = std::max(2u, detail->part_bytes);
  const ptx::Type part_type = bits_type(detail->part_bytes);
  for (const ptx::Operand& part : parts) {
    if (unpacks && part.kind == ptx::OperandKind::sink) {
      detail->parts.push_back(kNoRegister);
      continue;
    }
    const ptx::Type declared = t.register_type(part);
    if (declared != ptx::Type::none && bytes_per_lane(declared) != detail->part_stride) {
      t.illegal(fmt::format("register {} of type .{} cannot be a part of {} bits", part.name, ptx::name_of(declared),
                            8 * detail->part_bytes));
    }
    detail->parts.push_back(unpacks ? t.destination(part, part_type) : t.source(part, part_type));
  }
  const auto* kept = t.keep(std::move(detail));
  if (unpacks) {
    const RegisterOffset whole = t.source(1, type);
    Op& op = t.emit(unpack);
    op.a = whole;
    op.detail = kept;
  } else {
    const RegisterOffset whole = t.destination(0, type);
    Op& op = t.emit(pack);
    op.destination = whole;
    op.detail = kept;
  }
}

/// Moves such as mov.v4.u32 {%r1, %r2, %r3, _}, %ctaid: from one vector to another of as many elements.
struct VectorMove : OpDetail {
  struct Element {
    RegisterOffset to, from;
    uint32_t to_bytes, from_bytes;  ///< of a lane: those of the registers, which may be wider than the type
  };
  std::vector<Element> elements;
};

Outcome move_vector(Fragment& fragment, const Op& op, LaneMask mask) {
  const auto& detail = *static_cast<const VectorMove*>(op.detail);
  for_each_lane(mask, [&](uint32_t lane) {
    std::array<uint64_t, 4> values{};  // all are read first, because what is written may be read as well
    for (size_t i = 0; i < detail.elements.size(); ++i) {
      const VectorMove::Element& element = detail.elements[i];
      std::memcpy(&values[i], fragment.registers + element.from + lane * element.from_bytes,
                  std::min(element.from_bytes, element.to_bytes));
    }
    for (size_t i = 0; i < detail.elements.size(); ++i) {
      const VectorMove::Element& element = detail.elements[i];
      std::memcpy(fragment.registers + element.to + lane * element.to_bytes, &values[i], element.to_bytes);
    }
  });
  return Outcome::next;
}

/// The elements of a vector operand; a special register such as %ctaid has four.
std::vector<ptx::Operand> elements_of(const ptx::Operand& operand) {
  if (operand.kind != ptx::OperandKind::special) return operand.list;
  std::vector<ptx::Operand> elements(4, operand);
  for (size_t i = 0; i < elements.size(); ++i) elements[i].name += {'.', "xyzw"[i]};
  return elements;
}

void translate_vector(Translation& t, size_t count) {
  const ptx::Type type = t.modifiers.require_type();
  const std::vector<ptx::Operand> to = elements_of(t.operand(0)), from = elements_of(t.operand(1));
  if (to.size() != count || from.size() != count) {
    t.illegal(fmt::format("both operands must have {} elements, in braces", count));
  }
  auto detail = std::make_unique<VectorMove>();
  for (size_t i = 0; i < count; ++i) {
    if (to[i].kind == ptx::OperandKind::sink) continue;
    const ptx::Type read = t.register_type(from[i]), written = t.register_type(to[i]);
    detail->elements.push_back({t.destination(to[i], type), t.source(from[i], type),
                                bytes_per_lane(written == ptx::Type::none ? type : written),
                                bytes_per_lane(read == ptx::Type::none ? type : read)});
  }
  t.emit(move_vector).detail = t.keep(std::move(detail));
}

void translate_mov(Translation& t) {
  if (const auto vector = t.modifiers.take_one_of({"v2", "v4"})) {
    translate_vector(t, static_cast<size_t>((*vector)[1] - '0'));
    return;
  }
  const ptx::Type type =
      t.modifiers.require_type({Type::b16, Type::b32, Type::b64, Type::b128, Type::u16, Type::u32, Type::u64, Type::s16,
                                Type::s32, Type::s64, Type::f32, Type::f64, Type::pred});
  if (t.operand(0).kind == ptx::OperandKind::vector || t.operand(1).kind == ptx::OperandKind::vector) {
    translate_parts(t, type);
    return;
  }
  if (translate_clock(t, type)) return;
  if (type == ptx::Type::pred) {
    const Translation::Predicate from = t.predicate(t.operand(1));
    const RegisterOffset to = t.destination(0, type);
    Op& op = t.emit(move_predicate);
    op.destination = to;
    op.a = from.offset;
    op.immediate = from.flip;
    return;
  }
  const RegisterOffset from = t.source(1, type);
  const RegisterOffset to = t.destination(0, type);
  Op& op = emit_move(t, bytes_per_lane(type));
  op.destination = to;
  op.a = from;
}

/// A special register is read by an instruction of its own.
InstructionClass class_of_move(const ptx::Instruction& instruction) {
  const bool is_special = instruction.operands.back().kind == ptx::OperandKind::special;
  return is_special ? InstructionClass::other : InstructionClass::free;
}

}  // namespace

void add_moves(InstructionSet& set) { set.add("mov", translate_mov, computing(Computation::copy), class_of_move); }

}  // namespace stagecraft::emulator::machine
