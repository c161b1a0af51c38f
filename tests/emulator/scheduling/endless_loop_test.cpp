// Loops that can never end are found, and those that can end are not reported.
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class EndlessLoopTest : public KernelTest {
 protected:
  LaunchResult run(const std::string& body, uint32_t threads = 32, uint32_t blocks = 1) {
    flag = allocate<uint32_t>(64);
    return launch(compile_body(body, ".shared .align 16 .b64 bar[8]; .shared .align 4 .b8 cell[64];"), {blocks, 1, 1},
                  {threads, 1, 1}, flag);
  }
  void expect_endless(const std::string& body, uint32_t threads = 32, uint32_t blocks = 1) {
    for (const uint64_t each : {0, 1, 2}) {
      seed = each;
      const LaunchResult result = run(body, threads, blocks);
      EXPECT_EQ(result.fault, FaultKind::deadlock) << "seed " << seed;
      ASSERT_EQ(result.diagnostics.size(), 1u) << "seed " << seed;
      EXPECT_EQ(result.diagnostics[0].kind, "endless loop") << "seed " << seed;
    }
  }
  void expect_end(const std::string& body, uint32_t threads = 32, uint32_t blocks = 1) {
    for (const uint64_t each : {0, 1, 2}) {
      seed = each;
      const LaunchResult result = run(body, threads, blocks);
      EXPECT_FALSE(result.fault) << "seed " << seed << ": " << message_of(result);
    }
  }
  uint64_t flag = 0;
};

const std::string kInit = R"(
    mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.u32 %p0, %r1, 0; setp.eq.u32 %p5, %r2, 0;
    @%p0 mbarrier.init.shared.b64 [bar], 1; @%p0 mbarrier.init.shared.b64 [bar+8], 1;
    @%p0 st.shared.u32 [cell], 0; bar.sync 0;
)";
std::string test(uint32_t barrier) {
  return fmt::format("mbarrier.test_wait.parity.shared.b64 %p1, [bar+{}], 0; ", 8 * barrier);
}
const std::string kEitherBarrier = "L: " + test(0) + "@%p1 bra END; " + test(1) + "@!%p1 bra L; END:\n";
/// Warp 1 computes for a long time, or sleeps, before it goes on.
const std::string kCompute = "mov.u32 %r5, 0; C: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 1000000; @%p2 bra C;\n";
const std::string kSleepLong = "nanosleep.u32 1000000;\n";
const std::string kSleepOften =
    "mov.u32 %r5, 0; C: nanosleep.u32 20; add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 20000; @%p2 bra C;\n";

TEST_F(EndlessLoopTest, APollOfOneBarrierSleepsAndIsADeadlock) {
  const LaunchResult result = run(kInit + "L: " + test(0) + "@!%p1 bra L;");
  EXPECT_EQ(result.fault, FaultKind::deadlock);
  EXPECT_EQ(message_of(result), "waits for bar[0] to complete phase 0 (the phase of parity 0)");
}

TEST_F(EndlessLoopTest, FindsAPollOfTwoBarriers) {
  expect_endless(kInit + kEitherBarrier);
  expect_endless(kInit + kEitherBarrier, 256);
  expect_endless(kInit + R"(
    L: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @%p1 bra END;
    mbarrier.try_wait.parity.shared.b64 %p1, [bar+8], 0; @!%p1 bra L; END:)");
}

TEST_F(EndlessLoopTest, FindsAPollOfAFlagThatNobodySets) {
  expect_endless("L: ld.global.u32 %r3, [%out]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;");
  expect_endless("L: ld.acquire.gpu.global.u32 %r3, [%out]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;", 128, 2);
  expect_endless(kInit + "L: ld.volatile.shared.u32 %r3, [cell]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;", 64);
  expect_endless("L: bra L;");
}

TEST_F(EndlessLoopTest, FindsAPollThatSleepsInBetween) {
  expect_endless("L: nanosleep.u32 100; ld.volatile.global.u32 %r3, [%out]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;", 64);
}

TEST_F(EndlessLoopTest, FindsAPollByAtomicsThatChangeNothing) {
  expect_endless("L: atom.global.add.u32 %r3, [%out], 0; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;");
  // The lock is never released: one lane gets it, and the others try for ever.
  expect_endless("L: atom.global.cas.b32 %r3, [%out], 0, 1; setp.ne.u32 %p1, %r3, 0; @%p1 bra L;");
}

TEST_F(EndlessLoopTest, FindsAPollWithASyncthreads) {
  expect_endless("L: bar.sync 0; ld.volatile.global.u32 %r3, [%out]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;", 96);
}

TEST_F(EndlessLoopTest, FindsBlocksThatWaitForEachOtherInVain) {
  // Each of 200 blocks waits until all have come, but the chip does not have room for all of them.
  const std::string body = R"(
    mov.u32 %r1, %tid.x; setp.ne.u32 %p0, %r1, 0; @%p0 bra L; red.global.add.u32 [%out], 1;
    L: ld.volatile.global.u32 %r3, [%out]; setp.lt.u32 %p1, %r3, 200; @%p1 bra L;)";
  dynamic_shared_bytes = 200 * 1024;
  const LaunchResult result = run(body, 32, 200);
  EXPECT_EQ(result.fault, FaultKind::deadlock);
  EXPECT_EQ(result.diagnostics.at(0).kind, "endless loop");
  dynamic_shared_bytes = 0;
  EXPECT_FALSE(run(body, 32, 200).fault);
}

TEST_F(EndlessLoopTest, TellsWhoLoopsAndWhoWaits) {
  // Warp 0 waits at the barrier, 1 and 2 loop.
  const LaunchResult result = run(kInit +
                                      "@%p5 bra END; L: ld.volatile.shared.u32 %r3, [cell]; "
                                      "setp.eq.u32 %p1, %r3, 0; @%p1 bra L; END: bar.sync 0;",
                                  96);
  ASSERT_EQ(result.diagnostics.size(), 1u);
  const Diagnostic& finding = result.diagnostics[0];
  EXPECT_EQ(finding.kind, "endless loop");
  EXPECT_EQ(finding.place.warp, 1u);
  ASSERT_EQ(finding.details.size(), 3u);
  EXPECT_EQ(finding.details[0], "so does block (0,0,0) warp 2");
  EXPECT_EQ(finding.details[1],
            "block (0,0,0) warp 0 [all lanes] waits at barrier 0, where 32 of all living threads have arrived");
}

TEST_F(EndlessLoopTest, LeavesALongLoopAlone) {
  expect_end(kCompute);
  // Loops that count in memory, global or local.
  expect_end(R"(L: ld.global.u32 %r3, [%out]; add.u32 %r3, %r3, 1; st.global.u32 [%out], %r3;
    setp.lt.u32 %p1, %r3, 300000; mov.u32 %r3, 0; @%p1 bra L;)");
  expect_end(R"(.local .align 4 .b8 own[4]; st.local.u32 [own], 0;
    L: ld.local.u32 %r3, [own]; add.u32 %r3, %r3, 1; st.local.u32 [own], %r3;
    setp.lt.u32 %p1, %r3, 300000; mov.u32 %r3, 0; @%p1 bra L;)");
  // A loop that waits for the clock and keeps no value of it.
  expect_end(R"(L: mov.u32 %r3, %clock; shr.u32 %r3, %r3, 20; setp.eq.u32 %p1, %r3, 0; mov.u32 %r3, 0; @%p1 bra L;)");
}

TEST_F(EndlessLoopTest, LeavesAPollOfAFlagAloneThatAnotherWarpSetsLate) {
  for (const std::string& late : {kCompute, kSleepLong, kSleepOften}) {
    const std::string set_cell = "@%p5 bra POLL;\n" + late + "st.shared.u32 [cell], 1; bra END;\n";
    expect_end(
        kInit + set_cell + "POLL: ld.volatile.shared.u32 %r3, [cell]; setp.eq.u32 %p1, %r3, 0; @%p1 bra POLL; END:",
        64);
    const std::string arrive =
        "@%p5 bra L;\nsetp.eq.u32 %p6, %r1, 32;\n" + late + "@%p6 mbarrier.arrive.shared.b64 _, [bar+8]; bra END;\n";
    expect_end(kInit + arrive + kEitherBarrier, 64);
  }
}

TEST_F(EndlessLoopTest, LeavesAPollOfAFlagAloneThatAnotherBlockSetsLate) {
  const std::string poll = "POLL: ld.acquire.gpu.global.u32 %r3, [%out]; setp.eq.u32 %p1, %r3, 0; @%p1 bra POLL; END:";
  for (const std::string& late : {kCompute, kSleepLong, kSleepOften}) {
    const std::string body = "mov.u32 %r1, %ctaid.x; setp.ne.u32 %p5, %r1, 3; @%p5 bra POLL;\n" + late +
                             "st.release.gpu.global.u32 [%out], 1; bra END;\n" + poll;
    expect_end(body, 64, 4);
  }
}

TEST_F(EndlessLoopTest, LeavesAPollAloneThatACopyWillEnd) {
  expect_end(kInit + R"(
    @!%p0 bra L;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 64;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [bar+16], [%out], 16, [bar+8];
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [bar+16], [%out], 48, [bar+8];
    )" + kEitherBarrier);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
