// setmaxnreg: the pool of a block, waits that never end, and uses that PTX leaves undefined.
#include <string>

#include "emulator/checks/reporting/report.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class RegisterCount : public machine::KernelTest {
 protected:
  RegisterCount() : KernelTest(machine::h200()) {}

  /// Runs three warpgroups: `first` in the first one, `others` in the others. It has %thread and %warp.
  machine::LaunchResult deal_out(const std::string& first, const std::string& others,
                                 const std::string& bounds = ".maxnreg 168", uint32_t threads_of_block = 384,
                                 uint32_t blocks = 1) {
    const machine::Kernel& kernel = compile(".visible .entry k(.param .u64 out) " + bounds +
                                            " {\n.reg .b32 %thread, %warp; .reg .pred %p, %q;\n"
                                            "mov.u32 %thread, %tid.x; shr.u32 %warp, %thread, 5;\n"
                                            "setp.ge.u32 %p, %thread, 128;\n@%p bra others;\n" +
                                            first + "bra end;\nothers:\n" + others + "end:\nret;\n}\n");
    return launch(kernel, {blocks, 1, 1}, {threads_of_block, 1, 1}, uint64_t{0});
  }
  static std::string text_of(const machine::LaunchResult& result) {
    std::string text;
    for (const machine::Diagnostic& diagnostic : result.diagnostics) text += render_text(diagnostic);
    return text;
  }
  static void expect_words(const machine::LaunchResult& result, const std::string& kind,
                           const std::vector<std::string>& words) {
    const std::string text = text_of(result);
    ASSERT_EQ(result.diagnostics.size(), 1u) << text;
    EXPECT_EQ(result.diagnostics[0].kind, kind) << text;
    for (const std::string& word : words) {
      EXPECT_NE(text.find(word), std::string::npos) << "no: " << word << "\n" << text;
    }
  }
};

std::string increase(uint32_t count) { return fmt::format("setmaxnreg.inc.sync.aligned.u32 {};\n", count); }
std::string decrease(uint32_t count) { return fmt::format("setmaxnreg.dec.sync.aligned.u32 {};\n", count); }

TEST_F(RegisterCount, WhatOneWarpgroupReleasesTheOthersCanHave) {
  // The numbers of CUTLASS: 3 * 168 is 24 + 2 * 240.
  const machine::LaunchResult result = deal_out("nanosleep.u32 1000;\n" + decrease(24), increase(240));
  EXPECT_TRUE(result.diagnostics.empty()) << text_of(result);
}

TEST_F(RegisterCount, MoreThanThereIsIsADeadlock) {
  const machine::LaunchResult result = deal_out(decrease(40), increase(240));
  EXPECT_EQ(result.fault, machine::FaultKind::deadlock);
  expect_words(result, "deadlock",
               {"for 240 registers per thread (setmaxnreg.inc): its warp has 168, and", "warps 0-3 have 40 registers",
                "launched with 168 registers per thread in each of 12 warps, 2016 in all",
                "its warps now have or ask for 2080", "release more with setmaxnreg.dec, or ask for less"});
}

TEST_F(RegisterCount, EachBlockBeginsWithTheRegistersOfTheLaunch) {
  // The last block runs in the place of one that has ended; alone of all, it releases nothing.
  const machine::LaunchResult result =
      deal_out("mov.u32 %warp, %ctaid.x; setp.eq.u32 %q, %warp, 1999;\n@%q bra end;\n" + decrease(24), increase(240),
               ".maxnreg 168", 384, 2000);
  expect_words(result, "deadlock", {"block (1999,0,0)", "warp 0 has never executed setmaxnreg.dec"});
}

TEST_F(RegisterCount, NobodyReleasesIsADeadlock) {
  expect_words(
      deal_out("", increase(176)), "deadlock",
      {"warps 0-3 have 168 registers per thread each, as at the launch", "warp 0 has never executed setmaxnreg.dec"});
}

TEST_F(RegisterCount, LaunchBoundsSayHowManyPtxasWouldAllocate) {
  expect_words(deal_out("", increase(240), ".maxntid 384 .minnctapersm 1"), "deadlock",
               {"launched with 168 registers per thread in each of 12 warps, 2016 in all"});
  // No more than any setmaxnreg asks for: 104 of the 168 that there would be.
  EXPECT_TRUE(deal_out("", increase(104), ".reqntid 384 .minnctapersm 1").diagnostics.empty());
}

TEST_F(RegisterCount, HasNoEffectWithoutBoundsOfTheKernel) {
  // ptxas 13.0 ignores it then, with message C7508.
  for (const char* const bounds : {"", ".maxntid 384", ".minnctapersm 1"}) {
    const machine::LaunchResult result = deal_out("", increase(176), bounds);
    EXPECT_TRUE(result.diagnostics.empty()) << bounds << text_of(result);
  }
}

TEST_F(RegisterCount, TheWrongDirectionIsReported) {
  expect_words(deal_out(decrease(24), increase(160)), "setmaxnreg misuse",
               {"setmaxnreg.inc 160: the warp has 168 registers per thread, which is more", "use setmaxnreg.dec 160"});
  expect_words(deal_out(decrease(176), ""), "setmaxnreg misuse",
               {"setmaxnreg.dec 176: the warp has 168 registers per thread, which is fewer"});
}

TEST_F(RegisterCount, PartOfAWarpgroupIsReported) {
  expect_words(deal_out("setp.gt.u32 %q, %warp, 0;\n@%q bra end;\n" + decrease(24), ""), "setmaxnreg misuse",
               {"warp 0", "warp 1 of its warpgroup has exited without executing setmaxnreg.dec 24"});
}

TEST_F(RegisterCount, DifferentCountsInAWarpgroupAreReported) {
  const std::string body =
      "setp.gt.u32 %q, %warp, 2;\n@%q bra last;\n" + decrease(32) + "bra end;\nlast:\n" + decrease(24);
  expect_words(deal_out(body, ""), "setmaxnreg misuse", {"setmaxnreg.dec", "of its warpgroup executes setmaxnreg.dec"});
  // The same at two places is the same: nvcc may copy code.
  const std::string same =
      "setp.gt.u32 %q, %warp, 2;\n@%q bra last;\n" + decrease(24) + "bra end;\nlast:\n" + decrease(24);
  EXPECT_TRUE(deal_out(same, "").diagnostics.empty());
}

TEST_F(RegisterCount, ASecondOneBeforeTheOthersHaveComeIsReported) {
  const std::string late = "setp.lt.u32 %q, %warp, 3;\n@%q bra now;\nnanosleep.u32 100000;\nnow:\n";
  expect_words(deal_out(late + decrease(64) + decrease(24), ""), "setmaxnreg misuse",
               {"of its warpgroup has not executed the one before yet", "meet at a barrier"});
  EXPECT_TRUE(deal_out(late + decrease(64) + "bar.sync 1, 128;\n" + decrease(24), "").diagnostics.empty());
}

}  // namespace
}  // namespace stagecraft::emulator::checks
