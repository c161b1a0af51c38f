#include "parsing.hpp"

namespace stagecraft::emulator::ptx {
namespace {

using testing::kernel_failure;
using testing::parse_kernel;
using testing::parse_module;

constexpr const char* kRegisters = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<4>;\n";

/// Returns the first instruction of a kernel; its text is line 4 of the module.
Instruction instruction(const std::string& text) { return parse_kernel(kRegisters + text).body.at(0); }
std::string failure_of(const std::string& text) { return kernel_failure(kRegisters + text); }

TEST(InstructionsTest, TakesOpcodeAndModifiersApart) {
  const Instruction copy = instruction(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      ".L2::cache_hint [%r1], [%rd1, {%r2, %r3}], [%r4], 5, %rd2;");
  EXPECT_EQ(copy.opcode, "cp");
  EXPECT_EQ(copy.modifiers,
            (std::vector<std::string>{"async", "bulk", "tensor", "2d", "shared::cluster", "global", "tile",
                                      "mbarrier::complete_tx::bytes", "multicast::cluster", "L2::cache_hint"}));
  ASSERT_EQ(copy.operands.size(), 5u);
  const Operand& tensor = copy.operands[1];
  EXPECT_EQ(tensor.kind, OperandKind::address);
  ASSERT_EQ(tensor.list.size(), 2u);
  EXPECT_EQ(tensor.list[0].name, "%rd1");
  EXPECT_EQ(tensor.list[1].kind, OperandKind::vector);
  EXPECT_EQ(tensor.list[1].list[1].name, "%r3");
  EXPECT_EQ(copy.operands[3].bits, 5u);
}

TEST(InstructionsTest, ReadsGuards) {
  const Instruction guarded = instruction("@!%p2 bra L; L: ret;");
  EXPECT_TRUE(guarded.guarded);
  EXPECT_TRUE(guarded.guard_negated);
  EXPECT_EQ(guarded.guard, 0u);
  EXPECT_EQ(guarded.position.line, 4u);
  EXPECT_EQ(guarded.position.column, 7u);
  EXPECT_FALSE(instruction("@%p1 ret;").guard_negated);
}

TEST(InstructionsTest, ReadsAddresses) {
  const auto address = [](const std::string& text) { return instruction("ld.b32 %r1, " + text + ";").operands[1]; };
  EXPECT_EQ(address("[%rd1]").offset, 0);
  EXPECT_EQ(address("[%rd1+8]").offset, 8);
  EXPECT_EQ(address("[%rd1+-8]").offset, -8);
  EXPECT_EQ(address("[%rd1 - 8 + 2*3]").offset, -2);
  EXPECT_EQ(address("[%rd1+8]").list[0].kind, OperandKind::reg);
  const Operand parameter = address("[block+16]");
  EXPECT_EQ(parameter.offset, 16);
  EXPECT_EQ(parameter.list[0].offset, 0);
  EXPECT_EQ(parameter.list[0].symbol_kind, SymbolKind::parameter);
  EXPECT_EQ(parameter.list[0].symbol, 1u);
  const Operand absolute = address("[0x40]");
  EXPECT_EQ(absolute.list[0].kind, OperandKind::integer);
  EXPECT_EQ(absolute.list[0].bits, 0x40u);
}

TEST(InstructionsTest, ReadsPairsSinksAndNegatedPredicates) {
  const Instruction set = instruction("setp.lt.and.s32 %p1|%p2, %r1, -7, !%p3;");
  ASSERT_EQ(set.operands[0].kind, OperandKind::pair);
  EXPECT_EQ(set.operands[0].list[1].name, "%p2");
  EXPECT_EQ(static_cast<int64_t>(set.operands[2].bits), -7);
  EXPECT_TRUE(set.operands[3].negated);
  EXPECT_EQ(set.operands[3].kind, OperandKind::reg);
  const Instruction elect = instruction("elect.sync _|%p1, 0xffffffff;");
  EXPECT_EQ(elect.operands[0].list[0].kind, OperandKind::sink);
  EXPECT_EQ(instruction("mov.b64 {%r1, _}, %rd1;").operands[0].list[1].kind, OperandKind::sink);
}

TEST(InstructionsTest, KnowsTheSpecialRegisters) {
  EXPECT_EQ(instruction("mov.u32 %r1, %tid.x;").operands[1].name, "tid.x");
  EXPECT_EQ(instruction("mov.u32 %r1, %tid.x;").operands[1].kind, OperandKind::special);
  for (const char* name : {"laneid",
                           "warpid",
                           "nwarpid",
                           "ntid.y",
                           "ctaid.z",
                           "nctaid.w",
                           "smid",
                           "nsmid",
                           "gridid",
                           "is_explicit_cluster",
                           "clusterid.x",
                           "nclusterid.y",
                           "cluster_ctaid.x",
                           "cluster_nctaid.x",
                           "cluster_ctarank",
                           "cluster_nctarank",
                           "lanemask_eq",
                           "lanemask_le",
                           "lanemask_lt",
                           "lanemask_ge",
                           "lanemask_gt",
                           "clock",
                           "clock_hi",
                           "clock64",
                           "pm0",
                           "pm7",
                           "pm7_64",
                           "envreg0",
                           "envreg31",
                           "globaltimer",
                           "globaltimer_lo",
                           "globaltimer_hi",
                           "reserved_smem_offset_begin",
                           "reserved_smem_offset_end",
                           "reserved_smem_offset_cap",
                           "reserved_smem_offset_0",
                           "reserved_smem_offset_1",
                           "total_smem_size",
                           "aggr_smem_size",
                           "dynamic_smem_size",
                           "current_graph_exec",
                           "tid"}) {
    EXPECT_EQ(instruction(std::string("mov.u32 %r1, %") + name + ";").operands[1].name, name);
  }
  for (const char* name : {"pm8", "envreg32", "envreg01", "tide"}) {
    EXPECT_NE(failure_of(std::string("mov.u32 %r1, %") + name + ";").find("is not declared"), std::string::npos);
  }
  EXPECT_EQ(failure_of("mov.u32 %r1, %laneid.x;"),
            "line 4, column 21: special register `%laneid` has no component `.x`; legal here: no component");
  EXPECT_EQ(failure_of("mov.u32 %r1, %laneit;"),
            "line 4, column 14: register `%laneit` is not declared; did you mean the special register `%laneid`?");
}

TEST(InstructionsTest, LetsDeclaredRegistersHideSpecialOnes) {
  const Function function = parse_kernel(".reg .b32 %laneid; mov.b32 %laneid, 1;");
  EXPECT_EQ(function.body[0].operands[0].kind, OperandKind::reg);
}

TEST(InstructionsTest, ResolvesSymbols) {
  const Module module = parse_module(
      ".global .b32 g; .func f { ret; }\n.entry k { .reg .b64 %rd; .local .b8 l[4]; mov.u64 %rd, g+4; mov.u64 %rd, f;\n"
      "mov.u64 %rd, l; ld.b64 %rd, [g+-8]; }");
  const std::vector<Instruction>& body = module.functions[1].body;
  EXPECT_EQ(body[0].operands[1].symbol_kind, SymbolKind::module_variable);
  EXPECT_EQ(body[0].operands[1].offset, 4);
  EXPECT_EQ(body[1].operands[1].symbol_kind, SymbolKind::function);
  EXPECT_EQ(body[2].operands[1].symbol_kind, SymbolKind::local_variable);
  EXPECT_EQ(body[3].operands[1].offset, -8);
}

TEST(InstructionsTest, ReadsTheBigInstructions) {
  EXPECT_EQ(instruction("tcgen05.mma.cta_group::1.kind::f16 [%r1], %rd1, %rd2, %r2, {%r3, %r3, %r3, %r3}, %p1;")
                .operands.size(),
            6u);
  EXPECT_EQ(instruction("tcgen05.wait::ld.sync.aligned;").modifiers,
            (std::vector<std::string>{"wait::ld", "sync", "aligned"}));
  EXPECT_EQ(instruction(
                "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r1,%r2,%r3,%r4}, %rd1, %rd2, %p1, 1, -1, 0, 1;")
                .operands.size(),
            8u);
  EXPECT_EQ(instruction("tcgen05.ld.sync.aligned.16x64b.x4.b32 {%r1,%r2,%r3,%r4}, [%r5];").modifiers[3], "16x64b");
  EXPECT_EQ(instruction("createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0;").operands[1].kind, OperandKind::f64);
  EXPECT_EQ(instruction("prefetch.tensormap [block];").modifiers[0], "tensormap");
}

TEST(InstructionsTest, NamesTheRegisterThatIsUnknown) {
  EXPECT_EQ(failure_of("add.s32 %r1, %r2, %r9;"),
            "line 4, column 19: register `%r9` is not declared; legal here: `%r0` to `%r8`, which line 3 declares");
  EXPECT_EQ(kernel_failure(".reg .b32 %count; mov.u32 %count, 0; mov.u32 %cuont, 0;"),
            "line 3, column 46: register `%cuont` is not declared; did you mean `%count`?");
  EXPECT_EQ(failure_of("ld.param.u64 %rd1, [pointr];"),
            "line 4, column 21: `pointr` is not declared; did you mean `pointer`?; legal here: a register, variable or "
            "function that is declared above");
  EXPECT_NE(failure_of("call nowhere;").find("`nowhere` is not declared"), std::string::npos);
  EXPECT_NE(failure_of("@%p9 ret;").find("register `%p9` is not declared"), std::string::npos);
}

TEST(InstructionsTest, RefusesGuardsThatAreNoPredicates) {
  EXPECT_EQ(failure_of("@%r1 ret;"),
            "line 4, column 2: `%r1` cannot guard an instruction; legal here: a register of type .pred");
  EXPECT_EQ(failure_of("@%p1 .ret;"),
            "line 4, column 6: `.ret` follows the predicate of a guard; legal here: an opcode");
  EXPECT_TRUE(failure_of("@5 ret;").starts_with("line 4, column 2: unexpected `5` instead of a predicate register"));
  EXPECT_EQ(failure_of("mov.pred %p1, !%r1;"),
            "line 4, column 15: `!%r1` negates something that is not a predicate; "
            "legal here: a register of type .pred");
}

TEST(InstructionsTest, SaysWhatMayFollowAnOperand) {
  EXPECT_EQ(failure_of("add.s32 %r1, %r2 %r3;"),
            "line 4, column 18: unexpected `%r3` after an operand of `add`; legal here: `,`, `;`");
  EXPECT_EQ(failure_of("ret\nret;"),
            "line 5, column 1: `ret` is not declared; is the `;` after `ret` in line 4 missing?");
  EXPECT_TRUE(failure_of("add.s32 %r1, ;").starts_with("line 4, column 14: unexpected `;` where an operand of `add`"));
  EXPECT_TRUE(failure_of("ld.b32 %r1, [%rd1;").starts_with("line 4, column 18: unexpected `;` in an address"));
  EXPECT_TRUE(failure_of("ld.b32 %r1, [%tid.x];").starts_with("line 4, column 14: `tid.x` is no address"));
  EXPECT_TRUE(failure_of("ld.b32 %r1, [1.5];").starts_with("line 4, column 14: an address cannot be"));
  EXPECT_TRUE(failure_of("mov.b64 {%r1, %r2, %rd1;").starts_with("line 4, column 24: unexpected `;` after an element"));
  EXPECT_TRUE(failure_of("setp.eq.s32 %p1|5, %r1, 0;").starts_with("line 4, column 17: unexpected `5` after `|`"));
  EXPECT_TRUE(failure_of("42;").starts_with("line 4, column 1: unexpected `42` in function `kernel`"));
}

TEST(InstructionsTest, RefusesWhatItCannotRepresent) {
  EXPECT_NE(failure_of("add.s32 %r1, %r2.b0, %r3;").find("`%r2.b0` selects a part of a register"), std::string::npos);
  EXPECT_NE(failure_of("vadd.s32.s32.s32 %r1, -%r2, %r3;").find("negates an operand"), std::string::npos);
  EXPECT_NE(failure_of("ld.param.b32 %r1, block[1];").find("`block[` indexes an array, which is not implemented"),
            std::string::npos);
  std::string many = "x";
  for (int i = 0; i < 65; ++i) many += ".y";
  EXPECT_NE(failure_of(many + ";").find("`x` has too many modifiers; legal here: at most 64"), std::string::npos);
  EXPECT_NE(failure_of("mov.b64 " + std::string(100000, '{')).find("nested too deeply"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::ptx
