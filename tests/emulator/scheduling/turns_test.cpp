// Lanes that take different paths meet where the paths join, whatever the text's order, the seed and the length of a
// turn; lanes that wait in a loop let the others go on.
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class TurnsTest : public KernelTest {
 protected:
  /// Runs a warp for which `body` stores 32 words at %out + 4 * lane (in %rd1) and has the lane in %r1, with 13 seeds.
  void expect_words(const std::string& body, uint32_t expected) {
    const Kernel& kernel = compile_body("mov.u32 %r1, %tid.x; mad.wide.u32 %rd1, %r1, 4, %out;\n" + body,
                                        ".shared .align 4 .b8 cell[256];");
    for (seed = 0; seed <= 12; ++seed) {
      const uint64_t out = allocate<uint32_t>(64);
      const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, out);
      EXPECT_FALSE(result.fault) << "seed " << seed << ": " << message_of(result);
      EXPECT_EQ(read<uint32_t>(out, 32), std::vector<uint32_t>(32, expected)) << "seed " << seed;
    }
  }
};

const std::string kNoteActiveLanes = "activemask.b32 %r9; st.global.u32 [%rd1], %r9;\n";
/// A loop of so many turns, of four instructions each.
std::string loop(const std::string& label, uint32_t turns) {
  return fmt::format(
      "mov.u32 %r5, 0;\n{0}: add.u32 %r5, %r5, 1; mad.lo.u32 %r6, %r5, %r5, 7; setp.lt.u32 %p5, %r5, {1};\n@%p5 bra "
      "{0};\n",
      label, turns);
}

TEST_F(TurnsTest, LanesWaitAtTheEndOfALongSide) {
  expect_words("setp.gt.u32 %p1, %r1, 3; @%p1 bra JOIN;\n" + loop("L", 20000) + "JOIN:\n" + kNoteActiveLanes, ~0u);
}

TEST_F(TurnsTest, LanesWaitForASideThatTheTextHasAfterTheJoin) {
  expect_words("setp.gt.u32 %p1, %r1, 3; @!%p1 bra FAR;\nJOIN:\n" + kNoteActiveLanes + "ret;\nFAR:\n" + loop("L", 500) +
                   "bra JOIN;\n",
               ~0u);
}

TEST_F(TurnsTest, LanesThatLeaveALoopEarlyWaitForTheOthers) {
  // Each lane adds in as many turns as its number says, and the loop's test comes first in the text.
  expect_words(R"(
    mov.u32 %r2, 0; bra TEST;
    DONE: )" + kNoteActiveLanes +
                   R"(ret;
    TEST: setp.ge.u32 %p1, %r2, %r1; @%p1 bra DONE; add.u32 %r2, %r2, 1; bra TEST;)",
               ~0u);
}

TEST_F(TurnsTest, VolatileReadsInALoopOfFixedLengthLetNobodyOvertake) {
  expect_words(R"(
    setp.gt.u32 %p1, %r1, 3; @%p1 bra JOIN; mov.u32 %r2, 0;
    L: ld.volatile.shared.u32 %r3, [cell]; add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 3000; @%p2 bra L;
    JOIN: )" + kNoteActiveLanes,
               ~0u);
}

TEST_F(TurnsTest, LanesAfterALoopOvertakeThoseThatPollInIt) {
  // Lane 3 sets the flag after the loop in which the lanes from 8 on wait for it.
  expect_words(R"(
    st.shared.u32 [cell], 0; setp.lt.u32 %p1, %r1, 8; @%p1 bra JOIN;
    L: ld.volatile.shared.u32 %r3, [cell]; setp.eq.u32 %p2, %r3, 0; @%p2 bra L;
    JOIN: setp.eq.u32 %p3, %r1, 3; @%p3 st.volatile.shared.u32 [cell], 1; mov.u32 %r4, 5; st.global.u32 [%rd1], %r4;)",
               5);
}

TEST_F(TurnsTest, LanesAfterALoopOvertakeThoseThatPollWithPlainLoads) {
  // No instruction says that the loop waits for other lanes; the program still ends.
  expect_words(R"(
    st.shared.u32 [cell], 0; setp.lt.u32 %p1, %r1, 8; @%p1 bra JOIN;
    L: ld.shared.u32 %r3, [cell]; setp.eq.u32 %p2, %r3, 0; @%p2 bra L;
    JOIN: setp.eq.u32 %p3, %r1, 3; @%p3 st.shared.u32 [cell], 1; mov.u32 %r4, 5; st.global.u32 [%rd1], %r4;)",
               5);
}

TEST_F(TurnsTest, LanesThatSleepUntilTheOtherSideIsDoneMeetIt) {
  // They come first in the text, but would be overtaken in their sleep.
  expect_words(R"(
    st.shared.u32 [cell], 0; bar.warp.sync 0xffffffff; setp.eq.u32 %p1, %r1, 3; @%p1 bra SETS;
    ld.volatile.shared.u32 %r3, [cell]; setp.ne.u32 %p2, %r3, 0; @%p2 bra JOIN;
    L: nanosleep.u32 100; ld.volatile.shared.u32 %r3, [cell]; setp.eq.u32 %p2, %r3, 0; @%p2 bra L;
    bra JOIN;
    SETS: )" + loop("M", 200) +
                   "st.volatile.shared.u32 [cell], 1;\nJOIN: " + kNoteActiveLanes,
               ~0u);
}

TEST_F(TurnsTest, LanesThatWaitWithFencesFindWhatTheOtherSideDid) {
  // They would give up after 1000 turns, which they have before others overtake them; in a loop around both sides.
  expect_words(R"(
    st.shared.u32 [cell], 0; bar.warp.sync 0xffffffff; mov.u32 %r7, 1; mov.u32 %r8, 0; setp.eq.u32 %p1, %r1, 3;
    AGAIN: @%p1 bra SETS; mov.u32 %r4, 0;
    L: ld.shared.u32 %r3, [cell]; setp.ge.u32 %p2, %r3, %r7; @%p2 bra SEEN;
    membar.cta; add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, 1000; @%p2 bra L;
    SEEN: add.u32 %r8, %r8, %r4; bra JOIN;
    SETS: )" + loop("M", 200) +
                   R"(st.volatile.shared.u32 [cell], %r7;
    JOIN: add.u32 %r7, %r7, 1; setp.le.u32 %p3, %r7, 5; @%p3 bra AGAIN; st.global.u32 [%rd1], %r8;)",
               0);
}

TEST_F(TurnsTest, EachLaneGetsALockOnceItsOwnerIsDone) {
  expect_words(R"(
    st.shared.u32 [cell], 0; st.shared.u32 [cell+4], 0; bar.warp.sync 0xffffffff;
    L: atom.shared.cas.b32 %r3, [cell], 0, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra L;
    ld.volatile.shared.u32 %r4, [cell+4]; add.u32 %r4, %r4, 1; st.volatile.shared.u32 [cell+4], %r4;
    atom.shared.exch.b32 %r3, [cell], 0;
    bar.warp.sync 0xffffffff; ld.shared.u32 %r4, [cell+4]; st.global.u32 [%rd1], %r4;)",
               32);
}

TEST_F(TurnsTest, WhetherALoopPollsIsKnownAcrossBranchesAndCalls) {
  const std::string text = R"(
    .func (.param .b32 result) poll(.param .b64 address) {
      .reg .b64 %a; .reg .b32 %v; ld.param.u64 %a, [address]; ld.volatile.u32 %v, [%a]; st.param.b32 [result], %v; ret; }
    .visible .entry k(.param .u64 k_out) {
      .reg .b64 %out; .reg .b32 %r<9>; .reg .pred %p<9>; ld.param.u64 %out, [k_out];
      mov.u32 %r1, 0;
      FIXED: ld.volatile.u32 %r2, [%out]; setp.eq.u32 %p1, %r2, 7; @%p1 bra SKIP; add.u32 %r3, %r3, 1;
      SKIP: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 9; @%p2 bra FIXED;
      FLAGGED: ld.volatile.u32 %r2, [%out]; setp.ne.u32 %p1, %r2, 7; @%p1 bra REST; mov.u32 %r4, 1;
      REST: setp.eq.u32 %p2, %r4, 0; @%p2 bra FLAGGED;
      CALLED: { .param .b64 a; .param .b32 b; st.param.b64 [a], %out; call.uni (b), poll, (a); ld.param.b32 %r5, [b]; }
      setp.eq.u32 %p2, %r5, 0; @%p2 bra CALLED;
      ret; })";
  const Kernel& kernel = compile(text);
  std::vector<LoopHead> heads;
  for (const OrderedPlace& place : kernel.order) {
    if (place.head != LoopHead::none) heads.push_back(place.head);
  }
  EXPECT_EQ(heads, (std::vector<LoopHead>{LoopHead::computes, LoopHead::polls, LoopHead::polls}));
}

}  // namespace
}  // namespace stagecraft::emulator::machine
