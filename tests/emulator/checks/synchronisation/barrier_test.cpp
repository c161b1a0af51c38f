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

}  // namespace
}  // namespace stagecraft::emulator::checks
