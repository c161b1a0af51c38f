// mbarriers, through the instructions that use them.
#include <sstream>

#include "emulator/state/mbarrier_table.hpp"
#include "fixtures/kernel_run.hpp"

namespace stagecraft::emulator::machine {
namespace {

using machine::FaultKind;

/// Returns PTX for steps such as "init 3", "arrive 2", "expect 64", "complete 16", "drop 1", "inval". After each, the
/// results of test_wait.parity for 0 and 1 go to out[2 * step] and out[2 * step + 1].
std::string script(const std::vector<std::string>& steps) {
  std::ostringstream text;
  size_t step = 0;
  for (const std::string& line : steps) {
    std::istringstream words(line);
    std::string name, count = "1";
    words >> name >> count;
    if (name == "init") text << "mbarrier.init.shared::cta.b64 [bar], " << count << ";\n";
    if (name == "inval") text << "mbarrier.inval.shared::cta.b64 [bar];\n";
    if (name == "arrive") text << "mbarrier.arrive.shared::cta.b64 _, [bar], " << count << ";\n";
    if (name == "drop") text << "mbarrier.arrive_drop.shared::cta.b64 _, [bar], " << count << ";\n";
    if (name == "expect") text << "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], " << count << ";\n";
    if (name == "complete") text << "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], " << count << ";\n";
    if (name == "arrive_expect") text << "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], " << count << ";\n";
    if (name != "inval") {
      for (int parity = 0; parity < 2; ++parity) {
        text << "mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], " << parity << ";\n"
             << "mov.u32 %r1, 2;\n@%p1 mov.u32 %r1, 3;\n"
             << "st.global.u32 [%rd0+" << (2 * step + static_cast<size_t>(parity)) * 4 << "], %r1;\n";
      }
    }
    ++step;
  }
  return text.str();
}

/// Returns the completed phases modulo 2 after each step, '0' or '1', as the two results show them.
std::string phases_after(const std::vector<std::string>& steps) {
  KernelRun kernel;
  expect_success(kernel.run(script(steps)));
  std::string phases;
  for (size_t step = 0; step < steps.size(); ++step) {
    const uint32_t first = kernel.out()[2 * step], second = kernel.out()[2 * step + 1];
    EXPECT_TRUE((first == 2 && second == 3) || (first == 3 && second == 2) || steps[step] == "inval");
    phases += steps[step] == "inval" ? '-' : first == 3 ? '1' : '0';
  }
  return phases;
}

// Measured on an H200: only the lower half of a 64-bit register matters, which is the same in generic and shared
// addresses.
TEST(MbarrierTest, IsFoundByAGenericAddressInASharedFormAndConversely) {
  KernelRun kernel;
  expect_success(kernel.run(R"(
    mov.u64 %rd3, bar; cvta.shared.u64 %rd1, %rd3; or.b64 %rd2, %rd1, 0x1234567800000000;
    mbarrier.init.shared::cta.b64 [%rd1], 2;
    mbarrier.arrive.shared::cta.b64 _, [%rd2];
    mbarrier.arrive.b64 _, [%rd3];
    mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0;
    selp.u32 %r1, 1, 0, %p1; st.global.u32 [%rd0], %r1;
  )"));
  EXPECT_EQ(kernel.out()[0], 1u);
}

TEST(MbarrierTest, MayBeInitialisedByAWholeWarpAlike) {
  const std::string body = R"(
    mov.u32 %r1, %tid.x; and.b32 %r2, %r1, {}; add.u32 %r2, %r2, 2;
    mbarrier.init.shared::cta.b64 [bar], %r2;
    setp.ne.u32 %p2, %r1, 0; @%p2 ret;
    mbarrier.arrive.shared::cta.b64 _, [bar], 2;
    mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0;
    selp.u32 %r1, 1, 0, %p1; st.global.u32 [%rd0], %r1;
  )";
  const auto run = [&](KernelRun& kernel, int differing) {
    std::string text = body;
    text.replace(text.find("{}"), 2, std::to_string(differing));
    return kernel.run(text, {}, {.threads = 32});
  };
  KernelRun alike, unlike;
  expect_success(run(alike, 0));
  EXPECT_EQ(alike.out()[0], 1u);
  expect_fault(run(unlike, 1), FaultKind::launch_failure, "already live");
}

// The tables of the next four tests were measured on an H200.

TEST(MbarrierTest, TurnsItsPhaseWhenAllHaveArrived) {
  EXPECT_EQ(phases_after({"init 3", "arrive 1", "arrive 2", "arrive 3", "arrive 3"}), "00101");
  EXPECT_EQ(phases_after({"init 1", "arrive", "inval", "init 1048575"}), "01-0");
}

TEST(MbarrierTest, TurnsItsPhaseWhenAlsoTheBytesHaveCome) {
  EXPECT_EQ(phases_after({"init 2", "expect 64", "complete 16", "arrive 2", "complete 48"}), "00001");
}

TEST(MbarrierTest, CanEndAPhaseByExpectingBytesThatHaveComeAlready) {
  EXPECT_EQ(phases_after({"init 1", "complete 16", "arrive", "expect 16"}), "0001");
}

TEST(MbarrierTest, ExpectsFewerAfterADrop) {
  EXPECT_EQ(phases_after({"init 3", "drop", "arrive 2", "arrive 2"}), "0010");
}

TEST(MbarrierTest, AnnouncesTheBytesOfAnArrivalBeforeItCounts) {
  EXPECT_EQ(phases_after({"init 1", "arrive_expect 16", "complete 16"}), "001");
  EXPECT_EQ(phases_after({"init 1", "complete 16", "arrive_expect 16"}), "001");
}

TEST(MbarrierTest, GivesTheStateBeforeTheArrival) {
  KernelRun kernel;
  expect_success(kernel.run(R"(
    mbarrier.init.shared.b64 [bar], 3;
    mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %rd10, [bar], 1;
    mbarrier.arrive.shared::cta.b64 %rd11, [bar];
    mbarrier.pending_count.b64 %r10, %rd10;
    mbarrier.pending_count.b64 %r11, %rd11;
    st.global.u32 [%rd0], %r10;
    st.global.u32 [%rd0+4], %r11;
    mbarrier.test_wait.shared::cta.b64 %p1, [bar], %rd10;
    mov.u32 %r1, 1;
    @%p1 st.global.u32 [%rd0+8], %r1;
    mbarrier.arrive.shared::cta.b64 %rd12, [bar];
    mbarrier.test_wait.acquire.cta.shared::cta.b64 %p2, [bar], %rd12;
    @%p2 st.global.u32 [%rd0+12], %r1;
    mbarrier.arrive.shared::cta.b64 %rd13, [bar];
    mbarrier.try_wait.relaxed.cluster.shared::cta.b64 %p3, [bar], %rd12, 100;
    @%p3 st.global.u32 [%rd0+16], %r1;
    st.global.u64 [%rd0+24], %rd11;
  )"));
  EXPECT_EQ(kernel.out()[0], 3u);
  EXPECT_EQ(kernel.out()[1], 2u);
  EXPECT_EQ(kernel.out()[2], 0u) << "the phase of the first state is not yet over";
  EXPECT_EQ(kernel.out()[3], 1u);
  EXPECT_EQ(kernel.out()[4], 1u);
  EXPECT_EQ(kernel.out<uint64_t>()[3] >> 32 & 0xffff'f800, 0x7fff'f000u) << "as the chip shows 2 pending arrivals";
}

TEST(MbarrierTest, AcceptsGenericAddresses) {
  KernelRun kernel;
  expect_success(kernel.run(R"(
    mov.u64 %rd10, bar;
    cvta.shared.u64 %rd11, %rd10;
    mbarrier.init.b64 [%rd11], 1;
    mbarrier.arrive.b64 %rd12, [%rd11];
    mbarrier.try_wait.parity.b64 %p1, [%rd11], 0;
    mov.u32 %r1, 1;
    @%p1 st.global.u32 [%rd0], %r1;
  )"));
  EXPECT_EQ(kernel.out()[0], 1u);
  expect_fault(kernel.run("mbarrier.arrive.b64 _, [%rd0];"), FaultKind::invalid_address_space, "not in shared memory");
}

/// Lane 0 of warp 0 initialises bar with `count`; then all go on.
std::string initialise(int count) {
  return "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared::cta.b64 [bar], " +
         std::to_string(count) + ";\nbar.sync 0;\n";
}

TEST(MbarrierTest, CountsEveryActiveLane) {
  for (const uint32_t count : {32u, 16u, 64u}) {
    KernelRun kernel;
    expect_success(kernel.run(initialise(static_cast<int>(count)) + R"(
      mbarrier.arrive.shared::cta.b64 %rd10, [bar];
      mbarrier.pending_count.b64 %r2, %rd10;
      mul.wide.u32 %rd11, %r1, 4;
      mul.wide.u32 %rd11, %r1, 4;
      add.s64 %rd12, %rd0, %rd11;
      st.global.u32 [%rd12], %r2;
      bar.sync 0;
      mbarrier.test_wait.parity.shared::cta.b64 %p2, [bar], 0;
      mov.u32 %r3, 1;
      @%p2 st.global.u32 [%rd0+1024], %r3;
    )",
                              {}, {1, 32, 1}));
    for (uint32_t lane = 0; lane < 32; ++lane) {
      EXPECT_EQ(kernel.out()[lane], count - lane % count) << "count " << count << " lane " << lane;
    }
    EXPECT_EQ(kernel.out()[256], count == 32 ? 1u : 0u);
  }
}

TEST(MbarrierTest, LetsAWarpSleepUntilAnotherHasArrived) {
  KernelRun kernel;
  // Warp 1 works for a while, stores, and arrives; warp 0 waits and reads. The wait must take virtual time but few
  // instructions.
  const machine::LaunchResult result = kernel.run(initialise(1) + R"(
      setp.lt.u32 %p2, %r1, 32;
      @%p2 bra consume;
      nanosleep.u32 30000;
      setp.eq.u32 %p3, %r1, 32;
      mov.u32 %r2, 77;
      st.shared.u32 [tile], %r2;
      @%p3 mbarrier.arrive.shared::cta.b64 _, [bar];
      bra end;
    consume:
    again:
      mbarrier.try_wait.parity.shared::cta.b64 %p4, [bar], 0;
      @!%p4 bra again;
      ld.shared.u32 %r3, [tile];
      st.global.u32 [%rd0], %r3;
    end:
  )",
                                                  {}, {1, 64, 1});
  expect_success(result);
  EXPECT_EQ(kernel.out()[0], 77u);
  EXPECT_LT(result.warp_instructions, 60u) << "a blocked wait is a state, not a spin";
}

TEST(MbarrierTest, ReportsAWaitThatNobodyCanEnd) {
  for (const char* kind : {"try_wait", "test_wait"}) {
    KernelRun kernel;
    const auto result = kernel.run("mbarrier.init.shared::cta.b64 [bar], 1;\nagain:\nmbarrier." + std::string(kind) +
                                   ".parity.shared::cta.b64 %p1, [bar], 0;\n@!%p1 bra again;\n");
    ASSERT_TRUE(result.fault.has_value());
    EXPECT_EQ(*result.fault, FaultKind::deadlock);
  }
}

TEST(MbarrierTest, ReturnsFalseFromATryWaitWhoseTimeIsUp) {
  KernelRun kernel;
  const auto result = kernel.run(R"(
    mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0, 5000;
    mov.u32 %r1, 1;
    @!%p1 st.global.u32 [%rd0], %r1;
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0, 5000;
    @%p1 st.global.u32 [%rd0+4], %r1;
  )");
  expect_success(result);
  EXPECT_EQ(kernel.out()[0], 1u);
  EXPECT_EQ(kernel.out()[1], 1u);
  EXPECT_GT(result.cycles, 5000u);
}

TEST(MbarrierTest, LetsPollingGoOnWithOtherWorkThatOthersCanSee) {
  // The loop arrives between its polls, and so brings about what it polls for: it must never sleep for good.
  KernelRun kernel;
  expect_success(kernel.run(initialise(4) + R"(
  again:
    mbarrier.arrive.shared::cta.b64 _, [bar];
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra again;
    mov.u32 %r3, 1;
    st.global.u32 [%rd0], %r3;
  )"));
  EXPECT_EQ(kernel.out()[0], 1u);
}

TEST(MbarrierTest, SleepsOnDifferentBarriersUntilOneOfThemTurns) {
  // Lanes 0 to 15 of warp 0 wait for bar[0], the others for bar[1]; warp 1 ends the phase of bar[1], then of bar[0].
  KernelRun kernel;
  expect_success(kernel.run(R"(
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
    @%p1 mbarrier.init.shared::cta.b64 [bar+8], 1;
    bar.sync 0;
    setp.lt.u32 %p2, %r1, 32;
    @%p2 bra consume;
    setp.eq.u32 %p3, %r1, 32;
    nanosleep.u32 3000;
    @%p3 mbarrier.arrive.shared::cta.b64 _, [bar+8];
    nanosleep.u32 3000;
    @%p3 mbarrier.arrive.shared::cta.b64 _, [bar];
    bra end;
  consume:
    setp.lt.u32 %p4, %r1, 16;
    mov.u32 %r5, bar;
    @!%p4 add.u32 %r5, %r5, 8;
  again:
    mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r5], 0;
    @!%p5 bra again;
    mov.u32 %r3, 1;
    @%p4 st.global.u32 [%rd0], %r3;
    @!%p4 st.global.u32 [%rd0+4], %r3;
  end:
  )",
                            {}, {1, 64, 1}));
  EXPECT_EQ(kernel.out()[0], 1u);
  EXPECT_EQ(kernel.out()[1], 1u);
}

TEST(MbarrierTest, CountsArrivalsFromOtherBlocksOfTheCluster) {
  KernelRun kernel;
  expect_success(kernel.run(R"(
    mbarrier.init.shared::cta.b64 [bar], 2;
    fence.mbarrier_init.release.cluster;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    mov.u32 %r1, %cluster_ctarank;
    mov.u32 %r2, bar;
    mov.u32 %r3, 0;
    mapa.shared::cluster.u32 %r4, %r2, %r3;
    mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%r4], 32;
    mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r4], 32;
    setp.eq.u32 %p1, %r1, 0;
    @!%p1 bra end;
  again:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], 0;
    @!%p2 bra again;
    mov.u32 %r5, 1;
    st.global.u32 [%rd0], %r5;
  end:
    barrier.cluster.arrive;
    barrier.cluster.wait;
  )",
                            {}, {2, 1, 2}));
  EXPECT_EQ(kernel.out()[0], 1u);
}

TEST(MbarrierTest, ArrivesOnBehalfOfEarlierCopies) {
  KernelRun kernel;
  const uint64_t source = kernel.upload(std::vector<uint32_t>{11, 22, 33, 44});
  expect_success(kernel.run(R"(
    mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.init.shared::cta.b64 [bar+8], 1;
    cp.async.ca.shared.global [tile], [%rd1], 16;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [bar];
    cp.async.mbarrier.arrive.shared::cta.b64 [bar+8];
    mbarrier.arrive.shared::cta.b64 _, [bar+8];
  again:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    @!%p1 bra again;
  more:
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar+8], 0;
    @!%p1 bra more;
    ld.shared.u32 %r1, [tile+8];
    st.global.u32 [%rd0], %r1;
  )",
                            {source}));
  EXPECT_EQ(kernel.out()[0], 33u);
}

TEST(MbarrierTest, MayBeInitialisedAgainBeforeItsFirstUse) {
  // The same thread initialises twice, as pipelines of CUTLASS do; the last count is valid.
  EXPECT_EQ(phases_after({"init 3", "init 1", "arrive"}), "001");
}

TEST(MbarrierTest, IsAsNewWhenInitialisedAgainAtRest) {
  // As on an H200: two phases have ended, and the next is the first again.
  EXPECT_EQ(phases_after({"init 1", "arrive", "arrive", "arrive", "init 1", "arrive"}), "010101");
}

TEST(MbarrierTest, StopsWhatPtxLeavesUndefined) {
  const auto fault_of = [](const std::string& body, FaultKind kind, const std::string& words) {
    KernelRun kernel;
    expect_fault(kernel.run(body), kind, words);
  };
  fault_of("mbarrier.arrive.shared::cta.b64 _, [bar];", FaultKind::launch_failure, "no mbarrier is initialised");
  fault_of("mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0;", FaultKind::launch_failure,
           "ran ahead of mbarrier.init");
  fault_of("mbarrier.init.shared::cta.b64 [bar], 1;\nmbarrier.arrive.shared::cta.b64 _, [bar+8];",
           FaultKind::launch_failure, "this is the place after bar[0]: does an index run past its array");
  fault_of(script({"init 1", "inval", "arrive"}), FaultKind::launch_failure,
           "mbarrier.inval has ended the barrier that was here");
  fault_of(script({"init 2", "arrive", "init 2"}), FaultKind::launch_failure,
           "phase 0 is under way: 1 of 2 arrivals have come");
  fault_of(script({"init 1", "expect 16", "init 1"}), FaultKind::launch_failure, "bytes are announced for it");
  fault_of(script({"init 1", "complete 16", "arrive", "arrive"}), FaultKind::launch_failure, "0 of 1 are pending");
  fault_of(script({"init 3", "arrive 4"}), FaultKind::launch_failure, "4 arrivals at bar[0], where 3 of 3 are pending");
  fault_of(script({"init 0"}), FaultKind::launch_failure, "arrival count 0 is out of range");
  fault_of(script({"init 1048576"}), FaultKind::launch_failure, "arrival count 1048576 is out of range");
  fault_of(script({"init 1", "expect 1048575", "expect 1"}), FaultKind::launch_failure, "would become 1048576");
  fault_of(script({"init 1", "complete 1048575", "complete 1"}), FaultKind::launch_failure, "would become -1048576");
  fault_of("mbarrier.init.shared::cta.b64 [bar], 1;\nmbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 2;",
           FaultKind::launch_failure, "waits for bar[0] with parity 2, which no phase has");
  fault_of("mbarrier.init.shared::cta.b64 [bar], 1;\nmbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], -1;",
           FaultKind::launch_failure, "waits for bar[0] with parity 4294967295, which no phase has");
  fault_of("mbarrier.init.shared::cta.b64 [bar+4], 1;", FaultKind::misaligned_address, "not a multiple of 8");
  fault_of("mov.u32 %r1, 0;\nmbarrier.init.shared::cta.b64 [%r1], 1;", FaultKind::illegal_address, "null");
  fault_of("mov.u32 %r1, 0x3fffff8;\nmbarrier.init.shared::cta.b64 [%r1], 1;", FaultKind::invalid_address_space,
           "rank 3");
  fault_of("mov.u32 %r1, 0x3000400;\nmbarrier.arrive.shared::cluster.b64 _, [%r1];", FaultKind::illegal_address,
           "names no block of the cluster");
  fault_of("mbarrier.init.shared::cta.b64 [bar], 1;\nmbarrier.arrive.noComplete.shared::cta.b64 %rd9, [bar], 1;",
           FaultKind::launch_failure, "would end the phase");
  fault_of("mbarrier.init.shared::cta.b64 [bar], 1048575;\ncp.async.mbarrier.arrive.shared::cta.b64 [bar];",
           FaultKind::launch_failure, "the pending count of bar[0] would exceed 1048575");
  // Warp 0 sleeps when a thread of warp 1 ends the barrier.
  KernelRun kernel;
  expect_fault(kernel.run("mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\nsetp.lt.u32 %p2, %r1, 32;\n"
                          "@%p1 mbarrier.init.shared::cta.b64 [bar], 1;\nbar.sync 0;\n"
                          "@%p2 mbarrier.try_wait.parity.shared::cta.b64 %p3, [bar], 0;\n@%p2 ret;\n"
                          "nanosleep.u32 1000;\nmbarrier.inval.shared::cta.b64 [bar];\n",
                          {}, {1, 64, 1}),
               FaultKind::launch_failure, "mbarrier.inval: warp 0 still waits on bar[0]");
}

TEST(MbarrierTest, TellsWhyOneArrivesTooMany) {
  const std::string init =
      "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %p1, %r1, 0;\n@%p1 mbarrier.init.shared::cta.b64 [bar], 1;\n";
  const std::string announce = "mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 64;\n";
  KernelRun kernel;
  expect_fault(kernel.run(init + announce + "mbarrier.arrive.shared::cta.b64 _, [bar];\n"), FaultKind::launch_failure,
               "announcing bytes (arrive.expect_tx) has counted as this thread's arrival: leave this one out");
  expect_fault(kernel.run(init + "bar.sync 0;\n" + announce, {}, {1, 32, 1}), FaultKind::launch_failure,
               "every active lane arrives on its own");
  expect_fault(kernel.run(init + announce + announce), FaultKind::launch_failure,
               "announce the sum of all copies once, or initialise bar[0] for both");
  expect_fault(kernel.run(init + "mov.u32 %r2, 0;\nAGAIN:\n" + announce +
                          "add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p2, %r2, 2;\n@%p2 bra AGAIN;\n"),
               FaultKind::launch_failure, "nobody made it wait for the phase to end");
}

TEST(MbarrierTest, NamesTheLanesThatWaitForNoParity) {
  KernelRun kernel;
  const auto result = kernel.run(R"(
    mov.u32 %r1, %tid.x;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 mbarrier.init.shared::cta.b64 [bar], 1;
    bar.sync 0;
    shr.u32 %r2, %r1, 4;
    mul.lo.u32 %r2, %r2, 3;
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [bar], %r2, 100;
  )",
                                 {}, {1, 32, 1});
  expect_fault(result, FaultKind::launch_failure, "waits for bar[0] with parity 3, which no phase has");
  const std::string report = KernelRun::report(result);
  EXPECT_NE(report.find("legal are 0, for the phases of even number, and 1"), std::string::npos) << report;
  EXPECT_NE(report.find("pass the lowest bit"), std::string::npos) << report;
  ASSERT_EQ(result.diagnostics.size(), 1u);
  EXPECT_EQ(result.diagnostics[0].kind, "barrier misuse");
  EXPECT_EQ(result.diagnostics[0].place.lanes, 0xffff0000u);
}

TEST(MbarrierTest, NoticesThatItsStorageWasWrittenOver) {
  KernelRun kernel;
  expect_fault(kernel.run("mbarrier.init.shared::cta.b64 [bar], 1;\nmov.u64 %rd9, 5;\nst.shared.u64 [bar], %rd9;\n"
                          "mbarrier.arrive.shared::cta.b64 _, [bar];"),
               FaultKind::launch_failure, "has been written over");
}

TEST(MbarrierTest, RefusesFormsThatPtxDoesNotHave) {
  KernelRun kernel;
  const auto refuses = [&](const std::string& line) { EXPECT_THROW(kernel.run(line), ptx::Error) << line; };
  refuses("mbarrier.arrive.shared::cluster.b64 %rd9, [bar];");
  refuses("mbarrier.arrive.release.shared::cta.b64 _, [bar];");
  refuses("mbarrier.arrive.release.gpu.shared::cta.b64 _, [bar];");
  refuses("mbarrier.arrive.acquire.cta.shared::cta.b64 _, [bar];");
  refuses("mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar];");
  refuses("mbarrier.arrive.noComplete.shared::cluster.b64 _, [bar], 1;");
  refuses("mbarrier.complete_tx.release.cta.shared::cta.b64 [bar], 16;");
  refuses("mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], 0, 100;");
  refuses("mbarrier.try_wait.parity.shared::cluster.b64 %p1, [bar], 0;");
  refuses("mbarrier.init.shared::cluster.b64 [bar], 1;");
}

class Recorder : public machine::Observer {
 public:
  void barrier_changed(const machine::BarrierEvent& event) override {
    using Kind = machine::BarrierEventKind;
    switch (event.kind) {
      case Kind::init: text += "init "; break;
      case Kind::reinitialise: text += "again "; break;
      case Kind::invalidate: text += "inval "; break;
      case Kind::arrive: text += "arrive" + std::to_string(event.amount) + " "; break;
      case Kind::expect_tx: text += "expect" + std::to_string(event.amount) + " "; break;
      case Kind::complete_tx: text += "complete" + std::to_string(event.amount) + " "; break;
      case Kind::phase_complete: text += "phase" + std::to_string(event.phase) + " "; break;
      case Kind::wait: text += "wait "; break;
    }
  }
  std::string text;
};

TEST(MbarrierTest, TellsObserversWhatHappens) {
  KernelRun kernel;
  Recorder recorder;
  expect_success(kernel.run(R"(
    mbarrier.init.shared::cta.b64 [bar], 1;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 16;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [bar], 16;
    mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0;
    mbarrier.inval.shared::cta.b64 [bar];
  )",
                            {}, {}, {&recorder}));
  EXPECT_EQ(recorder.text, "init expect16 arrive1 complete16 phase0 wait inval ");
}

TEST(MbarrierTableTest, DescribesABarrierForReports) {
  Mbarrier barrier;
  barrier.expected = 1;
  barrier.transaction = 16384;
  barrier.announced = 32768;
  EXPECT_EQ(describe(barrier, "full[2]").at(0),
            "full[2]: phase 0, 0 of 1 arrivals pending, 16384 of 32768 bytes outstanding");
  barrier.transaction = -16;
  EXPECT_NE(describe(barrier, "full[2]").at(0).find("16 bytes more came than the 32768 announced"), std::string::npos);
}

}  // namespace
}  // namespace stagecraft::emulator::machine
