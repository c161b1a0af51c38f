// Turns PTX text into tokens. The lexer looks only at characters; the parser decides what a token means.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "emulator/ptx/module.hpp"

namespace stagecraft::emulator::ptx {

enum class TokenKind : uint8_t {
  end,          ///< of the text
  identifier,   ///< `add`, `%r1`, `$L__BB0_2`, `_`
  dotted,       ///< a directive or modifier; `text` is without the leading dot, double colons are part of it
  integer,      ///< `bits`, and `is_unsigned`
  float32,      ///< `0f3F800000`: `bits`
  float64,      ///< `0d3FF0000000000000` or `1.5e3`: `bits`
  string,       ///< `text` is between the quotes, escapes not yet replaced
  punctuation,  ///< `symbol`
};

/// Returns the number that represents a punctuation of one or two characters: `punctuation("<<")`.
constexpr uint16_t punctuation(std::string_view text) {
  const auto low = static_cast<uint8_t>(text[0]);
  return static_cast<uint16_t>(text.size() == 1 ? low : low | static_cast<uint8_t>(text[1]) << 8);
}

struct Token {
  TokenKind kind = TokenKind::end;
  bool is_unsigned = false;  ///< an integer with suffix `U`, or too large for 63 bits
  uint16_t symbol = 0;
  std::string_view text;  ///< as written, except as `TokenKind` says; a part of the lexed text
  uint64_t bits = 0;
  TextPosition position;

  bool is(char character) const { return symbol == static_cast<uint8_t>(character); }
  bool is(std::string_view characters) const { return symbol == punctuation(characters); }
};

/// Reads tokens one after another, and skips white space and comments. The text must outlive the lexer and the tokens.
class Lexer {
 public:
  explicit Lexer(std::string_view text);

  /// Returns the next token; at the end of the text, always `TokenKind::end`. Throws SyntaxError.
  Token next();

 private:
  void skip_blanks();
  Token finish(TokenKind kind, size_t begin, size_t end);
  Token identifier();
  bool is_fraction() const;
  Token dotted();
  Token number();
  Token decimal(size_t begin);
  Token bit_pattern(size_t begin, TokenKind kind, size_t digits);
  Token string();
  Token symbol();
  TextPosition position_at(size_t offset) const;
  char at(size_t offset) const { return offset < text_.size() ? text_[offset] : '\0'; }

  std::string_view text_;
  size_t cursor_ = 0;
  size_t line_start_ = 0;  ///< offset of the first character of the current line
  uint32_t line_ = 1;
};

/// Describes a token for an error message: "`ret`", "end of the text".
std::string describe(const Token& token);

/// Returns the characters of a string token, with `\\n`, `\\"`, `\\101` and `\\x41` replaced.
std::string unescape(std::string_view text);

}  // namespace stagecraft::emulator::ptx
