// All interleavings of a launch prove it, or show what is wrong with it; loops that wait are no exception.
#include <sys/mman.h>

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "emulator/exploration/decided_run.hpp"
#include "exploration_fixture.hpp"

namespace stagecraft::emulator::exploration {
namespace {

TEST_F(ExplorationTest, ARingOfTwoStagesIsProved) {
  expect_proved(ring("mbarrier.arrive.shared.b64 _,"), {64}, "1 interleaving");
}

TEST_F(ExplorationTest, AQuestionRightAfterABarrierMayComeFirst) {
  checks_memory = false;
  // Warp 1 asks in the step in which it passes the barrier of the block.
  expect_refuted(kInit + R"(
    @!%p2 bra ASKS;
    bar.sync 0;
    @%p1 mbarrier.arrive.shared.b64 _, [bar];
    bra END;
    ASKS:
    bar.sync 0;
    mbarrier.test_wait.parity.shared.b64 %p14, [bar], 0;
    @!%p14 mbarrier.arrive.shared.b64 _, [bar+32];  // which is no barrier
    END:)",
                 {64}, "barrier misuse");
}

/// Warp 0 asks in a loop until warp 1 has answered.
std::string ask_in_a_loop(const std::string& ask, const std::string& answer) {
  return "@%first st.shared.u32 [tile], 0;" + kInit + "@!%p2 bra ANSWERS;\nASK: " + ask +
         "\n@!%p14 bra ASK;\nbra END;\nANSWERS: " + answer + "\nEND:\n";
}

TEST_F(ExplorationTest, ALoopThatAsksABarrierIsProved) {
  expect_proved(ask_in_a_loop("mbarrier.test_wait.parity.shared.b64 %p14, [bar], 0;",
                              "@%p1 mbarrier.arrive.shared.b64 _, [bar];"),
                {64}, "3 interleavings");
}

TEST_F(ExplorationTest, ALoopThatReadsAFlagIsProved) {
  expect_proved(ask_in_a_loop("ld.acquire.cta.shared.u32 %r3, [tile]; setp.ne.u32 %p14, %r3, 0;",
                              "@%p1 st.release.cta.shared.u32 [tile], 1;"),
                {64}, "2 interleavings");
}

TEST_F(ExplorationTest, ALoopThatCountsWhatItReadsIsNotProved) {
  interleavings = 10'000;
  const std::string body =
      ask_in_a_loop("ld.acquire.cta.shared.u32 %r3, [tile]; setp.ne.u32 %p14, %r3, 0; add.u32 %r7, %r7, 1;",
                    "@%p1 st.release.cta.shared.u32 [tile], 1;");
  EXPECT_TRUE(explore(body, {64}, 0).empty());
  EXPECT_EQ(said(), "2 interleavings explored without a finding; not all: 1 launch has more");
}

TEST_F(ExplorationTest, AFlagThatIsSetAndTakenBackMayBeMissed) {
  expect_refuted(ask_in_a_loop("ld.acquire.cta.shared.u32 %r3, [tile]; setp.ne.u32 %p14, %r3, 0;",
                               "@%p1 st.release.cta.shared.u32 [tile], 1;\n" + work(3000) +
                                   "@%p1 st.release.cta.shared.u32 [tile], 0;"),
                 {64}, "endless loop");
}

TEST_F(ExplorationTest, ALoopThatHelpsOthersIsNoIdleOne) {
  // Warp 0 meets warp 1 at two barriers in each repetition; warp 1 sets the flag behind its first one.
  expect_proved(kInit + R"(
    @%first st.shared.u32 [tile], 0; bar.sync 0;
    @!%p2 bra SETS;
    L: bar.sync 1, 64; ld.acquire.cta.shared.u32 %r3, [tile]; bar.sync 1, 64;
    setp.eq.u32 %p14, %r3, 0; @%p14 bra L; bra END;
    SETS: bar.sync 1, 64; bar.sync 1, 64; @%p1 st.release.cta.shared.u32 [tile], 1;
    bar.warp.sync 0xffffffff; bar.sync 1, 64; bar.sync 1, 64;
    END:)",
                {64}, "1 interleaving");
}

TEST_F(ExplorationTest, ALockIsProved) {
  expect_proved(R"(
    @%first st.shared.u32 [tile], 0; @%first st.shared.u32 [tile+4], 0; bar.sync 0;
    setp.ne.u32 %p1, %lane, 0; @%p1 bra END;
    L: atom.acquire.cta.shared.cas.b32 %r3, [tile], 0, 1; setp.ne.u32 %p2, %r3, 0; @%p2 bra L;
    ld.shared.u32 %r4, [tile+4]; add.u32 %r4, %r4, 1; st.shared.u32 [tile+4], %r4;
    atom.release.cta.shared.exch.b32 %r3, [tile], 0;
    END:)",
                {96}, "78 interleavings");
}

/// Two blocks meet at a counter in global memory, twice. The second one comes late.
std::string meet_at_a_counter(const std::string& compare) {
  std::string body = "@!%first bra END; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p7, %r8, 1;\n";
  for (int round = 1; round <= 2; ++round) {
    body += "@%p7 nanosleep.u32 100000;\n";
    body += "atom.acq_rel.gpu.global.add.u32 %r1, [%out], 1;\n";
    body += fmt::format("L{0}: ld.acquire.gpu.global.u32 %r3, [%out]; setp.{1}.u32 %p14, %r3, {2}; @%p14 bra L{0};\n",
                        round, compare, 2 * round);
  }
  return body + "END:\n";
}

TEST_F(ExplorationTest, BlocksThatMeetAtACounterAreProved) {
  interleavings = 10'000;
  EXPECT_TRUE(explore(meet_at_a_counter("lt"), {32, 2}, 0).empty());
  EXPECT_TRUE(exploration_.text().starts_with("all ")) << exploration_.text();
}

TEST_F(ExplorationTest, ABlockMayMissTheCountAtWhichAllHaveCome) {
  interleavings = 10'000;
  const std::vector<Diagnostic> reported = explore(meet_at_a_counter("ne"), {32, 2}, 0);
  ASSERT_FALSE(reported.empty()) << exploration_.text();
  EXPECT_EQ(reported[0].kind, "endless loop") << render_text(reported[0]);
}

TEST_F(ExplorationTest, WhatIsFoundBeforeARunIsCutOffIsReported) {
  // Warp 0 writes what warp 1 has written, as long as the flag is not set.
  std::string body = ask_in_a_loop(
      "ld.acquire.cta.shared.u32 %r3, [tile]; setp.ne.u32 %p14, %r3, 0; @!%p14 st.shared.u32 [%own+128], 7;",
      "st.shared.u32 [%own], 5; bar.warp.sync 0xffffffff; @%p1 st.release.cta.shared.u32 [tile], 1;");
  body.insert(body.find("ASK: "), work(3000) + "\n");
  expect_refuted(body, {64}, "race");
}

TEST_F(ExplorationTest, ARunThatCannotRepeatItsPrefixSaysSo) {
  request_ = request_of("bar.sync 0;", {64}, seed);
  for (const Actor actor : {Actor{1}, Actor{0}}) {  // 1 is nobody, 0 the first warp
    DecidedRun run({{actor}, {}}, 1000);
    request_.choices = &run;
    machine.launch(request_, {}, [](std::string_view) {}, {[this] { return make_checks(); }, 1});
    EXPECT_EQ(run.has_diverged(), actor == 1);
    EXPECT_FALSE(run.is_redundant());
  }
}

TEST_F(ExplorationTest, WarpsOfClustersOfAnyShapeAreDifferentActors) {
  request_ = request_of("bar.sync 0;", {32, 4, 2}, seed);
  request_.grid = {2, 2, 1};
  request_.cluster = {1, 2, 1};
  DecidedRun run({}, 1000);
  request_.choices = &run;
  machine.launch(request_, {}, [](std::string_view) {}, {[this] { return make_checks(); }, 1});
  std::set<Actor> actors;
  for (const Step& step : run.trace()) actors.insert(step.actor);
  EXPECT_EQ(actors.size(), 4u);
}

/// What all interleavings leave as it is: after "not varied: ".
TEST_F(ExplorationTest, OnlyWhatVariesIsCalledProved) {
  const auto not_varied = [&](const std::string& body, Shape shape) {
    exploration_ = {};
    interleavings = 10'000;
    EXPECT_TRUE(explore(body, shape, 0).empty());
    const std::string text = exploration_.text();
    const size_t at = text.find("not varied: ");
    EXPECT_EQ(at == std::string::npos, text.find("of the synchronisation") == std::string::npos) << text;
    return at == std::string::npos ? std::string() : text.substr(at + 12);
  };
  const std::string handover =
      "@%first mbarrier.init.shared.b64 [bar], 64;\nbar.sync 0;\nmbarrier.arrive.shared.b64 _, [bar];\n";
  EXPECT_EQ(not_varied(handover + wait("bar", 0), {64}), "");
  EXPECT_EQ(not_varied(handover + "mbarrier.try_wait.parity.shared.b64 %p14, [bar], 0;\n", {64}),
            "the answer of a try_wait that is not repeated: it waits for the phase");
  EXPECT_EQ(not_varied("mov.u32 %r1, %smid; mov.u64 %rd1, %gridid; mov.u64 %rd2, %clock64;\n", {32}),
            "the values of %gridid, %smid, clocks: another --seed has others");
  EXPECT_EQ(not_varied("@%first st.relaxed.gpu.global.u32 [%out], 1;\n", {32}),
            "when a strong access of memory becomes visible: at once");
  EXPECT_EQ(not_varied("setp.lt.u32 %p1, %lane, 3; @%p1 bra FEW; bar.warp.sync 0xfffffff8; bra END;\n"
                       "FEW: bar.warp.sync 0x7;\nEND:\n",
                       {32}),
            "whether lanes meet again behind a branch: they do");
}

/// Three warps that each write one word: six orders, and runs that only repeat others.
std::string write_in_any_order() {
  return "setp.ne.u32 %p1, %lane, 0; @%p1 bra END; st.relaxed.cta.shared.u32 [tile], %warp;\nEND:\n";
}

TEST_F(ExplorationTest, NotAllIsSaidWhereTheLimitIsReached) {
  interleavings = 2;
  EXPECT_TRUE(explore(write_in_any_order(), {96}, 0).empty());
  EXPECT_EQ(said(), "2 interleavings explored without a finding; not all: 1 launch has more");
}

TEST_F(ExplorationTest, AnInterruptionInTheMiddleOfAnInterleavingEndsTheSearch) {
  void* const memory = mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  int& runs = *static_cast<int*>(memory);  // of all copies of the process
  runs = 0;
  std::atomic<bool> interrupted = false;
  const machine::LaunchRequest request = request_of(write_in_any_order(), {96}, seed);
  const bool found = exploration_.explore({.machine = machine,
                                           .request = request,
                                           .interleavings = 100,
                                           .observers =
                                               [&] {
                                                 interrupted = ++runs == 3;  // the default one, and two interleavings
                                                 return make_checks();
                                               },
                                           .interrupted = &interrupted});
  EXPECT_FALSE(found);
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(said(), "2 interleavings explored without a finding; not all: 1 launch has more");
  munmap(memory, sizeof(int));
}

}  // namespace
}  // namespace stagecraft::emulator::exploration
