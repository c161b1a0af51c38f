// Declarations of variables, registers and parameters (PTX ISA, "State Spaces, Types, and Variables").
#include <fmt/format.h>

#include <bit>
#include <utility>

#include "emulator/ptx/parser_state.hpp"

namespace stagecraft::emulator::ptx {
namespace {

constexpr uint64_t kLargestVariable = uint64_t{1} << 62;
constexpr size_t kMostDimensions = 16;
constexpr uint64_t kLargestAlignment = uint64_t{1} << 31;
constexpr std::string_view kTypeNames =
    ".b8, .b16, .b32, .b64, .b128, .u8, .u16, .u32, .u64, .s8, .s16, .s32, .s64, .f16, .f16x2, .bf16, .bf16x2, .f32, "
    ".f32x2, .f64, .pred";

uint8_t vector_width(std::string_view name) {
  if (name == "v2") return 2;
  if (name == "v4") return 4;
  if (name == "v8") return 8;
  return 1;
}

}  // namespace

void Parser::attributes(Declaration& declaration) {
  take();
  expect('(', "after `.attribute`");
  do {
    if (take_directive_if("managed")) {
      declaration.is_managed = true;
    } else if (take_directive_if("unified")) {
      expect('(', "after `.unified`");
      do expect_size("a part of the identifier");
      while (take_if(','));
      expect(')', "after `.unified`");
    } else {
      unexpected("in `.attribute`", ".managed, .unified(a, b)");
    }
  } while (take_if(','));
  expect(')', "after `.attribute`");
}

void Parser::alignment(Declaration& declaration) {
  take();
  const TextPosition position = peek().position;
  declaration.alignment = expect_size("an alignment");
  if (!std::has_single_bit(declaration.alignment) || declaration.alignment > kLargestAlignment) {
    throw SyntaxError(fmt::format("an alignment of {} bytes is impossible", declaration.alignment), position,
                      "a power of two up to 2^31");
  }
}

Parser::Declaration Parser::declaration(Space space) {
  Declaration declaration;
  while (declaration.type == Type::none) {
    if (peek().kind != TokenKind::dotted) unexpected("where a type should be", kTypeNames);
    const Token token = peek();
    if (token.text == "align") {
      alignment(declaration);
    } else if (token.text == "attribute") {
      attributes(declaration);
    } else if (vector_width(token.text) > 1) {
      take();
      declaration.width = vector_width(token.text);
    } else if (token.text == "texref" || token.text == "samplerref" || token.text == "surfref") {
      take();
      declaration.is_opaque = true;
      declaration.type = Type::b64;
    } else {
      declaration.type = type_from_name(token.text);
      if (declaration.type == Type::none) {
        throw SyntaxError(fmt::format("`.{}` is not a type", token.text), token.position, std::string(kTypeNames));
      }
      if (declaration.type == Type::pred && space != Space::reg) {
        throw SyntaxError("only registers can have the type `.pred`", token.position);
      }
      take();
    }
  }
  return declaration;
}

std::vector<uint64_t> Parser::dimensions(bool may_infer) {
  std::vector<uint64_t> dimensions;
  while (next_is('[')) {
    const Token bracket = take();
    if (dimensions.size() == kMostDimensions) {
      throw SyntaxError("this array has too many dimensions", bracket.position,
                        fmt::format("at most {}", kMostDimensions));
    }
    if (next_is(']')) {
      if (!may_infer || !dimensions.empty()) unexpected("where the extent of an array should be", "a number");
      dimensions.push_back(0);
    } else {
      const uint64_t extent = expect_size("the extent of an array");
      if (extent == 0) throw SyntaxError("an array needs at least one element", bracket.position);
      dimensions.push_back(extent);
    }
    expect(']', "after the extent of an array");
  }
  return dimensions;
}

uint64_t Parser::size_in_bytes(const Declaration& declaration, const std::vector<uint64_t>& dimensions,
                               TextPosition position) {
  uint64_t size = uint64_t{size_of(declaration.type)} * declaration.width;
  for (const uint64_t extent : dimensions) {
    if (extent != 0 && size > kLargestVariable / extent) {
      throw SyntaxError("this variable is too large", position, "at most 2^62 bytes");
    }
    size *= extent;
  }
  return size;
}

void Parser::variables(Space space, const Linkage& linkage) {
  const Declaration common = declaration(space);
  do variable(space, linkage, common);
  while (take_if(','));
  expect(';', "after the declaration of a variable");
}

void Parser::variable(Space space, const Linkage& linkage, const Declaration& declaration) {
  const Token name = expect_identifier("the name of a variable");
  Variable variable;
  variable.name = name.text;
  variable.space = space;
  variable.type = declaration.type;
  variable.alignment =
      declaration.alignment != 0 ? declaration.alignment : uint64_t{size_of(declaration.type)} * declaration.width;
  variable.is_extern = linkage.is_extern;
  variable.is_visible = linkage.is_visible || linkage.is_weak || linkage.is_common;
  variable.is_weak_or_common = linkage.is_weak || linkage.is_common;
  variable.is_managed = declaration.is_managed;
  variable.position = name.position;

  if (next_is('<')) {  // `.shared .b32 x<3>` declares x0, x1, x2
    unexpected("after the name of a variable", "`[extent]`, `=`, `,`, `;` (only registers come in numbered ranges)");
  }
  std::vector<uint64_t> extents = dimensions(true);
  variable.size = size_in_bytes(declaration, extents, name.position);
  const bool unsized = !extents.empty() && extents[0] == 0;
  if (next_is('=')) {
    const Token equals = take();
    if (space != Space::global && space != Space::constant) {
      throw SyntaxError(fmt::format("a `.{}` variable cannot have an initial value", name_of(space)), equals.position,
                        "initial values for .global and .const only");
    }
    if (linkage.is_extern || declaration.is_opaque) {
      throw SyntaxError(fmt::format("`{}` cannot have an initial value here", name.text), equals.position,
                        linkage.is_extern ? "an `.extern` variable gets its value where it is defined" : "");
    }
    initializer(variable, declaration, std::move(extents));
  } else if (unsized && !linkage.is_extern) {
    throw SyntaxError(fmt::format("the array `{}` has neither an extent nor initial values", name.text), name.position,
                      "`[N]`, `[] = {...}`, or `.extern` for dynamic shared memory");
  }
  place_variable(std::move(variable), name.text);
}

void Parser::place_variable(Variable variable, std::string_view name) {
  const bool in_function = scopes_.has_value();
  Symbol symbol;
  symbol.position = variable.position;
  if (in_function &&
      (variable.space == Space::local || variable.space == Space::shared || variable.space == Space::param) &&
      !variable.is_extern) {
    symbol.kind = Symbol::Kind::local_variable;
    symbol.index = static_cast<uint32_t>(function_->variables.size());
    scopes_->declare(name, symbol);
    function_->variables.push_back(std::move(variable));
    return;
  }
  const auto index = static_cast<uint32_t>(module_.variables.size());
  if (in_function) {  // known only here, but alive as long as the module
    symbol.kind = Symbol::Kind::module_variable;
    symbol.index = index;
    scopes_->declare(name, symbol);
    module_.variables.push_back(std::move(variable));
    return;
  }
  const auto [entry, inserted] = symbols_.emplace(name, ModuleSymbol{false, index});
  if (inserted) {
    module_.variables.push_back(std::move(variable));
    return;
  }
  if (entry->second.is_function) {
    throw SyntaxError(fmt::format("`{}` is already the name of a function", name), variable.position);
  }
  Variable& earlier = module_.variables[entry->second.index];
  if (earlier.space != variable.space || (!earlier.is_extern && !variable.is_extern)) {
    throw SyntaxError(fmt::format("`{}` is declared twice, first in line {}, column {}", name, earlier.position.line,
                                  earlier.position.column),
                      variable.position, "one definition, and `.extern` declarations of the same space");
  }
  if (earlier.is_extern) earlier = std::move(variable);
}

void Parser::registers() {
  const Declaration common = declaration(Space::reg);
  if (common.is_opaque) throw SyntaxError("a register cannot hold this type", peek().position, std::string(kTypeNames));
  if (common.width > 4) throw SyntaxError("registers have at most four components", peek().position, ".v2, .v4");
  do {
    const Token name = expect_identifier("the name of a register");
    if (take_if('<')) {
      RegisterRange range;
      range.type = common.type;
      range.width = common.width;
      range.position = name.position;
      range.count = expect_uint32("the number of registers");
      expect('>', "after the number of registers");
      scopes_->declare_range(name.text, range);
      continue;
    }
    Symbol symbol;
    symbol.kind = common.width == 1 ? Symbol::Kind::scalar_register : Symbol::Kind::vector_register;
    symbol.width = common.width;
    symbol.position = name.position;
    symbol.index = static_cast<uint32_t>(function_->registers.size());
    scopes_->declare(name.text, symbol);
    scopes_->add_registers(name.text, common.type, common.width);
  } while (take_if(','));
  expect(';', "after the declaration of registers");
}

Variable Parser::parameter(std::vector<Token>& names) {
  Variable variable;
  if (take_directive_if("param")) {
    variable.space = Space::param;
  } else if (take_directive_if("reg")) {
    variable.space = Space::reg;
  } else {
    unexpected("in a list of parameters", ".param, .reg, `)`");
  }
  Declaration type = declaration(variable.space);
  // `.ptr .global .align 8` says where the argument points; only the attributes after the type are that.
  if (take_directive_if("ptr")) {
    while (peek().kind == TokenKind::dotted) {
      const std::string_view name = peek().text;
      if (name == "align") {
        Declaration pointee;
        alignment(pointee);
      } else if (name == "global" || name == "const" || name == "shared" || name == "local" || name == "param" ||
                 name == "generic") {
        take();
      } else {
        unexpected("after `.ptr`", ".global, .const, .shared, .local, .align N");
      }
    }
  }
  if (next_is_directive("align")) alignment(type);
  const Token name = expect_identifier("the name of a parameter");
  names.push_back(name);
  variable.name = name.text;
  variable.type = type.type;
  variable.alignment = type.alignment != 0 ? type.alignment : uint64_t{size_of(type.type)} * type.width;
  variable.position = name.position;
  const std::vector<uint64_t> extents = dimensions(true);
  variable.size = size_in_bytes(type, extents, name.position);
  if (variable.space == Space::reg && (!extents.empty() || type.width != 1 || type.is_opaque)) {
    throw SyntaxError("a `.reg` parameter is a single register", name.position, ".param for everything else");
  }
  return variable;
}

std::vector<Variable> Parser::parameter_list(std::vector<Token>& names) {
  std::vector<Variable> parameters;
  expect('(', "before a list of parameters");
  if (take_if(')')) return parameters;
  do parameters.push_back(parameter(names));
  while (take_if(','));
  expect(')', "after a parameter");
  return parameters;
}

}  // namespace stagecraft::emulator::ptx
