#include <gtest/gtest.h>

#include "comparison.hpp"
#include "naive_interpreter.hpp"
#include "random_kernel.hpp"

namespace stagecraft::random_kernels {
namespace {

/// What one thread has in %r0 after some instructions, according to the naive interpreter.
uint32_t result_of(const std::string& instructions) {
  const naive::Kernel kernel(".visible .entry kernel(.param .u64 in, .param .u64 out) {\nld.param.u64 %out, [out];\n" +
                             instructions + "\nst.global.u32 [%out], %r0;\nret;\n}\n");
  naive::Buffers buffers{{}, {0}};
  kernel.run({}, buffers);
  return buffers.out[0];
}

TEST(NaiveInterpreterTest, ComputesWhatPtxSays) {
  EXPECT_EQ(result_of("mov.u32 %r1, 5;\nsub.u32 %r0, %r1, 7;"), 0xfffffffe);
  EXPECT_EQ(result_of("mov.u32 %r1, 0x80000000;\nmul.hi.s32 %r0, %r1, 2;"), 0xffffffff);
  EXPECT_EQ(result_of("mov.u32 %r1, 0x80000000;\nmul.hi.u32 %r0, %r1, 2;"), 1u);
  EXPECT_EQ(result_of("mov.u32 %r1, 0x80000000;\nshr.s32 %r0, %r1, 40;"), 0xffffffff);
  EXPECT_EQ(result_of("mov.u32 %r1, 0x000f0000;\nbfe.s32 %r0, %r1, 16, 4;"), 0xffffffff);
  EXPECT_EQ(result_of("mov.u32 %r1, 0x44332211;\nmov.u32 %r2, 0x88776655;\nprmt.b32 %r0, %r1, %r2, 0xf471;"),
            0xff558822);
  EXPECT_EQ(result_of("mov.u32 %r1, 0x7fc00000;\nmov.b32 %f1, %r1;\ncvt.rzi.s32.f32 %r0, %f1;"), 0u);
  EXPECT_EQ(result_of("mov.u32 %r1, 0xffffffff;\nadd.cc.u32 %r2, %r1, 1;\naddc.u32 %r0, %r2, 0;"), 1u);
}

TEST(NaiveInterpreterTest, RoundsSmallFloatsOnce) {
  // (1 + 2^-10)^2 - (1 + 2^-9) is 2^-20, and 0 where the product is rounded first.
  EXPECT_EQ(result_of("mov.u32 %r1, 0x3c013c01;\nmov.u32 %r2, 0xbc02bc02;\nfma.rn.f16x2 %r0, %r1, %r1, %r2;"),
            0x00100010u);
  // 1.5 * (1 + 2^-7) is between two bf16 in the middle: to the even one, unless 2^-120 less decides.
  const std::string factors = "mov.u32 %r1, 0x3fc03fc0;\nmov.u32 %r2, 0x3f813f81;\n";
  EXPECT_EQ(result_of(factors + "mov.u32 %r3, 0x83800000;\nfma.rn.bf16x2 %r0, %r1, %r2, %r3;"), 0x3fc13fc2u);
  const std::string large = "mov.u32 %r1, 0x477ff000;\nmov.b32 %f1, %r1;\n";  // 65520
  EXPECT_EQ(result_of(large + "cvt.rn.f16x2.f32 %r0, %f1, %f1;"), 0x7c007c00u);
  EXPECT_EQ(result_of(large + "cvt.rz.f16x2.f32 %r0, %f1, %f1;"), 0x7bff7bffu);
  EXPECT_EQ(result_of("mov.u32 %r1, 0x80000000;\nmov.u32 %r2, 0x7e00fe00;\nmin.f16x2 %r0, %r1, %r2;"), 0x80000000u);
}

TEST(NaiveInterpreterTest, RunsLoopsAndGuards) {
  EXPECT_EQ(result_of("mov.u32 %r0, 0;\nmov.u32 %r1, 5;\nagain:\nadd.u32 %r0, %r0, %r1;\nsub.u32 %r1, %r1, 1;\n"
                      "setp.ne.u32 %p0, %r1, 0;\n@%p0 bra again;\n@!%p0 add.u32 %r0, %r0, 100;"),
            115u);
}

TEST(NaiveInterpreterTest, SaysWhereThreadsWaitForEver) {
  try {
    result_of("bar.sync 0, 64;\nmov.u32 %r0, 1;\nbar.warp.sync 0x3;");
    FAIL() << "it ended";
  } catch (const naive::Error& error) {
    EXPECT_STREQ(error.what(), "the threads wait for each other at bar.warp.sync 0x3");
  }
}

RandomKernel kernel_of(std::vector<std::string> lines) {
  RandomKernel kernel{.seed = 1, .blocks = 2, .threads = 64, .statements = {}};
  for (std::string& line : lines) kernel.statements.push_back({.before = line + "\n"});
  return kernel;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos);
  return text.replace(at, what.size(), by);
}

const std::string kExchange =
    "st.shared.u32 [%tile], %r0;\nbar.sync 0;\nxor.b32 %t0, %thread, 33;\nshl.b32 %t0, %t0, 4;\nmov.u32 %t1, tile;\n"
    "add.u32 %t0, %t0, %t1;\nld.shared.u32 %r1, [%t0];\nbar.sync 1;";

TEST(ComparisonTest, FindsNothingInTheSameKernel) {
  Comparison comparison;
  EXPECT_EQ(comparison.run(kernel_of({"add.u32 %r0, %r1, %r2;", kExchange})), "");
}

TEST(ComparisonTest, FindsAnotherResult) {
  Comparison comparison;
  const RandomKernel kernel = kernel_of({"add.u32 %r0, %r1, %r2;"});
  const std::string found = comparison.run(kernel, replaced(kernel.ptx(), "add.u32 %r0, %r1", "sub.u32 %r0, %r1"));
  EXPECT_NE(found.find("out[0] is 0x"), std::string::npos) << found;
}

TEST(ComparisonTest, FindsWhatACheckReports) {
  Comparison comparison;
  const RandomKernel kernel = kernel_of({kExchange});
  const std::string found = comparison.run(kernel, replaced(kernel.ptx(), "bar.sync 0;\nxor", "xor"));
  EXPECT_NE(found.find("race"), std::string::npos) << found;
}

TEST(ComparisonTest, FindsWhatTheCheckOfGlobalMemoryReports) {
  Comparison comparison;
  const RandomKernel kernel = kernel_of({"red.global.add.u32 [%cells], %r0;"});
  const std::string found = comparison.run(kernel, replaced(kernel.ptx(), "red.global.add.u32", "st.global.u32"));
  EXPECT_NE(found.find("race"), std::string::npos) << found;
}

TEST(ComparisonTest, FindsAMissingBarrierOfTheCluster) {
  const std::string met = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
  RandomKernel kernel = kernel_of({"st.shared.u32 [%tile], %r0;\n" + met +
                                   "xor.b32 %t1, %rank, 1;\nmapa.shared::cluster.u32 %t0, %tile, %t1;\n"
                                   "ld.shared::cluster.u32 %r1, [%t0];"});
  kernel.cluster = 2;
  Comparison comparison;
  EXPECT_EQ(comparison.run(kernel), "");
  const std::string found = comparison.run(kernel, replaced(kernel.ptx(), "%r0;\n" + met, "%r0;\n"));
  EXPECT_NE(found.find("race"), std::string::npos) << found;
}

TEST(ShrinkTest, KeepsOnlyWhatFails) {
  RandomKernel kernel = make_kernel(7);
  kernel.statements.push_back({.before = "// this\n"});
  const RandomKernel smallest =
      shrink(kernel, [](const RandomKernel& each) { return each.ptx().find("// this") != std::string::npos; });
  ASSERT_EQ(smallest.statements.size(), 1u);
  EXPECT_EQ(smallest.statements[0].before, "// this\n");
}

}  // namespace
}  // namespace stagecraft::random_kernels
