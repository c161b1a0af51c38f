#include <cstring>

#include "parsing.hpp"

namespace stagecraft::emulator::ptx {
namespace {

using testing::kernel_failure;
using testing::module_failure;
using testing::parse_kernel;
using testing::parse_module;

using Bytes = std::vector<uint8_t>;

Variable variable(std::string_view text) { return parse_module(text).variables.back(); }

TEST(VariablesTest, ReadsSpaceTypeSizeAndAlignment) {
  const Module module = parse_module(
      ".visible .global .align 16 .b8 buffer[48]; .const .f64 c; .weak .shared .u16 s, t[3][4]; .global .v4 .f32 v;");
  ASSERT_EQ(module.variables.size(), 5u);
  const Variable& buffer = module.variables[0];
  EXPECT_EQ(buffer.name, "buffer");
  EXPECT_EQ(buffer.space, Space::global);
  EXPECT_EQ(buffer.type, Type::b8);
  EXPECT_EQ(buffer.size, 48u);
  EXPECT_EQ(buffer.alignment, 16u);
  EXPECT_TRUE(buffer.is_visible);
  EXPECT_TRUE(buffer.image.empty());
  EXPECT_EQ(module.variables[1].space, Space::constant);
  EXPECT_EQ(module.variables[1].alignment, 8u);
  EXPECT_TRUE(module.variables[2].is_weak_or_common);
  EXPECT_EQ(module.variables[3].size, 24u);
  EXPECT_EQ(module.variables[4].size, 16u);
  EXPECT_EQ(module.variables[4].alignment, 16u);
  EXPECT_EQ(module.variables[4].type, Type::f32);
}

TEST(VariablesTest, KnowsDynamicSharedMemoryByItsMissingExtent) {
  const Variable dynamic = variable(".extern .shared .align 128 .b8 dynamic[];");
  EXPECT_TRUE(dynamic.is_extern);
  EXPECT_EQ(dynamic.size, 0u);
  EXPECT_EQ(dynamic.alignment, 128u);
}

TEST(VariablesTest, ReadsManagedAndUnifiedAttributes) {
  EXPECT_TRUE(variable(".global .attribute(.managed) .align 4 .u32 m = 7;").is_managed);
  EXPECT_FALSE(variable(".global .attribute(.unified(19, 95)) .f32 f;").is_managed);
}

TEST(VariablesTest, ReadsNumbersOfEveryKind) {
  EXPECT_EQ(variable(".global .b8 x[4] = {1, -2, 0xFF, 0b11};").image, (Bytes{1, 0xFE, 0xFF, 3}));
  EXPECT_EQ(variable(".global .u16 x = 3 + 4 * (2 - 1) << 1;").image, (Bytes{14, 0}));
  EXPECT_EQ(variable(".global .f32 x[3] = {1.0, 0f40000000, -1.5};").image,
            (Bytes{0, 0, 0x80, 0x3F, 0, 0, 0, 0x40, 0, 0, 0xC0, 0xBF}));
  EXPECT_EQ(variable(".global .f64 x = 1.0;").image, (Bytes{0, 0, 0, 0, 0, 0, 0xF0, 0x3F}));
  EXPECT_EQ(variable(".global .b32 x = 0f3F800000;").image, (Bytes{0, 0, 0x80, 0x3F}));
  EXPECT_EQ(variable(".global .b128 x = -1;").image, Bytes(16, 0xFF));
  EXPECT_EQ(variable(".const .u8 x = 0xFF00(513);").image, (Bytes{2}));
}

TEST(VariablesTest, FillsTheRestOfAnArrayWithZeros) {
  EXPECT_EQ(variable(".global .u8 x[2][3] = {{1, 2}, {4}};").image, (Bytes{1, 2, 0, 4, 0, 0}));
  EXPECT_EQ(variable(".global .v2 .u8 x[2] = {{1, 2}, {3, 4}};").image, (Bytes{1, 2, 3, 4}));
  EXPECT_EQ(variable(".global .b8 x[6] = \"abc\";").image, (Bytes{'a', 'b', 'c', 0, 0, 0}));
}

TEST(VariablesTest, LetsTheValuesDecideTheExtent) {
  const Variable numbers = variable(".global .u16 x[] = {1, 2, 3};");
  EXPECT_EQ(numbers.size, 6u);
  EXPECT_EQ(numbers.image, (Bytes{1, 0, 2, 0, 3, 0}));
  EXPECT_EQ(variable(".global .u8 x[][2] = {{1}, {2, 3}};").image, (Bytes{1, 0, 2, 3}));
  EXPECT_EQ(variable(".global .u8 x[] = \"ab\";").image, (Bytes{'a', 'b', 0}));
}

TEST(VariablesTest, KeepsAddressesAsRelocations) {
  const Variable table =
      variable(".global .b8 a[8]; .func f { ret; } .global .u64 x[4] = {5, generic(a)+4, f, a - 8};");
  ASSERT_EQ(table.relocations.size(), 3u);
  EXPECT_EQ(table.relocations[0].offset, 8u);
  EXPECT_EQ(table.relocations[0].symbol, "a");
  EXPECT_EQ(table.relocations[0].addend, 4);
  EXPECT_TRUE(table.relocations[0].generic);
  EXPECT_EQ(table.relocations[1].symbol, "f");
  EXPECT_FALSE(table.relocations[1].generic);
  EXPECT_EQ(table.relocations[2].addend, -8);
  EXPECT_EQ(table.image.size(), 32u);
  EXPECT_EQ(table.image[0], 5u);
}

TEST(VariablesTest, JoinsAnAddressThatIsWrittenByteByByte) {
  const Variable packed = variable(
      ".global .b8 a[8];\n"
      ".global .align 1 .u8 x[10] = {1, 0xFF(generic(a)+8), 0xFF00(generic(a)+8), 0xFF0000(generic(a)+8),"
      " 0xFF000000(generic(a)+8), 0xFF00000000(generic(a)+8), 0xFF0000000000(generic(a)+8),"
      " 0xFF000000000000(generic(a)+8), 0xFF00000000000000(generic(a)+8), 9};");
  ASSERT_EQ(packed.relocations.size(), 1u);
  EXPECT_EQ(packed.relocations[0].offset, 1u);
  EXPECT_EQ(packed.relocations[0].size, 8u);
  EXPECT_EQ(packed.relocations[0].shift, 0u);
  EXPECT_EQ(packed.relocations[0].addend, 8);
  EXPECT_EQ(packed.image[9], 9u);
  const Variable high = variable(".global .b8 a; .global .b8 x = 0xFF00(a);");
  EXPECT_EQ(high.relocations[0].size, 1u);
  EXPECT_EQ(high.relocations[0].shift, 8u);
}

TEST(VariablesTest, AcceptsHugeVariablesWithoutAllocatingThem) {
  EXPECT_EQ(variable(".global .b8 x[1 << 60];").size, uint64_t{1} << 60);
  EXPECT_NE(module_failure(".global .b8 x[1 << 60] = {1};").find("the initial values of this module are too large"),
            std::string::npos);
  EXPECT_EQ(module_failure(".global .b8 x[1 << 40][1 << 40];"),
            "line 2, column 13: this variable is too large; legal here: at most 2^62 bytes");
}

TEST(VariablesTest, MergesDeclarationsWithTheirDefinition) {
  const Module module = parse_module(".extern .global .u32 x; .visible .global .u32 x = 3; .extern .global .u32 x;");
  ASSERT_EQ(module.variables.size(), 1u);
  EXPECT_FALSE(module.variables[0].is_extern);
  EXPECT_EQ(module.variables[0].image[0], 3u);
}

TEST(VariablesTest, PlacesVariablesOfAFunctionInItsScope) {
  const Function function =
      parse_kernel(".local .align 8 .b8 stack[16]; .shared .u32 x; { .shared .u64 x; .param .b64 argument; }");
  ASSERT_EQ(function.variables.size(), 4u);
  EXPECT_EQ(function.variables[0].space, Space::local);
  EXPECT_EQ(function.variables[1].size, 4u);
  EXPECT_EQ(function.variables[2].size, 8u);
  EXPECT_EQ(function.variables[3].space, Space::param);
}

TEST(VariablesTest, MovesGlobalsOfAFunctionToTheModule) {
  const Module module = parse_module(
      ".entry k { .reg .b32 %r; .const .u32 c = 5; ld.const.u32 %r, [c]; { .global .u32 c; st.global.u32 [c], %r; } }");
  ASSERT_EQ(module.variables.size(), 2u);
  const std::vector<Instruction>& body = module.functions[0].body;
  EXPECT_EQ(body[0].operands[1].list[0].symbol_kind, SymbolKind::module_variable);
  EXPECT_EQ(body[0].operands[1].list[0].symbol, 0u);
  EXPECT_EQ(body[1].operands[0].list[0].symbol, 1u);
}

TEST(VariablesTest, RefusesWhatCannotBeDeclared) {
  EXPECT_TRUE(module_failure(".global .u33 x;").starts_with("line 2, column 9: `.u33` is not a type; legal here: .b8"));
  EXPECT_EQ(module_failure(".global .pred x;"), "line 2, column 9: only registers can have the type `.pred`");
  EXPECT_EQ(module_failure(".global .align 3 .u32 x;"),
            "line 2, column 16: an alignment of 3 bytes is impossible; legal here: a power of two up to 2^31");
  EXPECT_EQ(module_failure(".global .u32 x;\n.global .f32 x;"),
            "line 3, column 14: `x` is declared twice, first in line 2, column 14; legal here: one definition, and "
            "`.extern` declarations of the same space");
  EXPECT_EQ(module_failure(".func f;\n.global .f32 f;"), "line 3, column 14: `f` is already the name of a function");
  EXPECT_TRUE(module_failure(".global .u32 x[];").starts_with("line 2, column 14: the array `x` has neither"));
  EXPECT_TRUE(module_failure(".global .u32 x[0];").starts_with("line 2, column 15: an array needs at least one"));
  EXPECT_TRUE(module_failure(".global .u32 x[-1];").starts_with("line 2, column 16: the extent of an array must be"));
  EXPECT_EQ(module_failure(".shared .u32 x = 1;"),
            "line 2, column 16: a `.shared` variable cannot have an initial value; legal here: initial values for "
            ".global and .const only");
  EXPECT_TRUE(module_failure(".global .u32 x").starts_with("line 2, column 15: unexpected end of the text after the"));
}

TEST(VariablesTest, RefusesInitialValuesThatDoNotFit) {
  EXPECT_EQ(module_failure(".global .u8 x[2] = {1, 2, 3};"),
            "line 2, column 27: more initial values than elements; legal here: 2 here");
  EXPECT_TRUE(
      module_failure(".global .f32 x = 1;").starts_with("line 2, column 18: an integer cannot initialise a `.f32`"));
  EXPECT_TRUE(module_failure(".global .u32 x = 1.0;").starts_with("line 2, column 18: a floating-point number cannot"));
  EXPECT_TRUE(module_failure(".global .u16 x = 0f3F800000;").starts_with("line 2, column 18: a floating-point number"));
  EXPECT_TRUE(module_failure(".global .b8 y; .global .u8 x = y;").starts_with("line 2, column 32: the address of `y`"));
  EXPECT_EQ(
      module_failure(".global .b8 counter; .global .u64 x = countr;"),
      "line 2, column 39: `countr` is not declared before this initial value; did you mean `counter`?; legal here: "
      "a variable or function declared above");
  EXPECT_TRUE(module_failure(".global .u8 x = 0xF0(5);").starts_with("line 2, column 17: 0xF0 does not mask whole"));
  EXPECT_TRUE(module_failure(".global .u32 x[2] = \"ab\";").starts_with("line 2, column 21: a string can only"));
  EXPECT_TRUE(module_failure(".global .u8 x[1] = \"ab\";").starts_with("line 2, column 20: this string is longer"));
  EXPECT_TRUE(kernel_failure(".shared .b8 s; .global .u64 x = s;").starts_with("line 3, column 33: `s` is known only"));
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
