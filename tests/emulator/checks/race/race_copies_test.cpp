// Races between threads and asynchronous copies, and misused barriers.
#include "emulator/engines/copies/tensor_map.hpp"
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

const std::string kInit = R"(@%first mbarrier.init.shared.b64 [bar], 1;
@%first mbarrier.init.shared.b64 [bar+8], 1;
@%first fence.mbarrier_init.release.cluster;
bar.sync 0;
)";

std::string wait(uint32_t barrier, const std::string& parity, const std::string& name) {
  return fmt::format("{0}:\nmbarrier.try_wait.parity.shared.b64 %p7, [bar+{1}], {2};\n@!%p7 bra {0};\n", name,
                     barrier * 8, parity);
}
const std::string kCopy =
    "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 256, [bar];\n";

TEST_F(RaceTest, FindsAReadThatDoesNotWaitForItsCopy) {
  const std::string start = kInit + "@!%first bra READ;\n" + kCopy + "READ:\n";
  const std::string end = wait(0, "0", "LAST");
  expect_one(run(start + "ld.shared.u32 %r1, [%own];\n" + end), "race",
             {"cp.async.bulk issued", "at f.cu:7", "f.cu:9", "nothing makes the read wait for the copy: bar[0]"});
  expect_silence(run(start + wait(0, "0", "W") + "ld.shared.u32 %r1, [%own];"));
}

TEST_F(RaceTest, DoesNotTakeSyncthreadsForTheEndOfACopy) {
  expect_one(run(kInit + "@!%first bra READ;\n" + kCopy + "READ:\nbar.sync 0;\nld.shared.u32 %r1, [%own];\n" +
                 wait(0, "0", "LAST")),
             "race", {"must wait for it"});
}

TEST_F(RaceTest, TakesAWaitByOneThreadAndABarrierForAWaitByAll) {
  expect_silence(run(kInit + "@!%first bra READ;\n" + kCopy + wait(0, "0", "W") +
                     "READ:\nbar.sync 0;\nld.shared.u32 %r1, [%own];"));
}

TEST_F(RaceTest, NamesAWrongInitialPhase) {
  expect_one(run(kInit + "@!%first bra READ;\n" + kCopy + "READ:\n" + wait(0, "1", "W") +
                 "ld.shared.u32 %r1, [%own];\n" + wait(0, "0", "LAST")),
             "race", {"a consumer begins with parity 0"});
}

/// Warp 0 copies `rounds` times into one slot; warp 1 reads it: `consume` in each round.
std::string slot(const std::string& produce, const std::string& consume, uint32_t rounds = 4) {
  return kInit + fmt::format(R"(mov.u32 %r5, 0;
    mov.u32 %r6, 0;
    setp.eq.u32 %p1, %warp, 1;
    @%p1 bra CONSUME;
    @!%first bra END;
    PRODUCE:
    xor.b32 %r7, %r6, 1;
    {0}{3}
    xor.b32 %r6, %r6, 1;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, {2};
    @%p2 bra PRODUCE;
    bra END;
    CONSUME:
    {1}
    xor.b32 %r6, %r6, 1;
    add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, {2};
    @%p2 bra CONSUME;
    END:)",
                             produce, consume, rounds, kCopy);
}
const std::string kFree = "setp.eq.u32 %p3, %lane, 0;\n@%p3 mbarrier.arrive.shared.b64 _, [bar+8];\n";
const std::string kRead = "add.u32 %other, %own, -128;\nld.shared.u32 %r1, [%other];\n";

TEST_F(RaceTest, IsSilentOnASlotThatIsHandedToAndFro) {
  for (uint64_t seed_of_run = 0; seed_of_run < 8; ++seed_of_run) {
    expect_silence(run(slot(wait(1, "%r7", "P"), wait(0, "%r6", "C") + kRead + "bar.warp.sync 0xffffffff;\n" + kFree),
                       {}, seed_of_run));
  }
}

TEST_F(RaceTest, FindsASlotThatIsReleasedBeforeItsLastRead) {
  expect_one(run(slot(wait(1, "%r7", "P"), wait(0, "%r6", "C") + "bar.warp.sync 0xffffffff;\n" + kFree + kRead)),
             "race", {"is released before this read", "arrival on bar[1]", "arrive after the last use"});
}

TEST_F(RaceTest, FindsALaneThatReleasesForTheOthers) {
  expect_one(run(slot(wait(1, "%r7", "P"), wait(0, "%r6", "C") + kRead + kFree)), "race",
             {"arrival on bar[1]", "by lane 0 speaks for its own accesses only", "__syncwarp()"});
}

TEST_F(RaceTest, NamesTheLanesThatNobodySpokeForWhereAllReadTheSame) {
  expect_one(run(slot(wait(1, "%r7", "P"), wait(0, "%r6", "C") + "ld.shared.u32 %r1, [tile];\n" + kFree)), "race",
             {"warp 1 [all lanes] reads it", "arrival on bar[1]",
              "by lane 0 speaks for its own accesses only, not for those of lanes 1-31"});
}

TEST_F(RaceTest, FindsAProducerThatDoesNotWait) {
  // It waits for its own copy, so that only the reads can conflict with the next.
  const auto result = run(slot("", wait(0, "%r6", "C") + kRead, 1) + "\n" + "@!%first bra OUT;\n" + wait(0, "0", "W") +
                          kCopy + wait(0, "1", "V") + "OUT:\n");
  expect_one(result, "race", {"does not wait until the reads of the slot are over"});
}

TEST_F(RaceTest, NamesAStaleParity) {
  const auto result = run(slot(wait(1, "%r7", "P"), wait(0, "0", "C") + kRead + "bar.warp.sync 0xffffffff;\n" + kFree));
  const std::string text = text_of(result);
  EXPECT_TRUE(result.fault.has_value());
  EXPECT_NE(text.find("barrier misuse"), std::string::npos) << text;
  EXPECT_NE(text.find("stale parity: waits for phase 0 of bar[0]"), std::string::npos) << text;
}

TEST_F(RaceTest, TellsAStaleParityFromASecondLookAtOnePhase) {
  const auto looks_twice = [&](const std::string& between, const std::string& end) {
    return run("@%first mbarrier.init.shared.b64 [bar+16], 1;\n" + kInit +
               "setp.eq.u32 %p1, %warp, 1;\n@%p1 bra READ;\n@!%first bra END;\n" + wait(1, "1", "P") + kCopy +
               "bra END;\nREAD:\n" + wait(0, "0", "A") + kRead + between + wait(0, "0", "B") +
               "bar.warp.sync 0xffffffff;\n" + kFree + end + "END:\n");
  };
  const auto notes_it = [](const machine::LaunchResult& result) {
    return std::any_of(result.unread.begin(), result.unread.end(), [](const std::string& each) {
      return each.starts_with("warp 1 waits twice for phase 0 of bar[0] at f.cu:");
    });
  };
  const std::string elsewhere = "@%p3 mbarrier.arrive.shared.b64 _, [bar+16];\n";
  const std::string frees = "bar.warp.sync 0xffffffff;\n" + kFree, stops = wait(0, "1", "C");
  // One fill, which is freed twice: nothing is found, and the wait is noted for a program that fails.
  const auto twice = looks_twice(frees, "");
  expect_silence(twice);
  EXPECT_TRUE(notes_it(twice));
  EXPECT_NE(text_of(looks_twice(frees, stops)).find("stale parity: waits for phase 0 of bar[0]"), std::string::npos);
  // It is freed once, and the arrival in between is for somebody else.
  const std::string once = "setp.eq.u32 %p3, %lane, 0;\n" + elsewhere;
  const auto harmless = looks_twice(once, "");
  expect_silence(harmless);
  EXPECT_FALSE(notes_it(harmless));
  const std::string text = text_of(looks_twice(once, stops));
  EXPECT_EQ(text.find("stale parity"), std::string::npos) << text;
  EXPECT_NE(text.find("deadlock"), std::string::npos) << text;
}

TEST_F(RaceTest, SaysWhatAnEndlessLoopPollsAndWhoStoredIt) {
  const std::string loop = "L:\nld.volatile.shared.u32 %r1, [tile+8];\nsetp.ne.u32 %p1, %r1, 7;\n@%p1 bra L;\n";
  // With a copy in the kernel, each write is remembered.
  const std::string stored = text_of(run("@%first st.volatile.shared.u32 [tile+8], 5;\nbar.sync 0;\n" + loop + kCopy));
  EXPECT_NE(stored.find("it polls tile[2] in shared memory at f.cu:4: the value is 5 there, and block (0,0,0) warp 0 "
                        "[lane 0] writes it at f.cu:1 last"),
            std::string::npos)
      << stored;
  EXPECT_NE(stored.find("likely cause: the write at f.cu:1 has left a value that the loop does not end with"),
            std::string::npos)
      << stored;
  const std::string unwritten = text_of(run(loop));
  EXPECT_NE(unwritten.find("likely cause: nobody who still runs comes to a write of tile[2]"), std::string::npos)
      << unwritten;
}

TEST_F(RaceTest, NamesAStaleParityAlsoWhereOnlySyncthreadsSeparatesTheRounds) {
  const auto result =
      run(kInit + "mov.u32 %r5, 0;\nL: setp.eq.u32 %p1, %warp, 1;\n@%p1 bra READ;\n@!%first bra NEXT;\n" + kCopy +
          "bra NEXT;\nREAD:\n" + wait(0, "0", "W") + kRead +
          "NEXT: bar.sync 0;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 3;\n@%p2 bra L;\n" + wait(0, "0", "LAST"));
  const std::string text = text_of(result);
  EXPECT_NE(text.find("stale parity: waits for phase 0 of bar[0], which it has already seen"), std::string::npos)
      << text;
  EXPECT_NE(text.find("for bar[0] passed at once, for phase 0, which it had already seen"), std::string::npos) << text;
  EXPECT_NE(text.find("The wait asks for parity 0 each time, because what it is given is a constant there"),
            std::string::npos)
      << text;
}

TEST_F(RaceTest, FindsAWriteByTheIssuerThatDoesNotWaitForItsCopy) {
  expect_one(run(kInit + "@!%first bra END;\n" + kCopy + "st.shared.u32 [%own], 1;\n" + wait(0, "0", "W") + "END:\n"),
             "race",
             {"nothing makes the write wait for the copy: bar[0]", "a thread that uses the memory again must wait"});
  // Or has it waited for the copy into another slot?
  const std::string other =
      "mbarrier.arrive.expect_tx.shared.b64 _, [bar+8], 256;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+256], [%out], 256, [bar+8];\n";
  expect_one(run(kInit + "@!%first bra END;\n" + kCopy + other + wait(1, "0", "OTHER") + "st.shared.u32 [%own], 1;\n" +
                 wait(0, "0", "W") + "END:\n"),
             "race", {"nothing makes the write wait for the copy: bar[0]", "was for bar[1]: does this write name"});
}

TEST_F(RaceTest, FindsASlotThatAThreadReleasesBeforeItsLastReadForAnotherToWrite) {
  const auto rounds = [](const std::string& label, const std::string& text) {
    return fmt::format(
        "{0}:\n{1}xor.b32 %r6, %r6, 1;\nadd.u32 %r5, %r5, 1;\nsetp.lt.u32 %p2, %r5, 4;\n@%p2 bra {0};\nbra END;\n",
        label, text);
  };
  const std::string meet = "bar.warp.sync 0xffffffff;\n";
  const std::string produce =
      kInit + "mov.u32 %r5, 0;\nmov.u32 %r6, 0;\nsetp.eq.u32 %p1, %warp, 1;\n@%p1 bra CONSUME;\n" +
      rounds("PRODUCE", "xor.b32 %r7, %r6, 1;\n" + wait(1, "%r7", "P") + "st.shared.u32 [%own], %r5;\n" + meet +
                            "@%first mbarrier.arrive.shared.b64 _, [bar];\n");
  expect_silence(run(produce + rounds("CONSUME", wait(0, "%r6", "C") + kRead + meet + kFree) + "END:\n"));
  expect_one(run(produce + rounds("CONSUME", wait(0, "%r6", "C") + meet + kFree + kRead) + "END:\n"), "race",
             {"is released before this read, by the arrival on bar[1]", "arrive after the last use"});
}

TEST_F(RaceTest, FindsAMissingWaitGroupBeforeReuse) {
  const std::string store =
      "st.shared.u32 [%own], %thread;\nfence.proxy.async;\nbar.sync 0;\n@!%first bra DONE;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 256;\ncp.async.bulk.commit_group;\n{}DONE:\n"
      "bar.sync 0;\nst.shared.u32 [%own], %lane;\ncp.async.bulk.wait_group 0;\n";
  expect_one(run(fmt::format(fmt::runtime(store), "")), "race", {"f.cu:5 reads it", "wait_group.read"});
  expect_one(run(fmt::format(fmt::runtime(store), "cp.async.bulk.wait_group.read 1;\n")), "race",
             {"the wait_group at f.cu:7 the youngest 1", "let no more than 0 stay pending"});
  expect_silence(run(fmt::format(fmt::runtime(store), "cp.async.bulk.wait_group.read 0;\n")));
  expect_silence(run(fmt::format(fmt::runtime(store), "cp.async.bulk.wait_group 0;\n")));
}

TEST_F(RaceTest, SaysWhoHasNotHeardThatAGroupHasBeenRead) {
  const std::string store =
      "st.shared.u32 [%own], %thread;\nfence.proxy.async;\nbar.warp.sync 0xffffffff;\n@!%first bra DONE;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 128;\ncp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group.read 0;\nDONE:\n";
  expect_one(run(store + "st.shared.u32 [%own], %lane;\n", Shape{32}), "race",
             {"cp.async.bulk.wait_group.read", "a __syncwarp() must come between that wait and this write"});
  expect_silence(run(store + "bar.warp.sync 0xffffffff;\nst.shared.u32 [%own], %lane;\n", Shape{32}));
  // The other warp has waited at another barrier, and the copy's thread arrives at the first.
  const auto two_warps = [&](int awaited) {
    return run(kInit +
               "st.shared.u32 [%own], %thread;\nfence.proxy.async;\nbar.sync 0;\n@!%first bra OTHER;\n"
               "cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 256;\ncp.async.bulk.commit_group;\n"
               "cp.async.bulk.wait_group.read 0;\nmbarrier.arrive.shared.b64 _, [bar];\nOTHER:\n"
               "setp.ne.u32 %p1, %warp, 1;\n@%p1 bra END;\n" +
               wait(awaited, awaited == 0 ? "0" : "1", "W") + "st.shared.u32 [%own], %lane;\nEND:\n");
  };
  expect_silence(two_warps(0));
  expect_one(two_warps(1), "race",
             {"warp 1 [lane 0] waited last at f.cu:",
              "for bar[1], of which no phase had ended: does the copy's thread arrive there"});
}

TEST_F(RaceTest, TakesTheYoungestGroupsForPending) {
  // Two stores from two places: all stores but one have read, and the first place is written again.
  const std::string body =
      "@!%first bra DONE;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 256;\ncp.async.bulk.commit_group;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%out+256], [tile+256], 256;\ncp.async.bulk.commit_group;\n"
      "cp.async.bulk.wait_group.read 1;\nst.shared.u32 [tile+{}], %thread;\ncp.async.bulk.wait_group 0;\nDONE:\n";
  expect_silence(run(fmt::format(fmt::runtime(body), 0)));
  expect_one(run(fmt::format(fmt::runtime(body), 256)), "race", {"f.cu:4", "f.cu:7", "youngest N pending"});
}

TEST_F(RaceTest, FindsAStoreThatItsBlockDoesNotOutlive) {
  const std::string body =
      "@!%first bra DONE;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 256;\ncp.async.bulk.commit_group;\n"
      "cp.async.bulk.global.shared::cta.bulk_group [%out+256], [tile+256], 256;\ncp.async.bulk.commit_group;\n"
      "{}DONE:\n";
  const auto run_with = [&](const char* wait) { return run(fmt::format(fmt::runtime(body), wait)); };
  expect_silence(run_with("cp.async.bulk.wait_group.read 0;\n"));
  expect_one(run_with(""), "missing wait", {"f.cu:2", "has read its shared memory", "wait_group.read 0"});
  // It is missing however long the block runs.
  expect_one(run_with("cp.async.bulk.wait_group.read 1;\nnanosleep.u32 100000;\n"), "missing wait", {"f.cu:4"});
}

TEST_F(RaceTest, LetsLanesCopyTheSameBytesInOneInstruction) {
  const std::string wait = "cp.async.wait_all;\nbar.sync 0;\nld.shared.u32 %r2, [tile];";
  expect_silence(run("cp.async.cg.shared.global [tile], [%out], 16;\n" + wait, {.threads = 32}));
  expect_one(run("mul.wide.u32 %rd1, %thread, 16;\nadd.s64 %rd1, %out, %rd1;\n"
                 "cp.async.cg.shared.global [tile], [%rd1], 16;\n" +
                     wait,
                 {.threads = 4}),
             "race", {"the cp.async issued here writes tile+0x0", "f.cu:3"});
}

TEST_F(RaceTest, KnowsWhomCpAsyncIsCompleteFor) {
  const std::string copy =
      "mov.u64 %rd1, %out;\ncp.async.ca.shared.global [%own], [%rd1], 4;\ncp.async.commit_group;\n";
  const std::string other = "xor.b32 %other, %own, 128;\nld.shared.u32 %r1, [%other];\n";
  expect_one(run(copy + "ld.shared.u32 %r1, [%own];\ncp.async.wait_group 0;"), "race", {"cp.async issued by"});
  expect_silence(run(copy + "cp.async.wait_group 0;\nld.shared.u32 %r1, [%own];"));
  expect_one(run(copy + "cp.async.wait_all;\n" + other), "race", {"cp.async issued by"});
  expect_one(run(copy + "cp.async.wait_all;\nbar.warp.sync 0xffffffff;\n" + other), "race", {"cp.async issued by"});
  expect_silence(run(copy + "cp.async.wait_all;\nbar.sync 0;\n" + other));
}

TEST_F(RaceTest, FollowsCpAsyncThroughAnMbarrier) {
  const std::string body =
      "@%first mbarrier.init.shared.b64 [bar], 64;\nbar.sync 0;\n"
      "cp.async.ca.shared.global [%own], [%out], 4;\n"
      "cp.async.mbarrier.arrive.noinc.shared.b64 [bar];\n" +
      wait(0, "0", "W") + "xor.b32 %other, %own, 128;\nld.shared.u32 %r1, [%other];\n";
  expect_silence(run(body));
}

TEST_F(RaceTest, FollowsAsynchronousStoresToAnotherBlock) {
  const std::string body = R"(@%first mbarrier.init.shared.b64 [bar], 1;
    @%first mbarrier.arrive.expect_tx.shared.b64 _, [bar], 4;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive.relaxed;
    barrier.cluster.wait;
    mov.u32 %r1, tile;
    mov.u32 %r2, bar;
    xor.b32 %r3, %rank, 1;
    mapa.shared::cluster.u32 %r1, %r1, %r3;
    mapa.shared::cluster.u32 %r2, %r2, %r3;
    @%first st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r1], %r3, [%r2];
    {}ld.shared.u32 %r4, [tile];
    LAST:
    mbarrier.try_wait.parity.shared.b64 %p6, [bar], 0;
    @!%p6 bra LAST;
    barrier.cluster.arrive;
    barrier.cluster.wait;)";
  const Shape pair{.threads = 32, .blocks = 2, .cluster_blocks = 2};
  expect_silence(run(fmt::format(fmt::runtime(body), wait(0, "0", "W")), pair));
  expect_one(run(fmt::format(fmt::runtime(body), ""), pair), "race", {"st.async issued", "f.cu:11", "f.cu:12"});
}

TEST_F(RaceTest, FindsAnInitialisationThatNothingOrders) {
  const std::string body = "@%first mbarrier.init.shared.b64 [bar], 64;\n{}\nmbarrier.arrive.shared.b64 _, [bar];\n";
  expect_silence(run(fmt::format(fmt::runtime(body), "bar.sync 0;")));
  expect_one(run(fmt::format(fmt::runtime(body), "")), "barrier misuse",
             {"uses bar[0]", "initialises it at f.cu:1", "f.cu:3", "__syncthreads()"});
}

TEST_F(RaceTest, AnInitialisationBeforeARelaxedClusterBarrierIsOnlyTolerated) {
  const std::string init = "@%first mbarrier.init.shared.b64 [bar], 64;\n",
                    fence = "fence.mbarrier_init.release.cluster;\n", arrive = "barrier.cluster.arrive.relaxed;\n",
                    wait = "barrier.cluster.wait;\n", use = "mbarrier.arrive.shared.b64 _, [bar];\n";
  const Shape pair{.threads = 64, .blocks = 2, .cluster_blocks = 2};
  expect_silence(run(init + fence + arrive + wait + use, pair));
  const auto late = run(fence + init + arrive + wait + use, pair);
  expect_one(late, "barrier misuse", {"uses bar[0]", "f.cu:2", "f.cu:5", "arrived at with .relaxed"});
  EXPECT_NE(late.diagnostics.at(0).tolerated, "");
  const auto too_late = run(fence + arrive + init + wait + use, pair);
  expect_one(too_late, "barrier misuse", {"uses bar[0]", "f.cu:3", "f.cu:5", "__syncthreads()"});
  EXPECT_EQ(too_late.diagnostics.at(0).tolerated, "");
}

/// Thread 0 stores in bulk, and all read the result after `wait`.
std::string store_and_read(const std::string& wait) {
  return "@!%first bra READ;\nst.shared.u32 [tile], %thread;\nfence.proxy.async;\n"
         "cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 256;\ncp.async.bulk.commit_group;\n" +
         wait + "READ:\nbar.sync 0;\nld.global.u32 %r1, [%out];\ncp.async.bulk.wait_group 0;\n";
}

TEST_F(RaceTest, NamesTheBulkStoreWhoseResultIsReadTooEarly) {
  expect_silence(run(store_and_read("cp.async.bulk.wait_group 0;\n")));
  expect_one(run(store_and_read("cp.async.bulk.wait_group.read 0;\n")), "missing wait",
             {"f.cu:9", "which a cp.async.bulk is still to write: what is read is old",
              "block (0,0,0) warp 0 [lane 0] issued the cp.async.bulk at f.cu:4", "wait_group.read, which ends when",
              "without .read"});
  expect_one(run(store_and_read("")), "missing wait", {"f.cu:8", "nobody has waited for it", "f.cu:4"});
  // Other bytes may be read meanwhile.
  expect_silence(run(with(store_and_read("cp.async.bulk.wait_group.read 0;\n"), "[%out];", "[%out+256];")));
}

TEST_F(RaceTest, NamesTheBulkStoreThatACopyOrAGenericLoadReads) {
  const std::string body = store_and_read("cp.async.bulk.wait_group.read 0;\n");
  expect_one(run(with(body, "ld.global.u32", "ld.u32")), "missing wait", {"f.cu:9", "f.cu:4"});
  expect_one(run(with(body, "ld.global.u32", "ld.volatile.global.u32")), "missing wait", {"f.cu:9", "f.cu:4"});
  const std::string copy =
      "@%first mbarrier.init.shared.b64 [bar], 1; @!%first bra END;\n"
      "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+1024], [%out], 16, "
      "[bar];\n" +
      wait(0, "0", "W") + "END:\n";
  expect_one(run(with(body, "ld.global.u32 %r1, [%out];\n", copy)), "missing wait", {"f.cu:11", "f.cu:4"});
}

TEST_F(RaceTest, NamesTheBulkStoreThatATensorCopyReads) {
  // Eight rows of 128 bytes, 256 bytes apart.
  prepare = [](uint64_t out) {
    alignas(64) machine::TensorMap map;
    const uint64_t dims[2] = {64, 8}, strides[1] = {256};
    const uint32_t box[2] = {64, 8}, steps[2] = {1, 1};
    const auto result = machine::encode_tiled({&map, 1, 2, out + 1024, dims, strides, box, steps, 0, 0, 0, 0});
    ASSERT_EQ(result.code, 0) << result.message;
    std::memcpy(machine::DeviceMemory::host(out), &map, sizeof map);
  };
  const auto store_and_load = [](const char* target, const char* how) {
    return kInit + "@!%first bra END;\nst.shared.u32 [tile], %thread;\nfence.proxy.async;\n" +
           fmt::format(
               "cp.async.bulk.global.shared::cta.bulk_group [{}], [tile], 64;\ncp.async.bulk.commit_group;\n"
               "cp.async.bulk.wait_group{} 0;\n",
               target, how) +
           "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 1024;\n"
           "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [tile+2048], [%out, {0, 0}], "
           "[bar];\n" +
           wait(0, "0", "LAST") + "cp.async.bulk.wait_group 0;\nEND:\n";
  };
  const char* const second_row = "%out+1344";
  const char* const between_rows = "%out+1152";
  expect_one(run(store_and_load(second_row, ".read")), "missing wait",
             {"f.cu:12", "which a cp.async.bulk is still to write", "f.cu:8", "without .read"});
  expect_silence(run(store_and_load(between_rows, ".read")));
  expect_silence(run(store_and_load(second_row, "")));
}

class LostCopyTest : public RaceTest {
 protected:
  std::vector<std::unique_ptr<machine::Observer>> make_checks() const override {
    return checks::make_checks(true, goes_on);
  }
  bool goes_on = false;
};

TEST_F(LostCopyTest, IsDroppedWhereAProgramGoesOnAfterFindings) {
  const std::string body =
      "mbarrier.init.shared.b64 [bar], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;\n"
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 16, [bar];\n";
  const std::vector<std::string> words = {"f.cu:3", "cp.async.bulk: destination: the block of rank 0", "has exited",
                                          "none of its threads waited for the end"};
  const machine::LaunchResult stopped = run(body, {.threads = 1});
  expect_one_fault(stopped, "illegal address", words);
  EXPECT_TRUE(stopped.stopped);
  goes_on = true;
  const machine::LaunchResult dropped = run(body, {.threads = 1});
  expect_one(dropped, "illegal address", words);
  EXPECT_NE(text_of(dropped).find("the copy is dropped"), std::string::npos);
  EXPECT_FALSE(dropped.stopped);
}

TEST_F(RaceTest, ReportsMisusedBarriersByName) {
  const std::string init = "mbarrier.init.shared.b64 [bar+16], 1;\n";
  const Shape one{.threads = 1};
  expect_one(run("mbarrier.arrive.shared.b64 _, [bar+16];", one), "barrier misuse",
             {"no mbarrier is initialised at bar[2]", "f.cu:1"});
  expect_one(run(init + "mbarrier.arrive.shared.b64 _, [bar+16];\nmbarrier.inval.shared.b64 [bar+16];\n"
                        "mbarrier.arrive.shared.b64 _, [bar+16];",
                 one),
             "barrier misuse",
             {"no mbarrier is initialised at bar[2]", "mbarrier.inval was at f.cu:3 by warp 0, lane 0"});
  expect_one(run(init + "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar+16], 16;\n"
                        "mbarrier.arrive.shared.b64 _, [bar+16];\nmbarrier.arrive.shared.b64 _, [bar+16];",
                 one),
             "barrier misuse",
             {"1 arrival at bar[2], where 0 of 1 are pending", "the last arrival before was at f.cu:3"});
  expect_one(run(init + "mbarrier.expect_tx.relaxed.cta.shared.b64 [bar+16], 1048576;", one), "barrier misuse",
             {"the transaction count of bar[2]", "expect_tx"});
  expect_one(run("@%first mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\nmbarrier.arrive.shared.b64 _, [bar];",
                 {.threads = 32}),
             "barrier misuse", {"every active lane arrives on its own"});
  const auto misaligned = run("mbarrier.init.shared.b64 [bar+4], 1;", one);
  ASSERT_EQ(misaligned.diagnostics.size(), 1u);
  EXPECT_EQ(misaligned.diagnostics[0].kind, "barrier misuse");
}

TEST_F(RaceTest, SaysThatTooFewBytesAreAnnounced) {
  // Two copies bring 128 bytes each; warp 1 reads the bytes of the second.
  const auto read_after = [](uint32_t announced) {
    return kInit + "setp.eq.u32 %p1, %warp, 1;\n@%p1 bra READ;\n@!%first bra END;\n" +
           fmt::format("mbarrier.arrive.expect_tx.shared.b64 _, [bar], {};\n", announced) +
           "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 128, [bar];\n"
           "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+128], [%out], 128, [bar];\nbra END;\n"
           "READ:\n" +
           wait(0, "0", "W") + "ld.shared.u32 %r1, [%own];\nEND:\n";
  };
  expect_silence(run(read_after(256)));
  const std::string text = text_of(run(read_after(128)));
  EXPECT_NE(text.find("for bar[0] passed before the bytes of this copy had come"), std::string::npos) << text;
  EXPECT_NE(text.find("are fewer bytes announced than the copies of a phase bring?"), std::string::npos) << text;
}

// ---- Two copies to the same bytes -----------------------------------------------------------------------------------

/// Copies half of `tile` from `offset` on, for a barrier.
std::string copy_half(uint32_t offset, uint32_t barrier) {
  return fmt::format(
      "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile+{}], [%out], 128, [bar+{}];\n", offset,
      8 * barrier);
}
std::string announce(uint32_t barrier, uint32_t bytes) {
  return fmt::format("mbarrier.arrive.expect_tx.shared.b64 _, [bar+{}], {};\n", 8 * barrier, bytes);
}

TEST_F(RaceTest, SaysThatTwoSlotsOverlap) {
  const auto two_slots = [](uint32_t offset_of_the_second) {
    return kInit + "@!%first bra END;\n" + announce(0, 128) + copy_half(0, 0) + announce(1, 128) +
           copy_half(offset_of_the_second, 1) + "END:\n" + wait(0, "0", "ONE") + wait(1, "0", "OTHER");
  };
  expect_silence(run(two_slots(128)));
  expect_one(run(two_slots(64)), "race",
             {"writes tile+0x40", "for different barriers, bar[0] and bar[1]", "two slots overlap"});
}

TEST_F(RaceTest, SaysThatAReadNamesAnotherSlotThanTheOneWaitedFor) {
  // A ring of two slots; the reader frees the first, waits for the second and reads at `offset`.
  const auto read_at = [](uint32_t offset) {
    return kInit + "@%first mbarrier.init.shared.b64 [bar+16], 1;\nbar.sync 0;\nsetp.eq.u32 %p1, %warp, 1;\n" +
           "@%p1 bra READ;\n@!%first bra END;\n" + announce(0, 128) + copy_half(0, 0) + announce(1, 128) +
           copy_half(128, 1) + wait(2, "0", "FREE") + announce(0, 128) + copy_half(0, 0) + "bra END;\nREAD:\n" +
           wait(0, "0", "ONE") +
           "setp.eq.u32 %p3, %lane, 0;\n@!%p3 bra NEXT;\nmbarrier.arrive.shared.b64 _, [bar+16];\nNEXT:\n" +
           "bar.warp.sync 0xffffffff;\n" + wait(1, "0", "OTHER") +
           fmt::format("ld.shared.u32 %r1, [tile+{}];\n", offset) + wait(0, "1", "LAST") + "END:\n";
  };
  expect_silence(run(read_at(128)));
  expect_one(run(read_at(0)), "race",
             {"was for bar[1], and the copy brings bytes for bar[0], whose slot was released before that wait",
              "does this read name another slot than the one that was waited for?"});
}

TEST_F(RaceTest, SaysThatAReaderDoesNotWaitInALaterRound) {
  // It waits in the first round only: each read comes before the arrival in the code, and after that of the last round.
  const std::string once =
      "nanosleep.u32 20000;\nsetp.ne.u32 %p4, %r5, 0;\n@%p4 bra READ;\n" + wait(0, "0", "C") + "READ:\n";
  const std::string text =
      text_of(run(slot(wait(1, "%r7", "P"), once + kRead + "bar.warp.sync 0xffffffff;\n" + kFree)));
  EXPECT_NE(text.find("is released before this read, by the arrival on bar[1]"), std::string::npos) << text;
  EXPECT_NE(text.find("in an earlier turn of a loop"), std::string::npos) << text;
  EXPECT_NE(text.find("where each turn is a round of its own, wait for bar[0] in each"), std::string::npos) << text;
}

TEST_F(RaceTest, NamesTheArrivalThatEndsAPhaseWithoutBytes) {
  const std::string body = kInit + "setp.eq.u32 %p1, %warp, 1;\n@%p1 bra READ;\n@!%first bra END;\n" +
                           "mbarrier.arrive.shared.b64 _, [bar]; // once more\n" + kCopy + "bra END;\nREAD:\n" +
                           wait(0, "0", "W") + kRead + "END:\n" + wait(0, "1", "LAST");
  const std::string text = text_of(run(body));
  EXPECT_NE(text.find("for bar[0] was ended by the arrival at " + line_of(body, "// once more") +
                      ", in a phase to which no bytes came"),
            std::string::npos)
      << text;
}

TEST_F(RaceTest, SaysThatTwoTilesOfASlotOverlap) {
  const auto two_tiles = [](uint32_t offset_of_the_second) {
    return kInit + "@!%first bra END;\n" + announce(0, 256) + copy_half(0, 0) + copy_half(offset_of_the_second, 0) +
           "END:\n" + wait(0, "0", "BOTH");
  };
  expect_silence(run(two_tiles(128)));
  expect_one(run(two_tiles(112)), "race",
             {"writes tile+0x70", "for the same phase of bar[0]", "two tiles of one slot overlap"});
}

TEST_F(RaceTest, SaysThatLanesIssueOneCopyEach) {
  const std::string text = text_of(run(kInit + "@%first " + announce(0, 128) + "setp.ge.u32 %p1, %thread, 2;\n" +
                                       "@%p1 bra END;\n" + copy_half(0, 0) + "END:\n" + wait(0, "0", "W")));
  EXPECT_NE(text.find("lanes 0 and 1 both issue this copy: let one elected lane do so"), std::string::npos) << text;
}

TEST_F(RaceTest, AsksForAWaitWhereASlotIsFilledAgain) {
  const std::string again = kInit + "@!%first bra END;\n" + announce(0, 128) + copy_half(0, 0) +
                            "nanosleep.u32 20000;\n" + announce(0, 128) + copy_half(0, 0) + "END:\n" +
                            wait(0, "1", "BOTH");
  const std::string text = text_of(run(again));
  EXPECT_NE(text.find("wait for bar[0], or for a barrier that is arrived on after it"), std::string::npos) << text;
}

}  // namespace
}  // namespace stagecraft::emulator::checks
