// Races among threads.
#include "emulator/scheduling/findings.hpp"
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

/// Each thread writes its word and reads that of the thread `distance` further; `between` is put between the two.
std::string exchange(uint32_t distance, const std::string& between) {
  return fmt::format(
      "st.shared.u32 [%own], %thread;\n{}\nxor.b32 %other, %thread, {};\nmov.u32 %r1, tile;\n"
      "mad.lo.u32 %other, %other, 4, %r1;\nld.shared.u32 %r2, [%other];\n",
      between, distance);
}

TEST_F(RaceTest, FindsAMissingSyncthreads) {
  expect_one(run(exchange(32, "")), "race",
             {"writes tile+0x80", "warp 1 [lane 0] st.shared.u32 at f.cu:1", "warp 0 [lane 0] reads it at f.cu:6",
              "nothing orders the two", "likely cause: there is no __syncthreads()"});
  expect_silence(run(exchange(32, "bar.sync 0;")));
}

TEST_F(RaceTest, TellsThePairThatNeedsTheStrongestBarrier) {
  // Lanes of the writer's own warp race too.
  const std::string body = "ld.shared.u32 %r1, [tile];\n@%first st.shared.u32 [tile], 1;\n";
  expect_one(run("@%first st.shared.u32 [tile], 0;\nbar.sync 0;\n" + body, {.threads = 128}), "race",
             {"f.cu:3", "f.cu:4", "__syncthreads()"});
  expect_one(run("@%first st.shared.u32 [tile], 0;\nbar.sync 0;\n" + body, {.threads = 32}), "race",
             {"f.cu:3", "f.cu:4", "__syncwarp()"});
}

TEST_F(RaceTest, SaysThatARaceDecidesWhoComesToABarrier) {
  // Thread 0 writes in each round of a loop, and sets in the second the word by which all may leave it.
  const auto rounds = [](const std::string& start, const std::string& before_store, const std::string& load) {
    return start +
           "\n@%first st.shared.u32 [tile], 0;\n@%first st.shared.u32 [bar], 0;\nbar.sync 0;\nAGAIN: " + before_store +
           R"(
add.u32 %r1, %r1, 1;
shr.u32 %r2, %r1, 1;
@%first st.shared.u32 [tile], %r2;
@%first st.shared.u32 [bar], %r1;
bar.sync 0;
)" + load + R"(
setp.eq.u32 %p1, %r2, 0;
@%p1 bra AGAIN;
nanosleep.u32 1000;
ld.shared.u32 %r3, [bar];
)";
  };
  const auto reported = [&](const std::string& body) {
    machine::LaunchResult result = run(body, {.threads = 128});
    machine::fold_consequences(result.diagnostics);
    return result;
  };
  const std::string together = "mov.u32 %r1, 0;", load = "ld.shared.u32 %r2, [tile];";
  const machine::LaunchResult raced = reported(rounds(together, "", load));
  expect_one(raced, "race", {"f.cu:8", "f.cu:11", "1 more report follows from this one: race at f.cu:15"});
  EXPECT_NE(raced.diagnostics.at(0).consequences.at(0).likely_cause.find(
                "which of the two a thread does depends on what it reads at f.cu:11, and that races with the access"),
            std::string::npos);
  expect_silence(reported(rounds(together, "bar.sync 0;", load)));
  // Here warps 2 and 3 leave a round before the others, whatever is read.
  const machine::LaunchResult apart = reported(rounds("shr.u32 %r1, %warp, 1;", "", "ld.shared.u32 %r4, [tile];"));
  EXPECT_EQ(apart.diagnostics.size(), 2u) << text_of(apart);
  EXPECT_NE(text_of(apart).find("is there one that it leaves out before?"), std::string::npos) << text_of(apart);
}

TEST_F(RaceTest, NamesAnArrivalThatSpeaksForTooFew) {
  // Warps 0 and 1 write, warp 2 reads.
  const auto hand_over = [](const std::string& between) {
    return "@%first mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\nsetp.eq.u32 %p2, %warp, 2;\n@%p2 bra WAIT;\n"
           "st.shared.u32 [%own], %thread;\n" +
           between + R"(
@%first mbarrier.arrive.shared.b64 _, [bar];
bra END;
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
@!%p1 bra WAIT;
ld.shared.u32 %r2, [tile];
ld.shared.u32 %r2, [tile+128];
END:
)";
  };
  const Shape shape{.threads = 96};
  expect_one(run(hand_over("bar.warp.sync 0xffffffff;"), shape), "race",
             {"f.cu:5", "was ended by the arrival at f.cu:7 of block (0,0,0) warp 0 [lane 0]", "block (0,0,0) warp 1"});
  expect_silence(run(hand_over("bar.sync 1, 64;"), shape));
}

TEST_F(RaceTest, SaysThatABarrierCountsFewerWarpsThanArrive) {
  // Warps 1 to 3 read and free a slot. Warp 0 waits for two of them, and tells warp 4 to write there.
  const auto freed = [](uint32_t count) {
    return "@%first mbarrier.init.shared.b64 [bar], " + std::to_string(count) + R"(;
@%first mbarrier.init.shared.b64 [bar+8], 1;
bar.sync 0;
setp.ne.u32 %p3, %lane, 0;
setp.eq.u32 %p2, %warp, 0;
@%p2 bra WAIT;
setp.eq.u32 %p2, %warp, 4;
@%p2 bra WRITE;
ld.shared.u32 %r2, [tile];
bar.warp.sync 0xffffffff;
@%p3 bra END;
mbarrier.arrive.shared.b64 _, [bar];
bra END;
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
@!%p1 bra WAIT;
@%p3 bra END;
mbarrier.arrive.shared.b64 _, [bar+8];
bra END;
WRITE: mbarrier.try_wait.parity.shared.b64 %p1, [bar+8], 0;
@!%p1 bra WRITE;
@%p3 bra END;
st.shared.u32 [tile], %thread;
END:
)";
  };
  const Shape shape{.threads = 160};
  expect_one(
      run(freed(2), shape), "race",
      {"bar[0] is initialised at f.cu:1 for 2 arrivals per phase, and one lane of each of 3 warps arrives there at "
       "f.cu:12",
       "Initialise it for 3"});
  expect_silence(run(freed(3), shape));
}

TEST_F(RaceTest, NamesTheLastBarrierWhereTheSecondOfARoundIsMissing) {
  const auto rounds = [](const std::string& last) {
    return "mov.u32 %r3, 0;\nAGAIN:\n@%first st.shared.u32 [tile], %r3;\nbar.sync 1, 64;\nld.shared.u32 %r1, "
           "[tile];\n" +
           last + "\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, 3;\n@%p1 bra AGAIN;\n";
  };
  expect_one(run(rounds("bar.warp.sync 0xffffffff;")), "race",
             {"the last barrier that both came to, barrier 1 at f.cu:4",
              "another one is missing between the read at f.cu:5", "the next write at f.cu:3"});
  expect_silence(run(rounds("bar.sync 0;")));
}

TEST_F(RaceTest, DoesNotTakeASyncOfTheWarpForOneOfTheBlock) {
  expect_one(run(exchange(32, "bar.warp.sync 0xffffffff;")), "race", {"f.cu:6", "f.cu:1"});
}

TEST_F(RaceTest, FindsAMissingSyncwarp) {
  expect_one(run(exchange(1, "")), "race", {"f.cu:6", "f.cu:1", "__syncwarp()"});
  expect_silence(run(exchange(1, "bar.warp.sync 0xffffffff;")));
}

TEST_F(RaceTest, TakesNoOtherMeetingOfLanesForASyncwarp) {
  for (const char* meeting :
       {"shfl.sync.idx.b32 %r3, %thread, 0, 31, 0xffffffff;", "elect.sync _|%p3, 0xffffffff;",
        "vote.sync.ballot.b32 %r3, %p3, 0xffffffff;", "match.any.sync.b32 %r3, %thread, 0xffffffff;",
        "redux.sync.add.u32 %r3, %thread, 0xffffffff;"}) {
    SCOPED_TRACE(meeting);
    expect_one(run(exchange(1, meeting)), "race", {"f.cu:6", "f.cu:1", "__syncwarp()"});
  }
}

TEST_F(RaceTest, OrdersTheLanesOfEachTileThatSynchronises) {
  // The halves synchronise in one instruction, with a mask for each.
  const std::string tiles = "setp.lt.u32 %p1, %lane, 16; selp.b32 %r4, 0x0000ffff, 0xffff0000, %p1; bar.warp.sync %r4;";
  expect_silence(run(exchange(1, tiles)));
  expect_one(run(exchange(16, tiles)), "race", {"f.cu:6", "f.cu:1", "__syncwarp()"});
}

TEST_F(RaceTest, OrdersNoLaneThatIsStillToComeToASyncwarp) {
  // Lanes 0 to 15 have a mask of their own, which is complete, while lane 31 of the others comes later.
  const std::string body = R"(setp.lt.u32 %p1, %lane, 16;
    selp.b32 %r4, 0x0000ffff, 0xffff0000, %p1;
    mov.u32 %other, tile;
    mov.u32 %r5, 0;
    setp.eq.u32 %p2, %lane, 31;
    @%p2 bra LATE;
    setp.eq.u32 %p3, %lane, 16;
    @%p3 st.shared.u32 [%other], %thread;
    bar.warp.sync %r4;
    bra MET;
    LATE:
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p4, %r5, 5000;
    @%p4 bra LATE;
    ld.shared.u32 %r6, [%other];
    bar.warp.sync %r4;
    MET:)";
  expect_one(run(body, Shape{32}), "race", {line_of(body, "st.shared.u32"), line_of(body, "ld.shared.u32")});
}

TEST_F(RaceTest, OrdersOnlyTheLanesThatSynchronise) {
  const std::string body = R"(st.shared.u32 [%own], %thread;
    setp.lt.u32 %p1, %lane, 16;
    @!%p1 bra UPPER;
    bar.warp.sync 0x0000ffff;
    bra MET;
    UPPER:
    bar.warp.sync 0xffff0000;
    MET:
    xor.b32 %other, %lane, {};
    mov.u32 %r1, tile;
    mad.lo.u32 %other, %other, 4, %r1;
    ld.shared.u32 %r2, [%other];)";
  expect_silence(run(fmt::format(fmt::runtime(body), 8), {.threads = 32}));
  expect_one(run(fmt::format(fmt::runtime(body), 16), {.threads = 32}), "race", {"f.cu:12", "f.cu:1"});
}

TEST_F(RaceTest, OrdersTilesThatSynchroniseInOneInstructionEachOnItsOwn) {
  const std::string between = "and.b32 %r3, %lane, -16; mov.b32 %r4, 65535; shl.b32 %r3, %r4, %r3; bar.warp.sync %r3;";
  expect_silence(run(exchange(8, between), {.threads = 32}));
  expect_one(run(exchange(16, between), {.threads = 32}), "race", {"f.cu:6", "f.cu:1"});
}

TEST_F(RaceTest, FindsAWriteThatNothingOrdersAfterTheReads) {
  const std::string reads = exchange(32, "bar.sync 0;");
  expect_one(run(reads + "st.shared.u32 [%own], %r2;"), "race", {"f.cu:7", "f.cu:6"});
  expect_silence(run(reads + "bar.sync 0;\nst.shared.u32 [%own], %r2;"));
}

TEST_F(RaceTest, SaysOfWarpsThatWriteTheSameValueThatTheChipToleratesIt) {
  const auto tolerated = [this](const std::string& body) {
    const machine::LaunchResult result = run(body);
    EXPECT_EQ(result.diagnostics.size(), 1u) << text_of(result);
    return result.diagnostics.empty() ? "no race" : result.diagnostics[0].tolerated;
  };
  const std::string one_lane = "setp.eq.u32 %p1, %lane, 3;\n", all = "setp.eq.u32 %p1, %lane, %lane;\n";
  for (const std::string& who : {one_lane, all}) {
    SCOPED_TRACE(who);
    EXPECT_EQ(tolerated(who + "mov.u32 %r1, 7;\n@%p1 st.shared.u32 [tile], %r1;"), "both write the same value");
    EXPECT_EQ(tolerated(who + "@%p1 st.shared.u32 [tile], %warp;"), "");
  }
  // What is read may depend on who comes first elsewhere, so that is reported as always.
  EXPECT_EQ(tolerated("mov.u32 %r1, 7;\n@%first st.shared.u32 [tile], %r1;\nbar.sync 0;\nsetp.eq.u32 %p1, %warp, 0;\n"
                      "@%p1 ld.shared.u32 %r2, [tile];\n@!%p1 st.shared.u32 [tile], %r1;\n"),
            "");
}

TEST_F(RaceTest, ToleratesEqualValuesOnlyWhereTheyMustBeEqual) {
  const auto tolerated = [this](const std::string& body) {
    const machine::LaunchResult result = run(body);
    EXPECT_EQ(result.diagnostics.size(), 1u) << text_of(result);
    return result.diagnostics.empty() ? "no race" : result.diagnostics[0].tolerated;
  };
  const std::string two_stores =
      "setp.eq.u32 %p1, %warp, 0;\n@%p1 st.shared.u32 [tile], %r1;\n@!%p1 st.shared.u32 [tile], %r1;\n";
  EXPECT_EQ(tolerated("mov.u32 %r1, 7;\n" + two_stores), "both write the same value");
  // Two results that happen to be zero.
  EXPECT_EQ(tolerated("sub.u32 %r1, %thread, %thread;\n" + two_stores), "");
  expect_one(run("sub.u32 %r1, %thread, %thread;\n" + two_stores), "race",
             {"both wrote the same value this time", "f.cu:3", "f.cu:4"});
  // Both warps compute the same and store it alike, each lane to its own place.
  const std::string place = "mov.u32 %r2, tile; mad.lo.u32 %r2, %lane, 16, %r2;\n";
  EXPECT_EQ(tolerated(place + "st.shared.u32 [%r2], %lane;\n"), "both write the same value");
  EXPECT_EQ(tolerated(place + "st.shared.u32 [%r2], %thread;\n"), "");
  const std::string row = "mov.u32 %r2, tile; mad.lo.u32 %r2, %lane, 8, %r2;\n";  // without gaps
  EXPECT_EQ(tolerated(row + "st.shared.v2.u32 [%r2], {%lane, %lane};\n"), "both write the same value");
  EXPECT_EQ(tolerated(row + "st.shared.v2.u32 [%r2], {%lane, %thread};\n"), "");
  const std::string matrix = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2], {{{}}};\n";
  EXPECT_EQ(tolerated(place + fmt::format(fmt::runtime(matrix), "%lane")), "both write the same value");
  EXPECT_EQ(tolerated(place + fmt::format(fmt::runtime(matrix), "%thread")), "");
}

/// Each lane loads the word of the next one, exchanges something, and writes its own.
std::string exchange_and_write(const std::string& exchange) {
  return "st.shared.u32 [%own], %thread;\nbar.warp.sync 0xffffffff;\nadd.u32 %other, %own, 4;\n"
         "ld.shared.u32 %r1, [%other];\nmad.lo.u32 %r3, %r1, 3, 1;\nsetp.lt.u32 %p1, %r3, 40;\n" +
         exchange + "\nst.shared.u32 [%own], %lane;\n";
}

TEST_F(RaceTest, OrdersALoadThatFeedsAnExchangeBeforeWhatFollows) {
  const Shape warp{.threads = 32};
  for (const std::string exchange :
       {"shfl.sync.idx.b32 %r2, %r3, 1, 31, 0xffffffff;", "vote.sync.any.pred %p2, %p1, 0xffffffff;",
        "match.any.sync.b32 %r2, %r3, 0xffffffff;", "redux.sync.add.u32 %r2, %r3, 0xffffffff;"}) {
    expect_silence(run(exchange_and_write(exchange), warp));
  }
  // It is what the lanes exchange that must come from the load, and they must all exchange it.
  expect_one(run(exchange_and_write("shfl.sync.idx.b32 %r2, %lane, 1, 31, 0xffffffff;"), warp), "race",
             {"f.cu:8", "f.cu:4"});
  const std::string halves =
      "and.b32 %r4, %lane, -16; mov.b32 %r5, 65535; shl.b32 %r4, %r5, %r4; shfl.sync.idx.b32 %r2, %r3, 1, 4127, %r4;";
  expect_one(run(exchange_and_write(halves), warp), "race", {"f.cu:8", "f.cu:4"});
}

TEST_F(RaceTest, DoesNotTakeAnExchangeForABarrier) {
  // A load after the exchange is not ordered by it, and no store ever is.
  expect_one(run("ld.shared.u32 %r1, [%own];\nshfl.sync.idx.b32 %r2, %r1, 1, 31, 0xffffffff;\n"
                 "st.shared.u32 [%own], %r2;\nshfl.sync.idx.b32 %r3, %r2, 1, 31, 0xffffffff;\n"
                 "add.u32 %other, %own, 4;\nld.shared.u32 %r4, [%other];\n",
                 {.threads = 32}),
             "race", {"f.cu:6", "f.cu:3"});
}

TEST_F(RaceTest, ReportsDifferentValuesEvenAfterEqualOnes) {
  // The same two lines, twice: first both warps write 7, then each its number.
  const machine::LaunchResult result = run(R"(mov.u32 %r1, 7; mov.u32 %r2, 0;
    AGAIN:
    st.shared.u32 [tile], %r1;
    bar.sync 0;
    mov.u32 %r1, %warp; add.u32 %r2, %r2, 1;
    setp.lt.u32 %p1, %r2, 2;
    @%p1 bra AGAIN;)");
  ASSERT_EQ(result.diagnostics.size(), 2u) << text_of(result);
  EXPECT_EQ(result.diagnostics[0].tolerated, "both write the same value");
  EXPECT_EQ(result.diagnostics[1].tolerated, "");
}

TEST_F(RaceTest, LetsLanesWriteTheSameValueInOneInstruction) {
  expect_silence(run("mov.u32 %r1, 7;\nst.shared.u32 [tile], %r1;\nld.shared.u32 %r2, [tile];", {.threads = 32}));
  expect_one(run("st.shared.u32 [tile], %thread;", {.threads = 32}), "race",
             {"different values to tile+0x0", "f.cu:1"});
}

TEST_F(RaceTest, TellsNeighbouringBytesApart) {
  const std::string write = "mov.u32 %r1, tile;\nadd.u32 %r1, %r1, %thread;\nst.shared.u8 [%r1], %thread;\n";
  expect_silence(run(write));
  expect_one(run(write + "ld.shared.u32 %r2, [tile];", {.threads = 64}), "race", {"f.cu:4", "f.cu:3"});
  expect_silence(run(write + "bar.sync 0;\nld.shared.u32 %r2, [tile];", {.threads = 64}));
}

TEST_F(RaceTest, LetsAtomicsMeetButNotWeakAccesses) {
  const std::string add = "mov.u32 %r1, 1;\nred.shared.add.u32 [tile], %r1;\n";
  expect_silence(run(add + "bar.sync 0;\nld.shared.u32 %r2, [tile];"));
  expect_one(run(add + "ld.shared.u32 %r2, [tile];"), "race", {"f.cu:2", "f.cu:3"});
}

TEST_F(RaceTest, DecidesByTheLanesOfEachPlace) {
  // Lane 0 writes what it has read itself; lane 2 writes what lane 1 has read.
  const std::string body =
      "mov.u32 %r1, tile;\nmad.lo.u32 %r1, %thread, 8, %r1;\nld.shared.u32 %r2, [%r1];\nst.shared.u8 [%own], %thread;";
  expect_one(run(body, {.threads = 32}), "race",
             {"warp 0 [lane 2] st.shared.u8 at f.cu:4", "[lane 1] reads it at f.cu:3"});
}

TEST_F(RaceTest, NamesTheLineOfTheReadThatRaces) {
  // The lines before read the same words at the same time, but each by the lane that writes it later.
  const std::string body =
      "ld.shared.u32 %r2, [%own];\nld.shared.u32 %r3, [%own];\nxor.b32 %other, %thread, 1;\nmov.u32 %r1, tile;\n"
      "mad.lo.u32 %other, %other, 4, %r1;\nld.shared.u32 %r4, [%other];\nst.shared.u32 [%own], %thread;";
  expect_one(run(body, {.threads = 32}), "race", {"st.shared.u32 at f.cu:7", "reads it at f.cu:6"});
}

TEST_F(RaceTest, RemembersAReadBehindWhichItsOwnWarpAdds) {
  // The second warp adds when the first has, which its poll sees, but which orders nothing.
  const std::string body = R"(mov.u32 %r1, 0;
    @%first st.shared.u32 [tile+64], %r1;
    bar.sync 0;
    setp.eq.u32 %p1, %warp, 1;
    @%p1 bra POLL;
    ld.shared.u32 %r2, [tile];
    bar.warp.sync 0xffffffff;
    red.shared.add.u32 [tile], 1;
    red.shared.add.u32 [tile+64], 1;
    bra END;
    POLL:
    ld.volatile.shared.u32 %r2, [tile+64];
    setp.eq.u32 %p2, %r2, 0;
    @%p2 bra POLL;
    red.shared.add.u32 [tile], 2;
    END:)";
  expect_one(run(body), "race", {line_of(body, "[tile], 2;"), line_of(body, "ld.shared.u32 %r2, [tile];")});
  expect_silence(run(without(body, "ld.shared.u32 %r2, [tile];")));
}

/// Thread 0 publishes a word and sets a flag; thread 32 waits for the flag and reads the word.
std::string hand_over(const std::string& set, const std::string& get) {
  return fmt::format(R"(@%first bra WRITER;
    setp.ne.u32 %p1, %thread, 32;
    @%p1 bra END;
    POLL:
    {};
    setp.ne.u32 %p2, %r1, 5;
    @%p2 bra POLL;
    {}
    ld.shared.u32 %r2, [tile+64];
    bra END;
    WRITER:
    st.shared.u32 [tile+64], %thread;
    mov.u32 %r1, 5;
    {};
    END:)",
                     get, get.find("volatile") == std::string::npos ? "" : "membar.cta;", set);
}

TEST_F(RaceTest, KnowsFlags) {
  expect_silence(run(hand_over("st.release.cta.shared.u32 [tile], %r1", "ld.acquire.cta.shared.u32 %r1, [tile]")));
  expect_silence(
      run(hand_over("membar.cta;\nst.volatile.shared.u32 [tile], %r1", "ld.volatile.shared.u32 %r1, [tile]")));
  expect_one(run(hand_over("st.relaxed.cta.shared.u32 [tile], %r1", "ld.acquire.cta.shared.u32 %r1, [tile]")), "race",
             {"tile+0x40", "f.cu:9", "f.cu:12"});
  expect_one(run(hand_over("st.volatile.shared.u32 [tile], %r1", "ld.volatile.shared.u32 %r1, [tile]")), "race",
             {"tile+0x40"});
}

TEST_F(RaceTest, TakesAFenceAndACompletionOfBytesForARelease) {
  const std::string body = R"(@%first mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    setp.eq.u32 %p2, %warp, 1;
    @%p2 bra WAIT;
    @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    st.shared.u32 [%own], %thread;
    fence.release.sync_restrict::shared::cta.cluster;
    @%first mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;
    bra END;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
    @!%p1 bra WAIT;
    ld.shared.u32 %r2, [tile];
    END:)";
  expect_silence(run(body));
  expect_one(run(without(body, "fence.release.sync_restrict::shared::cta.cluster;\n")), "race", {"f.cu:6", "f.cu:11"});
  // What other lanes wrote is not released, whatever fences they execute.
  expect_one(run(with(body, "[tile];", "[tile+4];")), "race", {"f.cu:6", "f.cu:12"});
}

TEST_F(RaceTest, ToleratesAReadAfterOneOfSeveralLanesThatWroteTheSame) {
  const std::string body = R"(@%first mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    setp.eq.u32 %p2, %warp, 1;
    @%p2 bra WAIT;
    st.shared.u32 [tile], %warp;
    @%first mbarrier.arrive.shared.b64 _, [bar];
    bra END;
    WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0;
    @!%p1 bra WAIT;
    ld.shared.u32 %r2, [tile];
    END:)";
  const machine::LaunchResult result = run(body);
  ASSERT_EQ(result.diagnostics.size(), 1u);
  EXPECT_NE(result.diagnostics[0].tolerated, "");
  // Not after the write of any of them; and a write, which what the others do later may undo.
  const machine::LaunchResult none = run(with(body, "@%first mbarrier.arrive",
                                              "setp.eq.u32 %p3, %thread, 0;\n"
                                              "@%p3 mbarrier.arrive.relaxed.cta"));
  ASSERT_EQ(none.diagnostics.size(), 1u);
  EXPECT_EQ(none.diagnostics[0].tolerated, "");
  const machine::LaunchResult write = run(with(body, "ld.shared.u32 %r2, [tile]", "@%p2 st.shared.u32 [tile], 5"));
  ASSERT_EQ(write.diagnostics.size(), 1u);
  EXPECT_EQ(write.diagnostics[0].tolerated, "");
}

TEST_F(RaceTest, TakesBarrierArriveForHalfABarrier) {
  // Warp 0 writes and arrives, warp 1 waits and reads: ordered. What warp 1 wrote before is not known to warp 0.
  const std::string body = R"(setp.eq.u32 %p1, %warp, 1;
    @%p1 bra READER;
    st.shared.u32 [tile], %warp;
    bar.arrive 1, 64;
    {}
    bra END;
    READER:
    st.shared.u32 [tile+64], %warp;
    bar.sync 1, 64;
    ld.shared.u32 %r1, [tile];
    END:)";
  expect_silence(run(fmt::format(fmt::runtime(body), "")));
  expect_one(run(fmt::format(fmt::runtime(body), "ld.shared.u32 %r1, [tile+64];")), "race",
             {"tile+0x40", "f.cu:5", "f.cu:8"});
}

TEST_F(RaceTest, TakesAnExitForAnArrivalAtABarrierOfAllThreads) {
  const std::string body =
      "setp.eq.u32 %p1, %warp, 0;\n@%p1 bra READ;\nst.shared.u32 [%own], %thread;\nret;\nREAD:\nbar.sync 0;\n"
      "ld.shared.u32 %r1, [%own+128];\n";
  expect_silence(run(body));
  // A barrier with a count waits for the threads that arrive.
  expect_one(run(with(body, "bar.sync 0;", "bar.sync 0, 32;")), "race", {"f.cu:3", "f.cu:7"});
  expect_silence(run(with(body, "bar.sync 0;", "barrier.cluster.arrive;\nbarrier.cluster.wait;")));
}

TEST_F(RaceTest, LooksAcrossTheBlocksOfACluster) {
  const std::string body = R"(barrier.cluster.arrive; barrier.cluster.wait; mov.u32 %r1, tile;
    xor.b32 %r2, %rank, 1;
    mapa.shared::cluster.u32 %r3, %r1, %r2;
    @%first st.shared::cluster.u32 [%r3], %rank;
    {}
    ld.shared.u32 %r4, [tile];
    barrier.cluster.arrive; barrier.cluster.wait;)";
  const Shape pair{.threads = 32, .blocks = 2, .cluster_blocks = 2};
  expect_silence(run(fmt::format(fmt::runtime(body), "barrier.cluster.arrive; barrier.cluster.wait;"), pair));
  expect_silence(run(fmt::format(fmt::runtime(body),
                                 "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed; "
                                 "barrier.cluster.wait;"),
                     pair));
  expect_one(run(fmt::format(fmt::runtime(body), "bar.sync 0;"), pair), "race", {"f.cu:4", "f.cu:6", "cluster"});
  expect_one(run(fmt::format(fmt::runtime(body), "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"), pair),
             "race",
             {"f.cu:4", "f.cu:6", "likely cause: the barrier of the cluster between the two is relaxed",
              "barrier.cluster.arrive at f.cu:5"});
}

TEST_F(RaceTest, FindsAnArrivalInAnotherBlockThatReleasesForItsOwnBlockOnly) {
  const std::string body = R"(@%first mbarrier.init.shared.b64 [bar], 2;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r1, bar;
    mapa.shared::cluster.u32 %r3, %r1, 0;
    @%first mbarrier.arrive{}.shared::cluster.b64 _, [%r3];
    barrier.cluster.arrive; barrier.cluster.wait;)";
  const Shape pair{.threads = 32, .blocks = 2, .cluster_blocks = 2};
  expect_silence(run(fmt::format(fmt::runtime(body), ".release.cluster"), pair));
  expect_silence(run(fmt::format(fmt::runtime(body), ".relaxed.cta"), pair));  // it is not meant to release anything
  for (const char* scope : {"", ".release.cta"}) {
    expect_one(run(fmt::format(fmt::runtime(body), scope), pair), "barrier misuse",
               {"block (1,0,0) warp 0 [lane 0]", "f.cu:6", "arrives at bar[0] of the block of rank 0",
                "with the scope of its own block", "write .release.cluster"});
  }
  expect_silence(run(fmt::format(fmt::runtime(body), ""), {.threads = 32, .blocks = 1, .cluster_blocks = 1}));
}

TEST_F(RaceTest, DoesNotDependOnTheInterleaving) {
  const std::string body = exchange(32, "") + "st.shared.u32 [%own+1024], %thread;\n";
  const auto pairs = [](const machine::LaunchResult& result) {
    std::set<std::pair<bool, bool>> found;
    for (const auto& finding : result.diagnostics) {
      const std::string text = render_text(finding);
      found.emplace(text.find("f.cu:1") != std::string::npos, text.find("f.cu:6") != std::string::npos);
    }
    return found;
  };
  const auto first = pairs(run(body));
  EXPECT_EQ(first.size(), 1u);
  for (uint64_t each = 1; each < 12; ++each) EXPECT_EQ(pairs(run(body, {}, each)), first) << each;
  EXPECT_EQ(text_of(run(body, {}, 5)), text_of(run(body, {}, 5)));
}

TEST_F(RaceTest, ReportsAPairOfLinesOnce) {
  expect_one(run("mov.u32 %r5, 0;\nAGAIN:\n" + exchange(32, "") +
                 "add.u32 %r5, %r5, 1;\nsetp.lt.u32 %p1, %r5, 20;\nbar.sync 0;\n@%p1 bra AGAIN;"),
             "race", {"f.cu:8", "f.cu:3"});
}

TEST_F(RaceTest, AnnouncesNothingWhereNobodyListens) {
  machine.announce_memory_events(false);
  expect_silence(run(exchange(32, "")));
}

/// Warp 1 reads and arrives at bar[0]; later warp 0 writes the same.
/// @param wait  what it does before
std::string write_after_release(const std::string& wait) {
  return R"(@%first mbarrier.init.shared.b64 [bar], 32;
    @%first mbarrier.init.shared.b64 [bar+8], 32;
    mov.u32 %r1, tile;
    mad.lo.u32 %other, %lane, 4, %r1;
    bar.sync 0;
    setp.eq.u32 %p1, %warp, 1;
    @%p1 bra READ;
    nanosleep.u32 20000;
    )" + wait +
         R"(st.shared.u32 [%other], %thread;
    bra END;
    READ: ld.shared.u32 %r2, [%other];
    mbarrier.arrive.shared.b64 _, [bar];
    END:
  )";
}

TEST_F(RaceTest, NamesTheArrivalThatAWriterDoesNotWaitFor) {
  const std::string body = write_after_release("");
  expect_one(run(body), "race",
             {"the read is followed by the arrival on bar[0] at " + line_of(body, "mbarrier.arrive"),
              "the thread that writes has never waited there: it must, before the write"});
}

TEST_F(RaceTest, AsksForTheSlotWhereAWriterWaitsForAnotherThanTheReaderReleases) {
  const std::string body = write_after_release(R"(WAIT: mbarrier.try_wait.parity.shared.b64 %p7, [bar+8], 1;
    @!%p7 bra WAIT;
    )");
  expect_one(run(body), "race",
             {"the read is followed by the arrival on bar[0] at " + line_of(body, "mbarrier.arrive"),
              "since its last wait at " + line_of(body, "try_wait") +
                  " was for bar[1], does one of the two access another slot than that of its own wait?"});
}

TEST_F(RaceTest, SaysThatOneLaneAloneCameToABarrierOfTheBlock) {
  // Lane 0 of warp 1 waits for warp 0 at a named barrier; all its lanes read.
  const std::string body = R"(mov.u32 %r1, tile;
    mad.lo.u32 %other, %lane, 4, %r1;
    setp.eq.u32 %p1, %warp, 1;
    @%p1 bra READ;
    st.shared.u32 [%other], %thread;
    barrier.sync 1, 64;
    bra END;
    READ: setp.ne.u32 %p2, %lane, 0;
    @%p2 bra LATE;
    barrier.sync 1, 64;
    LATE: ld.shared.u32 %r2, [%other];
    END:
  )";
  const std::string text = text_of(run(body));
  EXPECT_NE(text.find("lane 0 of this warp came to a barrier after the write, and lane"), std::string::npos) << text;
  EXPECT_NE(text.find("let every lane come to it, or put a __syncwarp() after it"), std::string::npos) << text;
}

}  // namespace
}  // namespace stagecraft::emulator::checks
