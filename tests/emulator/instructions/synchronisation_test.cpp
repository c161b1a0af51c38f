// Warp operations and block barriers, and the reports when they cannot complete.
#include <functional>

#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::machine {
namespace {

class SynchronisationTest : public KernelTest {
 protected:
  /// What the handlers of a kernel announce.
  enum class Announced { nothing, memory, instructions, both };
  static constexpr Announced kAnnounced[] = {Announced::nothing, Announced::memory, Announced::instructions,
                                             Announced::both};
  void announce(Announced announced) {
    machine.announce_memory_events(announced == Announced::memory || announced == Announced::both);
    machine.announce_instructions(announced == Announced::instructions || announced == Announced::both);
  }
};

const char* const kStore = R"(
  mov.u32 %r19, %tid.x;
  mul.wide.u32 %rd19, %r19, 4;
  add.s64 %rd19, %out, %rd19;
  st.global.u32 [%rd19], %r0;
)";

TEST_F(SynchronisationTest, ShufflesFollowPtxsClampAndSegmentRules) {
  struct Case {
    const char* mode;
    uint32_t distance, clamp;
    std::function<uint32_t(uint32_t)> from;
  };
  const Case cases[] = {
      {"up", 3, 0x0000, [](uint32_t lane) { return lane >= 3 ? lane - 3 : lane; }},
      {"down", 5, 0x001f, [](uint32_t lane) { return lane + 5 <= 31 ? lane + 5 : lane; }},
      {"bfly", 6, 0x001f, [](uint32_t lane) { return lane ^ 6; }},
      {"idx", 9, 0x001f, [](uint32_t) { return 9u; }},
      // Width 8: segment mask 0x18.
      {"idx", 2, 0x181f, [](uint32_t lane) { return (lane & 0x18) | 2; }},
      {"up", 2, 0x1800, [](uint32_t lane) { return lane % 8 >= 2 ? lane - 2 : lane; }},
      {"down", 3, 0x181f, [](uint32_t lane) { return lane % 8 + 3 < 8 ? lane + 3 : lane; }},
  };
  for (const Case& test : cases) {
    Kernel& kernel = compile_body(fmt::format("mov.u32 %r1, %laneid; shfl.sync.{}.b32 %r0, %r1, {}, {}, -1;", test.mode,
                                              test.distance, test.clamp) +
                                  kStore);
    const uint64_t out = allocate<uint32_t>(32);
    ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, out).fault);
    const auto values = read<uint32_t>(out, 32);
    for (uint32_t lane = 0; lane < 32; ++lane)
      EXPECT_EQ(values[lane], test.from(lane)) << test.mode << " lane " << lane;
  }
}

TEST_F(SynchronisationTest, AShuffleWaitsForItsDivergedLanes) {
  // Lanes below 16 come by another way, later; the shuffle with a full mask still sees all.
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %laneid; mov.u32 %r2, 0; setp.lt.u32 %p1, %r1, 16; @!%p1 bra GO;
    LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 5000; @%p2 bra LOOP;
    GO: shfl.sync.bfly.b32 %r0, %r2, 16, 31, -1;)") +
                                kStore);
  const uint64_t out = allocate<uint32_t>(32);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, out).fault);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], lane < 16 ? 0u : 5000u);
}

/// Odd and even lanes part, one side goes through a long loop, and both come to the same operation with other
/// registers.
std::string on_both_sides(const std::string& odd, const std::string& even) {
  return "mov.u32 %r1, %laneid; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; setp.lt.u32 %p2, %r1, 20;\n"
         "mov.u32 %r3, 0; @%p1 bra EVEN;\n"
         "LOOP: add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 500; @%p3 bra LOOP;\n" +
         odd + "bra JOIN;\nEVEN: " + even + "JOIN:\n" + kStore;
}

TEST_F(SynchronisationTest, LanesExecuteOneOperationOnBothSidesOfABranch) {
  struct Case {
    const char *odd, *even;
    std::function<uint32_t(uint32_t)> expected;
  };
  const auto below_20_or_even = [](uint32_t lane) { return lane % 2 == 1 ? lane < 20 : lane >= 20; };
  uint32_t votes = 0;
  for (uint32_t lane = 0; lane < 32; ++lane) votes |= (below_20_or_even(lane) ? 1u : 0u) << lane;
  const Case cases[] = {
      {"add.u32 %r4, %r1, 100; shfl.sync.idx.b32 %r0, %r4, 4, 31, -1;",
       "add.u32 %r5, %r1, 200; mov.u32 %r6, 7; shfl.sync.idx.b32 %r5|%p4, %r5, %r6, 31, -1; add.u32 %r0, %r5, 1000;",
       [](uint32_t lane) { return lane % 2 == 1 ? 204u : 1107u; }},
      {"vote.sync.ballot.b32 %r0, %p2, -1;", "vote.sync.ballot.b32 %r7, !%p2, -1; mov.u32 %r0, %r7;",
       [=](uint32_t) { return votes; }},
      {"vote.sync.all.pred %p5, %p1, -1; selp.u32 %r0, 1, 0, %p5;",
       "vote.sync.all.pred %p6, %p2, -1; selp.u32 %r0, 3, 2, %p6;",
       [](uint32_t lane) { return lane % 2 == 1 ? 0u : 2u; }},
      {"match.any.sync.b32 %r0, %r2, -1;", "shr.u32 %r8, %r1, 4; match.any.sync.b32 %r9, %r8, -1; mov.u32 %r0, %r9;",
       [](uint32_t lane) { return lane % 2 == 1 || lane >= 16 ? 0xffffaaaau : 0x5555u; }},
  };
  for (const Case& test : cases) {
    for (seed = 0; seed < 4; ++seed) {
      announce(kAnnounced[seed]);
      const uint64_t out = allocate<uint32_t>(32);
      const LaunchResult result = launch(compile_body(on_both_sides(test.odd, test.even)), {1, 1, 1}, {32, 1, 1}, out);
      ASSERT_FALSE(result.fault) << test.even << message_of(result);
      const auto values = read<uint32_t>(out, 32);
      for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], test.expected(lane)) << test.even << lane;
    }
  }
}

class CheckedSynchronisationTest : public KernelTest {
  std::vector<std::unique_ptr<Observer>> make_checks() const override { return checks::make_checks(true); }
};

TEST_F(CheckedSynchronisationTest, WarpBarriersOnBothSidesOfABranchOrderMemory) {
  const char* const address = "shl.b32 %r4, %r1, 2; mov.u32 %r5, cell; add.u32 %r4, %r4, %r5;\n";
  const std::string odd =
      std::string(address) + "st.shared.u32 [%r4], %r1; bar.warp.sync -1; ld.shared.u32 %r0, [%r4-4];";
  const std::string even =
      std::string(address) + "st.shared.u32 [%r4], %r1; bar.warp.sync -1; ld.shared.u32 %r0, [%r4+4];";
  const uint64_t out = allocate<uint32_t>(32);
  const LaunchResult result =
      launch(compile_body(on_both_sides(odd, even), ".shared .align 4 .b8 cell[256];"), {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  EXPECT_TRUE(result.diagnostics.empty()) << message_of(result);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], lane ^ 1);
}

TEST_F(SynchronisationTest, LanesMeetInAFunctionThatIsCalledInTwoPlaces) {
  const Kernel& kernel = compile_body(
      on_both_sides(
          "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), swap, (a); ld.param.b32 %r0, [b]; }",
          "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), swap, (a); ld.param.b32 %r0, [b]; }"),
      R"(.func (.param .b32 result) swap(.param .b32 value) {
        .reg .b32 %r<3>; ld.param.b32 %r1, [value]; shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1; st.param.b32 [result], %r2;
        ret; })");
  const uint64_t out = allocate<uint32_t>(32);
  const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], lane ^ 1);
}

TEST_F(SynchronisationTest, LanesDoNotMeetInDifferentOperationsNorForReductionsAndElectionsAtTwoPlaces) {
  const std::pair<const char*, const char*> cases[] = {
      {"redux.sync.add.u32 %r0, %r1, -1;", "redux.sync.add.u32 %r0, %r1, -1;"},  // hangs on an H200
      {"elect.sync %r0|%p5, -1;", "elect.sync %r9|%p6, -1;"},                    // elects one lane for both there
      {"shfl.sync.up.b32 %r0, %r1, 1, 0, -1;", "shfl.sync.down.b32 %r0, %r1, 1, 31, -1;"},
      {"vote.sync.any.pred %p5, %p2, -1;", "vote.sync.all.pred %p5, %p2, -1;"},
      {"bar.warp.sync -1;", "vote.sync.all.pred %p5, %p2, -1;"},
      {"shfl.sync.up.b32 %r0, %r1, 1, 0, -1;", "vote.sync.all.pred %p5, %p2, -1;"},
  };
  for (const Announced announced : kAnnounced) {
    announce(announced);
    for (const auto& [odd, even] : cases) {
      const LaunchResult result =
          launch(compile_body(on_both_sides(odd, even)), {1, 1, 1}, {32, 1, 1}, allocate<uint32_t>(32));
      EXPECT_EQ(result.fault, FaultKind::deadlock) << odd;
    }
  }
}

TEST_F(SynchronisationTest, VotesMatchesAndReductionsCountMembersOnly) {
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %laneid; setp.ge.u32 %p1, %r1, 24; @%p1 bra END;
    and.b32 %r2, %r1, 3; setp.eq.u32 %p2, %r2, 0;
    vote.sync.ballot.b32 %r3, %p2, 0x00ffffff;
    match.any.sync.b32 %r4, %r2, 0x00ffffff;
    redux.sync.add.u32 %r5, %r1, 0x00ffffff;
    redux.sync.min.s32 %r6, %r1, 0x00ffffff;
    vote.sync.all.pred %p3, %p2, 0x00ffffff; selp.u32 %r7, 1, 0, %p3;
    elect.sync %r8|%p4, 0x00fffff0; selp.u32 %r9, 1, 0, %p4;
    END:)");
  // The mask of elect does not have lanes 0 to 3, although they execute it.
  const uint64_t out = allocate<uint32_t>(32);
  const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, out);
  EXPECT_EQ(result.fault, FaultKind::illegal_instruction);
  EXPECT_EQ(result.diagnostics.at(0).place.lanes, 0xfu);
}

TEST_F(SynchronisationTest, TilesOfAWarpMeetEachOnItsOwn) {
  // Cooperative groups does the same: one instruction for all lanes, each naming the 8 lanes of its tile.
  const std::string body = R"(
    mov.u32 %r1, %laneid; and.b32 %r2, %r1, -8; mov.b32 %r3, 255; shl.b32 %r3, %r3, %r2;
    bar.warp.sync %r3;
    redux.sync.add.u32 %r4, %r1, %r3;
    and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 0;
    vote.sync.ballot.b32 %r6, %p1, %r3;
    shfl.sync.idx.b32 %r7, %r1, 1, 0x181f, %r3;
    elect.sync %r8|%p2, %r3;
    match.any.sync.b32 %r9, %r5, %r3;)";
  const auto expect = [&](const std::string& last, const std::function<uint32_t(uint32_t)>& expected) {
    Kernel& kernel = compile_body(body + "mov.b32 %r0, " + last + ";" + kStore);
    const uint64_t out = allocate<uint32_t>(64);
    ASSERT_FALSE(launch(kernel, {1, 1, 1}, {64, 1, 1}, out).fault);
    const auto values = read<uint32_t>(out, 64);
    for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(values[i], expected(i % 32)) << last << " lane " << i;
  };
  const auto first = [](uint32_t lane) { return lane & ~7u; };
  expect("%r4", [&](uint32_t lane) { return 8 * first(lane) + 28; });
  expect("%r6", [&](uint32_t lane) { return 0x55u << first(lane); });
  expect("%r7", [&](uint32_t lane) { return first(lane) + 1; });
  expect("%r8", first);
  expect("%r9", [&](uint32_t lane) { return (lane % 2 == 0 ? 0x55u : 0xaau) << first(lane); });
}

TEST_F(SynchronisationTest, ATileWaitsForItsOwnDivergedLanes) {
  // The lower 4 lanes of each tile of 8 come later.
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %laneid; and.b32 %r2, %r1, -8; mov.b32 %r3, 255; shl.b32 %r3, %r3, %r2;
    mov.u32 %r5, 1; and.b32 %r4, %r1, 4; setp.eq.u32 %p1, %r4, 0; @!%p1 bra GO;
    LOOP: add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 5000; @%p2 bra LOOP;
    GO: redux.sync.add.u32 %r0, %r5, %r3;)") +
                                kStore);
  const uint64_t out = allocate<uint32_t>(32);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, out).fault);
  for (const uint32_t value : read<uint32_t>(out, 32)) EXPECT_EQ(value, 4 * 5000u + 4);
}

// Each half of the warp is a tile with a member mask of its own, %r2, as cooperative groups and CUB have them.
const char* const kTiles = R"(
  mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; selp.b32 %r2, 0x0000ffff, 0xffff0000, %p1;
)";

TEST_F(SynchronisationTest, TilesOfAWarpMeetInOneInstruction) {
  Kernel& kernel = compile_body(std::string(kTiles) + R"(
    bar.warp.sync %r2;
    redux.sync.add.u32 %r0, %r1, %r2;
    shfl.sync.idx.b32 %r3, %r1, 3, 0x101f, %r2;
    mad.lo.u32 %r0, %r3, 1000, %r0;
    setp.gt.u32 %p2, %r1, 13;
    vote.sync.ballot.b32 %r3, %p2, %r2;
    popc.b32 %r3, %r3;
    mad.lo.u32 %r0, %r3, 100000, %r0;
    elect.sync _|%p3, %r2;
    @%p3 add.u32 %r0, %r0, 10000000;
    shr.u32 %r4, %r1, 4;
    match.all.sync.b32 %r3|%p4, %r4, %r2;
    @%p4 add.u32 %r0, %r0, 100000000;)" +
                                kStore);
  const uint64_t out = allocate<uint32_t>(32);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, out).fault);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint32_t expected = (lane < 16 ? 120 + 3'000 + 200'000 : 376 + 19'000 + 1'600'000) +
                              (lane % 16 == 0 ? 10'000'000 : 0) + 100'000'000;
    EXPECT_EQ(values[lane], expected) << "lane " << lane;
  }
}

TEST_F(SynchronisationTest, ATileWaitsForItsOwnLanesOnly) {
  // Lanes below 8 of the lower tile come later; the upper tile is complete, and what it stores first lets them come.
  Kernel& kernel = compile_body(std::string(kTiles) + R"(
    mov.u32 %r3, 0; setp.lt.u32 %p2, %r1, 8; @!%p2 bra GO;
    LOOP: ld.relaxed.gpu.global.u32 %r3, [%out + 124]; setp.eq.u32 %p3, %r3, 0; @%p3 bra LOOP;
    GO: shfl.sync.bfly.b32 %r0, %r3, 8, 31, %r2;
    add.u32 %r0, %r0, 1;)" + kStore);
  const uint64_t out = allocate<uint32_t>(32);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, out).fault);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], lane < 8 || lane >= 16 ? 1u : 2u) << lane;
}

TEST_F(SynchronisationTest, ALaneOutsideOfItsOwnMaskIsAMistakeInATileToo) {
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; selp.b32 %r2, 0x0000ffff, 0x7fff0000, %p1;
    bar.warp.sync %r2;)");
  const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, allocate<uint32_t>(1));
  ASSERT_EQ(result.fault, FaultKind::illegal_instruction);
  EXPECT_NE(result.diagnostics[0].message.find("member mask 0x7fff0000 leaves them out"), std::string::npos)
      << result.diagnostics[0].message;
}

TEST_F(SynchronisationTest, AWarpThatIsTogetherTakesPartThoughTheMaskHoldsAPartOfIt) {
  // An H200 stored these on 2026-11-22.
  struct Case {
    const char* body;
    uint32_t (*expected)(uint32_t lane);
  };
  const Case cases[] = {
      {"shfl.sync.up.b32 %r0|%p4, %r2, 16, 0, 0xffff;", [](uint32_t lane) { return 100 + lane % 16; }},
      {"shfl.sync.idx.b32 %r0, %r2, 20, 31, 0xffff;", [](uint32_t) { return 120u; }},
      {"vote.sync.ballot.b32 %r0, %p1, 0xffff;", [](uint32_t) { return 0xffffffffu; }},
      {"vote.sync.all.pred %p4, %p2, 0xffff; selp.u32 %r0, 1, 0, %p4;", [](uint32_t) { return 0u; }},
      {"redux.sync.add.u32 %r0, %r1, 0xffff;", [](uint32_t) { return 0x1f0u; }},
      {"match.any.sync.b32 %r0, %r3, 0xffff;", [](uint32_t) { return 0xffffffffu; }},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.body);
    Kernel& kernel = compile_body(std::string(R"(
      mov.u32 %r1, %laneid; add.u32 %r2, %r1, 100; mov.u32 %r3, 7777;
      setp.ge.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 16;)") +
                                  each.body + kStore);
    const uint64_t out = allocate<uint32_t>(32);
    const LaunchResult result = launch(kernel, {2, 1, 1}, {32, 1, 1}, out);
    EXPECT_FALSE(result.stopped);
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_EQ(result.diagnostics[0].kind, "wrong member mask");
    EXPECT_NE(result.diagnostics[0].message.find("0x0000ffff leaves them out"), std::string::npos);
    EXPECT_EQ(result.diagnostics[0].place.lanes, 0xffff0000u);
    EXPECT_NE(result.diagnostics[0].tolerated, "");
    const auto values = read<uint32_t>(out, 32);
    for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], each.expected(lane)) << "lane " << lane;
  }
}

TEST_F(SynchronisationTest, AShuffleFromALaneThatTakesNoPartIsReported) {
  struct Case {
    const char* body;
    const char* message;
    const char* detail;
  };
  const Case cases[] = {
      {"@!%p1 bra END; shfl.sync.idx.b32 %r0, %r1, 20, 31, 0xffff; END:",
       "takes a value from lane 20, which does not take part", "they are not in the member mask"},
      {"@!%p1 ret; shfl.sync.bfly.b32 %r0, %r1, 16, 31, 0xffffffff;",
       "takes a value from lanes 16-31, which do not take part", "they have exited"},
  };
  const std::string lane = "mov.u32 %r1, %laneid; mov.u32 %r0, 0; setp.lt.u32 %p1, %r1, 16;";
  for (const Case& each : cases) {
    SCOPED_TRACE(each.body);
    Kernel& kernel = compile_body(lane + each.body + kStore);
    const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, allocate<uint32_t>(32));
    ASSERT_EQ(result.diagnostics.size(), 1u);
    EXPECT_EQ(result.diagnostics[0].kind, "missing lanes");
    EXPECT_EQ(result.diagnostics[0].message, each.message);
    EXPECT_TRUE(result.diagnostics[0].details.front().starts_with(each.detail))
        << result.diagnostics[0].details.front();
    EXPECT_EQ(result.diagnostics[0].place.lanes, 0xffffu);
  }
  // The upper lanes of a sum by `down` get what nobody uses; and a source out of range is the lane itself.
  for (const char* right : {"@!%p1 bra END; shfl.sync.down.b32 %r0, %r1, 8, 31, 0xffff; END:",
                            "@!%p1 bra END; shfl.sync.bfly.b32 %r0, %r1, 8, 31, 0xffff; END:",
                            "@!%p1 ret; shfl.sync.idx.b32 %r0, %r1, 3, 31, 0xffffffff;"}) {
    SCOPED_TRACE(right);
    Kernel& kernel = compile_body(lane + right + kStore);
    EXPECT_TRUE(launch(kernel, {1, 1, 1}, {32, 1, 1}, allocate<uint32_t>(32)).diagnostics.empty());
  }
}

TEST_F(SynchronisationTest, LanesOutsideOfTheMaskStopAWarpThatIsApart) {
  // The H200 gave the same, also for a ballot among the lanes below each lane.
  for (const char* body : {"@%p1 bra LOWER; shfl.sync.up.b32 %r0, %r1, 16, 0, 0xffff; bra END; LOWER: "
                           "shfl.sync.up.b32 %r0, %r1, 16, 0, 0xffff; END:",
                           "mov.u32 %r2, %lanemask_lt; vote.sync.ballot.b32 %r0, %p1, %r2;"}) {
    SCOPED_TRACE(body);
    Kernel& kernel = compile_body(std::string("mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16;") + body + kStore);
    const LaunchResult result = launch(kernel, {1, 1, 1}, {32, 1, 1}, allocate<uint32_t>(32));
    EXPECT_EQ(result.fault, FaultKind::illegal_instruction);
  }
}

TEST_F(SynchronisationTest, ElectChoosesTheLowestMember) {
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %laneid; mov.u32 %r0, 77; setp.lt.u32 %p1, %r1, 4; @%p1 bra END;
    elect.sync %r8|%p4, 0xfffffff0; selp.u32 %r9, 100, 0, %p4; add.u32 %r0, %r8, %r9;
    END:)") + kStore);
  const uint64_t out = allocate<uint32_t>(32);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, out).fault);
  const auto values = read<uint32_t>(out, 32);
  for (uint32_t lane = 0; lane < 32; ++lane) EXPECT_EQ(values[lane], lane < 4 ? 77 : lane == 4 ? 104 : 4) << lane;
}

TEST_F(SynchronisationTest, BarriersOrderSharedMemoryAcrossWarps) {
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, table; add.u32 %r4, %r3, %r2;
    st.shared.u32 [%r4], %r1;
    bar.sync 0;
    xor.b32 %r5, %r2, 0x1fc; add.u32 %r5, %r3, %r5;
    ld.shared.u32 %r0, [%r5];)") + kStore,
                                ".shared .align 4 .b8 table[512];");
  for (seed = 0; seed < 8; ++seed) {
    const uint64_t out = allocate<uint32_t>(128);
    ASSERT_FALSE(launch(kernel, {1, 1, 1}, {128, 1, 1}, out).fault);
    const auto values = read<uint32_t>(out, 128);
    for (uint32_t i = 0; i < 128; ++i) ASSERT_EQ(values[i], 127 - i);
  }
}

TEST_F(SynchronisationTest, BarrierReductionsGiveEveryThreadTheCount) {
  Kernel& kernel = compile_body(std::string(R"(
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 37;
    barrier.cta.red.popc.aligned.u32 %r0, 0, %p1;
    barrier.cta.red.or.pred %p2, 0, %p1; selp.u32 %r2, 1000, 0, %p2; add.u32 %r0, %r0, %r2;
    barrier.cta.red.and.pred %p3, 0, %p1; selp.u32 %r2, 10000, 0, %p3; add.u32 %r0, %r0, %r2;)") +
                                kStore);
  const uint64_t out = allocate<uint32_t>(96);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {96, 1, 1}, out).fault);
  for (const uint32_t value : read<uint32_t>(out, 96)) EXPECT_EQ(value, 1037u);
}

TEST_F(SynchronisationTest, ExitedWarpsAreNotWaitedFor) {
  Kernel& kernel = compile_body("mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 64; @%p1 exit; bar.sync 0;");
  EXPECT_FALSE(launch(kernel, {1, 1, 1}, {128, 1, 1}, uint64_t{0}).fault);
}

TEST_F(SynchronisationTest, AWarpCountsInFullHoweverItsLanesComeAndLeave) {
  // Lanes 0 to 9 and 10 to 19 of each warp come apart, and the others exit: before them, or (later in the code) after.
  const std::string apart = "@%p2 bra HALF; bar.sync {0}; bra END; HALF: bar.sync {0}; bra END;";
  for (const char* barrier : {"0", "1, 64"}) {
    for (const char* leave : {"@%p1 exit; ", "@%p1 bra LEAVE; "}) {
      Kernel& kernel = compile_body("mov.u32 %r1, %laneid; setp.ge.u32 %p1, %r1, 20; setp.lt.u32 %p2, %r1, 10;" +
                                    (leave + fmt::format(fmt::runtime(apart), barrier)) + "LEAVE: exit; END:");
      const LaunchResult result = launch(kernel, {1, 1, 1}, {64, 1, 1}, uint64_t{0});
      EXPECT_FALSE(result.fault) << barrier << ", " << leave << ": " << message_of(result);
    }
  }
}

TEST_F(SynchronisationTest, AProducerArrivesAtANamedBarrierWithoutWaiting) {
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bra PRODUCE;
    bar.sync 1, 64; ld.shared.u32 %r2, [cell]; st.global.u32 [%out], %r2; bra END;
    PRODUCE: st.shared.u32 [cell], 42; bar.arrive 1, 64;
    END:)",
                                ".shared .align 4 .b8 cell[4];");
  const uint64_t out = allocate<uint32_t>(1);
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {64, 1, 1}, out).fault);
  EXPECT_EQ(read<uint32_t>(out, 1)[0], 42u);
}

TEST_F(SynchronisationTest, ABarrierInOneBranchIsADeadlockThatNamesTheBarrier) {
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 32; @%p1 bra OTHER;
    bar.sync 3; bra END;
    OTHER: bar.sync 4;
    END:)");
  const LaunchResult result = launch(kernel, {1, 1, 1}, {64, 1, 1}, uint64_t{0});
  EXPECT_EQ(result.fault, FaultKind::deadlock);
  EXPECT_EQ(message_of(result), "waits at barrier 3, where 32 of all living threads have arrived");
  EXPECT_NE(result.diagnostics.at(0).likely_cause.find("meant to meet at one number"), std::string::npos);
}

TEST_F(SynchronisationTest, BarrierNumbersAndCountsAreChecked) {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"mov.u32 %r1, 16; bar.sync %r1;", "barrier number 16 does not exist: a block has barriers 0 to 15"},
           {"mov.u32 %r1, 33; bar.sync 0, %r1;",
            "barrier 0 with a count of 33 threads: the count must be a multiple of 32"},
           {"bar.sync 0, 96;", "barrier 0 waits for 96 threads, but the block has 64"}}) {
    const LaunchResult result = launch(compile_body(text), {1, 1, 1}, {64, 1, 1}, uint64_t{0});
    EXPECT_EQ(result.fault, FaultKind::illegal_instruction);
    EXPECT_EQ(message_of(result), message);
  }
}

TEST_F(SynchronisationTest, ClusterBarriersWaitForAllBlocksOfTheCluster) {
  cluster = {2, 1, 1};
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %tid.x; setp.ne.u32 %p1, %r2, 0;
    mov.u32 %r3, cell; @!%p1 st.shared.u32 [%r3], %r1;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
    xor.b32 %r4, %r1, 1; mapa.shared::cluster.u32 %r5, %r3, %r4;
    @!%p1 ld.shared::cluster.u32 %r6, [%r5];
    mov.u32 %r7, %ctaid.x; mul.wide.u32 %rd1, %r7, 4; add.s64 %rd1, %out, %rd1; @!%p1 st.global.u32 [%rd1], %r6;
    barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;)",
                                ".shared .align 4 .b8 cell[4];");
  const uint64_t out = allocate<uint32_t>(8);
  const LaunchResult result = launch(kernel, {8, 1, 1}, {64, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  const auto values = read<uint32_t>(out, 8);
  for (uint32_t block = 0; block < 8; ++block) EXPECT_EQ(values[block], (block & 1) ^ 1);
}

TEST_F(SynchronisationTest, LanesInDifferentRoundsOfAClusterBarrierDoNotHoldEachOtherUp) {
  // Half of each warp comes late, ends the round in which the others wait, and is back before they go on.
  cluster = {2, 1, 1};
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %laneid; setp.lt.u32 %p1, %r1, 16; mov.u32 %r2, 0;
    @%p1 bra ROUND;
    nanosleep.u32 10000;
    ROUND: barrier.cluster.arrive; barrier.cluster.wait;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 4; @%p2 bra ROUND;)");
  const LaunchResult result = launch(kernel, {2, 1, 1}, {64, 1, 1}, uint64_t{0});
  EXPECT_FALSE(result.fault) << message_of(result);
}

TEST_F(SynchronisationTest, AClusterBarrierIsNotEndedByThreadsThatArriveAndExit) {
  // The second warp of each block arrives and exits at once; the first one of block 1 is late.
  cluster = {2, 1, 1};
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %tid.x; setp.gt.u32 %p1, %r2, 31; setp.eq.u32 %p2, %r1, 1;
    @%p1 barrier.cluster.arrive.release; @%p1 ret;
    @!%p2 bra ARRIVE;
    nanosleep.u32 10000; st.relaxed.gpu.global.u32 [%out], 7;
    ARRIVE: barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
    @%p2 ret;
    ld.relaxed.gpu.global.u32 %r3, [%out]; st.global.u32 [%out+4], %r3;)");
  const uint64_t out = allocate<uint32_t>(2, 0u);
  const LaunchResult result = launch(kernel, {2, 1, 1}, {64, 1, 1}, out);
  ASSERT_FALSE(result.fault) << message_of(result);
  EXPECT_EQ(read<uint32_t>(out, 2)[1], 7u);
}

TEST_F(SynchronisationTest, TheSameSeedGivesTheSameRun) {
  // Threads take tickets; the order of tickets is the interleaving.
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r1, %r2, %r3;
    mov.u32 %r6, 0;
    LOOP: add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 300; @%p1 bra LOOP;
    atom.global.add.u32 %r5, [%out], 1;
    add.u32 %r4, %r4, 1; mul.wide.u32 %rd1, %r4, 4; add.s64 %rd1, %out, %rd1; st.global.u32 [%rd1], %r5;)");
  const auto run = [&](uint64_t with_seed) {
    seed = with_seed;
    const uint64_t out = allocate<uint32_t>(1 + 16 * 128, 0u);
    EXPECT_FALSE(launch(kernel, {16, 1, 1}, {128, 1, 1}, out).fault);
    return read<uint32_t>(out, 1 + 16 * 128);
  };
  EXPECT_EQ(run(0), run(0));
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
}

TEST_F(SynchronisationTest, PrintedTextComesOutInTheOrderOfLanes) {
  Kernel& kernel = compile_body(R"(
    mov.u32 %r1, %tid.x; setp.ge.u32 %p1, %r1, 2; @%p1 exit;
    .local .align 8 .b8 depot[8];
    mov.u64 %rd1, depot; cvta.local.u64 %rd2, %rd1; st.local.u32 [%rd1], %r1;
    mov.u64 %rd3, text; cvta.global.u64 %rd4, %rd3;
    { .param .b64 a; st.param.b64 [a], %rd4; .param .b64 b; st.param.b64 [b], %rd2; .param .b32 n;
      call.uni (n), vprintf, (a, b); ld.param.b32 %r2, [n]; })",
                                R"(.extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);
    .global .align 1 .b8 text[7] = {104, 105, 32, 37, 100, 10, 0};)");
  ASSERT_FALSE(launch(kernel, {1, 1, 1}, {32, 1, 1}, uint64_t{0}).fault);
  EXPECT_EQ(printed, "hi 0\nhi 1\n");
}

}  // namespace
}  // namespace stagecraft::emulator::machine
