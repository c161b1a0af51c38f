#include "emulator/ptx/module.hpp"

#include "parsing.hpp"

namespace stagecraft::emulator::ptx {
namespace {

using testing::failure;
using testing::kHeader;
using testing::module_failure;
using testing::parse_module;

TEST(ModuleTest, KnowsSizesAndNamesOfTypes) {
  EXPECT_EQ(size_of(Type::f16x2), 4u);
  EXPECT_EQ(size_of(Type::b128), 16u);
  EXPECT_EQ(size_of(Type::pred), 0u);
  EXPECT_EQ(size_of(Type::f32x2), 8u);
  for (int i = static_cast<int>(Type::pred); i <= static_cast<int>(Type::f64); ++i) {
    const Type type = static_cast<Type>(i);
    EXPECT_EQ(type_from_name(name_of(type)), type) << name_of(type);
  }
  EXPECT_EQ(type_from_name("u31"), Type::none);
  EXPECT_EQ(type_from_name("none"), Type::none);
  EXPECT_EQ(name_of(Space::constant), "const");
}

TEST(ModuleTest, ReadsVersionTargetAndAddressSize) {
  const Module module = parse(".version 8.7\n.target sm_90a, debug, texmode_independent\n.address_size 64");
  EXPECT_EQ(module.version_major, 8u);
  EXPECT_EQ(module.version_minor, 7u);
  EXPECT_EQ(module.target, "sm_90a");
  EXPECT_EQ(module.address_size, 64u);
  EXPECT_TRUE(module.functions.empty());
}

TEST(ModuleTest, IgnoresThePaddingOfAFatBinary) { EXPECT_NO_THROW(parse(std::string(kHeader) + std::string(5, '\0'))); }

TEST(ModuleTest, InsistsOnTheHeader) {
  EXPECT_STREQ(failure("")->what(),
               "line 1, column 1: unexpected end of the text at the beginning of the text; legal here: "
               "`.version`, as in `.version 9.0`");
  EXPECT_STREQ(failure(".version 9\n.target sm_90")->what(),
               "line 1, column 10: unexpected `9` instead of the PTX version; legal here: a number such as 9.0");
  EXPECT_STREQ(failure(".version 9.0\n.target fast")->what(),
               "line 2, column 9: unknown target `fast`; legal here: sm_90a, sm_100a or another architecture, debug, "
               "texmode_unified, texmode_independent");
  EXPECT_STREQ(failure(".version 9.0\n.target sm_100a\n.version 9.0")->what(),
               "line 3, column 1: `.version` is given twice; legal here: once, as the first directive of the text");
  EXPECT_NE(module_failure(".address_size 32").find("addresses of 32 bits are not supported; legal here: 64"),
            std::string::npos);
}

// The versions are those of ptxas 13.0.
TEST(ModuleTest, RefusesATargetThatTheVersionDoesNotHave) {
  EXPECT_STREQ(failure(".version 1.0\n.target sm_100a")->what(),
               "line 2, column 9: PTX 1.0 does not have the target sm_100a; legal here: `.version` 8.6 or later");
  EXPECT_STREQ(failure(".version 7.8\n.target sm_90a")->what(),
               "line 2, column 9: PTX 7.8 does not have the target sm_90a; legal here: `.version` 8.0 or later");
  EXPECT_NO_THROW(parse(".version 8.6\n.target sm_100a"));
  EXPECT_NO_THROW(parse(".version 7.8\n.target sm_90"));
  EXPECT_NO_THROW(parse(".version 6.0\n.target sm_52"));
}

TEST(ModuleTest, RefusesMoreConstantsThanFit) {
  EXPECT_NO_THROW(parse_module(".const .align 4 .b8 c[65532]; .const .b32 d;"));
  EXPECT_EQ(module_failure(".const .align 4 .b8 c[65536];\n.const .b8 d;"),
            "line 3, column 12: the .const variables up to `d` take 65537 bytes; legal here: 65536 bytes in a module; "
            "larger tables belong in .global");
  EXPECT_EQ(module_failure(".const .b8 c;\n.const .align 4 .b8 d[65536];").find("line 3"), 0u);
}

TEST(ModuleTest, RefusesLimitsOfZero) {
  EXPECT_EQ(module_failure(".entry k() .maxnreg 0 { ret; }"),
            "line 2, column 21: a number of registers is 0; legal here: at least 1");
  EXPECT_EQ(module_failure(".entry k() .minnctapersm 0 { ret; }"),
            "line 2, column 26: a number of blocks is 0; legal here: at least 1");
}

// ptxas 13.0 refuses each of these, too.
TEST(ModuleTest, RefusesWhatAKernelOrAFunctionCannotHave) {
  EXPECT_EQ(module_failure(".func f() .maxntid 32 { ret; }"),
            "line 2, column 7: function `f` has a directive of kernels; legal here: .maxntid, .reqntid, "
            ".minnctapersm, .maxnreg and clusters for an .entry only");
  EXPECT_EQ(module_failure(".entry k() .maxntid 32 .reqntid 64 { ret; }"),
            "line 2, column 8: kernel `k` has both .maxntid and .reqntid; legal here: one of them");
  EXPECT_NE(module_failure(".entry k(.reg .b32 a) { ret; }").find("`a` of a kernel is a register; legal here: .param"),
            std::string::npos);
  EXPECT_NE(module_failure(".entry k(.param .b32 a[]) { ret; }").find("`a` of a kernel has no size"),
            std::string::npos);
  EXPECT_NO_THROW(parse_module(".func f(.reg .b32 a) .noreturn { ret; } .entry k() .reqntid 32 { ret; }"));
}

TEST(ModuleTest, SuggestsTheDirectiveThatWasMeant) {
  EXPECT_TRUE(module_failure("  .visble .entry f() { ret; }")
                  .starts_with("line 2, column 3: unknown directive `.visble` outside of a function; did you mean "
                               "`.visible`?; legal here: .visible, "));
}

TEST(ModuleTest, FindsFunctionsByName) {
  const Module module = parse_module(".func a { ret; } .entry b { ret; }");
  ASSERT_NE(module.find_function("b"), nullptr);
  EXPECT_TRUE(module.find_function("b")->is_entry);
  EXPECT_EQ(module.find_function("c"), nullptr);
}

TEST(ModuleTest, MakesAnAliasACopyOfItsTarget) {
  const Module module = parse_module(".func g(.param .u32 x) { trap; ret; } .func f(.param .u32 x); .alias f, g;");
  EXPECT_EQ(module.find_function("f")->body.size(), 2u);
  EXPECT_FALSE(module.find_function("f")->is_declaration);
  EXPECT_NE(module_failure(".func f; .alias f, g;").find("`.alias` names `g`, which is not a declared function"),
            std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
