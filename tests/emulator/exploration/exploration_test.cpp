// Mistakes that the default schedule hides are found in others, shrunk and replayed; right kernels are explored in
// silence.
#include "emulator/exploration/exploration.hpp"

#include <sys/mman.h>

#include <atomic>
#include <set>
#include <string>
#include <vector>

#include "emulator/exploration/decided_run.hpp"
#include "emulator/runtime/model/settings.hpp"
#include "emulator/scheduling/schedule.hpp"
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::exploration {
namespace {

using checks::render_text;
using machine::ChosenSchedule;
using machine::Diagnostic;
using machine::LaunchResult;

/// About so many cycles of computing, in which others overtake.
std::string work(uint32_t instructions) {
  static int labels = 0;
  const std::string label = "WORK" + std::to_string(++labels);
  return fmt::format("mov.u32 %r15, 0; {0}: add.u32 %r15, %r15, 1; setp.lt.u32 %p15, %r15, {1}; @%p15 bra {0};", label,
                     instructions / 3);
}
/// A wait until the phase of this parity has ended.
std::string wait(const std::string& barrier, uint32_t parity) {
  static int labels = 0;
  const std::string label = "WAIT" + std::to_string(++labels);
  return fmt::format("{0}: mbarrier.try_wait.parity.shared.b64 %p14, [{1}], {2}; @!%p14 bra {0};", label, barrier,
                     parity);
}

class ExplorationTest : public checks::RaceTest {
 protected:
  /// Explores a launch, and returns what is reported.
  std::vector<Diagnostic> explore(const std::string& body, Shape shape, uint64_t schedules) {
    request_ = request_of(body, shape, seed);
    std::vector<Diagnostic> reported;
    found_ = exploration_.explore({.machine = machine,
                                   .request = request_,
                                   .number = 3,
                                   .interleavings = interleavings,
                                   .schedules = schedules,
                                   .threads = threads,
                                   .lanes = lanes,
                                   .observers = [this] { return make_checks(); },
                                   .report = [&](const Diagnostic& report) { reported.push_back(report); }});
    EXPECT_EQ(found_, !reported.empty());
    return reported;
  }

  static machine::Schedule schedule_of(const Diagnostic& report) {
    for (const std::string& detail : report.details) {
      const size_t at = detail.find("--schedule 3:");
      if (at != std::string::npos) return machine::parse_schedule(detail.substr(at + 13)).value();
    }
    ADD_FAILURE() << "no schedule";
    return {};
  }

  /// Expects that the default schedule shows nothing, that one mistake of this kind is found in that many schedules,
  /// and that so many switches replay it.
  void expect_found(const std::string& body, Shape shape, uint64_t schedules, const std::string& kind,
                    size_t switches) {
    expect_silence(run(body, shape));
    const std::vector<Diagnostic> reported = explore(body, shape, schedules);
    ASSERT_FALSE(reported.empty()) << exploration_.text();
    EXPECT_EQ(reported[0].kind, kind) << render_text(reported[0]);
    const machine::Schedule schedule = schedule_of(reported[0]);
    EXPECT_LE(schedule.size(), switches) << render_text(reported[0]);
    for (int i = 0; i < 2; ++i) {
      ChosenSchedule choices(schedule);
      request_.choices = &choices;
      const LaunchResult replayed =
          machine.launch(request_, {}, [](std::string_view) {}, {[this] { return make_checks(); }, 1});
      EXPECT_EQ(choices.made(), schedule);
      ASSERT_FALSE(replayed.diagnostics.empty());
      EXPECT_EQ(replayed.diagnostics[0].kind, reported[0].kind);
      EXPECT_EQ(replayed.diagnostics[0].message, reported[0].message);
    }
    // None of the switches can be left out.
    for (size_t left_out = 0; left_out < schedule.size(); ++left_out) {
      machine::Schedule rest = schedule;
      rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left_out));
      ChosenSchedule choices(rest);
      request_.choices = &choices;
      const LaunchResult result =
          machine.launch(request_, {}, [](std::string_view) {}, {[this] { return make_checks(); }, 1});
      for (const Diagnostic& each : result.diagnostics) EXPECT_NE(each.kind, kind) << render_text(each);
    }
  }
  /// What the checks of memory say in any schedule is hidden where they are off.
  std::vector<std::unique_ptr<machine::Observer>> make_checks() const override {
    return checks::make_checks(checks_memory);
  }
  void expect_right(const std::string& body, Shape shape, uint64_t schedules) {
    const std::vector<Diagnostic> reported = explore(body, shape, schedules);
    EXPECT_TRUE(reported.empty()) << render_text(reported[0]);
    EXPECT_EQ(exploration_.text(), fmt::format("explored {} schedules: nothing found", schedules));
  }

  /// Expects that one of all interleavings shows a mistake of this kind, and the default schedule none.
  void expect_refuted(const std::string& body, Shape shape, const std::string& kind) {
    expect_silence(run(body, shape));
    interleavings = 10'000;
    const std::vector<Diagnostic> reported = explore(body, shape, 0);
    ASSERT_FALSE(reported.empty()) << exploration_.text();
    EXPECT_EQ(reported[0].kind, kind) << render_text(reported[0]);
  }
  /// Expects that all interleavings are run, so many, and that none shows a mistake.
  void expect_proved(const std::string& body, Shape shape, const std::string& count) {
    interleavings = 10'000;
    const std::vector<Diagnostic> reported = explore(body, shape, 0);
    EXPECT_TRUE(reported.empty()) << render_text(reported[0]);
    EXPECT_EQ(exploration_.text(), fmt::format("all {} explored: nothing found", count));
  }

  bool checks_memory = true;
  bool lanes = false;
  uint64_t interleavings = 0;
  Exploration exploration_;
  machine::LaunchRequest request_;
  bool found_ = false;
};

TEST(ExplorationSettingsTest, AllInterleavingsNeedWhatKernelsDoToMemoryAlsoWithoutItsChecks) {
  runtime::Settings settings;
  settings.checks.race = false;
  EXPECT_FALSE(settings.observes_memory());
  settings.exhaust = 10;
  EXPECT_TRUE(settings.observes_memory());
}

const std::string kInit = R"(
    @%first mbarrier.init.shared.b64 [bar], 1;
    @%first mbarrier.init.shared.b64 [bar+8], 1;
    @%first mbarrier.init.shared.b64 [bar+16], 1;
    bar.sync 0;
    setp.eq.u32 %p1, %lane, 0; setp.eq.u32 %p2, %warp, 0; setp.eq.u32 %p3, %warp, 1;
)";

/// Warp 0 ends two phases, and nothing makes it wait until warp 1 has seen the first.
std::string missed_phase() {
  return kInit + "@!%p2 bra WAITER;\n" + work(3000) + "@%p1 mbarrier.arrive.shared.b64 _, [bar];\n" + work(3000) +
         "@%p1 mbarrier.arrive.shared.b64 _, [bar];\nbra END;\nWAITER:\n" + wait("bar", 0) + "\nEND:\n";
}

TEST_F(ExplorationTest, AWaiterThatMissesAPhaseWaitsForEver) {
  expect_found(missed_phase(), {64}, 20, "deadlock", 1);
  expect_refuted(missed_phase(), {64}, "deadlock");
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

/// A ring of two stages: lane 0 of warp 0 copies six tiles, warp 1 reads them. `release` comes after its reads.
std::string ring(const std::string& release) {
  std::string text = R"(
    @%first mbarrier.init.shared.b64 [bar], 1;
    @%first mbarrier.init.shared.b64 [bar+8], 1;
    @%first mbarrier.init.shared.b64 [bar+16], 32;
    @%first mbarrier.init.shared.b64 [bar+24], 32;
    bar.sync 0;
    mov.u32 %r5, 0;
    setp.eq.u32 %p2, %warp, 0; @!%p2 bra READS;
    @!%first bra END;
    )";
  for (uint32_t tile = 0; tile < 6; ++tile) {
    const uint32_t stage = tile % 2, parity = tile / 2 % 2;
    text += wait(fmt::format("bar+{}", 16 + 8 * stage), parity ^ 1) + "\n";
    text += fmt::format(
        "mbarrier.arrive.expect_tx.shared.b64 _, [bar+{0}], 128;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile+{1}], [%out], 128, "
        "[bar+{0}];\n",
        8 * stage, 128 * stage);
  }
  text += "bra END;\nREADS:\n";
  for (uint32_t tile = 0; tile < 6; ++tile) {
    const uint32_t stage = tile % 2, parity = tile / 2 % 2;
    text += wait(fmt::format("bar+{}", 8 * stage), parity) + "\n";
    text += fmt::format("ld.shared.u32 %r6, [%own+{}]; add.u32 %r5, %r5, %r6;\n", 128 * stage - 128);
    text += fmt::format("{} [bar+{}];\n", release, 16 + 8 * stage);
  }
  return text + "END:\n";
}

TEST_F(ExplorationTest, ARingThatIsRightIsExploredInSilence) {
  expect_right(ring("mbarrier.arrive.shared.b64 _,"), {64}, 400);
}

TEST_F(ExplorationTest, ARingOfTwoStagesIsProved) {
  expect_proved(ring("mbarrier.arrive.shared.b64 _,"), {64}, "1 interleaving");
}

TEST_F(ExplorationTest, AQuestionRightBehindABarrierMayComeFirst) {
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
  EXPECT_EQ(exploration_.text(), "2 interleavings explored without a finding; not all: 1 launch has more");
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

TEST_F(ExplorationTest, ALaunchThatTheDefaultScheduleStopsIsNotExplored) {
  EXPECT_TRUE(explore("trap;", {32}, 20).empty());
  EXPECT_EQ(exploration_.text(), "explored no schedule; 1 launch is stopped by the default schedule already");
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

/// Three warps that each write one word: six orders, and runs that only repeat others.
std::string write_in_any_order() {
  return "setp.ne.u32 %p1, %lane, 0; @%p1 bra END; st.relaxed.cta.shared.u32 [tile], %warp;\nEND:\n";
}

TEST_F(ExplorationTest, NotAllIsSaidWhereTheLimitIsReached) {
  interleavings = 2;
  EXPECT_TRUE(explore(write_in_any_order(), {96}, 0).empty());
  EXPECT_EQ(exploration_.text(), "2 interleavings explored without a finding; not all: 1 launch has more");
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
  EXPECT_EQ(exploration_.text(), "2 interleavings explored without a finding; not all: 1 launch has more");
  munmap(memory, sizeof(int));
}

}  // namespace
}  // namespace stagecraft::emulator::exploration
