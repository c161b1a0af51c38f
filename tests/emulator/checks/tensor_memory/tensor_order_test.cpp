// Tests accesses to tensor memory: which must be waited for, and which must be fenced.
#include "fixtures/tensor_core_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class TensorOrderTest : public TensorCoreTest {
 protected:
  static constexpr Shape kFiveWarps{.threads = 160};
  static inline const std::string kLoad =
      "shl.b32 %r3, %warp, 21; add.u32 %r3, %r3, %r15; tcgen05.ld.sync.aligned.32x32b.x4.b32 {%f0, %f1, %f2, %f3}, "
      "[%r3];\n";
  static inline const std::string kStore =
      "shl.b32 %r3, %warp, 21; add.u32 %r3, %r3, %r15; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r3], {%f0, %f1, %f2, "
      "%f3}; tcgen05.wait::st.sync.aligned;\n";
  static inline const std::string kWaitLoad = "tcgen05.wait::ld.sync.aligned;\n";
  static inline const std::string kAfter = "tcgen05.fence::after_thread_sync;\n";
  static inline const std::string kArrive = "mbarrier.arrive.shared.b64 _, [bar+8];\n";

  /// The last warp multiplies twice into one accumulator; four warps load what it holds each time. Barrier 0 says that
  /// it is full; barrier 1, which all loading threads arrive on, says that it is free.
  static std::string two_rounds() {
    return start(1, 128) + "setp.lt.u32 %p1, %warp, 4;\n@%p1 bra LOAD;\nsetp.ne.u32 %p1, %lane, 0;\n@%p1 bra DONE;\n" +
           descriptors() + multiply() + commit(0) + wait(1, 0, "FREE") +
           "tcgen05.fence::after_thread_sync; // multiply\n" + with(multiply(), "0;", "0; // second\n") + commit(0) +
           "bra DONE;\nLOAD:\n" + wait(0, 0, "FIRST") + "tcgen05.fence::after_thread_sync; // load\n" + kLoad +
           kWaitLoad + kArrive + wait(0, 1, "SECOND") + "tcgen05.fence::after_thread_sync; // again\n" +
           with(kLoad, "[%r3]", "[%r3+0]") + "tcgen05.wait::ld.sync.aligned; // again\n" + "DONE:\n" + kFree;
  }
};

TEST_F(TensorOrderTest, IsSilentWhenAnAccumulatorIsHandedToAndFro) {
  for (uint64_t seed_of_run = 0; seed_of_run < 6; ++seed_of_run)
    expect_silence(run(two_rounds(), kFiveWarps, seed_of_run));
}

// ThunderKittens' attention relies on this: tcgen05.ld, st and their waits are operations of the warp as a whole.
TEST_F(TensorOrderTest, LetsOneLaneAnnounceTheLoadsOfItsWarp) {
  std::string one = with(two_rounds(), kArrive, "setp.eq.u32 %p2, %lane, 0;\n@%p2 " + kArrive);
  one = with(one, "[bar+8], 128;", "[bar+8], 4;");
  expect_silence(run(one, kFiveWarps));
  expect_one(run(without(one, kWaitLoad), kFiveWarps), "race", {"nobody has waited for its end"});
}

TEST_F(TensorOrderTest, FindsALoadThatDoesNotWaitForTheCommit) {
  const std::string wrong =
      with(without(two_rounds(), wait(0, 1, "SECOND")), "DONE:\n", wait(0, 1, "LAST") + "DONE:\n");
  expect_one(run(wrong, kFiveWarps), "race",
             {"columns 0 to 3 (lanes 0 to 31) of tensor memory", line_of(wrong, "// second"), line_of(wrong, "[%r3+0]"),
              "tcgen05.mma.cta_group::1.kind::f16"});
}

TEST_F(TensorOrderTest, SaysThatTheCommitIsToBeWaitedFor) {
  const std::string wrong = start(1, 1) + "@!%first bra LOAD;\n" + descriptors() + multiply() + commit(0) + "LOAD:\n" +
                            kLoad + kWaitLoad + wait(0, 0, "LAST") + kFree;
  expect_one(run(wrong, kTwoWarps), "race",
             {"of tensor memory", line_of(wrong, "tcgen05.ld"), line_of(wrong, "tcgen05.mma"),
              "wait for an mbarrier that a tcgen05.commit after the last tcgen05.mma arrives on"});
}

TEST_F(TensorOrderTest, DoesNotTakeSyncthreadsForTheEndOfAMultiplication) {
  const std::string wrong = start(1, 1) + "@!%first bra MET;\n" + descriptors() + multiply() + commit(0) +
                            "tcgen05.fence::before_thread_sync; // issued\nMET:\nbar.sync 0;\n" + kAfter + kLoad +
                            kWaitLoad + wait(0, 0, "LAST") + kFree;
  expect_one(run(wrong, kTwoWarps), "race", {"tcgen05.commit after the last tcgen05.mma"});
}

TEST_F(TensorOrderTest, FindsAMissingFenceAfterTheWait) {
  const std::string right = two_rounds();
  const std::string load = without(right, "tcgen05.fence::after_thread_sync; // load\n");
  expect_one(run(load, kFiveWarps), "missing tcgen05 fence",
             {"reads columns 0 to 3", "without a tcgen05.fence::after_thread_sync",
              line_of(load, "{%f0, %f1, %f2, %f3}, [%r3];"), "put tcgen05.fence::after_thread_sync between the wait"});
  const std::string second = without(right, "tcgen05.fence::after_thread_sync; // multiply\n");
  expect_one(
      run(second, kFiveWarps), "missing tcgen05 fence",
      {"writes columns 0 to 3", line_of(second, "// second"), "tcgen05.ld.sync.aligned.32x32b.x4.b32 issued by"});
}

TEST_F(TensorOrderTest, ReportsAFenceThatIsMissingBehindSeveralOperationsOnce) {
  const std::string wrong = start(1, 1) + "@!%first bra LOAD;\n" + descriptors() + multiply() +
                            "add.u32 %r15, %r15, 4;\n" + multiply() + "sub.u32 %r15, %r15, 4;\n" + commit(0) +
                            "LOAD:\n" + wait(0, 0, "FULL") + "shl.b32 %r3, %warp, 21; add.u32 %r3, %r3, %r15;\n" +
                            "tcgen05.ld.sync.aligned.32x32b.x8.b32 {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}, [%r3];\n" +
                            kWaitLoad + kFree;
  expect_one(run(wrong, kTwoWarps), "missing tcgen05 fence", {line_of(wrong, "tcgen05.ld"), "reads columns"});
}

TEST_F(TensorOrderTest, FindsAnAddressInTheQuarterOfAnotherWarp) {
  const std::string wrong = start(1, 1) + kStore + "bar.sync 1;\n" +
                            kAfter +  // each warp's own lanes, then the first's
                            with(kLoad, "[%r3]", "[%r15]") + kWaitLoad + kFree;
  expect_one(run(wrong, kTwoWarps), "illegal address",
             {"address 0x0 is in lane 0, which warp 1 may not access", "warp 1 may access lanes 32 to 63"});
}

// The patterns of PTX ISA, "Canonical synchronization patterns": all arrivals and waits there are relaxed.
TEST_F(TensorOrderTest, FollowsRelaxedBarriersBetweenTheFencesOfTcgen05) {
  const std::string before = "tcgen05.fence::before_thread_sync; // loaded\n";
  std::string right = with(two_rounds(), kArrive, before + kArrive);
  for (const auto& [from, to] : {std::pair{"mbarrier.arrive.shared.b64", "mbarrier.arrive.relaxed.cta.shared.b64"},
                                 std::pair{"try_wait.parity.shared.b64", "try_wait.parity.relaxed.cta.shared.b64"}}) {
    for (size_t at = 0; (at = right.find(from, at)) != std::string::npos; at += std::string(to).size()) {
      right.replace(at, std::string(from).size(), to);
    }
  }
  expect_silence(run(right, kFiveWarps));
  expect_one(run(without(right, before), kFiveWarps), "race",
             {"writes columns 0 to 3", "tcgen05.ld.sync.aligned.32x32b.x4.b32 issued by"});
  expect_one(run(without(right, "tcgen05.fence::after_thread_sync; // load\n"), kFiveWarps), "missing tcgen05 fence",
             {"reads columns 0 to 3"});
}

// The same patterns with a flag instead of a barrier: relaxed accesses are enough, in shared and in global memory.
TEST_F(TensorOrderTest, FollowsRelaxedFlagsBetweenTheFencesOfTcgen05) {
  const std::string before = "tcgen05.fence::before_thread_sync; // loaded\n";
  for (const auto& [space, flag] : {std::pair<std::string, std::string>{"shared", "[tile]"}, {"global", "[%out]"}}) {
    const std::string arrive = before + "red.relaxed.gpu." + space + ".add.u32 " + flag + ", 1;\n";
    const std::string poll =
        "FREE: ld.relaxed.gpu." + space + ".u32 %r9, " + flag + ";\nsetp.ne.u32 %p6, %r9, 128;\n@%p6 bra FREE;\n";
    std::string right = with(with(two_rounds(), kArrive, arrive), wait(1, 0, "FREE"), poll);
    right = with(right, "bar.sync 0;\ntcgen05.fence::after",
                 "@%first st.weak." + space + ".u32 " + flag + ", 0;\nbar.sync 0;\ntcgen05.fence::after");
    expect_silence(run(right, kFiveWarps));
    expect_one(run(without(right, before), kFiveWarps), "race",
               {"writes columns 0 to 3", "tcgen05.ld.sync.aligned.32x32b.x4.b32 issued by"});
    expect_one(run(without(right, "tcgen05.fence::after_thread_sync; // multiply\n"), kFiveWarps),
               "missing tcgen05 fence", {"writes columns 0 to 3"});
  }
}

// The blocks of a pair end like this in DeepGEMM.
TEST_F(TensorOrderTest, FollowsARelaxedClusterBarrierToTheDeallocation) {
  const std::string before = "tcgen05.fence::before_thread_sync; // loaded\n";
  const std::string right = start(1, 1) + kStore + before +
                            with(kFree, "bar.sync 0;", "barrier.cluster.arrive.relaxed; barrier.cluster.wait;");
  expect_silence(run(right, kTwoWarps));
  expect_one(run(without(right, before), kTwoWarps), "race", {"frees columns 0 to 3"});
}

TEST_F(TensorOrderTest, FindsALoadThatIsNotWaitedForBeforeTheRelease) {
  const std::string arriving = with(two_rounds(), kWaitLoad + kArrive, kArrive);
  expect_one(run(arriving, kFiveWarps), "race",
             {"race: writes columns 0 to 3", line_of(arriving, "// second"), line_of(arriving, "[%r3];"),
              "nobody has waited for its end", "tcgen05.wait::ld is missing"});
}

TEST_F(TensorOrderTest, FindsAnAccumulatorThatIsReleasedBeforeItIsLoaded) {
  // Whichever comes first, the load or the next multiplication.
  const std::string wrong = with(two_rounds(), kLoad + kWaitLoad + kArrive, kArrive + kLoad + kWaitLoad);
  const std::string late = with(wrong, kArrive, kArrive + "nanosleep.u32 2000;\n");
  for (const std::string& body : {wrong, late}) {
    const std::string text = text_of(run(body, kFiveWarps));
    EXPECT_NE(text.find("race: "), std::string::npos) << text;
    EXPECT_NE(text.find(line_of(body, "// second")), std::string::npos) << text;
    EXPECT_NE(text.find("the accumulator is released before"), std::string::npos) << text;
    EXPECT_NE(text.find("by the arrival on bar[1] at " + line_of(body, "mbarrier.arrive")), std::string::npos) << text;
  }
}

TEST_F(TensorOrderTest, FindsAMultiplicationThatDoesNotWaitForTheLoads) {
  const std::string wrong = with(two_rounds(), wait(1, 0, "FREE"), wait(0, 0, "FREE") + "nanosleep.u32 3000;\n");
  const std::string text = text_of(run(wrong, kFiveWarps));
  EXPECT_NE(text.find("race: writes columns 0 to 3"), std::string::npos) << text;
  EXPECT_NE(
      text.find("a thread that overwrites the accumulator must wait for a barrier that the loading warps arrive on"),
      std::string::npos)
      << text;
}

TEST_F(TensorOrderTest, FindsAStoreThatIsNotWaitedFor) {
  // Warp 0 sets the accumulator, and its first thread adds to it.
  const std::string right = start(1, 1) + "@%p0 bra WAIT;\n" +
                            "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r15], {%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7};\n"
                            "tcgen05.wait::st.sync.aligned;\n@!%first bra WAIT;\n" +
                            with(descriptors(), "mov.u32 %r14", "mov.u32 %r13, 0; mov.u32 %r14") + multiply() +
                            commit(0) + wait(0, 0, "WAIT") + kFree;
  expect_silence(run(right, kTwoWarps));
  const std::string wrong = without(right, "tcgen05.wait::st.sync.aligned;\n");
  expect_one(run(wrong, kTwoWarps), "race",
             {"race: writes columns 0 to 7", line_of(wrong, "tcgen05.mma"), line_of(wrong, "tcgen05.st.sync"),
              "tcgen05.wait::st is missing"});
}

TEST_F(TensorOrderTest, FollowsStoresToAnotherWarp) {
  const std::string right =
      start(1, 1) +
      "@%p0 bra MET;\ntcgen05.st.sync.aligned.32x32b.x1.b32 [%r15], {%f0};\n"
      "tcgen05.wait::st.sync.aligned;\ntcgen05.fence::before_thread_sync; // stored\nMET:\nbar.sync 0;\n" +
      kAfter + "setp.ne.u32 %p1, %warp, 4;\n@%p1 bra FREE;\ntcgen05.ld.sync.aligned.32x32b.x1.b32 {%f1}, [%r15];\n" +
      kWaitLoad + "FREE:\n" + kFree;
  expect_silence(run(right, kFiveWarps));
  expect_one(run(without(right, "tcgen05.wait::st.sync.aligned;\n"), kFiveWarps), "race",
             {"tcgen05.wait::st is missing"});
  expect_one(run(with(right, "bar.sync 0;\n" + kAfter + "setp", "bar.sync 0;\nsetp"), kFiveWarps),
             "missing tcgen05 fence", {"after_thread_sync"});
  // Where the wait follows, and the other warp does not wait for it, it is not the wait that is missing.
  const std::string apart = with(
      with(with(right, "MET:\nbar.sync 0;\n", "MET:\n"), "tcgen05.wait::st", "nanosleep.u32 3000;\ntcgen05.wait::st"),
      "@%p1 bra FREE;\n", "@%p1 bra FREE;\nnanosleep.u32 1000;\n");
  const std::string text = text_of(run(apart, kFiveWarps));
  EXPECT_NE(text.find("the store has not come to its tcgen05.wait::st at " + line_of(apart, "tcgen05.wait::st")),
            std::string::npos)
      << text;
}

TEST_F(TensorOrderTest, SaysThatAStoreHasAnArrivalOfItsOwn) {
  // Warp 0 stores in two pieces, and a thread of the other multiplies over both.
  const std::string before = "tcgen05.fence::before_thread_sync;\n";
  const std::string first = kStore + before + with(kArrive, "[bar+8]", "[bar]"),
                    second = with(kStore, "[%r3]", "[%r3+4]") + before + kArrive;
  const std::string right = start(32, 32, "@%first mbarrier.init.shared.b64 [bar+16], 1;\n") + "@%p0 bra MULTIPLY;\n" +
                            first + with(second, "tcgen05.wait", "\nnanosleep.u32 3000;\ntcgen05.wait") +
                            "bra DONE;\nMULTIPLY:\nsetp.ne.u32 %p1, %lane, 0;\n@%p1 bra DONE;\n" + wait(0, 0, "FIRST") +
                            wait(1, 0, "SECOND") + kAfter + descriptors() + multiply() + commit(2) + "DONE:\n" +
                            wait(2, 0, "ALL") + kFree;
  expect_silence(run(right, kTwoWarps));
  const std::string wrong = without(right, wait(1, 0, "SECOND"));
  const std::string text = text_of(run(wrong, kTwoWarps));
  EXPECT_NE(text.find("the tcgen05.mma was let begin by the arrival on bar[0] at " + line_of(wrong, "_, [bar];") +
                      ", which speaks only for what was stored before it. This store has its tcgen05.wait::st at "),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("and an arrival follows at " + line_of(wrong, "_, [bar+8];")), std::string::npos) << text;
}

TEST_F(TensorOrderTest, FindsAMissingFenceBeforeAHandOverAmongThreadsThatMultiply) {
  const std::string right =
      start(1, 1) + "@!%first bra MET;\n" + descriptors() + multiply() +
      "tcgen05.fence::before_thread_sync; // issued\nMET:\nbar.sync 0;\n"
      "tcgen05.fence::after_thread_sync; // taken over\nsetp.ne.u32 %p1, %thread, 32;\n@%p1 bra WAIT;\n" +
      descriptors() + multiply(true) + commit(0) + wait(0, 0, "WAIT") + "@!%first bra OVER;\n" + commit(1) + "OVER:\n" +
      wait(1, 0, "ALL") + kFree;
  expect_silence(run(right, kTwoWarps));
  const std::string before = without(right, "tcgen05.fence::before_thread_sync; // issued\n");
  expect_one(run(before, kTwoWarps), "missing tcgen05 fence",
             {"no tcgen05.fence::before_thread_sync after", line_of(before, "%r14, 0;"), line_of(before, "%r14, 1;"),
              "between the last tcgen05 instruction and the arrival"});
  expect_one(run(without(right, "tcgen05.fence::after_thread_sync; // taken over\n"), kTwoWarps),
             "missing tcgen05 fence", {"without a tcgen05.fence::after_thread_sync"});
}

TEST_F(TensorOrderTest, FindsAnAccumulatorThatNothingWasWrittenTo) {
  const std::string wrong =
      start(1, 1) + "@!%first bra WAIT;\n" + descriptors() + multiply(true) + commit(0) + wait(0, 0, "WAIT") + kFree;
  expect_one(run(wrong, kTwoWarps), "uninitialised accumulator",
             {"adds to columns 0 to 7 (lanes 0 to 127)", line_of(wrong, "tcgen05.mma"), "enable-input-d"});
  expect_silence(run(with(wrong, "%r14, 1;", "%r14, 0;"), kTwoWarps));
  // The thread may have gone on from an accumulator of the same size, but not from one of another.
  const auto after = [&](const std::string& resize, const std::string& back) {
    const std::string other = "add.u32 %r8, %r15, 16;\n" + with(multiply(), "[%r15]", "[%r8]");
    return text_of(run(with(wrong, multiply(true), resize + other + back + multiply(true)), kTwoWarps));
  };
  EXPECT_NE(after("", "").find("does it take another accumulator"), std::string::npos);
  const std::string text = after("add.u32 %r14, %r14, 0x20000;\n", "sub.u32 %r14, %r14, 0x20000;\n");  // N is 16
  EXPECT_NE(text.find("likely cause: the first tcgen05.mma of a tile must overwrite"), std::string::npos) << text;
}

/// A block-scaled multiplication by one thread; the four columns of A's scale factors, and those of B's, are elsewhere.
class ScaleFactorsTest : public TensorOrderTest {
 protected:
  static std::string copy_scales(uint32_t column) {
    return fmt::format(
        "mov.u32 %r1, tile; shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd3, %r1; or.b64 %rd3, %rd3, {}; add.u32 %r8, %r15, {}; "
        "tcgen05.cp.cta_group::1.32x128b.warpx4 [%r8], %rd3;\n",
        machine::testing::shared_descriptor(0, 0, 128, 0), column);
  }
  static std::string multiply_scaled(uint32_t scales_a, uint32_t scales_b) {
    constexpr uint32_t kPowersOfTwo = 1u << 23;
    return fmt::format(
        "mov.u32 %r14, {}; add.u32 %r8, %r15, {}; add.u32 %r9, %r15, {}; "
        "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale [%r15], %rd1, %rd2, %r14, [%r8], [%r9], 0;\n",
        machine::testing::Instruction{.m = 128, .n = 8, .d_code = 0}.bits() | kPowersOfTwo, scales_a, scales_b);
  }
  /// What one thread issues, and the frame around it.
  static std::string program(const std::string& issued) {
    return start(1, 1) + "@!%first bra WAIT;\n" + descriptors() + issued + commit(0) + wait(0, 0, "WAIT") + kFree;
  }
};

TEST_F(ScaleFactorsTest, AreCopiedByTheThreadThatMultiplies) {
  expect_silence(run(program(copy_scales(8) + copy_scales(12) + multiply_scaled(8, 12)), kTwoWarps));
}

TEST_F(ScaleFactorsTest, MustBeThereBeforeTheMultiplication) {
  for (const std::string& afterwards : {std::string(), copy_scales(12)}) {
    const std::string wrong = program(copy_scales(8) + multiply_scaled(8, 12) + afterwards);
    expect_one(run(wrong, kTwoWarps), "uninitialised operand",
               {"reads column 12 (lanes 0 to 127) of tensor memory, which nothing has written",
                line_of(wrong, "tcgen05.mma"), "the scale factors are not there yet"});
  }
}

TEST_F(ScaleFactorsTest, AreReportedWhereTheyAreNanForRowsThatAreNotZero) {
  const auto body = [](const std::string& set) {
    const std::string of_b = with(copy_scales(12), "mov.u32 %r1, tile;", "mov.u32 %r1, tile; add.u32 %r1, %r1, 2048;");
    return program(set + "fence.proxy.async;\n" + copy_scales(8) + of_b + multiply_scaled(8, 12));
  };
  const std::string scale = "mov.u32 %r4, 0x7f7f7fff; st.shared.u32 [tile+16], %r4;\n";
  const std::string row = "mov.u64 %rd4, 0x3c003c003c003c00; st.shared.u64 [a+16], %rd4;\n";
  const std::string wrong = body(scale + row);
  expect_one(
      run(wrong, kTwoWarps), "nan scale factor",
      {"multiplies row 1 of A by scale factors that are NaN: 0xff in ue8m0", line_of(wrong, "tcgen05.mma"),
       "0xff is at tile+0x10: block (0,0,0) warp 0 [lane 0] writes it at " + line_of(wrong, "st.shared.u32 [tile")});
  const std::string zeros =
      "mov.u64 %rd4, 0; st.shared.v2.u64 [a+16], {%rd4, %rd4}; st.shared.v2.u64 [a+2064], {%rd4, %rd4};\n";
  expect_silence(run(body(scale + zeros), kTwoWarps));
  expect_silence(run(body(with(scale, "0x7f7f7fff", "0x7f7f7f7f") + row), kTwoWarps));
}

TEST_F(ScaleFactorsTest, AreReportedOnceIfTheyAreNotThere) {
  expect_one(run(program(copy_scales(8) + multiply_scaled(8, 12) + multiply_scaled(8, 12)), kTwoWarps),
             "uninitialised operand", {"reads column 12"});
}

TEST_F(ScaleFactorsTest, NeedColumnsOfTheirOwn) {
  const std::string wrong = program(copy_scales(4) + copy_scales(12) + multiply_scaled(4, 12));
  expect_one(run(wrong, kTwoWarps), "overlapping operands",
             {"reads columns 4 to 7 (lanes 0 to 127) of tensor memory, where it also writes its accumulator",
              line_of(wrong, "tcgen05.mma"), "let them begin after the last column of all accumulators"});
}

/// mma.sync by one warp, with scale factors in registers.
class RegisterScalesTest : public RaceTest {
 protected:
  RegisterScalesTest() : RaceTest(machine::rtx5090()) {}

  // A and B are ones, except where `zeros`: lanes 4 to 7 have rows 1 and 9 of A. Lane 5 has another word of scale
  // factors.
  static std::string multiply(const std::string& word, const std::string& selectors, const std::string& zeros = "") {
    return "mov.u32 %r0, 0x38383838; mov.u32 %r1, %r0; mov.u32 %r2, 0; mov.u32 %r4, 0x7f7f7f7f; mov.u32 %r5, %r4;\n" +
           zeros + "setp.eq.u32 %p1, %lane, 5;\n@%p1 mov.u32 %r4, " + word + ";\n" +
           "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 {%r6, %r7, %r8, %r9}, "
           "{%r0, %r1, %r0, %r1}, {%r0, %r0}, {%r2, %r2, %r2, %r2}, %r4, " +
           selectors + ", %r5, {0, 0};\n";
  }
};

TEST_F(RegisterScalesTest, AreReportedWhereTheyAreNanForRowsThatAreNotZero) {
  constexpr Shape kWarp{.threads = 32};
  const std::string wrong = multiply("0x7f7f7fff", "{0, 0}");
  expect_one(run(wrong, kWarp), "nan scale factor",
             {"multiplies row 9 of A by scale factors that are NaN: 0xff in ue8m0", line_of(wrong, "mma.sync"),
              "0xff is byte 0 of lane 5's word of scale factors, which byte-id-a and thread-id-a select", "& 0xff"});
  expect_one(run(multiply("0xffffffff", "{2, 0}"), kWarp), "nan scale factor", {"that nothing has written"});
  expect_silence(run(multiply("0x7f7f7fff", "{1, 0}"), kWarp));
  expect_silence(run(multiply("0x7f7f7fff", "{0, 1}"), kWarp));
  const std::string zeros = "shr.u32 %r3, %lane, 2; setp.eq.u32 %p1, %r3, 1;\n@%p1 mov.u32 %r1, 0;\n";
  expect_silence(run(multiply("0x7f7f7fff", "{0, 0}", zeros), kWarp));
}

/// A multiplication of a sparse A by one thread. The metadata are in `tile`, 16 bytes for each row of A.
class MetadataTest : public TensorOrderTest {
 protected:
  static std::string copy_metadata(uint32_t column) {
    return fmt::format(
        "mov.u32 %r1, tile; shr.u32 %r1, %r1, 4; cvt.u64.u32 %rd3, %r1; or.b64 %rd3, %rd3, {}; add.u32 %r8, %r15, {}; "
        "tcgen05.cp.cta_group::1.128x128b [%r8], %rd3;\n",
        machine::testing::shared_descriptor(0, 0, 128, 0), column);
  }
  static std::string multiply_sparse(uint32_t metadata) {
    return fmt::format(
        "mov.u32 %r14, {}; add.u32 %r8, %r15, {}; "
        "tcgen05.mma.sp.cta_group::1.kind::f16 [%r15], %rd1, %rd2, [%r8], %r14, 0;\n",
        machine::testing::Instruction{.m = 128, .n = 8, .a_code = 1, .b_code = 1}.bits() | 1u << 2, metadata);
  }
  static std::string program(const std::string& issued, const char* words = "0x44444444") {
    return start(1, 1,
                 fmt::format("mov.u32 %r4, {}; shl.b32 %r5, %thread, 5; mov.u32 %r1, tile; add.u32 %r1, %r1, %r5; "
                             "st.shared.v4.u32 [%r1], {{%r4, %r4, %r4, %r4}}; "
                             "st.shared.v4.u32 [%r1+16], {{%r4, %r4, %r4, %r4}}; fence.proxy.async;\n",
                             words)) +
           "@!%first bra WAIT;\n" + descriptors() + issued + commit(0) + wait(0, 0, "WAIT") + kFree;
  }
};

TEST_F(MetadataTest, AreCopiedByTheThreadThatMultiplies) {
  expect_silence(run(program(copy_metadata(8) + multiply_sparse(8)), kTwoWarps));
}

TEST_F(MetadataTest, MustBeThereBeforeTheMultiplication) {
  for (const std::string& afterwards : {std::string(), copy_metadata(8)}) {
    const std::string wrong = program(multiply_sparse(8) + afterwards);
    expect_one(run(wrong, kTwoWarps), "uninitialised operand",
               {"reads column 8 (lanes 0 to 127) of tensor memory, which nothing has written",
                line_of(wrong, "tcgen05.mma.sp"), "the metadata of a sparse A must be written"});
  }
}

TEST_F(MetadataTest, NeedColumnsOfTheirOwn) {
  const std::string wrong = program(copy_metadata(6) + multiply_sparse(6));
  expect_one(run(wrong, kTwoWarps), "overlapping operands",
             {"reads column 6 (lanes 0 to 127) of tensor memory, where it also writes its accumulator",
              line_of(wrong, "tcgen05.mma.sp"), "the metadata of a sparse A need columns of their own"});
}

TEST_F(MetadataTest, MustBeStoredBeforeTheMultiplication) {
  // Four warps store the metadata of their rows.
  const std::string right =
      start(1, 1) +
      "setp.lt.u32 %p1, %warp, 4;\n@!%p1 bra STORED;\nmov.u32 %r4, 0x44444444; shl.b32 %r3, %warp, 21; "
      "add.u32 %r3, %r3, %r15; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3+8], {%r4};\n"
      "tcgen05.wait::st.sync.aligned;\nSTORED:\ntcgen05.fence::before_thread_sync;\nbar.sync 0;\n" +
      kAfter + "@!%first bra WAIT;\n" + descriptors() + multiply_sparse(8) + commit(0) + wait(0, 0, "WAIT") + kFree;
  expect_silence(run(right, kFiveWarps));
  const std::string wrong = without(right, "tcgen05.wait::st.sync.aligned;\n");
  const std::string text = text_of(run(wrong, kFiveWarps));
  EXPECT_NE(text.find("race: reads column 8"), std::string::npos) << text;
  EXPECT_NE(text.find("tcgen05.wait::st is missing"), std::string::npos) << text;
}

TEST_F(MetadataTest, AreReportedWhereTheyAreNotLegal) {
  const std::string wrong = program(copy_metadata(8) + multiply_sparse(8), "0x44544444");
  const std::string text = text_of(run(wrong, kTwoWarps));
  EXPECT_NE(
      text.find("the metadata of row 8 of A, for elements 4 to 7 along K, are 0b0101: both elements have index 1"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find(line_of(wrong, "tcgen05.mma.sp")), std::string::npos) << text;
}

TEST_F(TensorOrderTest, FindsAnOperandInTensorMemoryThatNothingWasWrittenTo) {
  const std::string wrong =
      start(1, 1) + "@!%first bra WAIT;\n" + descriptors() +
      "add.u32 %r8, %r15, 16; tcgen05.mma.cta_group::1.kind::f16 [%r15], [%r8], %rd2, %r14, 0;\n" + commit(0) +
      wait(0, 0, "WAIT") + kFree;
  expect_one(run(wrong, kTwoWarps), "uninitialised operand",
             {"reads columns 16 to 23", line_of(wrong, "tcgen05.mma"), "an A in tensor memory must be written"});
}

TEST_F(TensorOrderTest, JudgesRowsOfAnAInTensorMemoryWhereTheirRowsOfDAreLoaded) {
  // Warp 0 stores its rows of A alone. All rows of D are written.
  const auto body = [](const std::string& who_loads, const std::string& store) {
    return start(1, 1) + "@%p0 bra STORED;\n" + store + "tcgen05.wait::st.sync.aligned;\nSTORED:\n" +
           "tcgen05.fence::before_thread_sync;\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n@!%first bra WAIT;\n" +
           descriptors() + "add.u32 %r8, %r15, 16; tcgen05.mma.cta_group::1.kind::f16 [%r15], [%r8], %rd2, %r14, 0;\n" +
           commit(0) + wait(0, 0, "WAIT") + "tcgen05.fence::after_thread_sync;\nsetp.eq.u32 %p1, %warp, " + who_loads +
           ";\n@!%p1 bra LOADED;\n" + kLoad + kWaitLoad + "tcgen05.fence::before_thread_sync;\nLOADED:\n" + kFree;
  };
  const std::string whole =
      "add.u32 %r3, %r15, 16; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r3], {%f0, %f1, %f2, %f3, %f0, %f1, %f2, %f3};\n";
  expect_silence(run(body("0", whole), kTwoWarps));
  const std::string wrong = body("1", whole);
  expect_one(run(wrong, kTwoWarps), "uninitialised operand",
             {"reads columns 16 to 23 (lanes 32 to 63)", line_of(wrong, "tcgen05.mma")});
  // A part of a row is not a row.
  expect_one(
      run(body("0", "add.u32 %r3, %r15, 16; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r3], {%f0, %f1, %f2, %f3};\n"),
          kTwoWarps),
      "uninitialised operand", {"reads columns 16 to 23"});
}

TEST_F(TensorOrderTest, TakesAStoreOfAllThatALoadHasBroughtForLater) {
  const auto body = [](const std::string& values, const std::string& stored) {
    return start(1, 1) + "@%p0 bra STORED;\ntcgen05.st.sync.aligned.32x32b.x2.b32 [%r15], {%f0, %f1};\n" +
           "tcgen05.wait::st.sync.aligned;\ntcgen05.ld.sync.aligned.32x32b.x2.b32 {%f2, %f3}, [%r15];\n" + values +
           "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r15], {" + stored +
           "}; // again\ntcgen05.wait::st.sync.aligned;\nSTORED:\n" + kFree;
  };
  expect_silence(run(body("add.f32 %f4, %f2, %f3;\n", "%f4, %f5"), kTwoWarps));
  expect_silence(run(body("", "%f3, %f2"), kTwoWarps));
  for (const char* const stored : {"%f4, %f5", "%f2, %f5"}) {
    const std::string wrong = body("mov.f32 %f4, %f0;\n", stored);
    expect_one(run(wrong, kTwoWarps), "race", {line_of(wrong, "// again"), "nobody has waited for its end"});
  }
}

TEST_F(TensorOrderTest, NamesOperationsThatAreNotCommittedWhenTheKernelHangs) {
  const std::string right =
      start(1, 1) + "@!%first bra WAIT;\n" + descriptors() + multiply() + commit(0) + wait(0, 0, "WAIT") + kFree;
  expect_silence(run(right, kTwoWarps));
  const std::string wrong = without(right, commit(0));
  const auto result = run(wrong, kTwoWarps);
  const std::string text = text_of(result);
  ASSERT_FALSE(result.diagnostics.empty());
  EXPECT_EQ(result.fault, machine::FaultKind::deadlock);
  EXPECT_EQ(result.diagnostics[0].kind, "missing commit") << text;
  EXPECT_NE(text.find("no tcgen05.commit follows the last 1 operation of this thread"), std::string::npos) << text;
  EXPECT_NE(text.find("at " + line_of(wrong, "tcgen05.mma")), std::string::npos) << text;
}

TEST_F(TensorOrderTest, FindsTensorMemoryThatIsFreedBeforeItsLastUse) {
  const std::string early = with(two_rounds(), "DONE:\nbar.sync 0;\n", "DONE:\nnanosleep.u32 20000;\n");
  expect_one(run(early, kFiveWarps), "race",
             {"frees columns 0 to 3 (lanes 32 to 63)", line_of(early, "tcgen05.dealloc"), line_of(early, "[%r3+0]"),
              "tensor memory is freed before its last use is over"});
}

TEST_F(TensorOrderTest, NamesWhomTheBarrierBeforeTheReleaseDoesNotCount) {
  // Warp 1 multiplies, warp 2 waits for that and arrives, warp 3 only arrives.
  const auto role = [](int warp, const char* label) {
    return fmt::format("setp.eq.u32 %p1, %warp, {}; @%p1 bra {};\n", warp, label);
  };
  const std::string arrive = "tcgen05.fence::before_thread_sync;\n" + kArrive;
  const std::string right =
      start(1, 64) + role(1, "MULTIPLY") + role(2, "LISTEN") + role(3, "OTHER") + wait(1, 0, "FREE") + kAfter +
      "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r15, 32;\nbra END;\nMULTIPLY:\nsetp.ne.u32 %p1, %lane, 0;\n"
      "@%p1 bra END;\n" +
      descriptors() + multiply() + commit(0) + "bra END;\nLISTEN:\n" + wait(0, 0, "FULL") + kAfter +
      "nanosleep.u32 20000;\n" + arrive + "bra END;\nOTHER:\nnanosleep.u32 5000;\n" + arrive + "END:\n";
  constexpr Shape kFourWarps{.threads = 128};
  expect_silence(run(right, kFourWarps));
  const std::string wrong = with(right, "[bar+8], 64;", "[bar+8], 32;");
  expect_one(run(wrong, kFourWarps), "race",
             {"frees columns", "was ended by 32 arrivals, by ", "of threads that do not wait for bar[0]",
              "block (0,0,0) warp 2 [all lanes], which waits for that at " + line_of(wrong, "FULL:"),
              "had not arrived yet: is bar[1] initialised at f.cu:2 for fewer threads than arrive there?"});
}

TEST_F(TensorOrderTest, NamesAWaitThatPassedAtOnceBeforeTheRelease) {
  const std::string right = start(1, 1) + "@!%first bra WAIT;\n" + descriptors() + multiply() + commit(0) +
                            wait(0, 0, "WAIT") + kFree + "nanosleep.u32 20000;\n";
  expect_silence(run(right, kTwoWarps));
  const std::string wrong = with(right, wait(0, 0, "WAIT"), wait(0, 1, "WAIT"));
  expect_one_fault(run(wrong, kTwoWarps), "race",
                   {"frees columns", line_of(wrong, "tcgen05.dealloc"), "before the tcgen05.dealloc, passed at once",
                    "What waits for the first phase begins with parity 0"});
}

TEST_F(TensorOrderTest, NamesTheReleaseOfWhatIsUsedAfterwards) {
  const std::string wrong = start(1, 1) + kFree + kLoad;
  expect_one_fault(
      run(wrong, kTwoWarps), "illegal address",
      {"tcgen05.ld", "column 0 is not allocated",
       "columns 0 to 31 were freed before, by the tcgen05.dealloc at " + line_of(wrong, "tcgen05.dealloc")});
}

TEST_F(TensorOrderTest, NamesTensorMemoryThatWasNeverAllocated) {
  expect_one_fault(run("mov.u32 %r15, 0;\n" + kLoad, {.threads = 32}), "illegal address",
                   {"column 0 is not allocated", "the block has no tensor memory allocated", "f.cu:2"});
}

TEST_F(TensorOrderTest, NamesWhatIsLeftAllocated) {
  const std::string text = text_of(run(start(1, 1), kTwoWarps));
  EXPECT_NE(text.find("tensor memory leak"), std::string::npos) << text;
  EXPECT_NE(text.find("32 columns of tensor memory (columns 0 to 31) were still allocated"), std::string::npos) << text;
}

TEST_F(TensorOrderTest, NamesMoreColumnsThanThereAre) {
  expect_one_fault(run("mov.u32 %r14, 1024;\n" + with(start(1, 1), ", 32;", ", %r14;"), kTwoWarps),
                   "illegal instruction",
                   {"tcgen05.alloc of 1024 columns", "legal: 32, 64, 128, 256 or 512", "f.cu:8"});
}

// FlashMLA asserts that the address is 0, in the warp that has allocated and before it meets the others.
TEST_F(TensorOrderTest, LetsTheLanesOfTheAllocatingWarpReadTheAddress) {
  expect_silence(run(R"(setp.ne.u32 %p0, %warp, 0;
@%p0 bra MET;
mov.u32 %r0, address;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
ld.shared.u32 %r15, [address];
MET:
bar.sync 0;
ld.shared.u32 %r15, [address];
)" + kFree,
                     kTwoWarps));
}

TEST_F(TensorOrderTest, FindsAnAddressThatIsReadBeforeItIsPublished) {
  // Warp 1 does not come to the barrier; as it happens, it reads late enough.
  const std::string wrong = R"(setp.ne.u32 %p0, %warp, 0;
@%p0 bra READ;
mov.u32 %r0, address;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;
bra MET;
READ:
nanosleep.u32 5000;
ld.shared.u32 %r15, [address]; // unordered
MET:
bar.sync 0;
ld.shared.u32 %r15, [address];
)" + kFree;
  expect_one(run(wrong, kTwoWarps), "race",
             {"reads address", line_of(wrong, "// unordered"), line_of(wrong, "tcgen05.alloc"),
              "the address of tensor memory is there once tcgen05.alloc has stored it"});
  // A wait that passes at once says more.
  const std::string init = "@%first mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\n";
  const std::string passed = init + with(wrong, "nanosleep.u32 5000;\n", "nanosleep.u32 5000;\n" + wait(0, 1, "HERE"));
  expect_one(run(passed, kTwoWarps), "race",
             {"reads address", "before the read, passed at once: it was for parity 1", "begins with parity 0"});
  // Here it reads too early.
  const std::string early = "ld.shared.u32 %r15, [address];\n" + kLoad;
  expect_one_fault(run(early, {.threads = 32}), "illegal address",
                   {"this looks like a word of shared memory that was not written yet"});
}

TEST_F(TensorOrderTest, NamesTheParityOfAWaitThatPassedAtOnce) {
  const std::string wrong = with(two_rounds(), wait(0, 0, "FIRST"), wait(0, 1, "FIRST"));
  const std::string text = text_of(run(with(wrong, wait(0, 1, "SECOND"), wait(0, 0, "SECOND")), kFiveWarps));
  EXPECT_NE(text.find("passed at once, because it was for parity 1 and no phase had ended"), std::string::npos) << text;
  EXPECT_NE(text.find("begins with parity 0"), std::string::npos) << text;
  EXPECT_EQ(text.find("uninitialised load"), std::string::npos) << text;  // the race explains it
}

TEST_F(TensorOrderTest, NamesTheLaneThatWaitedForTheOthers) {
  const std::string wrong = with(two_rounds(), wait(0, 0, "FIRST"),
                                 "setp.ne.u32 %p2, %lane, 0;\n@%p2 bra JOIN;\n" + wait(0, 0, "FIRST") + "JOIN:\n");
  const std::string text = text_of(run(wrong, kFiveWarps));
  EXPECT_NE(text.find("for bar[0] is one of lane 0 only, and lanes 1-31 did not wait: put a __syncwarp() after it"),
            std::string::npos)
      << text;
}

TEST_F(TensorOrderTest, NamesAWaitWhoseParityDidNotTurn) {
  // The multiplying thread commits and never arrives itself.
  const std::string wrong = with(two_rounds(), wait(1, 0, "FREE"), wait(1, 1, "FREE"));
  const std::string text = text_of(run(with(wrong, descriptors(), wait(1, 1, "EMPTY") + descriptors()), kFiveWarps));
  EXPECT_NE(text.find("stale parity: waits for the phase before the first of bar[1]"), std::string::npos) << text;
  EXPECT_EQ(text.find("18446744073709551615"), std::string::npos) << text;
}

TEST_F(TensorOrderTest, NamesAStaleWaitWhereOnlyABarrierOfTheBlockCameInBetween) {
  const std::string load = kAfter + kLoad + kWaitLoad;
  const auto round = [&](const std::string& label, const std::string& before) {
    return "@!%first bra " + label + ";\n" + before + descriptors() + multiply() + commit(0) + label + ":\n";
  };
  const std::string met = "tcgen05.fence::before_thread_sync;\nbar.sync 0;\n" + kAfter;
  const std::string right = start(1, 1) + round("ONE", "") + wait(0, 0, "FIRST") + load + met +
                            round("TWO", "nanosleep.u32 5000;\n") + wait(0, 1, "SECOND") + load + kFree;
  expect_silence(run(right, kTwoWarps));
  // The second wait sees the first phase again, and lets the load come before the second product.
  const std::string wrong =
      with(with(right, wait(0, 1, "SECOND"), wait(0, 0, "SECOND")), kFree, wait(0, 1, "LAST") + kFree);
  const std::string text = text_of(run(wrong, kTwoWarps));
  EXPECT_NE(text.find("stale parity: waits for phase 0 of bar[0], which it has already seen end"), std::string::npos)
      << text;
}

TEST_F(TensorOrderTest, NamesTheBarrierThatWasNotWaitedFor) {
  const std::string wrong = start(1, 1) + "@!%first bra LOAD;\nmbarrier.arrive.shared.b64 _, [bar+8];\n" +
                            descriptors() + multiply() + commit(0) + "LOAD:\n" + wait(1, 0, "OTHER") + kLoad +
                            kWaitLoad + wait(0, 0, "LAST") + kFree;
  const std::string text = text_of(run(wrong, kTwoWarps));
  EXPECT_NE(text.find("; that is bar[0], through the tcgen05.commit at " + line_of(wrong, "tcgen05.commit")),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("was for bar[1]"), std::string::npos) << text;
}

TEST_F(TensorOrderTest, NamesACommitThatCameBeforeTheLastOperation) {
  const std::string wrong = start(1, 1) + "@!%first bra LOAD;\n" + descriptors() + multiply() + commit(0) +
                            with(multiply(), "0;", "1; // later\n") + commit(1) + "LOAD:\n" + wait(0, 0, "HALF") +
                            kAfter + kLoad + kWaitLoad + wait(1, 0, "LAST") + kFree;
  const std::string other = with(wrong, commit(1), with(commit(0), "[%r2]", "[%r2]   "));
  const std::string text = text_of(run(with(other, wait(1, 0, "LAST"), ""), kTwoWarps));
  EXPECT_NE(text.find("which came before this tcgen05.mma and speaks only for what came before it"), std::string::npos)
      << text;
}

TEST_F(TensorOrderTest, FindsALoadOfWhatNobodyHasWritten) {
  const std::string wrong = start(1, 1) + kLoad + kWaitLoad + kFree;
  expect_one(
      run(wrong, kTwoWarps), "uninitialised load",
      {"loads columns 0 to 3", "which nothing has written since they were allocated", line_of(wrong, "tcgen05.ld")});
}

TEST_F(TensorOrderTest, NamesTheAccumulatorWhereALoadIsOfOtherColumns) {
  const std::string body = start(1, 1) + "@!%first bra LOAD;\n" + descriptors() + multiply() + commit(0) + "LOAD:\n" +
                           wait(0, 0, "FULL") + kAfter + with(kLoad, "%r3, %r15;", "%r3, %r15; add.u32 %r3, %r3, 8;") +
                           kWaitLoad + kFree;
  expect_one(run(body, kTwoWarps), "uninitialised load",
             {"loads columns 8 to 11",
              "no tcgen05.mma writes these columns: the accumulator is columns 0 to 7 (lanes 0 to 127)"});
}

TEST_F(TensorOrderTest, NamesTheWaitThatIsMissingBeforeTheMemoryIsFreed) {
  const std::string right = start(1, 1) + "@!%first bra LOAD;\n" + descriptors() + multiply() + commit(0) + "LOAD:\n" +
                            wait(0, 0, "FULL") + kAfter + kLoad + kWaitLoad + kFree;
  expect_silence(run(right, kTwoWarps));
  expect_one(run(with(right, kWaitLoad, ""), kTwoWarps), "race",
             {"frees columns 0 to 3", "likely cause: tcgen05.wait::ld is missing"});
}

TEST_F(TensorOrderTest, FindsLanesThatAreMissingAtALoad) {
  const std::string right = start(1, 1) + "@!%first bra LOAD;\n" + descriptors() + multiply() + commit(0) + "LOAD:\n" +
                            wait(0, 0, "FULL") + kAfter + kLoad + kWaitLoad + kFree;
  expect_silence(run(right, {.threads = 32}));
  const std::string wrong =
      with(right, kAfter + kLoad, "setp.gt.u32 %p2, %lane, 15;\n@%p2 exit;\nnanosleep.u32 100;\n" + kAfter + kLoad);
  const std::string text = text_of(run(wrong, {.threads = 32}));
  EXPECT_NE(text.find("missing lanes"), std::string::npos) << text;
  EXPECT_NE(text.find("is executed by lanes 0-15 of its warp only"), std::string::npos) << text;
  EXPECT_NE(text.find("lanes 16-31 have exited"), std::string::npos) << text;
}

TEST_F(TensorOrderTest, NamesLanesOfOneWarpThatIssueTheSameOperation) {
  const std::string wrong = start(2, 1) + "setp.gt.u32 %p2, %thread, 1;\n@%p2 bra LOAD;\n" + descriptors() +
                            multiply() + commit(0) + "LOAD:\n" + wait(0, 0, "FULL") + kFree;
  expect_one(run(wrong, kTwoWarps), "race", {"lane 0 and lane 1 of one warp issue the same tcgen05.mma"});
}

}  // namespace
}  // namespace stagecraft::emulator::checks
