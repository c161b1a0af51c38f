#include <fmt/format.h>

#include "parsing.hpp"

namespace stagecraft::emulator::ptx {
namespace {

using testing::kernel_failure;
using testing::module_failure;
using testing::parse_kernel;
using testing::parse_module;

TEST(FunctionsTest, ReadsParametersWithTheirAttributes) {
  const Module module = parse_module(
      ".visible .entry k(.param .u64 .ptr .global .align 16 p, .param .align 64 .b8 map[128], .param .u64 .ptr q,\n"
      ".param .f32 f) { ret; }");
  const std::vector<Variable>& parameters = module.functions[0].parameters;
  ASSERT_EQ(parameters.size(), 4u);
  EXPECT_EQ(parameters[0].name, "p");
  EXPECT_EQ(parameters[0].size, 8u);
  EXPECT_EQ(parameters[0].alignment, 8u);
  EXPECT_EQ(parameters[1].size, 128u);
  EXPECT_EQ(parameters[1].alignment, 64u);
  EXPECT_EQ(parameters[3].type, Type::f32);
  EXPECT_EQ(parameters[3].space, Space::param);
}

TEST(FunctionsTest, ReadsReturnValues) {
  const Module module = parse_module(
      ".visible .func (.param .b32 result) f(.param .b64 a) { .reg .b32 %r; st.param.b32 [result], %r; ret; }");
  const Function& function = module.functions[0];
  EXPECT_FALSE(function.is_entry);
  ASSERT_EQ(function.returns.size(), 1u);
  EXPECT_EQ(function.body[0].operands[0].list[0].symbol_kind, SymbolKind::return_value);
}

TEST(FunctionsTest, MakesRegisterParametersTheFirstRegisters) {
  const Module module = parse_module(".func (.reg .b32 r) f(.reg .f32 a, .reg .pred p) { .reg .b64 x; ret; }");
  const std::vector<Register>& registers = module.functions[0].registers;
  ASSERT_EQ(registers.size(), 4u);
  EXPECT_EQ(registers[0].name, "r");
  EXPECT_EQ(registers[1].type, Type::f32);
  EXPECT_EQ(registers[2].type, Type::pred);
  EXPECT_EQ(registers[3].name, "x");
}

TEST(FunctionsTest, ReadsPerformanceDirectives) {
  const Function function =
      parse_module(
          ".entry k(.param .u32 n)\n.explicitcluster\n.reqnctapercluster 2, 1, 1 .maxntid 128, 2\n.minnctapersm 3\n"
          ".maxnreg 64 .maxclusterrank 8 .blocksareclusters .pragma \"nounroll\"; .abi_preserve 8 {\nret; }")
          .functions[0];
  EXPECT_TRUE(function.explicit_cluster);
  EXPECT_TRUE(function.blocks_are_clusters);
  EXPECT_EQ(function.cluster.x, 2u);
  EXPECT_EQ(function.max_threads.x, 128u);
  EXPECT_EQ(function.max_threads.y, 2u);
  EXPECT_EQ(function.max_threads.z, 1u);
  EXPECT_EQ(function.required_threads.x, 0u);
  EXPECT_EQ(function.min_blocks_per_sm, 3u);
  EXPECT_EQ(function.max_registers, 64u);
  EXPECT_EQ(function.max_cluster_rank, 8u);
}

TEST(FunctionsTest, ReadsDirectivesWithoutOptionalBlanks) {
  const Function function = parse_module(".entry k .reqntid 128.minnctapersm 1.maxnreg 32{ret;}").functions[0];
  EXPECT_EQ(function.required_threads.x, 128u);
  EXPECT_EQ(function.min_blocks_per_sm, 1u);
  EXPECT_EQ(function.max_registers, 32u);
}

TEST(FunctionsTest, MergesADeclarationWithItsDefinition) {
  const Module module = parse_module(
      ".func (.param .b32 _) f(.param .b32 _);\n.entry k { ret; }\n"
      ".func (.param .b32 r) f(.param .b32 a) { ret; }\n.extern .func stop() .noreturn;");
  ASSERT_EQ(module.functions.size(), 3u);
  EXPECT_EQ(module.functions[0].name, "f");
  EXPECT_FALSE(module.functions[0].is_declaration);
  EXPECT_EQ(module.functions[0].parameters[0].name, "a");
  EXPECT_EQ(module.functions[0].body.size(), 1u);
  EXPECT_TRUE(module.functions[2].is_declaration);
  EXPECT_TRUE(module.functions[2].is_noreturn);
}

TEST(FunctionsTest, EndsADeclarationWithoutSemicolonAtTheNextOne) {
  const Module module = parse_module(".extern .func f(.param .b32 a)\n.visible .entry k { ret; }");
  ASSERT_EQ(module.functions.size(), 2u);
  EXPECT_TRUE(module.functions[0].is_declaration);
}

TEST(FunctionsTest, RefusesContradictingDeclarations) {
  EXPECT_EQ(module_failure(".func f { ret; }\n.func f { ret; }"),
            "line 3, column 7: function `f` is defined twice, first in line 2, column 7");
  EXPECT_EQ(module_failure(".func f(.param .b32 a);\n.func f { ret; }"),
            "line 3, column 7: function `f` does not have the parameters declared in line 2, column 7; legal here: the "
            "same parameters in every declaration");
  EXPECT_EQ(module_failure(".global .b32 f;\n.func f { ret; }"),
            "line 3, column 7: `f` is already the name of a variable");
  EXPECT_TRUE(
      module_failure(".extern .func f { ret; }").starts_with("line 2, column 17: `.extern` function `f` has a"));
  EXPECT_TRUE(
      module_failure(".entry k(.param .u32 a, .param .u32 a) { ret; }")
          .starts_with("line 2, column 37: `a` is declared twice in the same scope, first in line 2, column 22"));
  EXPECT_TRUE(
      module_failure(".entry (.param .u32 a) k { ret; }").starts_with("line 2, column 8: unexpected `(` after"));
  EXPECT_EQ(module_failure(".entry k .maxntid 8, 0 { ret; }"),
            "line 2, column 19: an extent is 0; legal here: at least 1 in every dimension");
  EXPECT_TRUE(module_failure(".entry k .maxthreads 5 { }").starts_with("line 2, column 10: unexpected `.maxthreads`"));
}

TEST(FunctionsTest, CreatesOnlyTheRegistersThatAreUsed) {
  const Function function = parse_kernel(".reg .b32 %r<4000000000>; mov.b32 %r7, %r3999999999; mov.b32 %r7, 1;");
  ASSERT_EQ(function.registers.size(), 2u);
  EXPECT_EQ(function.registers[0].name, "%r7");
  EXPECT_EQ(function.registers[1].name, "%r3999999999");
  EXPECT_EQ(function.body[1].operands[0].reg, 0u);
}

TEST(FunctionsTest, ExpandsVectorRegisters) {
  const Function function = parse_kernel(
      ".reg .v4 .f32 %v; .reg .v2 .b32 %w<3>; mov.f32 %v.y, %v.a; mov.b32 %w1.x, %w2.y; st.v4.f32 [pointer], %v;");
  ASSERT_EQ(function.registers.size(), 8u);
  EXPECT_EQ(function.registers[1].name, "%v.y");
  EXPECT_EQ(function.body[0].operands[0].reg, 1u);
  EXPECT_EQ(function.body[0].operands[1].reg, 3u);
  EXPECT_EQ(function.registers[function.body[1].operands[1].reg].name, "%w2.y");
  EXPECT_EQ(function.body[2].operands[1].kind, OperandKind::vector);
  EXPECT_EQ(function.body[2].operands[1].list.size(), 4u);
}

TEST(FunctionsTest, KeepsTheNamesOfNestedScopesApart) {
  // Two blocks of inline assembly, as CUTLASS writes them, inside one kernel.
  const std::string wait =
      "{ .reg .pred P1; LAB_WAIT: mbarrier.try_wait.parity.shared::cta.b64 P1, [%r1], 0; @P1 bra DONE; bra LAB_WAIT; "
      "DONE: }\n";
  const Function function =
      parse_kernel(".reg .b32 %r<3>; .reg .pred P1;\n" + wait + wait + "@P1 bra LAST; LAST: ret;");
  ASSERT_EQ(function.body.size(), 8u);
  EXPECT_EQ(function.body[1].operands[0].label, 3u);
  EXPECT_EQ(function.body[2].operands[0].label, 0u);
  EXPECT_EQ(function.body[4].operands[0].label, 6u);
  EXPECT_EQ(function.body[5].operands[0].label, 3u);
  EXPECT_NE(function.body[1].guard, function.body[4].guard);
  EXPECT_NE(function.body[1].guard, function.body[6].guard);
  EXPECT_EQ(function.labels.size(), 1u);
  EXPECT_EQ(function.labels.at("LAST"), 7u);
}

TEST(FunctionsTest, ShadowsRangesOfOuterScopes) {
  const Function function = parse_kernel(
      ".reg .b32 %r<9>; mov.b32 %r1, 0; { .reg .b64 %r<2>; mov.b64 %r1, 0; mov.b32 %r5, 0; } mov.b32 %r1, 0;");
  const auto written = [&](size_t i) { return function.body[i].operands[0].reg; };
  EXPECT_EQ(written(0), written(3));
  EXPECT_NE(written(0), written(1));
  EXPECT_EQ(function.registers[written(1)].type, Type::b64);
  EXPECT_EQ(function.registers[written(2)].type, Type::b32);
}

TEST(FunctionsTest, LetsInnerScopesJumpToOuterLabels) {
  const Function function = parse_kernel("L: { bra L; bra M; { bra N; } N: } M: nop; N: nop;");
  EXPECT_EQ(function.body[0].operands[0].label, 0u);
  EXPECT_EQ(function.body[1].operands[0].label, 3u);
  EXPECT_EQ(function.body[2].operands[0].label, 3u);
  EXPECT_EQ(function.labels.at("N"), 4u);
}

TEST(FunctionsTest, RefusesLabelsThatAreNotVisible) {
  EXPECT_EQ(kernel_failure("{ INNER: nop; } bra INNER;"),
            "line 3, column 21: label `INNER` is not defined in a scope that is visible here");
  EXPECT_EQ(kernel_failure("$L__BB0_2: bra $L__BB0_1;"),
            "line 3, column 16: label `$L__BB0_1` is not defined in a scope that is visible here; did you mean "
            "`$L__BB0_2`?");
  EXPECT_TRUE(
      kernel_failure("L: nop; L: nop;").starts_with("line 3, column 9: `L` is declared twice in the same scope"));
  EXPECT_NE(kernel_failure(".reg .b32 %r; bra %r;").find("label `%r` is not defined"), std::string::npos);
}

TEST(FunctionsTest, RefusesDoubleRegisters) {
  EXPECT_EQ(kernel_failure(".reg .b32 a; .reg .f32 a;"),
            "line 3, column 24: `a` is declared twice in the same scope, first in line 3, column 11");
  EXPECT_TRUE(
      kernel_failure(".reg .b32 %r<5>; .reg .f32 %r4;").starts_with("line 3, column 28: `%r4` is declared twice"));
  EXPECT_TRUE(
      kernel_failure(".reg .f32 %r4; .reg .b32 %r<5>;").starts_with("line 3, column 26: `%r4` is declared twice"));
  EXPECT_TRUE(
      kernel_failure(".reg .b32 %r<5>; .reg .f32 %r<2>;").starts_with("line 3, column 28: `%r<2>` is declared"));
  EXPECT_NO_THROW(parse_kernel(".reg .b32 %r<5>; .reg .f32 %r5, %r;"));
}

TEST(FunctionsTest, RefusesABodyThatDoesNotEnd) {
  EXPECT_TRUE(module_failure(".entry k { { ret; }")
                  .starts_with("line 2, column 20: unexpected end of the text in function `k`; legal here: an "));
  EXPECT_TRUE(kernel_failure("}").starts_with("line 4, column 1: unexpected `}` outside of a function"));
  EXPECT_NE(kernel_failure(std::string(1000, '{')).find("scopes are nested too deeply"), std::string::npos);
}

TEST(FunctionsTest, ReadsBranchTablesBeforeAndAfterTheirUse) {
  const Function function = parse_kernel(
      ".reg .b32 %r; T: .branchtargets A, B, A; brx.idx %r, T; A: nop; B: brx.idx.uni %r, U;\nU: .branchtargets B;");
  ASSERT_EQ(function.branch_tables.size(), 2u);
  EXPECT_EQ(function.branch_tables[0].name, "T");
  EXPECT_EQ(function.branch_tables[0].targets, (std::vector<uint32_t>{1, 2, 1}));
  EXPECT_EQ(function.branch_tables[1].targets, (std::vector<uint32_t>{2}));
  EXPECT_EQ(function.body[0].operands[1].symbol_kind, SymbolKind::table);
  EXPECT_EQ(function.body[0].operands[1].symbol, 0u);
  EXPECT_EQ(function.body[2].operands[1].symbol_kind, SymbolKind::table);
  EXPECT_EQ(function.body[2].operands[1].symbol, 1u);
}

TEST(FunctionsTest, ReadsDirectCalls) {
  const Module module = parse_module(
      ".func (.param .b32 r) f(.param .b64 a, .param .b32 b);\n.func g;\n"
      ".entry k { .reg .b64 %rd; { .param .b64 param0; st.param.b64 [param0], %rd; .param .b32 param1;\n"
      ".param .b32 retval0; call.uni (retval0), f, (param0, param1); } call g; call g, (); }");
  const std::vector<Instruction>& body = module.functions[2].body;
  EXPECT_EQ(body[0].operands[0].list[0].symbol_kind, SymbolKind::local_variable);
  const Instruction& call = body[1];
  EXPECT_EQ(call.modifiers, (std::vector<std::string>{"uni"}));
  ASSERT_EQ(call.operands.size(), 3u);
  EXPECT_EQ(call.operands[0].kind, OperandKind::arguments);
  EXPECT_EQ(call.operands[1].symbol_kind, SymbolKind::function);
  EXPECT_EQ(call.operands[1].symbol, 0u);
  ASSERT_EQ(call.operands[2].list.size(), 2u);
  EXPECT_EQ(call.operands[2].list[1].name, "param1");
  EXPECT_EQ(call.operands[2].list[1].symbol, 1u);
  EXPECT_EQ(body[2].operands.size(), 1u);
  EXPECT_TRUE(body[3].operands[1].list.empty());
}

TEST(FunctionsTest, ReadsIndirectCalls) {
  const Module module = parse_module(
      ".func f;\n"
      ".entry k { .reg .b64 %rd; .param .b32 r; mov.u64 %rd, f;\n"
      "prototype_0 : .callprototype (.param .b32 _) _ (.param .b64 _, .param .align 8 .b8 _[16]) .noreturn;\n"
      "call (r), %rd, (%rd, 5), prototype_0; table: .calltargets f; call %rd, table; call %rd, later;\n"
      "later: .callprototype _ (); }");
  const Function& function = module.functions[1];
  ASSERT_EQ(function.prototypes.size(), 2u);
  EXPECT_EQ(function.prototypes[0].parameters[1].size, 16u);
  EXPECT_EQ(function.prototypes[0].returns.size(), 1u);
  EXPECT_EQ(function.body[1].operands[3].symbol_kind, SymbolKind::prototype);
  EXPECT_EQ(function.body[2].operands[1].symbol_kind, SymbolKind::call_table);
  EXPECT_EQ(function.call_tables[0].functions, (std::vector<uint32_t>{0}));
  EXPECT_EQ(function.body[3].operands[1].symbol, 1u);
  EXPECT_NE(kernel_failure(".reg .b64 %rd; call %rd, gone;").find("label `gone` is not defined"), std::string::npos);
}

TEST(FunctionsTest, LetsFunctionsCallThemselves) {
  const Module module = parse_module(".func f { call f; ret; } .entry k { call f; ret; }");
  EXPECT_EQ(module.functions[0].body[0].operands[0].symbol, 0u);
  EXPECT_EQ(module.functions[1].body[0].operands[0].symbol, 0u);
}

TEST(FunctionsTest, SuggestsTheDirectiveThatWasMeant) {
  EXPECT_TRUE(
      kernel_failure(".regs .b32 a;")
          .starts_with("line 3, column 1: unknown directive `.regs` in function `kernel`; did you mean `.reg`?"));
  EXPECT_NE(kernel_failure(".extern .global .b32 a;").find("after `.extern` inside a function; legal here: .shared"),
            std::string::npos);
}

TEST(FunctionsTest, AliasesDoNotMultiplyTheProgramWithoutLimit) {
  std::string text = ".func f() {\n";
  for (int i = 0; i < 10'000; ++i) text += "ret;";
  text += "}\n";
  for (int i = 0; i < 30; ++i) text += fmt::format(".func a{0}(); .alias a{0}, f;\n", i);
  EXPECT_NE(module_failure(text).find("the functions that `.alias` repeats are too long"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
