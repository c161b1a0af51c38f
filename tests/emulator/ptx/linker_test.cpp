#include "emulator/ptx/linker.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulator/ptx/diagnostics.hpp"
#include "parsing.hpp"

namespace stagecraft::emulator::ptx {
namespace {

using testing::parse_module;

Module link_texts(const std::vector<std::string>& texts) {
  std::vector<LinkUnit> units;
  for (const std::string& text : texts) {
    units.push_back({"unit " + std::to_string(units.size() + 1), parse_module(text)});
  }
  return link(std::move(units));
}

std::string link_failure(const std::vector<std::string>& texts) {
  try {
    link_texts(texts);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "linked without an error";
  return "";
}

const Variable& variable(const Module& module, std::string_view name) {
  for (const Variable& variable : module.variables) {
    if (variable.name == name) return variable;
  }
  throw std::out_of_range(std::string(name));
}

/// Returns the names of the functions that `caller` calls directly, in order.
std::vector<std::string> callees(const Module& module, std::string_view caller) {
  std::vector<std::string> names;
  for (const Instruction& instruction : module.find_function(caller)->body) {
    for (const Operand& operand : instruction.operands) {
      if (operand.symbol_kind == SymbolKind::function) names.push_back(module.functions[operand.symbol].name);
    }
  }
  return names;
}

TEST(LinkerTest, LetsUnitsCallAndReadWhatOthersDefine) {
  const Module module = link_texts({
      R"(.extern .func twice(.param .b32 x);
         .extern .global .align 4 .u32 counter;
         .visible .entry kernel() { .reg .b32 %r; call twice, (1); ld.global.u32 %r, [counter]; ret; })",
      R"(.global .u32 first; .visible .global .align 4 .u32 counter = 7;
         .func unused() { ret; }
         .visible .func twice(.param .b32 x) { ret; })",
  });
  EXPECT_EQ(callees(module, "kernel"), std::vector<std::string>{"twice"});
  EXPECT_FALSE(module.find_function("twice")->is_declaration);
  const Operand& address = module.find_function("kernel")->body[1].operands[1].list[0];
  EXPECT_EQ(module.variables[address.symbol].name, "counter");
  EXPECT_FALSE(module.variables[address.symbol].is_extern);
  EXPECT_EQ(module.variables[address.symbol].image[0], 7);
}

TEST(LinkerTest, KeepsWhatBelongsToOneUnitApart) {
  const std::string unit = R"(.global .align 8 .u64 hidden;
    .global .align 8 .u64 pointer = hidden;
    .func helper() { ret; }
    .visible .entry kernel)";
  const Module module = link_texts({unit + "1() { call helper; ret; }", unit + "2() { call helper; ret; }"});
  EXPECT_EQ(callees(module, "kernel1"), std::vector<std::string>{"helper"});
  EXPECT_EQ(callees(module, "kernel2"), std::vector<std::string>{"helper@2"});
  EXPECT_EQ(variable(module, "pointer").relocations[0].symbol, "hidden");
  EXPECT_EQ(variable(module, "pointer@2").relocations[0].symbol, "hidden@2");
}

TEST(LinkerTest, LeavesItsNameToWhatAllUnitsSee) {
  const Module module = link_texts({".func helper() { ret; } .visible .entry one() { call helper; ret; }",
                                    ".visible .func helper() { ret; } .visible .entry two() { call helper; ret; }"});
  EXPECT_EQ(callees(module, "one"), std::vector<std::string>{"helper@2"});
  EXPECT_EQ(callees(module, "two"), std::vector<std::string>{"helper"});
}

TEST(LinkerTest, TakesOneOfSeveralWeakDefinitions) {
  const Module module = link_texts({
      ".weak .func common() { ret; } .visible .entry one() { call common; ret; }",
      ".weak .func common() { trap; } .visible .entry two() { call common; ret; }",
  });
  EXPECT_EQ(module.find_function("common")->body[0].opcode, "ret");
  EXPECT_EQ(callees(module, "two"), std::vector<std::string>{"common"});
  const Module strong = link_texts({".weak .global .u32 x = 1;", ".visible .global .u32 x = 2;"});
  ASSERT_EQ(strong.variables.size(), 1u);
  EXPECT_EQ(strong.variables[0].image[0], 2);
}

TEST(LinkerTest, JoinsDynamicSharedMemory) {
  const Module module =
      link_texts({".extern .shared .align 4 .b8 buffer[];", ".extern .shared .align 128 .b8 buffer[];"});
  ASSERT_EQ(module.variables.size(), 1u);
  EXPECT_EQ(module.variables[0].alignment, 128u);
}

TEST(LinkerTest, KeepsTheLinesOfEachUnit) {
  const auto unit = [](const std::string& name) {
    return ".file 1 \"" + name + ".cu\"\n.visible .entry " + name + "() {\n.loc 1 5 0\nret; }";
  };
  const Module module = link_texts({unit("one"), unit("two")});
  EXPECT_EQ(module.describe(module.find_function("one")->body[0].source), "one.cu:5");
  EXPECT_EQ(module.describe(module.find_function("two")->body[0].source), "two.cu:5");
}

TEST(LinkerTest, RefusesContradictions) {
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "function `f` is defined in unit 1 and in unit 2",
                      link_failure({".visible .func f() { ret; }", ".visible .func f() { ret; }"}));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "`x` is .global in unit 1 and .const in unit 2",
                      link_failure({".visible .global .u32 x;", ".extern .const .u32 x;"}));
  EXPECT_PRED_FORMAT2(::testing::IsSubstring, "`x` is a function in unit 2 and a variable in another input",
                      link_failure({".visible .global .u32 x;", ".visible .func x() { ret; }"}));
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
