#include "emulator/ptx/lexer.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <string>
#include <vector>

#include "emulator/ptx/diagnostics.hpp"

namespace stagecraft::emulator::ptx {
namespace {

std::vector<Token> tokens(std::string_view text) {
  Lexer lexer(text);
  std::vector<Token> all;
  do all.push_back(lexer.next());
  while (all.back().kind != TokenKind::end);
  all.pop_back();
  return all;
}

Token only_token(std::string_view text) {
  const std::vector<Token> all = tokens(text);
  EXPECT_EQ(all.size(), 1u) << text;
  return all.empty() ? Token{} : all[0];
}

std::string failure(std::string_view text) {
  try {
    tokens(text);
  } catch (const SyntaxError& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error in: " << text;
  return {};
}

TEST(LexerTest, TellsNamesModifiersAndPunctuationApart) {
  const std::vector<Token> all = tokens("@!%p1 ld.global.v2 {$a, _b}, [%rd1+4];");
  std::string kinds;
  for (const Token& token : all) {
    kinds += token.kind == TokenKind::identifier    ? 'i'
             : token.kind == TokenKind::dotted      ? 'd'
             : token.kind == TokenKind::punctuation ? 'p'
                                                    : 'n';
  }
  EXPECT_EQ(kinds, "ppiiddpipipppipnpp");
  EXPECT_EQ(all[2].text, "%p1");
  EXPECT_EQ(all[4].text, "global");
}

TEST(LexerTest, KeepsDoubleColonsInsideAModifier) {
  const std::vector<Token> all = tokens("cp.async.mbarrier::complete_tx::bytes.im2col::w::128.L2::128B.2d");
  ASSERT_EQ(all.size(), 6u);
  EXPECT_EQ(all[2].text, "mbarrier::complete_tx::bytes");
  EXPECT_EQ(all[3].text, "im2col::w::128");
  EXPECT_EQ(all[4].text, "L2::128B");
  EXPECT_EQ(all[5].text, "2d");
}

TEST(LexerTest, ReadsIntegersOfEveryBase) {
  EXPECT_EQ(only_token("42").bits, 42u);
  EXPECT_EQ(only_token("0x2a").bits, 42u);
  EXPECT_EQ(only_token("0X2A").bits, 42u);
  EXPECT_EQ(only_token("052").bits, 42u);
  EXPECT_EQ(only_token("0b101010").bits, 42u);
  EXPECT_EQ(only_token("0").bits, 0u);
  EXPECT_EQ(only_token("18446744073709551615").bits, UINT64_MAX);
}

TEST(LexerTest, KnowsWhichIntegersAreUnsigned) {
  EXPECT_FALSE(only_token("42").is_unsigned);
  EXPECT_TRUE(only_token("42U").is_unsigned);
  EXPECT_FALSE(only_token("0x7fffffffffffffff").is_unsigned);
  EXPECT_TRUE(only_token("0x8000000000000000").is_unsigned);
}

TEST(LexerTest, ReadsFloatingPointNumbers) {
  EXPECT_EQ(only_token("0f3F800000").bits, 0x3F800000u);
  EXPECT_EQ(only_token("0f3F800000").kind, TokenKind::float32);
  EXPECT_EQ(only_token("0d3FF0000000000000").bits, 0x3FF0000000000000u);
  for (const auto& [text, value] : std::vector<std::pair<std::string, double>>{
           {"1.5", 1.5}, {"2.", 2}, {".5", 0.5}, {"1e3", 1e3}, {"1.e-2", 1e-2}, {"2.5E+1", 25}, {".5e1", 5}}) {
    const Token token = only_token(text);
    EXPECT_EQ(token.kind, TokenKind::float64) << text;
    EXPECT_EQ(std::bit_cast<double>(token.bits), value) << text;
  }
}

TEST(LexerTest, GivesTheDotAfterANumberToADirective) {
  const std::vector<Token> all = tokens("128.minnctapersm 2.entry");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].kind, TokenKind::integer);
  EXPECT_EQ(all[0].bits, 128u);
  EXPECT_EQ(all[1].text, "minnctapersm");
  EXPECT_EQ(all[3].text, "entry");
}

TEST(LexerTest, CountsLinesAndColumnsAcrossComments) {
  const std::vector<Token> all = tokens("a /* two\nlines */ b // to the end\n  c");
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[1].position.line, 2u);
  EXPECT_EQ(all[1].position.column, 10u);
  EXPECT_EQ(all[2].position.line, 3u);
  EXPECT_EQ(all[2].position.column, 3u);
}

TEST(LexerTest, LeavesEscapesInStringsForUnescape) {
  const Token token = only_token(R"("a\"b\\\n\101\x42")");
  EXPECT_EQ(token.kind, TokenKind::string);
  EXPECT_EQ(token.position.column, 1u);
  EXPECT_EQ(unescape(token.text), "a\"b\\\nAB");
}

TEST(LexerTest, SaysWhereATextIsBroken) {
  EXPECT_EQ(failure("a /* b"), "line 1, column 3: this comment does not end; legal here: `*/`");
  EXPECT_EQ(failure("\n \"abc\n"), "line 2, column 2: this string does not end on its line; legal here: `\"`");
  EXPECT_EQ(failure("a\n#b"), "line 2, column 1: the character `#` does not occur in PTX");
  EXPECT_EQ(failure("a \x01"), "line 1, column 3: the byte 0x01 does not occur in PTX");
  EXPECT_EQ(failure(std::string_view("a\0b", 3)), "line 1, column 2: the byte 0x00 does not occur in PTX");
}

TEST(LexerTest, RefusesNumbersThatAreNone) {
  EXPECT_TRUE(failure("099").starts_with("line 1, column 1: `099` is no number")) << failure("099");
  EXPECT_TRUE(failure("0b12").starts_with("line 1, column 1: `0b12` is no number"));
  EXPECT_TRUE(failure("0x").starts_with("line 1, column 1: `0x` is no number"));
  EXPECT_TRUE(failure("12ab").starts_with("line 1, column 1: `12ab` is no number"));
  EXPECT_TRUE(failure("18446744073709551616").starts_with("line 1, column 1: `18446744073709551616` does not fit"));
  EXPECT_EQ(failure("0f3F80"),
            "line 1, column 1: `0f3F80` is no floating-point bit pattern; legal here: `0f` and 8 hexadecimal digits");
  EXPECT_EQ(failure("1e999"), "line 1, column 1: `1e999` does not fit into a double");
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
