// Initial values of variables: numbers, nested braces, strings, and addresses to be filled in when the module is
// placed.
#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>

#include "emulator/ptx/parser_state.hpp"

namespace stagecraft::emulator::ptx {
namespace {

/// Limit of all images of a module together: a text of a few bytes must not use up the memory of the host.
constexpr uint64_t kMostImageBytes = uint64_t{1} << 28;

bool is_float(Type type) {
  return type == Type::f32 || type == Type::f64 || type == Type::f16 || type == Type::bf16 || type == Type::f16x2 ||
         type == Type::bf16x2 || type == Type::f32x2;
}

bool is_untyped(Type type) {
  return type == Type::b8 || type == Type::b16 || type == Type::b32 || type == Type::b64 || type == Type::b128;
}

}  // namespace

void Parser::initializer(Variable& variable, const Declaration& declaration, std::vector<uint64_t> dimensions) {
  if (declaration.width > 1) dimensions.push_back(declaration.width);
  Initializer state{variable, std::move(dimensions), {}, 0};
  uint64_t stride = size_of(declaration.type);
  state.strides.resize(state.dimensions.size());
  for (size_t i = state.dimensions.size(); i-- > 0;) {
    state.strides[i] = stride;
    stride *= state.dimensions[i];
  }
  if (variable.size > 0) reserve_image(state, variable.size);
  if (state.dimensions.empty()) {
    const bool braces = take_if('{');
    initial_value(state, 0);
    if (braces) expect('}', "after the initial value of a scalar");
  } else {
    initial_values(state, 0, 0);
  }
  if (variable.size == 0) {
    if (state.count == 0) throw SyntaxError("an array without extent needs initial values", variable.position);
    variable.size = state.count * state.strides[0];
    reserve_image(state, variable.size);
  }
}

void Parser::reserve_image(Initializer& initializer, uint64_t end) {
  std::vector<uint8_t>& image = initializer.variable.image;
  if (end <= image.size()) return;
  if (end - image.size() > kMostImageBytes - image_bytes_) {
    throw SyntaxError("the initial values of this module are too large", initializer.variable.position,
                      fmt::format("{} MiB of variables with initial values; larger ones can be filled by a kernel",
                                  kMostImageBytes >> 20));
  }
  image_bytes_ += end - image.size();
  image.resize(end);
}

void Parser::initial_values(Initializer& initializer, size_t level, uint64_t offset) {
  if (peek().kind == TokenKind::string) {
    initial_string(initializer, level, offset);
    return;
  }
  const bool innermost = level + 1 == initializer.dimensions.size();
  const uint64_t extent = initializer.dimensions[level];
  const uint64_t stride = initializer.strides[level];
  expect('{', "where the values of an array begin");
  uint64_t index = 0;
  while (!next_is('}')) {
    if (extent != 0 && index == extent) {
      throw SyntaxError("more initial values than elements", peek().position, fmt::format("{} here", extent));
    }
    const uint64_t element = offset + index * stride;
    if (extent == 0) reserve_image(initializer, element + stride);
    if (innermost) {
      initial_value(initializer, element);
    } else {
      initial_values(initializer, level + 1, element);
    }
    ++index;
    if (!take_if(',')) break;
  }
  expect('}', "after an initial value");
  if (level == 0) initializer.count = index;
}

void Parser::initial_string(Initializer& initializer, size_t level, uint64_t offset) {
  const Token token = take();
  const bool innermost = level + 1 == initializer.dimensions.size();
  if (!innermost || initializer.strides[level] != 1) {
    throw SyntaxError("a string can only initialise an array of bytes", token.position, ".b8, .u8, .s8");
  }
  const std::string text = unescape(token.text);
  const uint64_t extent = initializer.dimensions[level];
  if (extent != 0 && text.size() > extent) {
    throw SyntaxError("this string is longer than the array", token.position, fmt::format("{} bytes here", extent));
  }
  if (extent == 0) reserve_image(initializer, offset + text.size() + 1);
  std::memcpy(initializer.variable.image.data() + offset, text.data(), text.size());
  if (level == 0) initializer.count = text.size() + 1;
}

void Parser::initial_value(Initializer& initializer, uint64_t offset) {
  if (initial_address(initializer, offset)) return;
  Constant value = constant();
  // `0xFF00(1000 + 546)` takes the second byte of the number.
  if (value.kind == TokenKind::integer && next_is('(')) {
    const Token parenthesis = take();
    const int first_bit = std::countr_zero(value.bits);
    const uint64_t ones = value.bits == 0 ? 0 : value.bits >> first_bit;
    if (ones == 0 || (ones & (ones + 1)) != 0 || first_bit % 8 != 0 || std::popcount(ones) % 8 != 0) {
      throw SyntaxError(fmt::format("0x{:X} does not mask whole neighbouring bytes", value.bits), value.position,
                        "0xFF(x), 0xFF00(x), 0xFFFF0000(x) and the like");
    }
    if (peek().kind == TokenKind::identifier && peek().text != "WARP_SZ") {
      Relocation relocation = symbol_address();
      relocation.offset = offset;
      relocation.size = static_cast<uint32_t>(std::popcount(value.bits)) / 8;
      relocation.shift = static_cast<uint32_t>(first_bit);
      if (relocation.size > size_of(initializer.variable.type)) {
        throw SyntaxError("the masked bytes of the address do not fit the type", parenthesis.position,
                          fmt::format("{} bytes", size_of(initializer.variable.type)));
      }
      expect(')', "after a masked address");
      add_relocation(initializer.variable, std::move(relocation));
      return;
    }
    const Constant masked = constant();
    if (masked.kind != TokenKind::integer) throw SyntaxError("only integers can be masked", masked.position);
    expect(')', "after a masked number");
    value.bits = (masked.bits & value.bits) >> first_bit;
  }
  store(initializer, offset, value);
}

bool Parser::initial_address(Initializer& initializer, uint64_t offset) {
  if (peek().kind != TokenKind::identifier || peek().text == "WARP_SZ") return false;
  const Token name = peek();
  Relocation relocation = symbol_address();
  const uint32_t size = size_of(initializer.variable.type);
  if ((size != 4 && size != 8) || is_float(initializer.variable.type)) {
    throw SyntaxError(fmt::format("the address of `{}` does not fit the type `.{}`", relocation.symbol,
                                  name_of(initializer.variable.type)),
                      name.position, ".u64, .b64, .s64, .u32, .b32, or its bytes as 0xFF(symbol), 0xFF00(symbol), ...");
  }
  relocation.offset = offset;
  relocation.size = size;
  add_relocation(initializer.variable, std::move(relocation));
  return true;
}

void Parser::add_relocation(Variable& variable, Relocation relocation) {
  // nvcc writes a pointer inside a packed structure as eight single bytes; they are one address.
  if (!variable.relocations.empty()) {
    Relocation& last = variable.relocations.back();
    if (last.offset + last.size == relocation.offset && last.shift + 8 * last.size == relocation.shift &&
        last.size + relocation.size <= 8 && last.symbol == relocation.symbol && last.addend == relocation.addend &&
        last.generic == relocation.generic) {
      last.size += relocation.size;
      return;
    }
  }
  variable.relocations.push_back(std::move(relocation));
}

Relocation Parser::symbol_address() {
  Relocation relocation;
  Token name = take();
  if (name.text == "generic" && next_is('(')) {
    take();
    relocation.generic = true;
    name = expect_identifier("a variable");
  }
  const auto found = symbols_.find(name.text);
  if (found == symbols_.end()) {
    const Symbol* local = scopes_ ? scopes_->find(name.text) : nullptr;
    if (local != nullptr) {
      throw SyntaxError(
          fmt::format("`{}` is known only inside its function, so its address is no initial value", name.text),
          name.position);
    }
    std::vector<std::string_view> names;
    for (const auto& [known, symbol] : symbols_) names.push_back(known);
    throw SyntaxError(
        fmt::format("`{}` is not declared before this initial value{}", name.text, suggestion(name.text, names)),
        name.position, "a variable or function declared above");
  }
  relocation.symbol = name.text;
  relocation.addend = offset();
  if (relocation.generic) {
    expect(')', "after `generic(`");
    relocation.addend =
        static_cast<int64_t>(static_cast<uint64_t>(relocation.addend) + static_cast<uint64_t>(offset()));
  }
  return relocation;
}

void Parser::store(Initializer& initializer, uint64_t offset, const Constant& value) {
  const Type type = initializer.variable.type;
  const uint32_t size = size_of(type);
  uint64_t bits = value.bits;
  if (value.kind == TokenKind::integer) {
    if (type == Type::f32 || type == Type::f64) {
      throw SyntaxError(fmt::format("an integer cannot initialise a `.{}`", name_of(type)), value.position,
                        "1.0, 0f3F800000 (single), 0d3FF0000000000000 (double)");
    }
  } else {
    const bool is_single = value.kind == TokenKind::float32;
    if (type == Type::f32) {
      if (!is_single) bits = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
    } else if (type == Type::f64) {
      if (is_single) {
        bits = std::bit_cast<uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
      }
    } else if (!is_untyped(type) || size != (is_single ? 4u : 8u)) {
      throw SyntaxError(fmt::format("a floating-point number cannot initialise a `.{}`", name_of(type)), value.position,
                        "integers, also as the bit pattern 0x3F80");
    }
  }
  uint8_t* target = initializer.variable.image.data() + offset;
  const bool negative = value.kind == TokenKind::integer && !value.is_unsigned && static_cast<int64_t>(bits) < 0;
  for (uint32_t i = 0; i < size; ++i) {
    target[i] = i < 8 ? static_cast<uint8_t>(bits >> (8 * i)) : (negative ? 0xFF : 0x00);
  }
}

}  // namespace stagecraft::emulator::ptx
