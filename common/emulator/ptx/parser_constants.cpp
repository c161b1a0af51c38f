// Constant expressions (PTX ISA, "Constants"): 64-bit integers, signed unless a `U` or their size makes them unsigned.
#include <fmt/format.h>

#include <bit>

#include "emulator/ptx/parser_state.hpp"

namespace stagecraft::emulator::ptx {
namespace {

constexpr size_t kDeepest = 200;  ///< nested parentheses and unary operators

/// Returns the precedence of a binary operator, as in C; 0 for any other token.
int precedence(const Token& token) {
  if (token.kind != TokenKind::punctuation) return 0;
  switch (token.symbol) {
    case punctuation("||"): return 1;
    case punctuation("&&"): return 2;
    case punctuation("|"): return 3;
    case punctuation("^"): return 4;
    case punctuation("&"): return 5;
    case punctuation("=="):
    case punctuation("!="): return 6;
    case punctuation("<"):
    case punctuation(">"):
    case punctuation("<="):
    case punctuation(">="): return 7;
    case punctuation("<<"):
    case punctuation(">>"): return 8;
    case punctuation("+"):
    case punctuation("-"): return 9;
    case punctuation("*"):
    case punctuation("/"):
    case punctuation("%"): return 10;
    default: return 0;
  }
}

int64_t as_signed(uint64_t bits) { return static_cast<int64_t>(bits); }

}  // namespace

bool Parser::starts_constant() {
  const Token& token = peek();
  switch (token.kind) {
    case TokenKind::integer:
    case TokenKind::float32:
    case TokenKind::float64: return true;
    case TokenKind::identifier: return token.text == "WARP_SZ";
    case TokenKind::punctuation:
      return token.is('-') || token.is('+') || token.is('~') || token.is('!') || token.is('(');
    default: return false;
  }
}

Parser::Constant Parser::constant(size_t depth) { return conditional(depth); }

Parser::Constant Parser::conditional(size_t depth) {
  const Constant condition = binary(1, depth);
  if (!next_is('?')) return condition;
  if (condition.kind != TokenKind::integer) unexpected("after a floating-point constant", "integers only");
  take();
  const Constant yes = conditional(depth + 1);
  expect(':', "in a conditional constant expression");
  const Constant no = conditional(depth + 1);
  Constant result = condition.bits != 0 ? yes : no;
  if (yes.kind == TokenKind::integer && no.kind == TokenKind::integer)
    result.is_unsigned = yes.is_unsigned || no.is_unsigned;
  return result;
}

Parser::Constant Parser::binary(int lowest_precedence, size_t depth) {
  Constant left = unary(depth);
  while (true) {
    const int strength = precedence(peek());
    if (strength == 0 || strength < lowest_precedence) return left;
    const Token operation = take();
    left = apply(operation, left, binary(strength + 1, depth + 1));
  }
}

Parser::Constant Parser::unary(size_t depth) {
  if (depth > kDeepest) throw SyntaxError("this constant expression is nested too deeply", peek().position);
  const Token operation = peek();
  if (!operation.is('-') && !operation.is('+') && !operation.is('~') && !operation.is('!')) return primary(depth);
  take();
  Constant value = unary(depth + 1);
  value.position = operation.position;
  if (value.kind != TokenKind::integer) {
    if (operation.is('-')) value.bits ^= uint64_t{1} << (value.kind == TokenKind::float32 ? 31 : 63);
    if (operation.is('~') || operation.is('!')) {
      throw SyntaxError(fmt::format("{} needs an integer", describe(operation)), operation.position);
    }
    return value;
  }
  if (operation.is('-')) value.bits = 0 - value.bits;
  if (operation.is('~')) value.bits = ~value.bits;
  if (operation.is('!')) {
    value.bits = value.bits == 0;
    value.is_unsigned = false;
  }
  return value;
}

Parser::Constant Parser::primary(size_t depth) {
  Constant value;
  value.position = peek().position;
  if (take_if('(')) {
    // `(.s64)` and `(.u64)` are casts.
    if (peek().kind == TokenKind::dotted) {
      const Token type = take();
      if (type.text != "s64" && type.text != "u64") {
        throw SyntaxError(fmt::format("a constant cannot be cast to {}", describe(type)), type.position, ".s64, .u64");
      }
      expect(')', "after a cast");
      value = unary(depth + 1);
      if (value.kind != TokenKind::integer) throw SyntaxError("only integers can be cast", type.position);
      value.is_unsigned = type.text == "u64";
      return value;
    }
    value = constant(depth + 1);
    expect(')', "in a constant expression");
    return value;
  }
  const Token& token = peek();
  switch (token.kind) {
    case TokenKind::integer:
    case TokenKind::float32:
    case TokenKind::float64:
      value.kind = token.kind;
      value.bits = token.bits;
      value.is_unsigned = token.is_unsigned;
      break;
    case TokenKind::identifier:
      if (token.text == "WARP_SZ") {
        value.bits = 32;
        break;
      }
      [[fallthrough]];
    default: unexpected("in a constant expression", "a number, `(`, `-`, `~`, `!`, WARP_SZ");
  }
  take();
  return value;
}

Parser::Constant Parser::apply(const Token& operation, const Constant& left, const Constant& right) {
  if (left.kind != TokenKind::integer || right.kind != TokenKind::integer) {
    throw SyntaxError(fmt::format("{} between constants needs integers on both sides", describe(operation)),
                      operation.position, "floating-point constants can only be negated");
  }
  Constant result = left;
  const uint64_t a = left.bits;
  const uint64_t b = right.bits;
  const bool is_unsigned = left.is_unsigned || right.is_unsigned;
  result.is_unsigned = is_unsigned;
  const auto compared = [&](bool value) {
    result.is_unsigned = false;
    result.bits = value;
  };
  switch (operation.symbol) {
    case punctuation("||"): compared(a != 0 || b != 0); break;
    case punctuation("&&"): compared(a != 0 && b != 0); break;
    case punctuation("|"): result.bits = a | b; break;
    case punctuation("^"): result.bits = a ^ b; break;
    case punctuation("&"): result.bits = a & b; break;
    case punctuation("=="): compared(a == b); break;
    case punctuation("!="): compared(a != b); break;
    case punctuation("<"): compared(is_unsigned ? a < b : as_signed(a) < as_signed(b)); break;
    case punctuation(">"): compared(is_unsigned ? a > b : as_signed(a) > as_signed(b)); break;
    case punctuation("<="): compared(is_unsigned ? a <= b : as_signed(a) <= as_signed(b)); break;
    case punctuation(">="): compared(is_unsigned ? a >= b : as_signed(a) >= as_signed(b)); break;
    case punctuation("+"): result.bits = a + b; break;
    case punctuation("-"): result.bits = a - b; break;
    case punctuation("*"): result.bits = a * b; break;
    case punctuation("<<"):
    case punctuation(">>"):
      result.is_unsigned = left.is_unsigned;
      if (b > 63) throw SyntaxError("this constant is shifted by more than 63 bits", operation.position, "0 to 63");
      if (operation.is("<<")) {
        result.bits = a << b;
      } else {
        result.bits = left.is_unsigned ? a >> b : static_cast<uint64_t>(as_signed(a) >> b);
      }
      break;
    case punctuation("/"):
    case punctuation("%"):
      if (b == 0) throw SyntaxError("this constant is divided by zero", operation.position);
      if (!is_unsigned && as_signed(b) == -1) {  // INT64_MIN / -1 has no value in C++; two's complement gives itself
        result.bits = operation.is('/') ? 0 - a : 0;
      } else if (is_unsigned) {
        result.bits = operation.is('/') ? a / b : a % b;
      } else {
        result.bits =
            static_cast<uint64_t>(operation.is('/') ? as_signed(a) / as_signed(b) : as_signed(a) % as_signed(b));
      }
      break;
    default: throw SyntaxError(fmt::format("{} is no operator of constants", describe(operation)), operation.position);
  }
  return result;
}

uint64_t Parser::expect_size(std::string_view what) {
  const TextPosition position = peek().position;
  const Constant value = constant();
  if (value.kind != TokenKind::integer || (!value.is_unsigned && as_signed(value.bits) < 0)) {
    throw SyntaxError(fmt::format("{} must be an integer that is not negative", what), position);
  }
  return value.bits;
}

}  // namespace stagecraft::emulator::ptx
