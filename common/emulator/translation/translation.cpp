#include "emulator/translation/translation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "emulator/state/grid.hpp"
#include "emulator/translation/function_translator.hpp"

namespace stagecraft::emulator::machine {

namespace {

const ptx::Variable& variable_of(FunctionTranslator& owner, const ptx::Operand& operand) {
  if (operand.symbol_kind == ptx::SymbolKind::module_variable) {
    return owner.kernel_translator().module().variables.at(operand.symbol);
  }
  return owner.function().variables.at(operand.symbol);
}

/// What the types of an instruction and of an operand must agree in; untyped bits agree with everything.
enum class Kind : uint8_t { bits, integer, floating, half };

Kind kind_of(ptx::Type type) {
  using ptx::Type;
  switch (type) {
    case Type::u8:
    case Type::u16:
    case Type::u32:
    case Type::u64:
    case Type::s8:
    case Type::s16:
    case Type::s32:
    case Type::s64: return Kind::integer;
    case Type::f32:
    case Type::f64: return Kind::floating;
    case Type::f16:
    case Type::f16x2:
    case Type::bf16:
    case Type::bf16x2: return Kind::half;
    default: return Kind::bits;
  }
}

/// As ptxas 13.0 decides. It was not asked about registers of halves, and of integers for halves.
bool agree(Kind a, Kind b) {
  return a == b || (a != Kind::floating && b != Kind::floating) || std::min(a, b) == Kind::bits;
}

/// For a constant such as 1.0 (8 bytes) or 0f3F800000 (4 bytes).
void check_floating_constant(const Translation& t, ptx::Type type, uint32_t bytes) {
  if (kind_of(type) == Kind::integer || (kind_of(type) == Kind::bits && ptx::size_of(type) != bytes)) {
    t.illegal(
        fmt::format("a floating-point constant of {} bits (1.0 has 64, 0f3F800000 has 32); this operand is of "
                    "type .{}",
                    8 * bytes, ptx::name_of(type)));
  }
}

/// ptxas reads special registers by `mov` and `cvt` only, and those of 32 bits as no more. Clocks are not read here.
void check_special(const Translation& t, const ptx::SpecialRegister& known, ptx::Type type) {
  const Computation computes = t.traits().computes;
  if (computes != Computation::copy && computes != Computation::conversion) {
    t.illegal(fmt::format("special registers are read by mov: copy %{} to a register first", known.name));
  }
  if (kind_of(type) == Kind::floating || 8 * ptx::size_of(type) > known.bits) {
    t.illegal(fmt::format("%{} is an integer of {} bits; this operand is of type .{}", known.name, known.bits,
                          ptx::name_of(type)));
  }
}

/// Offsets wrap around, as addresses do.
int64_t sum(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

/// The place of a .local variable in the frame of its function.
uint32_t local_offset(const Translation& t, const FunctionFrame& frame, const ptx::Operand& variable) {
  if (variable.symbol_kind != ptx::SymbolKind::local_variable) {
    t.unsupported(
        fmt::format("`{}` is a .local variable outside of a function, which is not implemented", variable.name));
  }
  return frame.local_offsets.at(variable.symbol);
}

template <typename Address>
Outcome add_local_frame(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* destination = lanes_at<Address>(fragment.registers, op.destination);
  const auto address = static_cast<Address>(op.immediate + fragment.local_frame);
  for_each_lane(mask, [&](uint32_t lane) { destination[lane] = address; });
  return Outcome::next;
}

template <typename Address>
Outcome add_offset(Fragment& fragment, const Op& op, LaneMask mask) {
  auto* destination = lanes_at<Address>(fragment.registers, op.destination);
  const auto* base = lanes_at<Address>(fragment.registers, op.a);
  for_each_lane(mask, [&](uint32_t lane) { destination[lane] = base[lane] + static_cast<Address>(op.immediate); });
  return Outcome::next;
}

}  // namespace

Translation::Translation(FunctionTranslator& owner, const ptx::Instruction& instruction)
    : instruction(instruction), modifiers(instruction), owner_(owner) {}

InstructionTraits Translation::traits() const {
  return owner_.kernel_translator().instructions().traits_of(instruction);
}

const Architecture& Translation::architecture() const { return owner_.kernel_translator().architecture(); }

const ptx::Operand& Translation::operand(size_t index) const {
  if (index >= instruction.operands.size()) {
    illegal(fmt::format("operand {} is missing; there are {}", index + 1, instruction.operands.size()));
  }
  return instruction.operands[index];
}

Op& Translation::emit(Handler full, Handler masked) {
  modifiers.finish();
  Op op;
  op.full = full;
  op.masked = masked;
  if (instruction.guarded) {
    op.guard = owner_.frame().register_offsets.at(instruction.guard);
    op.guard_flip = instruction.guard_negated ? kAllLanes : 0;
  }
  return owner_.append(op);
}

void Translation::keep_detail(std::unique_ptr<OpDetail> detail) {
  owner_.kernel().details.push_back(std::move(detail));
}

RegisterOffset Translation::scratch(uint32_t bytes) { return owner_.kernel_translator().registers().allocate(bytes); }

RegisterOffset Translation::constant(uint64_t value, uint32_t bytes) {
  return owner_.kernel_translator().registers().constant(value, 0, bytes);
}

RegisterOffset Translation::carry_flag() { return owner_.carry_flag(); }

RegisterOffset Translation::source(const ptx::Operand& operand, ptx::Type type) {
  const uint32_t bytes = bytes_per_lane(type);
  KernelTranslator& kernel = owner_.kernel_translator();
  switch (operand.kind) {
    case ptx::OperandKind::reg: {
      const ptx::Register& reg = owner_.function().registers.at(operand.reg);
      const bool is_predicate = reg.type == ptx::Type::pred;
      if (is_predicate != (type == ptx::Type::pred)) {
        illegal(fmt::format("register {} is of type .{}; this operand is of type .{}", reg.name, ptx::name_of(reg.type),
                            ptx::name_of(type)));
      }
      if (bytes_per_lane(reg.type) < bytes) {
        illegal(fmt::format("register {} has {} bits; this operand needs {}", reg.name, 8 * ptx::size_of(reg.type),
                            8 * ptx::size_of(type)));
      }
      if (bytes_per_lane(reg.type) > bytes && !traits().takes_wider_registers) {
        illegal(fmt::format("register {} has {} bits; this operand has {}", reg.name, 8 * ptx::size_of(reg.type),
                            8 * ptx::size_of(type)));
      }
      if (!agree(kind_of(reg.type), kind_of(type))) {
        illegal(
            fmt::format("register {} is of type .{}; this operand is of type .{}, which only a register of that "
                        "kind or of untyped bits (.b{}) can hold",
                        reg.name, ptx::name_of(reg.type), ptx::name_of(type), 8 * ptx::size_of(reg.type)));
      }
      return owner_.frame().register_offsets[operand.reg];
    }
    case ptx::OperandKind::integer:
      if (kind_of(type) == Kind::floating) {
        const auto value = static_cast<int64_t>(operand.bits);
        illegal(fmt::format("{} is an integer; a constant of type .{} is written {}.0, or 0{} and its bits", value,
                            ptx::name_of(type), value, type == ptx::Type::f32 ? 'f' : 'd'));
      }
      if (bytes == 16) {
        return kernel.registers().constant(operand.bits, static_cast<int64_t>(operand.bits) < 0 ? ~uint64_t{0} : 0, 16);
      }
      return constant(operand.bits, bytes);
    case ptx::OperandKind::f32:
      check_floating_constant(*this, type, 4);
      if (type == ptx::Type::f64) {
        const float value = std::bit_cast<float>(static_cast<uint32_t>(operand.bits));
        return constant(std::bit_cast<uint64_t>(static_cast<double>(value)), 8);
      }
      return constant(operand.bits, bytes);
    case ptx::OperandKind::f64:
      check_floating_constant(*this, type, 8);
      if (type == ptx::Type::f32) {
        return constant(std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits))), 4);
      }
      return constant(operand.bits, bytes);
    case ptx::OperandKind::special: {
      const ptx::SpecialRegister* known = ptx::find_special_register(operand.name);
      if (known == nullptr || known->special == Special::none || ptx::is_clock(known->special)) {
        unsupported(fmt::format("special register %{} is not implemented as an operand here", operand.name));
      }
      check_special(*this, *known, type);
      return kernel.registers().special(known->special, bytes);
    }
    case ptx::OperandKind::symbol: return symbol_source(operand, bytes);
    default: illegal("this operand must be a register, a constant or the address of a symbol");
  }
}

RegisterOffset Translation::symbol_source(const ptx::Operand& operand, uint32_t bytes) {
  KernelTranslator& kernel = owner_.kernel_translator();
  if (bytes != 4 && bytes != 8) illegal(fmt::format("the address of `{}` has 32 or 64 bits", operand.name));
  const auto value = [&](uint64_t address) { return constant(address + static_cast<uint64_t>(operand.offset), bytes); };
  switch (operand.symbol_kind) {
    case ptx::SymbolKind::function: return value(kFunctionWindow + 16 * uint64_t{operand.symbol});
    case ptx::SymbolKind::parameter:
      if (!owner_.function().is_entry) illegal("the address of a parameter of a .func cannot be taken");
      return value(kernel.kernel().parameters.at(operand.symbol).offset);
    case ptx::SymbolKind::module_variable:
    case ptx::SymbolKind::local_variable: {
      const ptx::Variable& variable = variable_of(owner_, operand);
      switch (variable.space) {
        case ptx::Space::global:
        case ptx::Space::constant: return value(kernel.image().address_of(operand.symbol));
        case ptx::Space::shared:
          return kernel.registers().special(Special::shared_address, bytes,
                                            kernel.shared_offset(variable) + static_cast<uint32_t>(operand.offset));
        case ptx::Space::local: return local_address(operand, bytes);
        default: illegal(fmt::format("the address of `{}` cannot be taken", operand.name));
      }
    }
    default: illegal(fmt::format("`{}` has no address", operand.name));
  }
}

RegisterOffset Translation::local_address(const ptx::Operand& operand, uint32_t bytes) {
  const FunctionFrame& frame = owner_.frame();
  const uint64_t address =
      frame.local_base + local_offset(*this, frame, operand) + static_cast<uint64_t>(operand.offset);
  if (!frame.recursive) return constant(address, bytes);
  // The frame of a recursive function is elsewhere in each call, and pointers to it stay valid while it calls others.
  const RegisterOffset result = scratch(bytes);
  Op& op = prepare(bytes == 8 ? add_local_frame<uint64_t> : add_local_frame<uint32_t>);
  op.destination = result;
  op.immediate = address;
  return result;
}

RegisterOffset Translation::optional_source(size_t index, ptx::Type type) {
  return index < operand_count() ? source(index, type) : kNoRegister;
}

RegisterOffset Translation::destination(const ptx::Operand& operand, ptx::Type type) {
  if (operand.kind == ptx::OperandKind::sink) return scratch(bytes_per_lane(type));
  if (operand.kind != ptx::OperandKind::reg) illegal("the destination must be a register");
  return source(operand, type);
}

ptx::Type Translation::register_type(const ptx::Operand& operand) const {
  if (operand.kind != ptx::OperandKind::reg) return ptx::Type::none;
  return owner_.function().registers.at(operand.reg).type;
}

Translation::Predicate Translation::predicate(const ptx::Operand& operand) {
  return {source(operand, ptx::Type::pred), operand.negated ? kAllLanes : 0};
}

int64_t Translation::integer(const ptx::Operand& operand, std::string_view what) const {
  if (operand.kind != ptx::OperandKind::integer) illegal(fmt::format("{} must be an integer constant", what));
  return static_cast<int64_t>(operand.bits);
}

MemoryOperand Translation::address(const ptx::Operand& operand) {
  MemoryOperand result;
  result.offset = operand.offset;
  if (operand.kind != ptx::OperandKind::address || operand.list.empty()) {
    illegal("this operand must be an address in brackets: [register + offset]");
  }
  const ptx::Operand& base = operand.list[0];
  if (base.kind == ptx::OperandKind::reg) {
    const ptx::Type type = register_type(base);
    const uint32_t bytes = ptx::size_of(type);
    if (bytes != 4 && bytes != 8) {
      illegal(fmt::format("register {} of type .{} cannot hold an address", base.name, ptx::name_of(type)));
    }
    result.base = source(base, type);
    result.wide = bytes == 8;
    return result;
  }
  if (base.kind == ptx::OperandKind::integer) {
    result.offset = sum(result.offset, static_cast<int64_t>(base.bits));
    return result;
  }
  if (base.kind != ptx::OperandKind::symbol) illegal("the base of an address must be a register, symbol or constant");
  result.offset = sum(result.offset, base.offset);
  const auto call_area = [&](const CallArea& area) {
    result.space = ptx::Space::param;
    result.call_area = area.offset;
    result.call_stride = area.stride;
  };
  switch (base.symbol_kind) {
    case ptx::SymbolKind::parameter:
      if (owner_.function().is_entry) {
        result.space = ptx::Space::param;
        result.kernel_parameter = true;
        result.offset = sum(result.offset, owner_.kernel().parameters.at(base.symbol).offset);
      } else {
        call_area(owner_.frame().parameters.at(base.symbol));
      }
      return result;
    case ptx::SymbolKind::return_value: call_area(owner_.frame().returns.at(base.symbol)); return result;
    case ptx::SymbolKind::module_variable:
    case ptx::SymbolKind::local_variable: {
      const ptx::Variable& variable = variable_of(owner_, base);
      result.space = variable.space;
      if (variable.space == ptx::Space::param) {
        call_area(owner_.frame().variables.at(base.symbol));
      } else if (variable.space == ptx::Space::shared) {
        result.base = owner_.kernel_translator().registers().special(
            Special::shared_address, 4, owner_.kernel_translator().shared_offset(variable));
      } else if (variable.space == ptx::Space::local) {
        const FunctionFrame& frame = owner_.frame();
        if (frame.recursive) {
          result.base = local_address(base, 4);
          result.offset = operand.offset;
        } else {
          result.offset = sum(result.offset, frame.local_base + local_offset(*this, frame, base));
        }
      } else {
        const uint64_t address = owner_.kernel_translator().image().address_of(base.symbol);
        result.offset = sum(result.offset, static_cast<int64_t>(address));
      }
      return result;
    }
    default: illegal(fmt::format("`{}` is not a variable", base.name));
  }
}

RegisterOffset Translation::address_vector(const ptx::Operand& operand, bool& wide) {
  const MemoryOperand memory = address(operand);
  if (memory.space == ptx::Space::param && !memory.kernel_parameter) illegal("the address of a call's parameter");
  if (memory.base == kNoRegister) {
    wide = true;
    return constant(static_cast<uint64_t>(memory.offset), 8);
  }
  wide = memory.wide;
  if (memory.offset == 0) return memory.base;
  const RegisterOffset result = scratch(wide ? 8 : 4);
  Op& op = prepare(wide ? add_offset<uint64_t> : add_offset<uint32_t>);
  op.destination = result;
  op.a = memory.base;
  op.immediate = static_cast<uint64_t>(memory.offset);
  return result;
}

Op& Translation::prepare(Handler handler) {
  Op op;
  op.full = op.masked = handler;
  return owner_.append(op);
}

void Translation::unsupported(std::string message) const {
  throw ptx::UnsupportedInstruction(fmt::format("`{}`: {}", ptx::spelling(instruction), message), instruction.position);
}

void Translation::not_on_this_chip(std::string_view needs, std::string_view instead) const {
  const Architecture& chip = architecture();
  unsupported(fmt::format("{} device, and this one ({}) is {}{}", needs, chip.name, chip.target,
                          chip.is_desktop_blackwell() ? fmt::format(": {}", instead) : ""));
}

void Translation::illegal(std::string message) const {
  throw ptx::SyntaxError(fmt::format("`{}`: {}", ptx::spelling(instruction), message), instruction.position);
}

}  // namespace stagecraft::emulator::machine
