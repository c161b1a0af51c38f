// Tests which of several waits a deadlock is blamed on, and with which words.
#include <set>

#include "checks/deadlock/deadlock_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class DeadlockTest : public DeadlockFixture {
 protected:
  using DeadlockFixture::report_of;
  /// Runs `body` after thread 0 has initialised mbarriers with these counts; %r1 is the thread, %r2 its warp.
  std::string report_of(const std::string& body, uint32_t threads, const std::vector<uint32_t>& counts) {
    std::string text = "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.u32 %p0, %r1, 0;\n";
    for (size_t i = 0; i < counts.size(); ++i) {
      text += fmt::format("@%p0 mbarrier.init.shared.b64 [bar+{}], {};\n", 8 * i, counts[i]);
    }
    text += cluster.x > 1 ? "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n" : "bar.sync 0;\n";
    return report_of(compile_body(text + body, ".file 1 \"k.cu\"\n.shared .align 8 .b64 bar[8], other[2], done;"),
                     threads);
  }
  static std::string wait(uint32_t barrier, uint32_t parity, const std::string& label) {
    return fmt::format("{0}: mbarrier.try_wait.parity.shared.b64 %p9, [bar+{1}], {2}; @!%p9 bra {0};\n", label,
                       8 * barrier, parity);
  }
  static std::string arrive(uint32_t barrier) {
    return fmt::format("mbarrier.arrive.shared.b64 _, [bar+{}];\n", 8 * barrier);
  }
  static std::string if_warp(uint32_t warp, const std::string& text) {
    return fmt::format("setp.ne.u32 %p1, %r2, {0}; @%p1 bra NOT{0};\n{1}bra END;\nNOT{0}:\n", warp, text);
  }
};

TEST(DeadlockRulesTest, EachIsPinnedByATest) {
  std::set<std::string> tests;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    const std::string name = suite.name();
    // Those in which DeadlockFixture holds the rules against their tests.
    if (name != "DeadlockTest" && name != "HopperDeadlockTest" && name != "LanesApartTest") continue;
    for (int j = 0; j < suite.total_test_count(); ++j) tests.insert(name + "." + suite.GetTestInfo(j)->name());
  }
  for (const Rule& rule : rules()) {
    EXPECT_TRUE(tests.contains(std::string(rule.test)))
        << "rule " << &rule - rules().data() << " of the table names no test: \"" << rule.test << "\"";
  }
}

TEST_F(DeadlockTest, BlamesTheMbarrierAndNotTheClusterBarrierThatItsWaiterDoesNotReach) {
  cluster = {2, 1, 1};
  // Lane 0 of each block waits for a slot that nobody releases; the others are at the cluster barrier already.
  const std::string text = report_of("@!%p0 bra LAST;\n" + wait(2, 1, "FIRST") + wait(2, 0, "SECOND") +
                                         "LAST: barrier.cluster.arrive; barrier.cluster.wait;\n",
                                     64, {1, 1, 1});
  expect_words(text, {"[lane 0] mbarrier.try_wait", "waits for bar[2] to complete phase 0",
                      "likely cause: nobody has ever arrived at bar[2]: the first wait for it passed at once",
                      "the slot has never been released since", "waits at barrier.cluster"});
}

TEST_F(DeadlockTest, FollowsAChainOfWaitsToItsEnd) {
  // Warp 0 waits for 1, 1 for 2, each of which has arrived once before; 2 waits for bytes that never come.
  const std::string text = report_of(
      if_warp(0, wait(0, 0, "A") + wait(0, 1, "B")) + if_warp(1, arrive(0) + wait(1, 0, "C") + wait(1, 1, "D")) +
          if_warp(2, arrive(1) +
                         "setp.eq.u32 %p3, %r1, 64; @%p3 mbarrier.arrive.expect_tx.shared.b64 _, [bar+16], 64;\n" +
                         wait(2, 0, "E")) +
          "END:\n",
      96, {32, 32, 1});
  expect_words(text, {"block (0,0,0) warp 2 [all lanes] mbarrier.try_wait", "waits for bar[2] to complete phase 0",
                      "likely cause: expect_tx announced 64 bytes for bar[2], and 64 of them never came"});
}

TEST_F(DeadlockTest, BlamesTheSlotOfWhoBringsTheOtherHalfOfTheBytes) {
  // Warps 1 and 2 bring half of each round's bytes; warp 2 waits for a slot of its own, which nobody releases.
  const auto half = [](const std::string& announce) {
    return "setp.eq.u32 %p3, %r4, 0;\n" + announce +
           "@%p3 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 32;\n";
  };
  const std::string announce = "@%p3 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n";
  const std::string text = report_of(
      "and.b32 %r4, %r1, 31;\n" + if_warp(1, half(announce) + wait(0, 0, "A") + half(announce) + wait(0, 1, "B")) +
          if_warp(2, wait(1, 1, "C") + half("") + wait(1, 0, "D") + half("")) + "END:\n",
      96, {1, 1});
  expect_words(text,
               {"warp 2 [all lanes] mbarrier.try_wait", "bar[0]: phase 1, 0 of 1 arrivals pending, 32 of 64 bytes",
                "likely cause: nobody has ever arrived at bar[1]: the first wait for it passed at once"});
}

TEST_F(DeadlockTest, SaysWhoWaitsAtSyncthreadsForThoseWhoWaitForItsArrival) {
  const std::string text =
      report_of(if_warp(0, "bar.sync 0;\n" + arrive(0)) + wait(0, 0, "A") + "bar.sync 0;\nEND:\n", 64, {32});
  expect_words(text,
               {"warp 1 [all lanes] mbarrier.try_wait", "likely cause: nobody has ever arrived at bar[0]. block",
                "warp 0 [all lanes] waits at barrier 0 for the threads that wait for bar[0]", "must do so before"});
}

TEST_F(DeadlockTest, SaysThatTheOtherSideHasEndedARoundEarly) {
  const std::string rounds = wait(0, 0, "A") + wait(0, 1, "B") + "bar.sync 0;\nEND:\n";
  expect_words(report_of(if_warp(0, arrive(0) + "bar.sync 0;\n") + rounds, 64, {32}),
               {"waits for bar[0] to complete phase 1", "bar[0] completed phase 0 and nobody has arrived since: block",
                "warp 0 [all lanes], which did before, waits at barrier 0", "Did it end one round early"});
  expect_words(report_of(if_warp(0, arrive(0)) + rounds, 64, {32}),
               {"bar[0] completed phase 0 and nobody has arrived since, and those who did before have ended"});
}

TEST_F(DeadlockTest, FollowsAnArrivalThatAnOperationMade) {
  // Warp 0 arrives through cp.async, then waits for an arrival that nobody makes; warp 1 waits for its next arrival.
  const std::string text =
      report_of(if_warp(0, "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];\n" + wait(1, 1, "A") + wait(1, 0, "B")) +
                    wait(0, 0, "C") + wait(0, 1, "D") + "END:\n",
                64, {32, 1});
  expect_words(text, {"warp 0 [all lanes] mbarrier.try_wait", "nobody has ever arrived at bar[1]: the first wait"});
}

TEST_F(DeadlockTest, BlamesTheBarrierThatOneLaneOfAWarpWaitsFor) {
  const std::string text = report_of(
      "setp.ne.u32 %p1, %r1, 3; @%p1 bra MEET;\n" + wait(0, 0, "A") + "MEET: bar.warp.sync 0xffffffff;\n", 32, {1});
  expect_words(text, {"[lane 3] mbarrier.try_wait", "nobody has ever arrived at bar[0]",
                      "waits for lane 3 of its warp to come to the same instruction"});
}

TEST_F(DeadlockTest, BlamesAnElectionInABranchThatOneLaneTakes) {
  // The lanes of warp 0 meet at two places; warp 1 waits for an arrival that would follow them.
  const std::string text = report_of(
      if_warp(0, "@!%p0 bra MEET;\nelect.sync _|%p3, 0xffffffff;\nMEET: bar.warp.sync 0xffffffff;\n" + arrive(0)) +
          wait(0, 0, "A") + "END:\n",
      64, {32});
  expect_words(text,
               {"warp 0 [lane 0] elect.sync", "waits for lanes 1-31 of its warp to come to the same instruction",
                "likely cause: lanes of one warp took different paths, and an operation of the whole warp is on"});
}

TEST_F(DeadlockTest, NamesAnInstructionThatEndsManyPhasesAtOnce) {
  const std::string text = report_of(if_warp(0, arrive(0)) + wait(0, 0, "A") + "END:\n", 64, {2});
  expect_words(text,
               {"bar[0]: phase 16, 2 of 2 arrivals pending",
                "likely cause: 32 lanes arrived at bar[0] in one instruction, which ended 16 of its phases at once, "
                "because each takes 2 arrivals"});
}

TEST_F(DeadlockTest, BlamesTheWaitOfWhoHasNotBegunAndNotTheProducersBeforeIt) {
  // Warp 0 fills bar[0]'s slot and waits for its release at bar[1]. Warp 1 is to do that, but first waits for
  // warp 2 at bar[2], and that for warp 1 at bar[3].
  const std::string text = report_of(if_warp(0, wait(1, 1, "A") + arrive(0) + wait(1, 0, "B")) +
                                         if_warp(1, wait(2, 0, "C") + wait(0, 0, "D") + arrive(1) + arrive(3)) +
                                         wait(3, 0, "E") + arrive(2) + "END:\n",
                                     96, {32, 32, 32, 32});
  expect_words(text, {"warp 1 [all lanes] mbarrier.try_wait", "nobody has ever arrived at bar[2] or bar[3]",
                      "it must ask for parity 1"});
}

TEST_F(DeadlockTest, NamesWhoWentPastTheArrivalThatTheOtherSideWaitsFor) {
  // Warp 0 forgets to arrive at bar[0] before it waits for its slot at bar[1] again.
  const std::string text =
      report_of(if_warp(0, wait(1, 1, "A") + wait(1, 0, "B")) + wait(0, 0, "C") + arrive(1) + "END:\n", 64, {32, 32});
  expect_words(text,
               {"warp 1 [all lanes] mbarrier.try_wait",
                "nobody has ever arrived at bar[0], and block (0,0,0) warp 0 [all lanes], whose first wait passed "
                "at once, now waits for bar[1]: is an arrival at bar[0] missing on the way there?"});
}

TEST_F(DeadlockTest, KeepsToTheProducerWhereSomebodyHasWaitedForIt) {
  // Warp 1 takes what warp 0 brings, and never releases it; warp 2 waits for what warp 1 would bring in the end.
  const std::string text =
      report_of(if_warp(0, wait(1, 1, "A") + arrive(0) + wait(1, 0, "B") + arrive(0)) +
                    if_warp(1, wait(0, 0, "C") + wait(0, 1, "D") + arrive(2)) + wait(2, 0, "E") + "END:\n",
                96, {32, 32, 32});
  expect_words(text,
               {"warp 0 [all lanes] mbarrier.try_wait", "nobody has ever arrived at bar[1]: the first wait for it"});
}

TEST_F(DeadlockTest, DoesNotCallTwoOfManyWaitsCrossed) {
  // All wait at bar[0], also warp 0, which has arrived at bar[1] and is to arrive here.
  const std::string text = report_of(
      if_warp(0, arrive(1) + wait(0, 0, "A") + arrive(0)) + if_warp(1, wait(0, 0, "B")) + wait(0, 0, "C") + "END:\n",
      96, {64, 32});
  expect_words(text, {"nobody has ever arrived at bar[0]", "is one of those who wait to arrive first"});
  EXPECT_EQ(text.find("two sides"), std::string::npos) << text;
}

TEST_F(DeadlockTest, FindsTheArrivalsThatCameToAnotherBlock) {
  cluster = {2, 1, 1};
  // Both blocks are to arrive in the first, which waits; each arrives in its own.
  const std::string text =
      report_of(arrive(0) + "mov.u32 %r3, %cluster_ctarank;\nsetp.ne.u32 %p3, %r3, 0;\n@%p3 bra END;\n" +
                    wait(0, 0, "A") + "END: barrier.cluster.arrive; barrier.cluster.wait;\n",
                32, {64});
  expect_words(text,
               {"bar[0] of the block of rank 0 waits for 64 arrivals per phase, and 32 came; 32 came to that of rank 1",
                "for which nobody waits, by the arrival: are all to arrive at the barrier of rank 0?"});
}

TEST_F(DeadlockTest, PrefersTheArrivalsThatAreMissingToTheCopyThatWaitsForThem) {
  // Warp 1 waits for a copy that warp 0 would ask for; and warp 0 for one more arrival than come.
  const std::string text =
      report_of(if_warp(0, wait(1, 0, "A")) + "@%p0 bra B;\n" + arrive(1) +
                    "setp.eq.u32 %p3, %r1, 32; @%p3 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n" +
                    wait(0, 0, "B") + "END:\n",
                64, {1, 33});
  expect_words(
      text, {"warp 0 [all lanes] mbarrier.try_wait", "bar[1] was initialised for 33 arrivals per phase, and 32 came"});
}

TEST_F(DeadlockTest, AsksForParityOneWhereBothSidesWaitForTheFirstArrival) {
  const std::string text =
      report_of(if_warp(0, wait(1, 0, "A") + arrive(0)) + wait(0, 0, "B") + arrive(1) + "END:\n", 64, {32, 32});
  expect_words(text, {"nobody has ever arrived at bar[1] or bar[0], and each side waits for the other",
                      "it must ask for parity 1"});
}

TEST_F(DeadlockTest, FindsTheBytesThatCameToAnotherBarrier) {
  const std::string text = report_of(
      "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"
      "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar+8], 64;\n" +
          wait(0, 0, "A"),
      32, {1, 1});
  expect_words(text,
               {"expect_tx announced 64 bytes for bar[0], and 64 of them never came, while 64 came to bar[1] that no "
                "expect_tx announced"});
}

TEST_F(DeadlockTest, NamesTheArrivalThatASideHasGonePast) {
  // Warp 0 has begun its work; warp 1 waits for a permission that warp 0 never gives.
  const std::string text = report_of(
      if_warp(0, arrive(2) + wait(0, 0, "A") + arrive(1)) + wait(1, 0, "B") + arrive(0) + "END:\n", 64, {32, 32, 32});
  expect_words(text, {"nobody has ever arrived at bar[1], and block (0,0,0) warp 0 [all lanes], which arrived at other "
                      "barriers before, now waits for bar[0]: is an arrival at bar[1] missing on the way there?"});
}

TEST_F(DeadlockTest, SaysThatTheArrivalsWentToAnotherBlocksBarrier) {
  cluster = {2, 1, 1};
  const std::string text = report_of("mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p3, %r3, 0;\n@%p3 " + arrive(0) +
                                         wait(0, 0, "A") + "barrier.cluster.arrive; barrier.cluster.wait;\n",
                                     32, {32});
  expect_words(text, {"block (1,0,0) warp 0",
                      "nobody has ever arrived at bar[0] of the block of rank 1, while that of "
                      "rank 0 has completed a phase"});
}

TEST_F(DeadlockTest, SaysThatAPhaseEndedBeforeAnybodyWaitedForIt) {
  // Warp 0 releases a slot that was never filled; warp 1 has yet to take it for the first time, with parity 1.
  expect_words(
      report_of(if_warp(0, arrive(0) + "bar.sync 0;\n") + "bar.sync 0;\n" + wait(0, 1, "A") + "END:\n", 64, {32}),
      {"waits for bar[0] to complete phase 1", "bar[0] completed phase 0, by the arrival, before anybody waited for it",
       "A consumer begins with parity 0"});
}

TEST_F(DeadlockTest, SaysThatAllOthersHaveEnded) {
  expect_words(report_of(if_warp(0, "") + wait(0, 0, "A") + "END:\n", 64, {32}),
               {"nobody has ever arrived at bar[0], and all other threads have ended: is an arrival missing"});
}

TEST_F(DeadlockTest, NamesTwoPhasesThatEndedWithoutAWaitInBetween) {
  // Warp 0 arrives twice for one round of warp 1, at two lines or at one.
  const std::string twice = arrive(0) + "bar.sync 1;\n" + arrive(0) + "bar.sync 0;\n";
  expect_words(report_of(if_warp(0, twice) + "bar.sync 1;\nbar.sync 0;\n" + wait(0, 0, "A") + "END:\n", 64, {32}),
               {"waits for bar[0] to complete phase 2",
                "phases 0 and 1 of bar[0] ended with no wait of warp 1 in between, both by the arrival",
                "nothing makes the side that arrives there wait until the phase before has been seen"});
  // After a first round that was waited for, the barrier is ahead by two phases again.
  expect_words(report_of(if_warp(0, arrive(0) + "bar.sync 0;\n" + twice) + wait(0, 0, "A") +
                             "bar.sync 0;\nbar.sync 1;\nbar.sync 0;\n" + wait(0, 1, "B") + "END:\n",
                         64, {32}),
               {"phases 1 and 2 of bar[0] ended with no wait of warp 1 in between"});
}

TEST_F(DeadlockTest, NamesTheBarrierThatNobodyWaitsForWhereTwoSidesWaitForOne) {
  expect_words(report_of(if_warp(0, arrive(1) + wait(0, 0, "A")) + wait(0, 0, "B") + "END:\n", 64, {32, 32}),
               {"nobody has ever arrived at bar[0], and two sides wait for it",
                "bar[1] has completed phase 0 meanwhile, and nobody has waited for that"});
}

TEST_F(DeadlockTest, SaysThatTwoBarriersShareOneAddress) {
  expect_words(report_of("@%p0 mbarrier.init.shared.b64 [bar], 32; @%p0 " + arrive(0) + wait(0, 0, "A"), 32, {1}),
               {"bar[0] is initialised for 1 arrival, and then for 32: do two barriers share one address?"});
}

TEST_F(DeadlockTest, SaysWhichBlockACopyLeavesOut) {
  cluster = {2, 1, 1};
  const std::string text = report_of(
      "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\nmov.u32 %r3, %cluster_ctarank; "
      "setp.eq.u32 %p3, %r3, 0; and.pred %p3, %p3, %p0;\n"
      "@%p3 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;\n" +
          wait(0, 0, "A"),
      32, {1});
  expect_words(text, {"expect_tx announced 64 bytes for bar[0], and 64 of them never came",
                      "brought its bytes to the barrier of rank 0, and none to that of rank 1",
                      "does its multicast mask, or its target, leave rank 1 out?"});
}

TEST_F(DeadlockTest, SaysThatTwoSidesMeetAtDifferentNumbers) {
  expect_words(report_of(if_warp(0, "bar.sync 1, 64;\n") + if_warp(1, "bar.sync 2, 64;\n") + "END:\n", 64, {}),
               {"likely cause: barriers ", " both count 64 threads, and those that the one misses wait at the other",
                "are they meant to meet at one number?"});
  // __syncthreads() counts as many, though it does not say so.
  expect_words(report_of(if_warp(0, "bar.sync 0;\n") + if_warp(1, "bar.sync 1, 64;\n") + "END:\n", 64, {}),
               {"likely cause: barriers ", " both count 64 threads", "are they meant to meet at one number?"});
}

TEST_F(DeadlockTest, NamesTheLaneThatHasExitedAndIsCounted) {
  expect_words(
      report_of(arrive(0) + wait(0, 0, "A") + "setp.eq.u32 %p2, %r1, 31; @%p2 ret;\n" + arrive(0) + wait(0, 1, "B"), 32,
                {32}),
      {"likely cause: lane 31 of warp 0 arrived at bar[0] in the phase before, and has exited since"});
}

TEST_F(DeadlockTest, SaysThatABarrierCountsHalfOfThoseWhoArrive) {
  expect_words(report_of("setp.eq.u32 %p2, %r2, 0; @%p2 bra MET;\n" + arrive(0) + "MET: bar.sync 1, 96;\n" +
                             if_warp(0, wait(0, 0, "A")) + "END:\n",
                         96, {32}),
               {"likely cause: bar[0] is initialised for 32 arrivals per phase, and more come in one round",
                " ended phase 0, and block rank 0 warp ", ", which had not arrived in it, the next"});
}

TEST_F(DeadlockTest, NamesThePhaseThatTheOtherSideDidNotStayFor) {
  expect_words(report_of(if_warp(0, wait(1, 1, "A") + arrive(0) + wait(1, 0, "B")) + "END:\n", 64, {32, 32}),
               {"likely cause: nobody has ever arrived at bar[1], and bar[0] has completed phase 0, which nobody has "
                "waited for: does the side"});
}

TEST_F(DeadlockTest, SaysThatAWaitIsOneTooMany) {
  // A drain that waits for a slot twice; in the first round, and in a later one.
  expect_words(report_of(wait(0, 1, "A") + wait(0, 0, "B"), 32, {32}),
               {"likely cause: all other threads have ended, and warp 0 has arrived at no barrier since its last wait "
                "for bar[0]",
                "is this wait one too many"});
  expect_words(report_of(wait(0, 1, "A") + arrive(0) + wait(0, 0, "B") + wait(0, 1, "C"), 32, {32}),
               {"warp 0 has arrived at no barrier since its last wait for bar[0]"});
  // Where it has arrived in between, an answer is missing.
  const std::string answer_missing = report_of(wait(0, 1, "A") + arrive(1) + wait(0, 0, "B"), 32, {32, 64});
  expect_words(answer_missing, {"Is an arrival (a release) missing"});
  EXPECT_EQ(answer_missing.find("one too many"), std::string::npos) << answer_missing;
}

TEST_F(DeadlockTest, NamesTheSlotThatWasFilledInstead) {
  expect_words(report_of(if_warp(0, arrive(1)) + wait(0, 0, "A") + "END:\n", 64, {32, 32}),
               {"likely cause: nobody has ever arrived at bar[0], while bar[1] has completed a phase that nobody has "
                "waited for: does the wait ask for another slot"});
}

TEST_F(DeadlockTest, SaysThatNoWarpTakesARole) {
  // All wait for one that is not there; or one fills what nobody takes, and the others wait for him who would.
  expect_words(
      report_of(wait(0, 0, "A"), 64, {32}),
      {"likely cause: nobody has ever arrived at bar[0], and all threads of the block wait for it",
       "is an arrival missing, does it go to another barrier or come after the wait, or does no warp take the role"});
  expect_words(
      report_of(if_warp(0, wait(2, 1, "A") + arrive(1) + wait(2, 0, "B")) + wait(0, 0, "C") + "END:\n", 64, {1, 32, 1}),
      {"likely cause: nobody has ever arrived at bar[0], while bar[1] has completed phase 0, and nobody has "
       "ever waited for that: is the role that waits there taken by no warp"});
}

TEST_F(DeadlockTest, SaysThatPhasesEndedBetweenTwoWaits) {
  // Warp 0 arrives three times, and warp 1 takes that for one round, because the parity is the same.
  const std::string text =
      report_of(if_warp(0, arrive(0) + "bar.sync 0;\n" + arrive(0) + arrive(0) + arrive(0) + "bar.sync 0;\n") +
                    wait(0, 0, "A") + "bar.sync 0;\nbar.sync 0;\n" + wait(0, 1, "B") + wait(0, 0, "C") + "END:\n",
                64, {32});
  expect_words(text,
               {"likely cause: when a wait of warp 1 for bar[0] passed, 4 of its phases had ended, 3 more than at "
                "the wait before: nothing makes the side that arrives there wait"});
}

TEST_F(DeadlockTest, SaysThatEachBlockArrivesAtItsOwnBarrierOnly) {
  cluster = {2, 1, 1};
  expect_words(report_of(arrive(0) + wait(0, 0, "A"), 32, {64}),
               {"likely cause: bar[0] was initialised for 64 arrivals per phase, and 32 came, all of its own block",
                "while those of block rank 1 arrived at that block's own"});
}

TEST_F(DeadlockTest, SaysThatAWarpWaitsForItself) {
  // Warp 1 frees bar[0] for warp 0, and then waits there too.
  expect_words(report_of(if_warp(0, wait(0, 0, "A") + wait(1, 0, "B")) + arrive(0) + wait(0, 0, "C") + wait(0, 1, "D") +
                             arrive(1) + "END:\n",
                         64, {32, 32}),
               {"likely cause: warp 1 waits for bar[0], at which only itself has ever arrived, for others that wait "
                "there: is it to wait for another barrier?"});
}

TEST_F(DeadlockTest, NamesTheMeetingOfTheRoleThatIsToReleaseASlot) {
  expect_words(
      report_of(if_warp(0, wait(1, 1, "A") + wait(0, 0, "B") + wait(1, 0, "C") + "bar.sync 0;\n") + arrive(0) +
                    "bar.sync 0;\n" + arrive(1) + "END:\n",
                64, {32, 32}),
      {"likely cause: nobody has ever arrived at bar[1]: block (0,0,0) warp 1 [all lanes], which arrived at other "
       "barriers before, waits at barrier 0",
       " for the threads that wait for bar[1]. Is that in a branch that not all warps take"});
}

TEST_F(DeadlockTest, FindsTheAnnouncementThatWentToAnotherBarrier) {
  expect_words(
      report_of("@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 32;\n"
                "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 32;\n" +
                    wait(0, 0, "A"),
                32, {1, 1}),
      {"likely cause: copies brought 32 bytes to bar[0] that no expect_tx announced, while 32 were announced for "
       "bar[1]"});
}

TEST_F(DeadlockTest, NamesTheLaneThatCameAloneToAnOperationOfTheWarp) {
  const std::string text = report_of(
      if_warp(0, "@!%p0 bra MEET;\nelect.sync _|%p3, 0xffffffff;\nMEET: bar.warp.sync 0xffffffff;\n") + "END:\n", 64,
      {32});
  expect_words(text, {"only lane 0 came to elect.sync", "which needs all 32 lanes"});
}

TEST_F(DeadlockTest, FollowsAWaitForTheTensorCoreToAThreadThatCommittedElsewhereInTheArray) {
  // Warp 0 has arrived at bar[1] through an operation, and waits for bar[3], which has completed a phase before; warp 1
  // waits for the next element, which nobody has arrived at yet.
  const std::string text = report_of(if_warp(0, "cp.async.mbarrier.arrive.noinc.shared.b64 [bar+8];\n" + arrive(3) +
                                                    wait(3, 0, "A") + wait(3, 1, "B")) +
                                         wait(1, 0, "C") + wait(2, 0, "D") + "END:\n",
                                     64, {32, 32, 32, 32});
  expect_words(text, {"block (0,0,0) warp 0 [all lanes] mbarrier.try_wait", "waits for bar[3] to complete phase 1"});
}

TEST_F(DeadlockTest, SaysThatNotAllWarpsComeToABarrier) {
  expect_words(report_of("LOOP: setp.ne.u32 %p1, %r2, 0; @%p1 bra OTHER;\nbar.sync 1, 64;\nbra LOOP;\n"
                         "OTHER: bar.sync 2, 96;\nbra LOOP;\n",
                         96, {}),
               {"likely cause: not every thread that barrier 1 counts comes to it"});
}

TEST_F(DeadlockTest, NamesTheWarpThatExitsBeforeABarrierThatCountsIt) {
  expect_words(report_of(if_warp(0, "bar.sync 1, 64;\n") + "END:\n", 64, {}),
               {"likely cause: barrier 1 counts 64 threads, and 32 of them are still to come, but warp 1 has exited"});
}

TEST_F(DeadlockTest, SaysThatMoreWarpsComeToABarrierThanItCounts) {
  expect_words(report_of("bar.sync 1, 64;\n", 96, {}),
               {"likely cause: barrier 1 counts 64 threads", ": so many ended it before, and 32 have come since, which",
                "makes 96, all threads of the block. Is it to count all of them? Otherwise is there a return"});
}

TEST_F(DeadlockTest, NamesTheBlockThatMeetsTheOthersOnceMore) {
  cluster = {2, 1, 1};
  const std::string meet = "barrier.cluster.arrive; barrier.cluster.wait;\n";
  expect_words(report_of("mov.u32 %r3, %cluster_ctarank; setp.ne.u32 %p3, %r3, 0; @%p3 bra ALL;\n" + meet + "ALL:\n" +
                             meet + wait(0, 0, "A"),
                         32, {1}),
               {"block (0,0,0) warp 0 [all lanes] barrier.cluster.wait",
                "likely cause: all threads of block rank 0 wait at barrier.cluster",
                "those of rank 1 have gone past it", "does rank 0 execute one more before"});
}

TEST_F(DeadlockTest, NamesTheArrivalThatABranchSkips) {
  const auto announce = [](uint32_t barrier) {
    return fmt::format("mbarrier.arrive.expect_tx.shared.b64 _, [bar+{}], 0;\n", 8 * barrier);
  };
  // Warp 0 is to arrive before it meets warp 1, in a branch that no thread takes.
  const std::string body =
      ".loc 1 5 0\nsetp.ne.u32 %p1, %r2, 0; @%p1 bra READ;\nsetp.gt.u32 %p2, %r1, 99;\n@!%p2 bra "
      "MEET;\n.loc 1 6 0\n" +
      announce(0) + ".loc 1 7 0\nbra MEET;\nREAD:\n" + wait(0, 0, "A") + "MEET: bar.sync 0;\n";
  expect_words(report_of(body, 64, {1}), {"nobody has ever arrived at bar[0]",
                                          "Nobody has come to the arrival at k.cu:6: is it in a branch that is not"});
  // A reader's own arrival, which comes after its wait, is skipped by nobody.
  const std::string own =
      report_of(".loc 1 5 0\n" + wait(0, 0, "A") + ".loc 1 6 0\n" + announce(1) + "bar.sync 0;\n", 64, {1, 64});
  EXPECT_EQ(own.find("Nobody has come to"), std::string::npos) << own;
}

TEST_F(DeadlockTest, SaysThatTensorMemoryIsNotFreed) {
  const std::string allocation = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [other], 512;\n";
  expect_words(report_of(allocation + allocation, 32, {}),
               {"waits for 512 columns of tensor memory", "likely cause: tensor memory that was allocated earlier"});
}

TEST_F(DeadlockTest, SaysThatOneBlockOfAPairAllocates) {
  cluster = {2, 1, 1};
  expect_words(report_of("mov.u32 %r3, %cluster_ctarank; setp.ne.u32 %p3, %r3, 0; @%p3 bra END;\n"
                         "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [other], 32;\nEND:\n",
                         32, {}),
               {"likely cause: with cta_group::2 tcgen05.alloc is executed by one warp of each block of a pair",
                "block (1,0,0) has ended without it"});
}

TEST_F(DeadlockTest, FindsTheBytesThatCameToABlockWhichAnnouncesNone) {
  cluster = {2, 1, 1};
  // Lane 0 of the first block announces what a copy is to bring to both, and only for its own.
  expect_words(
      report_of("mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p3, %r3, 0; and.pred %p3, %p3, %p0; mov.u32 %r4, 0;\n"
                "@!%p3 bra A;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"
                "NEXT: mov.u32 %r5, bar; mapa.shared::cluster.u32 %r6, %r5, %r4;\n"
                "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r6], 32;\n"
                "add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 2; @%p4 bra NEXT;\n" +
                    wait(0, 0, "A"),
                32, {1}),
      {"block (0,0,0) warp 0", "likely cause: expect_tx announced 64 bytes for bar[0], and 32 of them never came",
       "brought bytes to block rank 1 as well, where nobody has come to announce any"});
}

TEST_F(DeadlockTest, SaysThatCopiesBringFewerBytesThanAnnounced) {
  expect_words(report_of("@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n"
                         "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 32;\n" +
                             wait(0, 0, "A"),
                         32, {1}),
               {"likely cause: expect_tx announced 64 bytes for bar[0], and 32 of them never came: do the copies that "
                "signal it bring fewer bytes than were announced?"});
}

TEST_F(DeadlockTest, SaysThatCopiesBringMoreBytesThanAnnounced) {
  expect_words(report_of("@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32;\n"
                         "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 64;\n" +
                             wait(0, 0, "A"),
                         32, {1}),
               {"likely cause: copies brought 32 bytes to bar[0] that no expect_tx announced"});
}

TEST_F(DeadlockTest, NamesTheAnnouncementThatCameForThePhaseBeforeOnly) {
  const std::string brings = "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 32;\n";
  expect_words(report_of(".loc 1 7 0\n@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32;\n.loc 1 8 0\n" + brings +
                             wait(0, 0, "A") + brings + wait(0, 1, "B"),
                         32, {1}),
               {"likely cause: copies brought 32 bytes to bar[0] that no expect_tx announced", "k.cu:8",
                "The announcement at k.cu:7 came for phase 0, and not for phase 1 of bar[0]: is it in a branch"});
  // The other slot of a ring was announced.
  expect_words(
      report_of(".loc 1 7 0\n@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 32;\n.loc 1 8 0\n" + brings +
                    "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar+8], 32;\n" + wait(0, 0, "A"),
                32, {1, 1}),
      {"The announcement at k.cu:7 came for phase 0 of bar[1], and not for phase 0 of bar[0]"});
}

TEST_F(DeadlockTest, SaysThatAllIsThereAndTheCountIsTooHigh) {
  expect_words(report_of("@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32;\n"
                         "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 32;\n" +
                             wait(0, 0, "A"),
                         32, {2}),
               {"for 2 arrivals per phase, and 1 came, by warp 0 [lane 0]. Nobody else has ever arrived there, and all "
                "bytes that were announced have come: initialise it for 1"});
  expect_words(
      report_of("@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n" + wait(0, 0, "A"),
                32, {2}),
      {"and what was committed is over: initialise it for 1, unless another role is to arrive as well"});
}

TEST_F(DeadlockTest, NamesTheArrivalsThatAllGoToOtherBarriers) {
  const std::string begin = "@%p0 mbarrier.init.shared.b64 [done], 32;\nbar.sync 0;\n.loc 1 7 0\n";
  const std::string ends = "A: mbarrier.try_wait.parity.shared.b64 %p9, [done], 0; @!%p9 bra A;\n";
  const std::string other = wait(0, 0, "B") + "END:\n";
  expect_words(report_of(begin + if_warp(0, arrive(0) + ends) + other, 64, {32}),
               {"likely cause: nobody has ever arrived at done, and each arrival of the kernel has gone to another "
                "barrier: mbarrier.arrive at k.cu:7. Is one for done missing"});
  // One that nobody has come to may be for it.
  const std::string text =
      report_of(begin + if_warp(0, arrive(0) + ends + "mbarrier.arrive.shared.b64 _, [done];\n") + other, 64, {32});
  EXPECT_EQ(text.find("each arrival of the kernel"), std::string::npos) << text;
}

TEST_F(DeadlockTest, NamesTheSlotThatAllStepOver) {
  // Warp 0 fills bar[0] and bar[1], and warp 1 waits for bar[0] alone.
  expect_words(
      report_of(if_warp(0, arrive(0) + arrive(1)) + wait(0, 0, "A") + wait(0, 1, "B") + "END:\n", 64, {32, 32}),
      {"likely cause: bar[1] has completed phase 0, and nobody has ever waited for that, while all who still run "
       "have come back to bar[0]: do they step over that slot?"});
}

TEST_F(DeadlockTest, SaysThatAWaitGoesPastAPhase) {
  // Warp 1 asks for parity 0 twice, and two phases have ended by then.
  expect_words(
      report_of(if_warp(0, arrive(0) + wait(1, 0, "A") + arrive(0) + arrive(2)) + wait(0, 0, "B") + arrive(1) +
                    wait(2, 0, "C") + wait(0, 0, "D") + "END:\n",
                64, {32, 32, 32}),
      {"likely cause: warp 1 has waited for phase 0 of bar[0] last, and phase 1 has ended since, by the arrival",
       "asks for the parity of phase 2. The parity must flip once from each wait to the next"});
}

TEST_F(DeadlockTest, SaysThatAllReadersHaveFreedTheSlot) {
  expect_words(
      report_of(if_warp(0, wait(1, 1, "A") + arrive(0) + wait(1, 0, "B")) + wait(0, 0, "C") + arrive(1) + "END:\n", 64,
                {32, 33}),
      {"for 33 arrivals per phase, and 32 came, by warp 1 [all lanes]. These are all who have ever waited for "
       "bar[0]: initialise it for 32"});
}

TEST_F(DeadlockTest, DoesNotBlameTwoSidesWhereAThirdWaitsForASlotThatWasKept) {
  // Warp 1 has ended, and not freed at bar[1] what warp 0 has filled; so warp 0 comes to nothing that the others wait
  // for.
  expect_words(
      report_of(if_warp(0, wait(1, 1, "A") + arrive(0) + wait(1, 0, "B") + arrive(3)) + if_warp(1, wait(0, 0, "C")) +
                    if_warp(2, wait(3, 0, "D") + arrive(4)) + wait(4, 0, "E") + arrive(3) + "END:\n",
                128, {32, 32, 32, 33, 34}),
      {"likely cause: nobody has ever arrived at bar[1]: the first wait for it passed at once",
       "Warp 1, which waited for bar[0], has not arrived there since"});
}

TEST_F(DeadlockTest, NamesTheSlotThatIsFreedTwiceForOneFilling) {
  // Warps 1 and 2 both read the slot of bar[0], and nobody that of bar[1].
  expect_words(
      report_of(if_warp(0, wait(2, 1, "A") + arrive(0) + wait(3, 1, "B") + arrive(1) + wait(3, 0, "C")) +
                    wait(0, 0, "D") + arrive(2) + "END:\n",
                96, {32, 32, 32, 32}),
      {"likely cause: bar[2] has completed 2 phases, and bar[0] 1: that slot was freed more often than it was filled, "
       "the last times by warp ",
       " and then by warp ", "Do two readers take one slot"});
}

TEST_F(DeadlockTest, NamesTheReaderThatDoesNotArriveAsTheOtherDoes) {
  // Two warps read what warp 0 brings, and one of them releases it.
  expect_words(
      report_of(if_warp(0, wait(1, 1, "A") + arrive(0) + wait(1, 0, "B")) +
                    if_warp(1, wait(0, 0, "C") + arrive(1) + wait(0, 1, "D")) + wait(0, 0, "E") + wait(0, 1, "F") +
                    "END:\n",
                96, {32, 64}),
      {"likely cause: bar[1] was initialised for 64 arrivals per phase, and 32 came, by warp 1 [all lanes]. Warp 2, "
       "which waits for bar[0] as block (0,0,0) warp 1 [all lanes] does, has never arrived there"});
}

TEST_F(DeadlockTest, NamesTheLaneThatDoesNotArrive) {
  expect_words(
      report_of("setp.ne.u32 %p3, %r1, 31;\n@%p3 " + arrive(0) + wait(0, 0, "A"), 32, {32}),
      {"likely cause: bar[0] was initialised for 32 arrivals per phase, and 31 came: lanes 0-30 of warp 0 arrived, and "
       "lane 31 did not. Is the arrival in a branch that not all lanes take?"});
}

TEST_F(DeadlockTest, NamesTheSideThatIsAheadBecauseItArrivesTwice) {
  // Warps 0 and 1 arrive at bar[0] in each round; warp 0 gives a permit, bar[2], too many.
  expect_words(report_of(if_warp(0, arrive(0) + wait(1, 0, "A") + arrive(2) + wait(1, 1, "B")) + arrive(0) + arrive(1) +
                             wait(0, 0, "C") + arrive(0) + wait(0, 1, "D") + "END:\n",
                         64, {64, 32, 32}),
               {"likely cause: bar[0] misses the arrival of block (0,0,0) warp 0 [all lanes], which came in the phase "
                "before and now waits for bar[1]",
                "warp 0 is ahead: phase 0 of bar[2], ended by the arrival, is one that nobody has waited for"});
}

TEST_F(DeadlockTest, FindsTheArrivalAtTheBarrierThatItsOwnSideWaitsFor) {
  expect_words(
      report_of(if_warp(0, arrive(1) + wait(0, 0, "A")) + wait(1, 0, "B") + arrive(1) + "END:\n", 64, {32, 32}),
      {"likely cause: nobody has ever arrived at bar[0], and the arrival arrives at bar[1], for which its own "
       "warp 1 waits: is it meant for bar[0]?"});
}

TEST_F(DeadlockTest, SaysThatTheOtherSideTakesFewerRounds) {
  expect_words(report_of(if_warp(0, wait(1, 1, "A") + arrive(0) + wait(1, 0, "B") + arrive(0) + wait(1, 1, "C")) +
                             wait(0, 0, "D") + arrive(1) + "END:\n",
                         64, {32, 32}),
               {"likely cause: nobody has arrived at bar[1] since its phase 0, and bar[0] has completed phase 1, which "
                "nobody has waited for"});
}

TEST_F(DeadlockTest, SaysThatAReaderWaitsWhereTheProducerDoes) {
  expect_words(report_of(if_warp(0, wait(1, 1, "A") + arrive(0)) + wait(1, 0, "B") + "END:\n", 64, {32, 32}),
               {"likely cause: two sides wait for bar[1]: for warp 0 the wait passed at once",
                "Meanwhile bar[0] has completed phase 0, and nobody has ever waited for that"});
}

TEST_F(DeadlockTest, NamesTheProducerThatEndsWithoutAnArrival) {
  expect_words(
      report_of(if_warp(0, wait(1, 1, "A")) + wait(0, 0, "B") + "END:\n", 64, {32, 32}),
      {"likely cause: nobody has ever arrived at bar[0]: block (0,0,0) warp 0, whose wait for bar[1] passed at "
       "once, as a producer's does, has ended, and so have all other threads"});
  // The same where others sleep, too.
  expect_words(report_of(if_warp(0, wait(1, 1, "A")) + if_warp(1, wait(0, 0, "B")) + wait(2, 0, "C") + "END:\n", 96,
                         {32, 32, 33}),
               {"likely cause: nobody has ever arrived at bar[0], for which block (0,0,0) warp 1 [all lanes] waits: "
                "block (0,0,0) warp 0, whose wait for bar[1] passed at once",
                "Does it take fewer rounds?"});
  // And where they only wait for it.
  expect_words(
      report_of(
          if_warp(0, wait(1, 1, "A")) + if_warp(1, wait(0, 0, "B")) + wait(2, 1, "C") + wait(2, 0, "D") + "END:\n", 96,
          {32, 32, 33}),
      {"likely cause: nobody has ever arrived at bar[0], nor at any other barrier of that array: block (0,0,0) "
       "warp 0, whose wait for bar[1] passed at once, has ended"});
}

TEST_F(DeadlockTest, NamesTheSlotThatCopiesFilledInstead) {
  expect_words(report_of(if_warp(0,
                                 "@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 64;\n"
                                 "@%p0 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar+8], 64;\n" +
                                     wait(2, 0, "A")) +
                             wait(0, 0, "B") + "END:\n",
                         64, {1, 1, 5}),
               {"warp 1 [all lanes] mbarrier.try_wait",
                "likely cause: nobody has ever arrived at bar[0], while bar[1] has completed a phase that nobody has "
                "waited for"});
}

TEST_F(DeadlockTest, NamesTheSlotThatTheSideAheadSignalledInstead) {
  // Warp 0 hands over slot 1 instead of slot 0, and waits for the answer, which has an array of its own.
  expect_words(
      report_of("@%p0 mbarrier.init.shared.b64 [other], 32;\nbar.sync 0;\n" +
                    if_warp(0, arrive(1) + "A: mbarrier.try_wait.parity.shared.b64 %p9, [other], 0; @!%p9 bra A;\n") +
                    wait(0, 0, "B") + "END:\n",
                64, {32, 32}),
      {"likely cause: nobody has ever arrived at bar[0], while bar[1] has completed a phase that nobody has waited "
       "for"});
}

TEST_F(DeadlockTest, SaysThatEachSideWentPastAnArrival) {
  expect_words(
      report_of(if_warp(0, arrive(2) + wait(0, 0, "A")) + arrive(3) + wait(1, 0, "B") + "END:\n", 64, {32, 32, 32, 32}),
      {"likely cause: nobody has ever arrived at bar[0] or bar[1], and each side waits for the other: is an arrival at "
       "one of them missing on the way there?"});
}

TEST_F(DeadlockTest, NamesTheSlotBesideTheOneThatIsWaitedFor) {
  // The two sides take turns at bar[0] and bar[1]; warp 0 then waits for its slot at bar[2].
  expect_words(report_of(if_warp(0, wait(1, 1, "A") + arrive(1) + wait(2, 1, "B") + wait(2, 0, "C")) + wait(0, 0, "D") +
                             "END:\n",
                         64, {32, 32, 32}),
               {"likely cause: nobody has ever arrived at bar[0], while bar[1] has completed phase 0, which nobody has "
                "waited for: is this wait meant for bar[1]?"});
}

TEST_F(DeadlockTest, AsksWhetherAFirstWaitIsToPass) {
  // Warp 0 is a producer; what it brings is waited for later.
  expect_words(report_of(if_warp(0, wait(2, 1, "A") + arrive(1) + wait(2, 0, "B")) + ".loc 1 8 0\n" + wait(0, 0, "C") +
                             ".loc 1 9 0\n" + wait(1, 0, "D") + "END:\n",
                         64, {1, 32, 1}),
               {"likely cause: nobody has ever arrived at bar[0], for which block (0,0,0) warp 1 [all lanes] waits "
                "first of all, with parity 0",
                "Meanwhile bar[1] has completed phase 0, and nobody has waited for that yet"});
}

TEST_F(DeadlockTest, SaysWhichParityPassesAtOnceWhereNothingElseIsKnown) {
  expect_words(
      report_of(if_warp(0, wait(1, 0, "A") + wait(1, 1, "B")) + arrive(1) + wait(0, 0, "C") + "END:\n", 64, {32, 32}),
      {"likely cause: nobody has ever arrived at bar[0]. If this wait is meant to pass at once",
       "it asks for parity 0"});
}

/// Lane 0 arrives at the first barrier of the blocks of rank %r4 to %r7.
const std::string kArriveAtBlocks =
    "mov.u32 %r3, %cluster_ctarank; mov.u32 %r5, bar;\n"
    "NEXT: mapa.shared::cluster.u32 %r6, %r5, %r4;\n"
    "@%p0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];\n"
    "add.u32 %r4, %r4, 1; setp.le.u32 %p4, %r4, %r7; @%p4 bra NEXT;\n";

TEST_F(DeadlockTest, NamesTheBlockThatArrivesNowhere) {
  cluster = {2, 1, 1};
  expect_words(report_of("mov.u32 %r3, %cluster_ctarank; setp.ne.u32 %p3, %r3, 0; @%p3 bra A;\n"
                         "mov.u32 %r4, 0; mov.u32 %r7, 1;\n" +
                             kArriveAtBlocks + wait(0, 0, "A"),
                         32, {2}),
               {"likely cause: bar[0] was initialised for 2 arrivals per phase, and 1 came, by block rank 0 warp 0 "
                "[lane 0]. Nobody of block rank 1 has arrived at this barrier of any block"});
}

TEST_F(DeadlockTest, NamesTheArrivalThatLeavesABlockOut) {
  cluster = {2, 1, 1};
  // Each block arrives at the other's barrier, and not at its own.
  expect_words(report_of("mov.u32 %r3, %cluster_ctarank; xor.b32 %r4, %r3, 1; mov.u32 %r7, %r4;\n" + kArriveAtBlocks +
                             wait(0, 0, "A"),
                         32, {2}),
               {"likely cause: bar[0] was initialised for 2 arrivals per phase, and 1 came, by block rank 1 warp 0 "
                "[lane 0]. What is missing came to the same barrier of block rank 1, and not to that of rank 0: block "
                "rank 0 warp 0 [lane 0]. Does the arrival leave rank 0 out?"});
}

TEST_F(DeadlockTest, SaysThatOneLaneArrivesWhereAllAreCounted) {
  expect_words(report_of("@%p0 " + arrive(0) + wait(0, 0, "A"), 32, {32}),
               {"likely cause: bar[0] was initialised for 32 arrivals per phase, and 1 came, by warp 0 [lane 0]. One "
                "lane arrived for 32 that are counted: initialise it for 1"});
  // The other warp arrives whole.
  expect_words(report_of("setp.lt.u32 %p3, %r1, 31; @%p3 bra A;\n" + arrive(0) + wait(0, 0, "A"), 64, {64}),
               {"and 33 came, by warp 1 [all lanes] and warp 0 [lane 31]. 31 are missing, as many as the other lanes "
                "of one warp, and of warp 0 one lane arrived: is it counted with all of its lanes?"});
}

TEST_F(DeadlockTest, NamesTheReaderThatHasNeverArrived) {
  // Warps 1 and 2 read what warp 0 brings, and one of them ends without releasing it.
  expect_words(
      report_of(if_warp(0, arrive(0) + wait(1, 0, "A")) + if_warp(1, wait(0, 0, "B") + arrive(1)) + wait(0, 0, "C") +
                    "END:\n",
                96, {32, 64}),
      {"likely cause: bar[1] was initialised for 64 arrivals per phase, and 32 came, by warp 1 [all lanes]. All "
       "of these had waited for bar[0], and so had warp 2, which has never arrived here"});
}

TEST_F(DeadlockTest, NamesTheWarpThatExitsAndNeverArrives) {
  expect_words(
      report_of(if_warp(0, wait(0, 0, "A")) + if_warp(1, arrive(0)) + "END:\n", 96, {64}),
      {"and 32 came, by warp 1 [all lanes]. One warp more is counted, and warp 2 has exited and never arrived there",
       "or is the count too high for the 3 warps that were launched?"});
}

TEST_F(DeadlockTest, SaysThatTooFewWarpsAreLaunched) {
  expect_words(report_of(if_warp(0, wait(0, 0, "A")) + arrive(0) + "END:\n", 64, {96}),
               {"and 32 came, by warp 1 [all lanes]. These are the last of the 2 warps that the block was launched "
                "with, and 2 more are counted: is the count too high, or are too few threads launched?"});
}

TEST_F(DeadlockTest, NamesWhoArrivedInThePhaseBeforeOnly) {
  // Warp 2 takes its second round for warp 0's, to which it has not arrived.
  expect_words(
      report_of(if_warp(0, wait(0, 0, "A") + arrive(1) + wait(0, 1, "B") + arrive(1)) +
                    if_warp(1, arrive(0) + wait(1, 0, "C") + arrive(0)) + arrive(0) + wait(1, 0, "D") +
                    wait(1, 1, "E") + "END:\n",
                96, {64, 32}),
      {"likely cause: bar[0] was initialised for 64 arrivals per phase, and 32 came, by warp 1 [all lanes]. Missing is "
       "what came in phase 0 by warp 2 [all lanes], which now waits for bar[1] to complete phase 1"});
}

TEST_F(DeadlockTest, SaysThatAsManyWaitAsAreMissing) {
  expect_words(report_of(if_warp(0, wait(0, 0, "A")) + arrive(0) + wait(0, 0, "B") + "END:\n", 64, {64}),
               {"block (0,0,0) warp 0 [all lanes]",
                "and 32 came, by warp 1 [all lanes]. As many wait here as are missing, and they are all that have not "
                "arrived"});
  // One that goes on without a wait is no part of a meeting.
  expect_words(report_of(if_warp(0, wait(0, 0, "A")) + arrive(0) + "END:\n", 64, {64}),
               {"by warp 1 [all lanes]. Those who arrived have not waited for it, and all others do: initialise it for "
                "32, unless those who wait are to arrive first"});
}

TEST_F(DeadlockTest, NamesWhoTakesTheNextSlotAndFreesNone) {
  // Warp 0 fills bar[0], and bar[1] when bar[2] says that the first is free. Warp 1 waits for both before it says so.
  expect_words(
      report_of(if_warp(0, wait(2, 1, "A") + arrive(0) + wait(2, 0, "B") + arrive(1)) + wait(0, 0, "C") +
                    wait(1, 0, "D") + arrive(2) + "END:\n",
                64, {32, 32, 32}),
      {"likely cause: nobody has ever arrived at bar[1]. block (0,0,0) warp 1 [all lanes], which now waits for "
       "it, has waited for bar[0] and arrived nowhere since; bar[2], which counts as many arrivals, has got "
       "none"});
}

TEST_F(DeadlockTest, SaysThatAReaderIsARoundAhead) {
  // Warps 1 and 2 take rounds in turn; warp 2 does not wait for its turn, and asks for its phase during the one before.
  const std::string begin = "bar.sync 2, 96;\n", end = "bar.sync 1, 96;\n";
  expect_words(
      report_of(if_warp(0, wait(1, 1, "A") + begin + arrive(0) + end + wait(1, 0, "B")) +
                    "setp.eq.u32 %p3, %r2, 1; @%p3 bra FIRST;\n" + wait(0, 1, "C") + begin +
                    "bra FREE;\nFIRST: " + begin + wait(0, 0, "D") + "FREE: " + arrive(1) + end + "END:\n",
                96, {32, 32}),
      {"by warp 2, released the slot before its turn: its wait for bar[0] asked for parity 1 when no phase had "
       "ended, and passed at once"});
}

TEST_F(DeadlockTest, SaysThatTheSameLanesArriveAgainInOnePhase) {
  // Warp 1 ends with two arrivals the phase that is to wait for warp 2 as well, which ends the next.
  const auto twice = [](const std::string& label) {
    return fmt::format("mov.u32 %r4, 0;\n{0}: {1}add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 2; @%p4 bra {0};\n", label,
                       arrive(0));
  };
  expect_words(
      report_of(if_warp(1, twice("A") + "bar.sync 1, 64;\nbar.sync 0;\n") +
                    if_warp(2, "bar.sync 1, 64;\n" + twice("B") + "bar.sync 0;\n") + "bar.sync 0;\n" + wait(0, 0, "C") +
                    "END:\n",
                96, {64}),
      {"likely cause: warp 1 [all lanes] arrived 2 times in phase 0 of bar[0], which waits for 64 arrivals, and so "
       "took the place of others. Are they to arrive once in each round"});
  // The next phase has begun.
  expect_words(
      report_of(if_warp(1, twice("A") + arrive(0) + "bar.sync 0;\n") + "bar.sync 0;\n" + wait(0, 1, "C") + "END:\n", 96,
                {64}),
      {"bar[0]: phase 1, 32 of 64 arrivals pending",
       "likely cause: warp 1 [all lanes] arrived 2 times in phase 0 of bar[0]"});
}

TEST_F(DeadlockTest, SaysThatNobodyElseCanComeToABarrier) {
  // Warp 1 waits for warp 0, whose first meeting counts a warp more than the second.
  expect_words(report_of(if_warp(0, arrive(0) + "bar.sync 1, 64;\nbar.sync 1, 32;\n" + arrive(0)) + wait(0, 0, "A") +
                             wait(0, 1, "B") + "END:\n",
                         64, {32}),
               {"block (0,0,0) warp 0 [all lanes] bar",
                "likely cause: barrier 1 counts 64 threads, and 32 have come. No others of the block can still come to "
                "it from where they are. It is used with 32 threads"});
}

TEST_F(DeadlockTest, BlamesLanesThatWaitForEachOtherBeforeACount) {
  // Warp 0 does not come to its arrival at bar[0], which has that of warp 1.
  expect_words(
      report_of(
          if_warp(0, "@!%p0 bra MEET;\nelect.sync _|%p3, 0xffffffff;\nMEET: bar.warp.sync 0xffffffff;\n" + arrive(0)) +
              arrive(0) + wait(0, 0, "A") + "END:\n",
          64, {64}),
      {"warp 0 [lane 0] elect.sync", "only lane 0 came to elect.sync"});
}

TEST_F(DeadlockTest, NamesTheSlotThatIsPassedWithoutBeingFilled) {
  // bar[0] and bar[1] say that slots are full, bar[2] and bar[3] that they are empty. Warp 0 fills the first, waits for
  // both to be empty, and then for the second once more.
  expect_words(
      report_of(if_warp(0, wait(2, 1, "A") + arrive(0) + wait(3, 1, "B") + wait(2, 0, "C") + wait(3, 0, "D")) +
                    wait(0, 0, "E") + arrive(2) + wait(1, 0, "F") + "END:\n",
                64, {32, 32, 32, 32}),
      {"likely cause: warp 0 has waited for bar[3] before, and has put nothing into the slot since: in between "
       "it neither arrived at bar[1] nor announced bytes there",
       "Or is an arrival at bar[1] missing, for which warp 1 waits?"});
}

TEST_F(DeadlockTest, NamesTheReaderThatKeepsASlot) {
  // bar[0] says that the slot is full, bar[1] that it is empty. Warp 1 reads what came in the second round, and goes.
  const std::string fill = if_warp(0, wait(1, 1, "A") + arrive(0) + wait(1, 0, "B") + arrive(0) + wait(1, 1, "C"));
  expect_words(report_of(fill + wait(0, 0, "D") + arrive(1) + wait(0, 1, "E") + "END:\n", 64, {32, 32}),
               {"likely cause: nobody has arrived at bar[1] since its phase 0: warp 1, which waited for bar[0]",
                ", has not arrived there since. Is its arrival (a release) missing in some rounds"});
  // The same in the first round, of two readers.
  const std::string once = if_warp(0, wait(1, 1, "A") + arrive(0) + wait(1, 0, "B"));
  expect_words(report_of(once + wait(0, 0, "C") + "END:\n", 96, {32, 64}),
               {"the slot has never been released since. Warps 1-2, which waited for bar[0]",
                ", have not arrived there since. Is an arrival (a release) missing"});
  const std::string commit = "@%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [bar];\n";
  const std::string committed = if_warp(0, wait(1, 1, "A") + commit + wait(1, 0, "B"));
  expect_words(report_of(committed + wait(0, 0, "C") + "END:\n", 64, {1, 32}),
               {"the slot has never been released since. Warp 1, which waited for bar[0]"});
  // Before it fills the slot, warp 0 releases one of another ring, bar[2], for which warp 2 waits.
  const std::string between = if_warp(0, wait(1, 1, "A") + arrive(2) + arrive(0) + wait(1, 0, "B"));
  expect_words(
      report_of(between + if_warp(2, wait(2, 1, "C") + wait(2, 0, "D")) + wait(0, 0, "E") + "END:\n", 96, {32, 32, 32}),
      {"the slot has never been released since. Warp 1, which waited for bar[0]"});
}

TEST_F(DeadlockTest, NamesTheSlotThatIsReleasedInstead) {
  // bar[0] and bar[1] say that slots are full, bar[2] and bar[3] that they are empty. Warp 1 releases the
  // first again for the second.
  const std::string fill =
      wait(2, 1, "A") + arrive(0) + wait(2, 0, "B") + wait(3, 1, "C") + arrive(1) + wait(3, 0, "D");
  expect_words(report_of(if_warp(0, fill) + wait(0, 0, "E") + arrive(2) + wait(1, 0, "F") + arrive(2) + "END:\n", 64,
                         {32, 32, 32, 32}),
               {"nobody has ever arrived at bar[3]", "Warp 1, which waited for bar[1]",
                ", has not arrived there since, but at bar[2]: is that arrival meant for bar[3]?"});
}

TEST_F(DeadlockTest, NamesTheWarpThatEndsBeforeItsRoleBegins) {
  // Warp 0 is to fill bar[0] for warp 1, which then fills bar[1] for warp 2.
  expect_words(
      report_of(if_warp(0, "") + if_warp(1, arrive(2) + wait(0, 0, "A") + arrive(1)) + wait(1, 0, "B") + "END:\n", 96,
                {32, 32, 33}),
      {"likely cause: nobody has ever arrived at bar[0], and warp 0 has ended, and has never arrived at a "
       "barrier or waited for one: is it to arrive at bar[0], and leaves before its role begins"});
}

TEST_F(DeadlockTest, SaysThatAWaitIsOneMoreThanTheArrivals) {
  expect_words(
      report_of(if_warp(0, wait(0, 0, "A") + wait(1, 0, "B")) + arrive(0) + "END:\n", 64, {32, 32}),
      {"likely cause: nobody has ever arrived at bar[1], and all other threads have ended. Warp 0 waits here for "
       "what block (0,0,0) warp 1 signals, as it did at other barriers of that array: it has waited for the one "
       "phase that block (0,0,0) warp 1 ended there, and this is one wait more"});
}

TEST_F(DeadlockTest, FollowsAMissingArrivalToTheOneGroupThatIsAsLarge) {
  // Warp 1 has arrived at bar[0]; warp 2 is to do so, after a wait. A lane of warp 3 waits for something else.
  const std::string text =
      report_of(if_warp(0, wait(0, 0, "A")) + if_warp(1, arrive(0)) + if_warp(2, wait(1, 0, "B") + arrive(0)) +
                    "and.b32 %r4, %r1, 31; setp.ne.u32 %p4, %r4, 0; @%p4 bra END;\n" + wait(2, 0, "C") + "END:\n",
                128, {64, 1, 1});
  expect_words(text, {"block (0,0,0) warp 2 [all lanes] mbarrier.try_wait", "waits for bar[1] to complete phase 0"});
}

TEST_F(DeadlockTest, SaysThatASlotIsWaitedForThatNobodyHasFilled) {
  // Warp 0 fills the slot of bar[0], which warp 1 frees at bar[2]; then it waits for bar[3] to be freed.
  expect_words(
      report_of(if_warp(0, wait(2, 1, "Z") + arrive(0) + wait(2, 0, "A") + wait(3, 0, "B")) + wait(0, 0, "C") +
                    arrive(2) + "END:\n",
                64, {32, 32, 32, 32}),
      {"likely cause: nobody has ever arrived at bar[3], and all other threads have ended: nobody has filled that "
       "slot either, since bar[1] has got no arrival",
       "Does warp 0 step past a slot that it has not filled"});
}

TEST_F(DeadlockTest, AsksTheFillerForParityOneWhereAsManyWaitAsItWaitsFor) {
  // Warp 0 fills what warps 1 and 2 read and free; it waits for that first.
  expect_words(report_of(if_warp(0, arrive(2) + wait(1, 0, "A") + arrive(0)) + arrive(3) + wait(0, 0, "B") + arrive(1) +
                             "END:\n",
                         96, {32, 64, 32, 64}),
               {"likely cause: nobody has ever arrived at bar[1] or bar[0], and each side waits for the other. bar[1] "
                "counts 64 arrivals, and 64 threads wait for bar[0]",
                "So the first wait of block (0,0,0) warp 0 [all lanes] for bar[1]", "it must ask for parity 1"});
}

class HopperDeadlockTest : public DeadlockFixture {
 protected:
  HopperDeadlockTest() : DeadlockFixture(machine::h200()) {}
};

TEST_F(HopperDeadlockTest, SaysThatABlockAsksForMoreRegistersThanItHas) {
  const std::string text = report_of(compile(".visible .entry k(.param .u64 out) .maxnreg 168 {\n"
                                             "setmaxnreg.inc.sync.aligned.u32 240;\nret;\n}\n"),
                                     384);
  expect_words(text, {"likely cause: the block was launched with 168 registers per thread in each of 12 warps"});
}

TEST_F(HopperDeadlockTest, SaysThatAMultiplicationNeedsAllWarpsOfAWarpgroup) {
  const std::string text = report_of(
      compile_body("mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; @%p1 bra END;\n"
                   "mov.u32 %r2, operands; shr.u32 %r2, %r2, 4; cvt.u64.u32 %rd1, %r2;\n"
                   "or.b64 %rd1, %rd1, "
                   "0x1000080000;\nwgmma.fence.sync.aligned;\nwgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                   "{%f0, %f1, %f2, %f3}, %rd1, %rd1, 1, 1, 1, 0, 0;\n"
                   "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\nEND:\n",
                   ".shared .align 128 .b8 operands[4096];"),
      128);
  expect_words(text, {"likely cause: a wgmma.mma_async begins when all four warps of the warpgroup have issued it"});
}

}  // namespace
}  // namespace stagecraft::emulator::checks
