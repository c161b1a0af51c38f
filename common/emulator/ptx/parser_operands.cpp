// Instructions and their operands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "emulator/ptx/parser_state.hpp"
#include "emulator/ptx/special_registers.hpp"

namespace stagecraft::emulator::ptx {
namespace {

constexpr size_t kMostModifiers = 64;  ///< the bits that `Modifiers` has
constexpr size_t kDeepestOperand = 8;  ///< braces, brackets and parentheses inside each other
constexpr std::string_view kOperands = "a register, number, variable, label, `[address]`, `{vector}`, `_`";

/// Returns the component that `.x` or `.r` names; 4 for none.
size_t component(std::string_view name) {
  if (name.size() != 1) return 4;
  const size_t position = std::string_view("xyzw").find(name[0]);
  if (position != std::string_view::npos) return position;
  return std::min<size_t>(4, std::string_view("rgba").find(name[0]));
}

}  // namespace

void Parser::guard(Instruction& instruction) {
  take();
  instruction.guarded = true;
  instruction.guard_negated = take_if('!');
  const Token name = expect_identifier("a predicate register");
  if (peek().kind == TokenKind::dotted) {
    throw SyntaxError(fmt::format("{} follows the predicate of a guard", describe(peek())), peek().position,
                      "an opcode");
  }
  const std::optional<Operand> predicate = register_operand(name);
  if (!predicate) unknown_name(name);
  if (predicate->kind != OperandKind::reg || function_->registers[predicate->reg].type != Type::pred) {
    throw SyntaxError(fmt::format("`{}` cannot guard an instruction", name.text), name.position,
                      "a register of type .pred");
  }
  instruction.guard = predicate->reg;
}

void Parser::instruction() {
  Instruction instruction;
  instruction.source = source_;
  instruction.source_is_certain = source_is_certain_;
  if (next_is('@')) guard(instruction);
  const Token opcode = expect_identifier("an instruction");
  instruction.opcode = opcode.text;
  instruction.position = opcode.position;
  std::array<std::string_view, kMostModifiers> modifiers;
  size_t count = 0;
  while (peek().kind == TokenKind::dotted) {
    const Token modifier = take();
    if (count == kMostModifiers) {
      throw SyntaxError(fmt::format("`{}` has too many modifiers", opcode.text), modifier.position,
                        fmt::format("at most {}", kMostModifiers));
    }
    modifiers[count++] = modifier.text;
  }
  instruction.modifiers.assign(modifiers.begin(), modifiers.begin() + count);

  // The instruction goes into the body first, so that references to labels know where their operand is.
  function_->body.push_back(std::move(instruction));
  const size_t index = function_->body.size() - 1;
  if (take_if(';')) return;
  do {
    // References count the operands added so far; nothing else adds to the body meanwhile.
    Instruction& current = function_->body[index];
    Operand next = operand(current, 0);
    current.operands.push_back(std::move(next));
  } while (take_if(','));
  expect(';', fmt::format("after an operand of `{}`", opcode.text), "`,`, `;`");
}

Operand Parser::operand(const Instruction& instruction, size_t depth) {
  if (depth > kDeepestOperand) throw SyntaxError("this operand is nested too deeply", peek().position);
  const Token& token = peek();
  if (token.is('{')) return vector(instruction, depth);
  if (token.is('[')) return address(instruction, depth);
  if (token.is('(') && instruction.opcode == "call") return arguments(instruction, depth);
  if (token.is('!') && peek(1).kind == TokenKind::identifier && peek(1).text != "WARP_SZ") return predicate();
  if (token.is('-') && peek(1).kind == TokenKind::identifier && peek(1).text != "WARP_SZ") {
    if (instruction.opcode != "vmad") {
      throw UnsupportedInstruction(fmt::format("`{}` negates an operand, as only `vmad` can", instruction.opcode),
                                   token.position);
    }
    take();
    Operand negated = named(instruction, depth);
    negated.negated = true;
    return negated;
  }
  if (token.kind == TokenKind::identifier && token.text != "WARP_SZ") {
    Operand first = named(instruction, depth);
    if (first.kind == OperandKind::symbol && next_is('[')) {
      throw UnsupportedInstruction(fmt::format("`{}[` indexes an array, which is not implemented", first.name),
                                   first.position, fmt::format("`[{}+bytes]`, `{}+bytes`", first.name, first.name));
    }
    return next_is('|') ? pair(std::move(first), instruction, depth) : first;
  }
  if (starts_constant()) return constant_operand();
  unexpected(fmt::format("where an operand of `{}` should be", instruction.opcode), kOperands);
}

Operand Parser::constant_operand() {
  const Constant value = constant();
  Operand operand;
  operand.kind = value.kind == TokenKind::float32   ? OperandKind::f32
                 : value.kind == TokenKind::float64 ? OperandKind::f64
                                                    : OperandKind::integer;
  operand.bits = value.bits;
  operand.position = value.position;
  return operand;
}

Operand Parser::predicate() {
  const Token mark = take();
  const Token name = take();
  std::optional<Operand> operand = register_operand(name);
  if (!operand) unknown_name(name);
  if (operand->kind != OperandKind::reg || function_->registers[operand->reg].type != Type::pred) {
    throw SyntaxError(fmt::format("`!{}` negates something that is not a predicate", name.text), mark.position,
                      "a register of type .pred");
  }
  operand->negated = true;
  operand->position = mark.position;
  return *std::move(operand);
}

Operand Parser::pair(Operand first, const Instruction& instruction, size_t depth) {
  const Token bar = take();
  Operand pair;
  pair.kind = OperandKind::pair;
  pair.position = first.position;
  if (peek().kind != TokenKind::identifier) unexpected("after `|`", "a register, `_`");
  Operand second = named(instruction, depth);
  for (const Operand* part : {&first, &second}) {
    if (part->kind == OperandKind::reg || part->kind == OperandKind::sink) continue;
    throw SyntaxError("`|` joins two results, which must be registers", bar.position, "a register, `_`");
  }
  pair.list.push_back(std::move(first));
  pair.list.push_back(std::move(second));
  return pair;
}

Operand Parser::vector(const Instruction& instruction, size_t depth) {
  Operand vector;
  vector.kind = OperandKind::vector;
  vector.position = take().position;
  do vector.list.push_back(operand(instruction, depth + 1));
  while (take_if(','));
  expect('}', "after an element of a vector");
  return vector;
}

Operand Parser::arguments(const Instruction& instruction, size_t depth) {
  Operand arguments;
  arguments.kind = OperandKind::arguments;
  arguments.position = take().position;
  if (take_if(')')) return arguments;
  do arguments.list.push_back(operand(instruction, depth + 1));
  while (take_if(','));
  expect(')', "after an argument");
  return arguments;
}

Operand Parser::address(const Instruction& instruction, size_t depth) {
  Operand address;
  address.kind = OperandKind::address;
  address.position = take().position;
  const Token& token = peek();
  if (token.kind == TokenKind::identifier && token.text != "WARP_SZ") {
    Operand base = named(instruction, depth + 1);
    if (base.kind != OperandKind::reg && base.kind != OperandKind::symbol) {
      throw SyntaxError(fmt::format("`{}` is no address", base.name), base.position,
                        "a register, a variable, a number");
    }
    address.offset = std::exchange(base.offset, 0);
    if (base.kind == OperandKind::reg) address.offset = offset();
    address.list.push_back(std::move(base));
  } else if (starts_constant()) {
    address.list.push_back(constant_operand());
    if (address.list.back().kind != OperandKind::integer) {
      throw SyntaxError("an address cannot be a floating-point number", address.list.back().position);
    }
  } else {
    unexpected("where an address should be", "a register, a variable, a number");
  }
  while (take_if(',')) address.list.push_back(operand(instruction, depth + 1));
  if (!next_is(']')) unexpected("in an address", "`+ offset`, `, {coordinates}`, `]`");
  take();
  return address;
}

int64_t Parser::offset() {
  uint64_t sum = 0;
  while (next_is('+') || next_is('-')) {
    const bool minus = take().is('-');
    const Constant value = binary(10, 0);  // up to the next + or -
    if (value.kind != TokenKind::integer) throw SyntaxError("an offset must be an integer", value.position);
    sum = minus ? sum - value.bits : sum + value.bits;
  }
  return static_cast<int64_t>(sum);
}

Operand Parser::named(const Instruction& instruction, size_t depth) {
  const Token name = take();
  if (name.text == "_") {
    Operand sink;
    sink.position = name.position;
    return sink;
  }
  if (instruction.opcode == "bra" && depth == 0) return reference(name, OperandKind::label);
  if (std::optional<Operand> operand = register_operand(name)) return *std::move(operand);
  if (name.text.front() == '%') {
    if (std::optional<Operand> operand = special_register(name)) return *std::move(operand);
  }
  if (std::optional<Operand> operand = module_symbol(name)) {
    operand->offset = offset();
    return *std::move(operand);
  }
  // A table or prototype may follow the instruction that uses it; it is never the first operand.
  const bool may_come_later =
      depth == 0 && !instruction.operands.empty() && (instruction.opcode == "brx" || instruction.opcode == "call");
  if (may_come_later && name.text.front() != '%') return reference(name, OperandKind::symbol);
  if (instruction.operands.empty() && name.text.front() != '%' && name.position.line > instruction.position.line) {
    throw SyntaxError(fmt::format("`{}` is not declared; is the `;` after `{}` in line {} missing?", name.text,
                                  instruction.opcode, instruction.position.line),
                      name.position);
  }
  unknown_name(name);
}

Operand Parser::reference(const Token& name, OperandKind kind) {
  Operand operand;
  operand.kind = kind;
  operand.name = name.text;
  operand.position = name.position;
  Reference reference;
  reference.name = name.text;
  reference.position = name.position;
  reference.owner = static_cast<uint32_t>(function_->body.size() - 1);
  reference.item = static_cast<uint32_t>(function_->body.back().operands.size());
  scopes_->add_reference(reference);
  return operand;
}

namespace {

/// The instructions whose operands may be bytes or half-words: vadd, vadd2, vadd4, vset, ...
bool is_video(std::string_view opcode) {
  constexpr std::string_view kStems[] = {"vadd", "vsub", "vabsdiff", "vavrg", "vmin",
                                         "vmax", "vshl", "vshr",     "vmad",  "vset"};
  return std::any_of(std::begin(kStems), std::end(kStems),
                     [&](std::string_view stem) { return opcode.starts_with(stem); });
}

}  // namespace

std::optional<Operand> Parser::register_operand(const Token& name) {
  const Symbol* symbol = scopes_->find(name.text);
  if (symbol == nullptr) return std::nullopt;
  Operand operand;
  operand.name = name.text;
  operand.position = name.position;
  operand.symbol = symbol->index;
  operand.kind = OperandKind::symbol;
  switch (symbol->kind) {
    case Symbol::Kind::scalar_register:
      operand.kind = OperandKind::reg;
      operand.reg = symbol->index;
      operand.symbol = 0;
      if (peek().kind == TokenKind::dotted) {
        const Token part = peek();
        if (!is_video(function_->body.back().opcode)) {
          throw UnsupportedInstruction(
              fmt::format("`{}.{}` selects a part of a register, as only video instructions can", name.text, part.text),
              part.position, "components of registers declared with .v2 or .v4");
        }
        take();
        operand.name += fmt::format(".{}", part.text);
      }
      return operand;
    case Symbol::Kind::vector_register: {
      const RegisterId first = symbol->index;
      const size_t width = symbol->width;
      operand.symbol = 0;
      if (peek().kind == TokenKind::dotted) {
        const Token selector = take();
        const size_t selected = component(selector.text);
        if (selected >= width) {
          throw SyntaxError(fmt::format("`{}` has no component {}", name.text, describe(selector)), selector.position,
                            width == 2 ? ".x, .y" : ".x, .y, .z, .w");
        }
        operand.kind = OperandKind::reg;
        operand.reg = first + static_cast<RegisterId>(selected);
        operand.name = function_->registers[operand.reg].name;
        return operand;
      }
      operand.kind = OperandKind::vector;
      for (size_t i = 0; i < width; ++i) {
        Operand part;
        part.kind = OperandKind::reg;
        part.reg = first + static_cast<RegisterId>(i);
        part.name = function_->registers[part.reg].name;
        part.position = name.position;
        operand.list.push_back(std::move(part));
      }
      return operand;
    }
    case Symbol::Kind::local_variable: operand.symbol_kind = SymbolKind::local_variable; break;
    case Symbol::Kind::module_variable: operand.symbol_kind = SymbolKind::module_variable; break;
    case Symbol::Kind::parameter: operand.symbol_kind = SymbolKind::parameter; break;
    case Symbol::Kind::return_value: operand.symbol_kind = SymbolKind::return_value; break;
    case Symbol::Kind::prototype: operand.symbol_kind = SymbolKind::prototype; return operand;
    case Symbol::Kind::branch_table: operand.symbol_kind = SymbolKind::table; return operand;
    case Symbol::Kind::call_table: operand.symbol_kind = SymbolKind::call_table; return operand;
    case Symbol::Kind::label:
      operand.symbol = 0;
      operand.label = symbol->index;
      operand.kind = OperandKind::label;
      return operand;
  }
  operand.offset = offset();
  return operand;
}

std::optional<Operand> Parser::special_register(const Token& name) {
  const std::string_view stem = name.text.substr(1);
  const SpecialForm form = special_form(stem);
  if (form == SpecialForm::unknown) return std::nullopt;
  Operand operand;
  operand.kind = OperandKind::special;
  operand.name = stem;
  operand.position = name.position;
  if (peek().kind != TokenKind::dotted) return operand;
  const Token selector = take();
  const size_t selected = component(selector.text);
  if (form != SpecialForm::vector || selected > 3) {
    throw SyntaxError(fmt::format("special register `{}` has no component {}", name.text, describe(selector)),
                      selector.position, form == SpecialForm::vector ? ".x, .y, .z, .w" : "no component");
  }
  operand.name += '.';
  operand.name += "xyzw"[selected];
  return operand;
}

std::optional<Operand> Parser::module_symbol(const Token& name) {
  const auto found = symbols_.find(name.text);
  if (found == symbols_.end()) return std::nullopt;
  Operand operand;
  operand.kind = OperandKind::symbol;
  operand.symbol_kind = found->second.is_function ? SymbolKind::function : SymbolKind::module_variable;
  operand.symbol = found->second.index;
  operand.name = name.text;
  operand.position = name.position;
  return operand;
}

void Parser::unknown_name(const Token& name) {
  std::vector<std::string_view> names = scopes_->names();
  if (name.text.front() == '%') {
    const std::string range = scopes_->range_hint(name.text);
    std::string specials;
    if (range.empty()) {
      const std::string_view meant = closest_name(name.text.substr(1), special_register_names());
      if (!meant.empty()) specials = fmt::format("; did you mean the special register `%{}`?", meant);
      if (const std::string declared = suggestion(name.text, names); !declared.empty()) specials = declared;
    }
    throw SyntaxError(fmt::format("register `{}` is not declared{}", name.text, specials), name.position, range);
  }
  std::vector<std::string_view> outer;
  for (const auto& [known, symbol] : symbols_) outer.push_back(known);
  std::sort(outer.begin(), outer.end());
  names.insert(names.end(), outer.begin(), outer.end());
  const std::string range = scopes_->range_hint(name.text);
  throw SyntaxError(fmt::format("`{}` is not declared{}", name.text, suggestion(name.text, names)), name.position,
                    range.empty() ? "a register, variable or function that is declared above" : range);
}

}  // namespace stagecraft::emulator::ptx
