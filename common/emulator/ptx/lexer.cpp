#include "emulator/ptx/lexer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>

#include "emulator/ptx/diagnostics.hpp"

namespace stagecraft::emulator::ptx {
namespace {

enum CharacterClass : uint8_t { kLetter = 1, kDigit = 2, kBlank = 4, kHexadecimal = 8 };

/// Bytes of UTF-8 sequences count as letters, because C++ identifiers may contain them.
constexpr std::array<uint8_t, 256> character_classes() {
  std::array<uint8_t, 256> classes{};
  for (size_t c = 0; c < classes.size(); ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c >= 0x80;
    const bool digit = c >= '0' && c <= '9';
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v';
    const bool hexadecimal = digit || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    classes[c] = static_cast<uint8_t>((letter ? kLetter : 0) | (digit ? kDigit : 0) | (blank ? kBlank : 0) |
                                      (hexadecimal ? kHexadecimal : 0));
  }
  return classes;
}
constexpr std::array<uint8_t, 256> kClasses = character_classes();

bool is_a(char character, uint8_t classes) { return (kClasses[static_cast<uint8_t>(character)] & classes) != 0; }
bool is_name(char character) { return is_a(character, kLetter | kDigit); }

uint32_t digit_value(char character) {
  if (character <= '9') return static_cast<uint32_t>(character - '0');
  return static_cast<uint32_t>((character | 0x20) - 'a') + 10;
}

/// Returns the value of a number without prefix and suffix; nothing if a digit is wrong or the value exceeds 64 bits.
std::optional<uint64_t> parse_digits(std::string_view digits, uint32_t base) {
  if (digits.empty()) return std::nullopt;
  uint64_t value = 0;
  for (const char character : digits) {
    if (!is_a(character, kHexadecimal) || digit_value(character) >= base) return std::nullopt;
    const uint64_t digit = digit_value(character);
    if (value > (UINT64_MAX - digit) / base) return std::nullopt;
    value = value * base + digit;
  }
  return value;
}

}  // namespace

Lexer::Lexer(std::string_view text) : text_(text) {}

TextPosition Lexer::position_at(size_t offset) const {
  return {line_, static_cast<uint32_t>(offset - line_start_ + 1)};
}

Token Lexer::finish(TokenKind kind, size_t begin, size_t end) {
  Token token;
  token.kind = kind;
  token.text = text_.substr(begin, end - begin);
  token.position = position_at(begin);
  cursor_ = end;
  return token;
}

void Lexer::skip_blanks() {
  while (cursor_ < text_.size()) {
    const char character = text_[cursor_];
    if (character == '\n') {
      ++line_;
      line_start_ = ++cursor_;
    } else if (is_a(character, kBlank)) {
      ++cursor_;
    } else if (character == '/' && at(cursor_ + 1) == '/') {
      cursor_ = std::min(text_.find('\n', cursor_), text_.size());
    } else if (character == '/' && at(cursor_ + 1) == '*') {
      const TextPosition begin = position_at(cursor_);
      const size_t end = text_.find("*/", cursor_ + 2);
      if (end == std::string_view::npos) throw SyntaxError("this comment does not end", begin, "`*/`");
      for (size_t i = cursor_; i < end; ++i) {
        if (text_[i] != '\n') continue;
        ++line_;
        line_start_ = i + 1;
      }
      cursor_ = end + 2;
    } else {
      return;
    }
  }
}

Token Lexer::next() {
  skip_blanks();
  if (cursor_ >= text_.size()) return finish(TokenKind::end, text_.size(), text_.size());
  const char character = text_[cursor_];
  if (is_a(character, kLetter)) return identifier();
  if (is_a(character, kDigit)) return number();
  if (character == '%' && is_name(at(cursor_ + 1))) return identifier();
  if (character == '.' && is_name(at(cursor_ + 1))) return is_fraction() ? decimal(cursor_) : dotted();
  if (character == '"') return string();
  return symbol();
}

Token Lexer::identifier() {
  size_t end = cursor_ + 1;
  while (end < text_.size() && is_name(text_[end])) ++end;
  return finish(TokenKind::identifier, cursor_, end);
}

/// Whether `.5` or `.5e-3` is here, and not a modifier such as `.2d`.
bool Lexer::is_fraction() const {
  size_t end = cursor_ + 1;
  while (is_a(at(end), kDigit)) ++end;
  if (end == cursor_ + 1) return false;
  if ((at(end) | 0x20) == 'e') {
    ++end;
    if (at(end) == '+' || at(end) == '-') ++end;
    if (!is_a(at(end), kDigit)) return false;
    while (is_a(at(end), kDigit)) ++end;
  }
  return !is_name(at(end));
}

Token Lexer::dotted() {
  const size_t begin = cursor_ + 1;
  size_t end = begin;
  while (end < text_.size()) {
    if (is_name(text_[end])) {
      ++end;
    } else if (text_[end] == ':' && at(end + 1) == ':' && is_name(at(end + 2))) {
      end += 3;
    } else {
      break;
    }
  }
  Token token = finish(TokenKind::dotted, begin, end);
  token.position = position_at(begin - 1);
  return token;
}

Token Lexer::number() {
  const size_t begin = cursor_;
  const char prefix = text_[begin] == '0' ? static_cast<char>(at(begin + 1) | 0x20) : '\0';
  if (prefix == 'f') return bit_pattern(begin, TokenKind::float32, 8);
  if (prefix == 'd') return bit_pattern(begin, TokenKind::float64, 16);

  size_t end = begin;
  while (end < text_.size() && is_a(text_[end], kDigit)) ++end;
  const bool has_exponent = [&](size_t i) {
    if ((at(i) | 0x20) != 'e') return false;
    ++i;
    if (at(i) == '+' || at(i) == '-') ++i;
    return is_a(at(i), kDigit);
  }(at(end) == '.' ? end + 1 : end);
  // In `.maxntid 128.minnctapersm 2`, as in any text without optional blanks, the dot belongs to the next token.
  const bool has_fraction = at(end) == '.' && (!is_a(at(end + 1), kLetter) || has_exponent);
  if (has_fraction || has_exponent) return decimal(begin);

  while (end < text_.size() && is_name(text_[end])) ++end;
  Token token = finish(TokenKind::integer, begin, end);
  std::string_view digits = token.text;
  if (digits.size() > 1 && (digits.back() | 0x20) == 'u') {
    token.is_unsigned = true;
    digits.remove_suffix(1);
  }
  uint32_t base = 10;
  if (prefix == 'x' || prefix == 'b') {
    base = prefix == 'x' ? 16 : 2;
    digits.remove_prefix(std::min<size_t>(2, digits.size()));
  } else if (digits.size() > 1 && digits[0] == '0') {
    base = 8;
  }
  const std::optional<uint64_t> value = parse_digits(digits, base);
  if (!value) {
    const bool too_large = !digits.empty() && std::all_of(digits.begin(), digits.end(), [&](char c) {
      return is_a(c, kHexadecimal) && digit_value(c) < base;
    });
    throw SyntaxError(fmt::format("{} {}", describe(token), too_large ? "does not fit into 64 bits" : "is no number"),
                      token.position, "42, 0x2A, 052, 0b101010, 42U, 1.5, 0f3FC00000, 0d3FF8000000000000");
  }
  token.bits = *value;
  token.is_unsigned |= *value > static_cast<uint64_t>(INT64_MAX);
  return token;
}

Token Lexer::decimal(size_t begin) {
  size_t end = begin;
  while (is_a(at(end), kDigit)) ++end;
  if (at(end) == '.') ++end;
  while (is_a(at(end), kDigit)) ++end;
  if ((at(end) | 0x20) == 'e') {
    const size_t sign = at(end + 1) == '+' || at(end + 1) == '-' ? 1 : 0;
    if (is_a(at(end + 1 + sign), kDigit)) end += 1 + sign;
    while (is_a(at(end), kDigit)) ++end;
  }
  Token token = finish(TokenKind::float64, begin, end);
  double value = 0;
  const std::from_chars_result result =
      std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (result.ec != std::errc()) {
    throw SyntaxError(fmt::format("{} does not fit into a double", describe(token)), token.position);
  }
  token.bits = std::bit_cast<uint64_t>(value);
  return token;
}

Token Lexer::bit_pattern(size_t begin, TokenKind kind, size_t digits) {
  size_t end = begin + 2;
  while (end < text_.size() && is_name(text_[end])) ++end;
  Token token = finish(kind, begin, end);
  const std::optional<uint64_t> value = parse_digits(token.text.substr(2), 16);
  if (!value || token.text.size() != digits + 2) {
    throw SyntaxError(fmt::format("{} is no floating-point bit pattern", describe(token)), token.position,
                      fmt::format("`0{}` and {} hexadecimal digits", token.text[1], digits));
  }
  token.bits = *value;
  return token;
}

Token Lexer::string() {
  size_t end = cursor_ + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
  if (end >= text_.size() || text_[end] != '"') {
    throw SyntaxError("this string does not end on its line", position_at(cursor_), "`\"`");
  }
  Token token = finish(TokenKind::string, cursor_ + 1, end);
  token.position = position_at(cursor_ - token.text.size() - 1);
  cursor_ = end + 1;
  return token;
}

Token Lexer::symbol() {
  static constexpr std::array<std::string_view, 9> kPairs{"<<", ">>", "<=", ">=", "==", "!=", "&&", "||", "::"};
  static constexpr std::string_view kSingles = "{}()[]<>,;:|@!=+-*/%&^~?";
  const std::string_view two = text_.substr(cursor_, 2);
  if (two.size() == 2 && std::find(kPairs.begin(), kPairs.end(), two) != kPairs.end()) {
    Token token = finish(TokenKind::punctuation, cursor_, cursor_ + 2);
    token.symbol = punctuation(two);
    return token;
  }
  const char character = text_[cursor_];
  if (character == '\0' || kSingles.find(character) == std::string_view::npos) {
    const bool printable = character > ' ' && character < 0x7F;
    throw SyntaxError(printable
                          ? fmt::format("the character `{}` does not occur in PTX", character)
                          : fmt::format("the byte 0x{:02X} does not occur in PTX", static_cast<uint8_t>(character)),
                      position_at(cursor_));
  }
  Token token = finish(TokenKind::punctuation, cursor_, cursor_ + 1);
  token.symbol = static_cast<uint8_t>(character);
  return token;
}

std::string describe(const Token& token) {
  constexpr size_t kMostShown = 80;
  if (token.kind == TokenKind::end) return "end of the text";
  const std::string_view shown = token.text.substr(0, kMostShown);
  const std::string_view more = token.text.size() > kMostShown ? "..." : "";
  if (token.kind == TokenKind::dotted) return fmt::format("`.{}{}`", shown, more);
  if (token.kind == TokenKind::string) return fmt::format("\"{}{}\"", shown, more);
  return fmt::format("`{}{}`", shown, more);
}

std::string unescape(std::string_view text) {
  static constexpr std::string_view kNames = "abfnrtv";
  static constexpr std::string_view kValues = "\a\b\f\n\r\t\v";
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      result += text[i];
      continue;
    }
    const char escaped = text[++i];
    const bool hexadecimal = escaped == 'x' && i + 1 < text.size() && is_a(text[i + 1], kHexadecimal);
    if (hexadecimal || (escaped >= '0' && escaped <= '7')) {
      uint32_t value = 0;
      const uint32_t base = hexadecimal ? 16 : 8;
      size_t end = hexadecimal ? i + 1 : i;
      for (size_t most = end + (hexadecimal ? 2 : 3); end < std::min(most, text.size()); ++end) {
        if (!is_a(text[end], kHexadecimal) || digit_value(text[end]) >= base) break;
        value = value * base + digit_value(text[end]);
      }
      result += static_cast<char>(value);
      i = end - 1;
    } else if (const size_t known = kNames.find(escaped); known != std::string_view::npos) {
      result += kValues[known];
    } else {
      result += escaped;
    }
  }
  return result;
}

}  // namespace stagecraft::emulator::ptx
