// A grid that is stopped from outside says how far it has come.
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class ProgressTest : public KernelTest {
 protected:
  /// Block 0 counts in a register for ever, the others end.
  Kernel& compile_endless() {
    return compile_body("mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 ret; L: add.u32 %r2, %r2, 1; bra L;");
  }
};

TEST_F(ProgressTest, ALimitStopsALoopThatOnlyCounts) {
  for (const char* body :
       {"L: add.u32 %r2, %r2, 1; bra L;", "L: mov.u64 %rd5, %clock64; setp.ne.u64 %p1, %rd5, 0; @%p1 bra L;",
        "L: st.global.u32 [%out], 1; bra L;"}) {
    threads = 1;
    limit = 100000;
    const LaunchResult result = launch(compile_body(body), {1, 1, 1}, {32, 1, 1}, allocate<uint32_t>(1));
    EXPECT_EQ(result.fault, FaultKind::timeout) << body;
    EXPECT_TRUE(result.stopped && !result.interrupted);
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_EQ(result.diagnostics[0].kind, "limit");
    EXPECT_LT(result.cycles, 200000u);
  }
}

TEST_F(ProgressTest, SaysHowManyBlocksAreDoneAndWhereTheOthersAreOnAnyNumberOfThreads) {
  const Kernel& kernel = compile_endless();
  limit = 50000;
  std::vector<std::string> details;
  for (threads = 1; threads <= 3; ++threads) {
    const LaunchResult result = launch(kernel, {1000, 1, 1}, {64, 1, 1}, allocate<uint32_t>(1));
    ASSERT_EQ(result.diagnostics.size(), 1u);
    if (threads == 1) details = result.diagnostics[0].details;
    EXPECT_EQ(result.diagnostics[0].details, details);
  }
  ASSERT_GE(details.size(), 2u);
  EXPECT_EQ(details[0], "999 of 1000 blocks are done, 1 are running");
  EXPECT_TRUE(details[1].starts_with("2 warps at ") || details[1].starts_with("1 warp at ")) << details[1];
  EXPECT_TRUE(details[1].ends_with("of block (0, 0, 0)")) << details[1];
}

TEST_F(ProgressTest, AKernelWithinTheLimitIsLeftAlone) {
  threads = 2;
  limit = 100000;
  EXPECT_FALSE(launch(compile_body("mov.u32 %r1, 0;"), {8, 1, 1}, {32, 1, 1}, allocate<uint32_t>(1)).fault);
}

TEST_F(ProgressTest, AnInterruptStopsTheGrid) {
  const std::atomic<bool> wanted = true;
  interrupted = &wanted;
  threads = 1;
  const LaunchResult result = launch(compile_endless(), {4, 1, 1}, {32, 1, 1}, allocate<uint32_t>(1));
  EXPECT_TRUE(result.interrupted);
  ASSERT_EQ(result.diagnostics.size(), 1u);
  EXPECT_EQ(result.diagnostics[0].kind, "interrupted");
}

}  // namespace
}  // namespace stagecraft::emulator::machine
