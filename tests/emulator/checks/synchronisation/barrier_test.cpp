// mbarriers that are initialised again while they are live.
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

/// All 64 threads initialise by thread 0, arrive and wait, twice, as a function does that has a __shared__ barrier and
/// is called twice.
const std::string kTwice = R"(mov.u32 %r5, 0;
AGAIN:
@%first mbarrier.init.shared.b64 [bar], 64;
bar.sync 0;
mbarrier.arrive.shared.b64 _, [bar];
WAIT:
mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;
@!%p7 bra WAIT;
bar.sync 1;
add.u32 %r5, %r5, 1;
setp.lt.u32 %p2, %r5, 2;
@%p2 bra AGAIN;
)";

TEST_F(RaceTest, ToleratesABarrierThatIsInitialisedAgainAtRest) {
  for (uint64_t seed_of_run = 0; seed_of_run < 4; ++seed_of_run) {
    const machine::LaunchResult result = run(kTwice, {}, seed_of_run);
    expect_one(result, "barrier misuse",
               {"initialises bar[0] again, which is still live after 1 phase", "f.cu:3", "mbarrier.inval"});
    EXPECT_NE(result.diagnostics.at(0).tolerated, "");
  }
  // Once it has been invalidated there is nothing to say.
  expect_silence(run(with(kTwice, "bar.sync 1;", "bar.sync 1;\n@%first mbarrier.inval.shared.b64 [bar];")));
}

TEST_F(RaceTest, FindsABarrierThatIsInitialisedAgainWhileOthersMayWait) {
  const machine::LaunchResult result = run(without(kTwice, "bar.sync 1;\n"));
  ASSERT_GE(result.diagnostics.size(), 1u);
  const std::string text = text_of(result);
  EXPECT_NE(text.find("initialises bar[0] again"), std::string::npos) << text;
  EXPECT_NE(text.find("[all lanes] waits for it at f.cu:7, and nothing orders that"), std::string::npos) << text;
  EXPECT_EQ(result.diagnostics.at(0).tolerated, "");
}

TEST_F(RaceTest, SaysThatAnArrivalAtTheClusterAloneOrdersNoInitialisation) {
  const std::string text =
      text_of(run("@%first mbarrier.init.shared.b64 [bar], 64;\nbarrier.cluster.arrive;\n"
                  "mbarrier.arrive.shared.b64 _, [bar];\nbarrier.cluster.wait;\n",
                  {.blocks = 2, .cluster_blocks = 2}));
  EXPECT_NE(text.find("and nothing orders its initialisation before that"), std::string::npos) << text;
  EXPECT_NE(text.find("has arrived at barrier.cluster and gone on without barrier.cluster.wait"), std::string::npos)
      << text;
}

TEST_F(RaceTest, FindsAnArrivalThatIsUnderWayWhenItsBarrierIsInitialisedAgain) {
  // The copy's bytes have not been announced, so that the barrier looks as if it were at rest.
  const std::string copy =
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 256, [bar];\n";
  const std::string body = "mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.shared.b64 _, [bar];\n" + copy +
                           "mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"
                           "WAIT: mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;\n@!%p7 bra WAIT;";
  const machine::LaunchResult result = run(body, {.threads = 1});
  expect_one(result, "barrier misuse", {"cp.async.bulk issued by", "f.cu:3 is still to arrive there", "f.cu:4"});
  EXPECT_EQ(result.diagnostics.at(0).tolerated, "");
}

TEST_F(RaceTest, StopsWhereSeveralThreadsInitialiseABarrier) {
  const std::string every_warp = "setp.eq.u32 %p1, %lane, 0;\n@%p1 mbarrier.init.shared.b64 [bar], 64;\n";
  expect_one_fault(run(every_warp), "barrier misuse",
                   {"bar[0] is already live", "more than one thread initialises it: one must"});
  // Another thread may do it again when all have met.
  const machine::LaunchResult later =
      run("@%first mbarrier.init.shared.b64 [bar], 64;\nbar.sync 0;\nsetp.eq.u32 %p1, %thread, 32;\n"
          "@%p1 mbarrier.init.shared.b64 [bar], 64;\n");
  expect_one(later, "barrier misuse", {"still live after 0 phases"});
  EXPECT_NE(later.diagnostics.at(0).tolerated, "");
}

TEST_F(RaceTest, SaysWhyABarrierInUseCannotBeInitialisedAgain) {
  const std::string half = without(with(kTwice, "bar.sync 1;\n", ""),
                                   "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;\n@!%p7 bra WAIT;\n");
  expect_one_fault(run(with(half, "[bar], 64;", "[bar], 65;")), "barrier misuse",
                   {"phase 0 is under way: 64 of 65 arrivals have come", "runs again, in a loop"});
}

TEST_F(RaceTest, SaysThatAnnouncingBytesTwiceIsTwoArrivals) {
  const std::string announce = "@%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\n";
  expect_one_fault(
      run("@%first mbarrier.init.shared.b64 [bar], 1;\n" + announce + announce), "barrier misuse",
      {"announcing bytes (arrive.expect_tx) is an arrival as well", "announce the sum of all copies once"});
}

TEST_F(RaceTest, NamesTheBarrierOfTheNextStageWhereTheFirstIsAnnouncedTwice) {
  const auto announce_twice = [](const std::string& before) {
    return "@%first mbarrier.init.shared.b64 [bar], 1;\n@%first mbarrier.init.shared.b64 [bar+8], 1;\n" + before +
           "mov.u32 %r5, 0;\nL: @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64;\nadd.u32 %r5, %r5, 1;\n"
           "setp.lt.u32 %p2, %r5, 2;\n@%p2 bra L;\n";
  };
  const std::string meant = "or is bar[1] meant, which nobody has used yet?";
  expect_one_fault(run(announce_twice("")), "barrier misuse", {"nobody made it wait for the phase to end", meant});
  const std::string text =
      text_of(run(announce_twice("@%first mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 64;\n")));
  EXPECT_NE(text.find("nobody made it wait for the phase to end"), std::string::npos) << text;
  EXPECT_EQ(text.find(meant), std::string::npos) << text;
}

TEST_F(RaceTest, AsksForAWarpBarrierWhereOneWarpInitialisesAndUses) {
  const std::string use = "@%first mbarrier.init.shared.b64 [bar], 32;\nmbarrier.arrive.shared.b64 _, [bar];\n";
  expect_one(run(use, Shape{32}), "barrier misuse", {"a __syncwarp() is missing between mbarrier.init and the first"});
}

TEST_F(RaceTest, NamesTheArrivalThatMakesAPhaseTooFull) {
  const std::string body =
      "@%first mbarrier.init.shared.b64 [bar], 32;\nbar.sync 0;\nsetp.ne.u32 %p1, %warp, 0;\n@%p1 bra END;\n"
      "@%first mbarrier.arrive.shared.b64 _, [bar]; // once more\nmbarrier.arrive.shared.b64 _, [bar];\nEND:\n";
  const std::string text = text_of(run(body));
  EXPECT_NE(text.find("the arrival at " + line_of(body, "// once more") + " came in the same phase"), std::string::npos)
      << text;
}

TEST_F(RaceTest, NamesTheBarrierThatManyLanesMayBeMeantFor) {
  const std::string body =
      "@%first mbarrier.init.shared.b64 [bar], 1;\n@%first mbarrier.init.shared.b64 [bar+8], 32;\nbar.sync 0;\n"
      "setp.ne.u32 %p1, %warp, 0;\n@%p1 bra END;\nmbarrier.arrive.shared.b64 _, [bar];\nEND:\n";
  expect_one(run(body), "barrier misuse",
             {"more lanes arrive at bar[0]", "or is bar[1] meant, which is initialised for 32 arrivals"});
  // A barrier of another array is meant only where it has the same number.
  variables += ".shared .align 8 .b64 other[8];\n";
  const std::string text = text_of(run(with(body, "[bar+8], 32", "[other+8], 32")));
  EXPECT_NE(text.find("more lanes arrive at bar[0]"), std::string::npos) << text;
  EXPECT_EQ(text.find("meant"), std::string::npos) << text;
  expect_one(run(with(body, "[bar+8], 32", "[other], 32")), "barrier misuse", {"or is other[0] meant"});
}

TEST_F(RaceTest, ToleratesAWaitOfTheBlocksScopeForAnArrivalOfAnotherBlock) {
  const auto body = [](const std::string& wait) {
    return "@%first mbarrier.init.shared.b64 [bar], 1;\n@%first fence.mbarrier_init.release.cluster;\n"
           "barrier.cluster.arrive; barrier.cluster.wait;\nmov.u32 %r1, bar; mapa.shared::cluster.u32 %r1, %r1, 0;\n"
           "setp.eq.u32 %p1, %rank, 1; and.pred %p1, %p1, %first;\n"
           "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];\nsetp.eq.u32 %p2, %rank, 1;\n"
           "@%p2 bra END;\nWAIT:\n" +
           wait + " %p7, [bar], 0;\n@!%p7 bra WAIT;\nEND:\nbarrier.cluster.arrive; barrier.cluster.wait;\n";
  };
  const Shape pair{.threads = 32, .blocks = 2, .cluster_blocks = 2};
  expect_silence(run(body("mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64"), pair));
  const machine::LaunchResult narrow = run(body("mbarrier.try_wait.parity.shared::cta.b64"), pair);
  expect_one(narrow, "barrier misuse", {"waits for bar[0] with the scope of its own block", "block (1,0,0) warp 0"});
  EXPECT_NE(narrow.diagnostics.at(0).tolerated, "");
}

TEST_F(RaceTest, FindsAWaitWhoseAnswerNothingLooksAt) {
  const auto body = [](const std::string& wait) {
    return "@%first mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n@%first mbarrier.arrive.shared.b64 _, [bar];\n"
           "nanosleep.u32 100;\nAGAIN:\n" +
           wait;
  };
  const std::string ask = "mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;\n";
  expect_silence(run(body(ask + "@!%p7 bra AGAIN;\n")));
  expect_silence(run(body(ask + "selp.b32 %r1, 1, 0, %p7;\nst.global.u32 [%out], %r1;\n"), {.threads = 1}));
  expect_one(run(body(ask + "selp.b32 %r1, 1, 0, %p7;\n")), "barrier misuse",
             {"asks whether a phase of bar[0] has ended, and nothing looks at the answer", "f.cu:6"});
  // A hint is right where a wait follows before what relies on the phase, and wrong where it comes too late.
  const std::string hint = "mbarrier.try_wait.parity.shared.b64 %p8, [bar], 0;\n",
                    load = "ld.shared.u32 %r2, [%own];\n";
  const std::string set = "st.shared.u32 [%own], 1;\n", wait = "WAIT: " + ask + "@!%p7 bra WAIT;\n";
  const auto handed_over = [&](const std::string& end) {
    return with(body(end), "@%first mbarrier.arrive", "@%first st.shared.u32 [tile], 1;\n@%first mbarrier.arrive");
  };
  const std::string read = "ld.shared.u32 %r2, [tile];\n";
  expect_silence(run(handed_over(hint + wait + read)));
  expect_one(run(handed_over(hint + read + wait)), "barrier misuse", {"nothing looks at the answer", "f.cu:7"});
  expect_one(run(handed_over(hint + "bar.sync 2;\n" + read)), "barrier misuse", {"nothing looks at the answer"});
  // What is known without the phase may be accessed between the two.
  expect_silence(run(set + body(hint + load + wait)));
  expect_silence(run(handed_over("bar.sync 1;\n" + hint + read + wait)));
  expect_silence(run(handed_over(hint + "st.shared.u32 [%own+1024], 1;\n" + wait + read)));
  // A thread that knows already does not need the answer.
  expect_silence(
      run(body("bar.sync 1;\nWAIT: mbarrier.try_wait.parity.shared.b64 %p8, [bar], 0;\n@!%p8 bra WAIT;\n" + ask)));
}

}  // namespace
}  // namespace stagecraft::emulator::checks
