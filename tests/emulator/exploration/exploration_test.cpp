// Mistakes that the default schedule hides are found in others, shrunk and replayed; right kernels are explored in
// silence.
#include "emulator/exploration/exploration.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "emulator/runtime/model/settings.hpp"
#include "exploration_fixture.hpp"

namespace stagecraft::emulator::exploration {
namespace {

TEST(ExplorationSettingsTest, AllInterleavingsNeedWhatKernelsDoToMemoryAlsoWithoutItsChecks) {
  runtime::Settings settings;
  settings.checks.race = false;
  EXPECT_FALSE(settings.observes_memory());
  settings.exhaust = 10;
  EXPECT_TRUE(settings.observes_memory());
}

/// Warp 0 ends two phases, and nothing makes it wait until warp 1 has seen the first.
/// @param between, after  what the warps do between the phases, and after the wait
std::string missed_phase(const std::string& between = "", const std::string& after = "") {
  return kInit + "@!%p2 bra WAITER;\n" + work(3000) + "@%p1 mbarrier.arrive.shared.b64 _, [bar];\n" + between +
         work(3000) + "@%p1 mbarrier.arrive.shared.b64 _, [bar];\nbra END;\nWAITER:\n" + wait("bar", 0) + "\n" + after +
         "END:\n";
}

TEST_F(ExplorationTest, AWaiterThatMissesAPhaseWaitsForEver) {
  expect_found(missed_phase(), {64}, 20, "deadlock", 1);
  expect_refuted(missed_phase(), {64}, "deadlock");
}

// The default schedule shows a race of what the wait should order; that a phase is missed in others is no mistake of
// its own.
TEST_F(ExplorationTest, WhatFollowsFromTheDefaultSchedulesMistakeIsLeftForItsReport) {
  EXPECT_TRUE(explore(missed_phase("@%p1 st.shared.u32 [tile], 1;\n", "st.shared.u32 [tile], 2;\n"), {64}, 20).empty());
  const std::vector<Diagnostic> following = exploration_.take_consequences();
  ASSERT_EQ(following.size(), 1u) << exploration_.text();
  EXPECT_EQ(following[0].kind, "deadlock") << render_text(following[0]);
  schedule_of(following[0]);
  EXPECT_TRUE(exploration_.text().ends_with("all that they show follows from what the default schedule shows"));
  EXPECT_TRUE(exploration_.take_consequences().empty());
}

TEST_F(ExplorationTest, ATryWaitThatAnswersFalseMustBeRepeated) {
  expect_found(kInit + R"(
    @!%p2 bra READER;
    st.shared.u32 [%own], 1;
    bar.warp.sync 0xffffffff;
    @%p1 mbarrier.arrive.shared.b64 _, [bar];
    bra END;
    READER:
    mbarrier.try_wait.parity.shared.b64 %p14, [bar], 0;
    @%p14 st.shared.u32 [%own], 2;  // the answer is used, and nothing waits
    ld.shared.u32 %r1, [%own+-128];
    END:)",
               {64}, 20, "race", 2);
}

TEST_F(ExplorationTest, LanesNeedNotMeetAfterABranch) {
  // One lane of those that happen to be here arrives for the warp.
  lanes = true;
  expect_found(kInit + R"(
    @!%p2 bra END;
    @%p1 mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 16;
    bar.warp.sync 0xffffffff;
    setp.lt.u32 %p4, %lane, 4;
    @%p4 bra SOME;
    mov.u32 %r1, 5;
    bra JOIN;
    SOME: mov.u32 %r1, 7;
    JOIN: activemask.b32 %r2;
    brev.b32 %r3, %r2; clz.b32 %r3, %r3; setp.eq.u32 %p5, %r3, %lane;
    @%p5 mbarrier.arrive.shared.b64 _, [bar];
    bar.warp.sync 0xffffffff;
    @%p1 mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 16;
    END:)" + wait("bar", 0),
               {64}, 40, "barrier misuse", 1);
}

TEST_F(ExplorationTest, TwoCopiesMayCompleteInAnyOrder) {
  // The bytes of the second copy are announced for the phase after the first one's.
  const std::string body = kInit + R"(
    @!%first bra END;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%out], 16, [bar];
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+128], [%out+128], 64, [bar];)" +
                           wait("bar", 0) + "\n mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n" + wait("bar", 1) +
                           "\nEND:\n";
  expect_found(body, {64}, 60, "deadlock", 2);
  expect_refuted(body, {64}, "deadlock");
}

TEST_F(ExplorationTest, WhatFollowsAnArrivalMayComeLate) {
  checks_memory = false;
  // Warp 1, which the arrival wakes, uses a barrier that warp 0 initialises after it.
  const std::string body = kInit + R"(
    @!%p2 bra WOKEN;
    @%p1 mbarrier.arrive.shared.b64 _, [bar];
    @%p1 mbarrier.init.shared.b64 [bar+32], 1;
    bra END;
    WOKEN:)" + wait("bar", 0) +
                           R"(
    @%p1 mbarrier.arrive.shared.b64 _, [bar+32];
    END:)";
  expect_found(body, {64}, 20, "barrier misuse", 1);
  expect_refuted(body, {64}, "barrier misuse");
}

TEST_F(ExplorationTest, TwoPairsOfWarpsNeedTwoBarriers) {
  const std::string body = R"(
    setp.ge.u32 %p1, %warp, 2;
    @!%p1 bra FIRST;
    )" + work(3000) +
                           R"(
    FIRST:
    st.shared.u32 [%own], 1;
    bar.sync 1, 64;
    mov.u32 %r1, tile; xor.b32 %r2, %thread, 32; mad.lo.u32 %r1, %r2, 4, %r1;
    ld.shared.u32 %r3, [%r1];)";
  expect_found(body, {128}, 20, "race", 1);
  expect_refuted(body, {128}, "race");
}

TEST_F(ExplorationTest, ARemoteBarrierMustBeInitialisedFirst) {
  checks_memory = false;
  const std::string body = R"(
    setp.eq.u32 %p1, %rank, 0;
    @%p1 bra ARRIVES;
    @%first mbarrier.init.shared.b64 [bar], 1;
    )" + wait("bar", 0) +
                           R"(
    bra END;
    ARRIVES:
    )" + work(3000) +
                           R"(
    mov.u32 %r1, bar; mov.u32 %r2, 1; mapa.shared::cluster.u32 %r3, %r1, %r2;
    @%first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
    END:)";
  expect_found(body, {32, 2, 2}, 20, "barrier misuse", 1);
  expect_refuted(body, {32, 2, 2}, "barrier misuse");
}

TEST_F(ExplorationTest, ABlockMustNotExitBeforeTheLastArrivalFromAnother) {
  checks_memory = false;
  const std::string body = R"(
    @%first mbarrier.init.shared.b64 [bar], 1;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    setp.eq.u32 %p1, %rank, 0;
    @%p1 bra ARRIVES;
    )" + work(3000) +
                           R"(
    bra END;
    ARRIVES:
    mov.u32 %r1, bar; mov.u32 %r2, 1; mapa.shared::cluster.u32 %r3, %r1, %r2;
    @%first mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
    END:)";
  expect_found(body, {32, 2, 2}, 20, "illegal address", 1);
  expect_refuted(body, {32, 2, 2}, "illegal address");
}

TEST_F(ExplorationTest, TwoLocksMustBeTakenInOneOrder) {
  const auto take = [](const char* label, const char* lock) {
    return fmt::format("{0}: atom.shared.cas.b32 %r3, [{1}], 0, 1; setp.ne.u32 %p7, %r3, 0; @%p7 bra {0};\n", label,
                       lock);
  };
  const std::string give = "atom.shared.exch.b32 %r4, [tile+128], 0; atom.shared.exch.b32 %r4, [tile], 0;\n";
  expect_found(
      "@%first st.shared.u32 [tile], 0; @%first st.shared.u32 [tile+128], 0; bar.sync 0;\n"
      "setp.ne.u32 %p1, %lane, 0; @%p1 bra END; setp.eq.u32 %p2, %warp, 0; @!%p2 bra OTHER;\n" +
          take("A", "tile") + take("B", "tile+128") + give + "bra END;\nOTHER:\n" + work(3000) + take("C", "tile+128") +
          take("D", "tile") + give + "END:\n",
      {64}, 60, "endless loop", 2);
}

TEST_F(ExplorationTest, ARingThatIsRightIsExploredInSilence) {
  expect_right(ring("mbarrier.arrive.shared.b64 _,"), {64}, 400);
}

TEST_F(ExplorationTest, LocksAndExchangesThatAreRightAreExploredInSilence) {
  expect_right(R"(
    st.shared.u32 [%own], 0; bar.sync 0;
    setp.ne.u32 %p1, %lane, 0; @%p1 bra JOIN;
    L: atom.acquire.cta.shared.cas.b32 %r3, [tile], 0, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra L;
    ld.shared.u32 %r4, [tile+4]; add.u32 %r4, %r4, 1; st.shared.u32 [tile+4], %r4;
    atom.release.cta.shared.exch.b32 %r3, [tile], 0;
    JOIN: bar.warp.sync 0xffffffff;
    mov.u32 %r6, 0; shfl.sync.idx.b32 %r5, %thread, 3, 31, 0xffffffff;
    bar.sync 0;
    ld.shared.u32 %r4, [tile+4];)",
               {128}, 200);
}

TEST_F(ExplorationTest, TheSameSchedulesAreExploredWithOneThreadAndWithSeveral) {
  const std::string body = missed_phase();
  const std::vector<Diagnostic> one = explore(body, {64}, 30);
  const std::string text = exploration_.text();
  exploration_ = {};
  threads = 3;
  const std::vector<Diagnostic> several = explore(body, {64}, 30);
  ASSERT_EQ(one.size(), several.size());
  EXPECT_EQ(one[0].details, several[0].details);
  EXPECT_EQ(exploration_.text(), text);
}

TEST_F(ExplorationTest, AnExplorationLeavesMemoryAsItWas) {
  const std::string body =
      "mul.wide.u32 %rd1, %thread, 4; add.u64 %rd1, %rd1, %out; ld.global.u32 %r1, [%rd1];\n"
      "add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; bar.sync 0;\n";
  uint64_t out = 0;
  prepare = [&](uint64_t address) { out = address; };
  expect_right(body, {64}, 20);
  EXPECT_EQ(read<uint32_t>(out, 64), std::vector<uint32_t>(64, 0));
}

TEST_F(ExplorationTest, AnInterruptionOfThisProcessAloneEndsTheScheduleThatRuns) {
  std::atomic<bool> interrupted = false;
  std::jthread user([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    interrupted = true;
  });
  const machine::LaunchRequest request = request_of("LOOP: add.u32 %r5, %r5, 1; bra LOOP;", {32}, seed);
  EXPECT_FALSE(exploration_.explore({.machine = machine,
                                     .request = request,
                                     .schedules = 20,
                                     .observers = [this] { return make_checks(); },
                                     .interrupted = &interrupted}));
  EXPECT_EQ(said(), "explored 0 schedules before the interruption: nothing found");
}

TEST_F(ExplorationTest, AMistakeOfTheDefaultScheduleIsNotNothing) {
  EXPECT_TRUE(explore("st.shared.u32 [tile], %thread;\n", {64}, 20).empty());
  EXPECT_EQ(said(),
            "explored 20 schedules: nothing more than the default schedule shows, which is reported with its launch");
}

TEST_F(ExplorationTest, ALaunchThatTheDefaultScheduleStopsIsNotExplored) {
  EXPECT_TRUE(explore("trap;", {32}, 20).empty());
  EXPECT_EQ(exploration_.text(), "explored no schedule; 1 launch is stopped by the default schedule already");
}

}  // namespace
}  // namespace stagecraft::emulator::exploration
