#include <bit>

#include "parsing.hpp"

namespace stagecraft::emulator::ptx {
namespace {

using testing::kernel_failure;
using testing::parse_kernel;

Operand constant(const std::string& text) {
  return parse_kernel(".reg .b64 %rd; mov.b64 %rd, " + text + ";").body[0].operands[1];
}

int64_t integer(const std::string& text) {
  const Operand operand = constant(text);
  EXPECT_EQ(operand.kind, OperandKind::integer) << text;
  return static_cast<int64_t>(operand.bits);
}

TEST(ConstantsTest, FollowsThePrecedenceOfC) {
  EXPECT_EQ(integer("1 + 2 * 3"), 7);
  EXPECT_EQ(integer("(1 + 2) * 3"), 9);
  EXPECT_EQ(integer("10 - 3 - 2"), 5);
  EXPECT_EQ(integer("1 << 2 + 1"), 8);
  EXPECT_EQ(integer("6 & 3 == 3"), 0);
  EXPECT_EQ(integer("1 | 6 ^ 3 & 5"), 7);
  EXPECT_EQ(integer("1 > 2 || 3 >= 3 && 1 != 0"), 1);
  EXPECT_EQ(integer("2 > 1 ? 5 : 7"), 5);
  EXPECT_EQ(integer("0 ? 1 : 0 ? 2 : 3"), 3);
  EXPECT_EQ(integer("7 % 4 / 2"), 1);
}

TEST(ConstantsTest, KnowsUnaryOperatorsAndCasts) {
  EXPECT_EQ(integer("-5"), -5);
  EXPECT_EQ(integer("- -5"), 5);
  EXPECT_EQ(integer("~0"), -1);
  EXPECT_EQ(integer("!5 + !0"), 1);
  EXPECT_EQ(integer("WARP_SZ - 1"), 31);
  EXPECT_EQ(integer("(.s64) 0xFFFFFFFFFFFFFFFF < 0"), 1);
  EXPECT_EQ(integer("(.u64) -1 > 0"), 1);
}

TEST(ConstantsTest, TellsSignedFromUnsigned) {
  EXPECT_EQ(integer("-8 / 2"), -4);
  EXPECT_EQ(integer("-8 >> 1"), -4);
  EXPECT_EQ(integer("0x8000000000000000 >> 63"), 1);
  EXPECT_EQ(integer("-1 < 0U"), 0);
  EXPECT_EQ(integer("-0x8000000000000000 / -1"), 0);  // unsigned, because the literal does not fit into 63 bits
  EXPECT_EQ(integer("(-0x7FFFFFFFFFFFFFFF - 1) / -1"), INT64_MIN);
  EXPECT_EQ(integer("(-0x7FFFFFFFFFFFFFFF - 1) % -1"), 0);
}

TEST(ConstantsTest, ReadsFloatingPointLiterals) {
  EXPECT_EQ(constant("0f3F800000").kind, OperandKind::f32);
  EXPECT_EQ(constant("0f3F800000").bits, 0x3F800000u);
  EXPECT_EQ(constant("-0f3F800000").bits, 0xBF800000u);
  EXPECT_EQ(constant("0d3FF0000000000000").kind, OperandKind::f64);
  EXPECT_EQ(std::bit_cast<double>(constant("-1.5").bits), -1.5);
}

TEST(ConstantsTest, RefusesWhatHasNoValue) {
  const std::string before = ".reg .b64 %rd; mov.b64 %rd, ";
  EXPECT_EQ(kernel_failure(before + "1 / 0;"), "line 3, column 31: this constant is divided by zero");
  EXPECT_EQ(kernel_failure(before + "1 << 64;"),
            "line 3, column 31: this constant is shifted by more than 63 bits; legal here: 0 to 63");
  EXPECT_TRUE(
      kernel_failure(before + "1.0 + 1;").starts_with("line 3, column 33: `+` between constants needs integers"));
  EXPECT_EQ(kernel_failure(before + "~1.0;"), "line 3, column 29: `~` needs an integer");
  EXPECT_EQ(kernel_failure(before + "(.f32) 1;"),
            "line 3, column 30: a constant cannot be cast to `.f32`; legal here: "
            ".s64, .u64");
  EXPECT_TRUE(kernel_failure(before + "(1;").starts_with("line 3, column 31: unexpected `;` in a constant expression"));
  EXPECT_TRUE(kernel_failure(before + std::string(100000, '(')).find("nested too deeply") != std::string::npos);
  EXPECT_TRUE(kernel_failure(before + std::string(100000, '-') + "1;").find("nested too deeply") != std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
