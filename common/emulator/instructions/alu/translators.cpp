#include "emulator/instructions/alu/translators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "emulator/instructions/alu/arithmetic.hpp"
#include "emulator/ptx/modifiers.hpp"

namespace stagecraft::emulator::machine {

void add_arithmetic(InstructionSet& set) {
  alu::add_integer_translators(set);
  alu::add_bit_translators(set);
  alu::add_comparison_translators(set);
  alu::add_floating_translators(set);
  alu::add_conversion_translators(set);
  alu::add_video_translators(set);
}

}  // namespace stagecraft::emulator::machine

namespace stagecraft::emulator::machine::alu {
namespace {

using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

void check_width(Translation& t, const Operand& operand, Type type) {
  const Type declared = t.register_type(operand);
  if (declared == Type::none || ptx::size_of(declared) == ptx::size_of(type)) return;
  if (operand.kind == OperandKind::sink) return;
  t.illegal(fmt::format(
      "register `{}` is declared .{}, but this operand has {} bits (.{}). Declare it with that width, or convert with "
      "cvt",
      operand.name, ptx::name_of(declared), 8 * ptx::size_of(type), ptx::name_of(type)));
}

}  // namespace

RegisterOffset exact_source(Translation& t, const Operand& operand, Type type) {
  check_width(t, operand, type);
  return t.source(operand, type);
}

RegisterOffset exact_destination(Translation& t, const Operand& operand, Type type) {
  check_width(t, operand, type);
  return t.destination(operand, type);
}

Handlers require_handlers(Translation& t, Operation operation, Type type, unsigned variant) {
  const Handlers handlers = catalog().find(operation, type, static_cast<uint16_t>(variant));
  if (handlers.full == nullptr) {
    t.unsupported("this combination of type and modifiers is not implemented");
  }
  return handlers;
}

void emit_op(Translation& t, Handlers handlers, const Vectors& vectors, uint64_t immediate) {
  Op& op = t.emit(handlers.full, handlers.masked);
  op.destination = vectors.destination;
  op.a = vectors.a;
  op.b = vectors.b;
  op.c = vectors.c;
  op.immediate = immediate;
}

void require_operands(Translation& t, size_t least, size_t most) {
  const size_t count = t.operand_count();
  if (count >= least && count <= most) return;
  const std::string legal = least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most);
  t.illegal(fmt::format("it has {} operands; legal are {}", count, legal));
}

void emit_plain(Translation& t, Handlers handlers, Type destination, std::initializer_list<Type> sources,
                uint64_t immediate) {
  require_operands(t, sources.size() + 1, sources.size() + 1);
  std::array<RegisterOffset, 3> offsets{kNoRegister, kNoRegister, kNoRegister};
  size_t index = 0;
  for (const Type type : sources) {
    offsets[index] = exact_source(t, index + 1, type);
    ++index;
  }
  const RegisterOffset result = exact_destination(t, size_t{0}, destination);
  emit_op(t, handlers, {result, offsets[0], offsets[1], offsets[2]}, immediate);
}

InstructionTraits arithmetic_traits(const ptx::Instruction& instruction,
                                    std::initializer_list<std::string_view> with_branches) {
  InstructionTraits traits = kOrdinary;
  const bool branches = std::any_of(with_branches.begin(), with_branches.end(), [&](std::string_view modifier) {
    return ptx::has_modifier(instruction, modifier);
  });
  if (branches) traits.flow = Flow::branches;
  return traits;
}

std::optional<RoundingMode> take_rounding(Translation& t) {
  const std::optional<std::string_view> name = t.modifiers.take_one_of({"rn", "rz", "rm", "rp"});
  if (!name) return std::nullopt;
  if (*name == "rn") return RoundingMode::nearest;
  if (*name == "rz") return RoundingMode::zero;
  return *name == "rm" ? RoundingMode::down : RoundingMode::up;
}

bool is_integer(Type type) { return type >= Type::u8 && type <= Type::s64; }
bool is_signed(Type type) { return type >= Type::s8 && type <= Type::s64; }

Type unsigned_for_bits(Type type) {
  switch (type) {
    case Type::b8: return Type::u8;
    case Type::b16: return Type::u16;
    case Type::b32: return Type::u32;
    case Type::b64: return Type::u64;
    default: return type;
  }
}

Type bits_of_size(uint32_t bytes) { return bytes <= 2 ? Type::b16 : bytes == 4 ? Type::b32 : Type::b64; }

}  // namespace stagecraft::emulator::machine::alu
