#include "emulator/trace/launch_recorder.hpp"

#include <algorithm>
#include <memory>
#include <vector>

#include "emulator/timing/replay.hpp"
#include "fixtures/kernel_fixture.hpp"

namespace stagecraft::emulator::trace {
namespace {

using timing::Engine;
using timing::GateKind;
using timing::StepKind;

class LaunchRecorderTest : public machine::KernelTest {
 protected:
  LaunchRecorderTest() {
    machine.announce_memory_events(true);
    machine.announce_instructions(true);
  }

  /// @param part  only the clusters that the recording needs run.
  /// @param most_of_cluster  what may be recorded of one.
  timing::LaunchTrace run(const std::string& body, uint32_t blocks = 1, uint64_t seed = 0, uint64_t resident = 0,
                          bool part = false, uint64_t most_of_cluster = ~uint64_t{0}) {
    machine::Kernel& kernel =
        compile_body(body, ".shared .align 128 .b8 tile[8192];\n.shared .align 8 .b64 full[4];\n");
    machine::LaunchRequest request;
    request.kernel = &kernel;
    request.grid.x = blocks;
    request.block.x = 64;
    request.seed = seed;
    request.parameters.resize(kernel.parameter_bytes);
    const uint64_t out = allocate<uint32_t>(4096);
    std::memcpy(request.parameters.data(), &out, sizeof out);
    LaunchRecording recording(resident);
    recording.limit_cluster(most_of_cluster);
    machine::Division divided;
    divided.observers = [&recording] {
      std::vector<std::unique_ptr<machine::Observer>> own;
      own.push_back(std::make_unique<LaunchRecorder>(recording));
      return own;
    };
    if (part) divided.needs = [&recording](uint64_t number) { return recording.needs(number); };
    const machine::LaunchResult result = machine.launch(
        request, {}, [](std::string_view) {}, divided);
    EXPECT_FALSE(result.fault.has_value());
    thread_instructions = result.thread_instructions;
    return recording.take();
  }
  uint64_t thread_instructions = 0;  ///< of the latest run
  static size_t count(const std::vector<timing::Step>& steps, StepKind kind) {
    return static_cast<size_t>(
        std::count_if(steps.begin(), steps.end(), [&](const timing::Step& step) { return step.kind == kind; }));
  }
  // Warp 0 copies 3200 bytes; warp 1 polls until they are there.
  static inline const std::string kCopy = R"(mov.u32 %r0, %tid.x;
    setp.eq.u32 %p0, %r0, 0;
    @%p0 mbarrier.init.shared.b64 [full+8], 1;
    bar.sync 0;
    setp.ge.u32 %p1, %r0, 32;
    @%p1 bra WAIT;
    @!%p0 bra END;
    mbarrier.arrive.expect_tx.shared.b64 _, [full+8], 3200;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 3200, [full+8];
    bra END;
    WAIT:
    mbarrier.test_wait.parity.shared.b64 %p7, [full+8], 0;
    @!%p7 bra WAIT;
    END:)";
};

TEST_F(LaunchRecorderTest, AnMbarriersPhaseIsAGateOfItsArrivalsAndCopies) {
  const timing::LaunchTrace trace = run(kCopy);
  ASSERT_EQ(trace.clusters.size(), 1u);
  const timing::ClusterShape& shape = *trace.clusters[0].shape;
  ASSERT_EQ(shape.warps.size(), 2u);
  ASSERT_EQ(shape.operations.size(), 1u);
  const timing::Operation& copy = shape.operations[0];
  EXPECT_EQ(copy.engine, Engine::copy_in);
  EXPECT_EQ(copy.bytes, 3200u);
  EXPECT_EQ(copy.rows, 1u);
  EXPECT_EQ(copy.row_bytes, 3200u);
  ASSERT_EQ(copy.signals.size(), 1u);
  const uint32_t gate = copy.signals[0].gate;
  EXPECT_EQ(shape.gates[gate].kind, GateKind::mbarrier);
  EXPECT_EQ(shape.gates[gate].arrivals, 2u);  // the thread that announced the bytes, and the copy
  const auto waits = [&](uint32_t warp) {
    return std::count_if(shape.warps[warp].begin(), shape.warps[warp].end(),
                         [&](const timing::Step& step) { return step.kind == StepKind::wait && step.value == gate; });
  };
  EXPECT_EQ(waits(0), 0);
  EXPECT_EQ(waits(1), 1);
}

TEST_F(LaunchRecorderTest, FailedPollsAreOneWait) {
  const timing::LaunchTrace trace = run(kCopy);
  const std::vector<timing::Step>& steps = trace.clusters[0].shape->warps[1];
  // Until the barrier of the block, until the loop, and what follows the wait: no run of the loop's turns.
  EXPECT_LE(count(steps, StepKind::run), 4u);
}

TEST_F(LaunchRecorderTest, ARunKnowsWhetherItIsATurnOfALoop) {
  const auto ends = [&](const std::string& work) {
    const timing::LaunchTrace trace =
        run("mov.u32 %r0, 0;\nLOOP:\n" + work + "add.u32 %r0, %r0, 1;\nsetp.lt.u32 %p0, %r0, 3;\n@%p0 bra LOOP;\n");
    std::vector<timing::RunEnd> found;
    for (const timing::Step& step : trace.clusters[0].shape->warps[0]) {
      if (step.kind == StepKind::run && step.end != timing::RunEnd::other) found.push_back(step.end);
    }
    return found;
  };
  // The first turn's run began before the loop, and the last turn does not go back.
  EXPECT_EQ(ends(""), (std::vector{timing::RunEnd::back, timing::RunEnd::turn}));
  EXPECT_EQ(ends("ld.shared.u32 %r1, [tile];\n"), (std::vector{timing::RunEnd::back, timing::RunEnd::back}));
}

TEST_F(LaunchRecorderTest, ABarrierOfTheBlockIsAGateOfAllWarps) {
  const timing::LaunchTrace trace = run("bar.sync 0;\nbar.sync 0;");
  const timing::ClusterShape& shape = *trace.clusters[0].shape;
  ASSERT_EQ(shape.gates.size(), 2u);
  for (const timing::Gate& gate : shape.gates) {
    EXPECT_EQ(gate.kind, GateKind::named_barrier);
    EXPECT_EQ(gate.arrivals, 2u);
  }
  for (const auto& steps : shape.warps) {
    EXPECT_EQ(count(steps, StepKind::signal), 2u);
    EXPECT_EQ(count(steps, StepKind::wait), 2u);
  }
}

TEST_F(LaunchRecorderTest, EachTurnOfALoopOfThreadCopiesIsAnOperation) {
  // Both warps make three copies; each warp waits for each.
  const timing::LaunchTrace trace = run(R"(mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd0, %r0, 16;
    add.u64 %rd0, %out, %rd0;
    shl.b32 %r1, %r0, 4;
    mov.u32 %r2, tile;
    add.u32 %r2, %r2, %r1;
    mov.u32 %r3, 0;
    LOOP:
    cp.async.cg.shared.global [%r2], [%rd0], 16;
    cp.async.commit_group;
    cp.async.wait_group 0;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p0, %r3, 3;
    @%p0 bra LOOP;)");
  const timing::ClusterTrace& cluster = trace.clusters[0];
  ASSERT_EQ(cluster.shape->operations.size(), 6u);
  for (const timing::Operation& copy : cluster.shape->operations) {
    EXPECT_EQ(copy.engine, Engine::thread_copy);
    EXPECT_EQ(copy.bytes, 512u);
    EXPECT_EQ(copy.lines, 4u);
    ASSERT_LE(copy.first_line + copy.lines, cluster.lines.size());
    for (uint32_t i = 1; i < copy.lines; ++i) {
      EXPECT_EQ(cluster.lines[copy.first_line + i], cluster.lines[copy.first_line] + i);  // and the same sectors
    }
    EXPECT_EQ(copy.signals.size(), 1u);
  }
  for (const auto& steps : cluster.shape->warps) EXPECT_EQ(count(steps, StepKind::wait), 3u);
}

TEST_F(LaunchRecorderTest, StrongLoadsAndExchangesAreAccesses) {
  const timing::LaunchTrace trace = run(R"(ld.volatile.global.u32 %r0, [%out];
    ld.relaxed.gpu.global.u32 %r1, [%out];
    atom.global.cas.b32 %r2, [%out], 1, 2;
    atom.global.exch.b32 %r3, [%out], 0;)");
  const timing::ClusterShape& shape = *trace.clusters[0].shape;
  for (const auto& steps : shape.warps) EXPECT_EQ(count(steps, StepKind::access), 4u);
  ASSERT_EQ(shape.accesses.size(), 8u);
  EXPECT_EQ(std::count_if(shape.accesses.begin(), shape.accesses.end(), [](const auto& each) { return each.atomic; }),
            4);
}

TEST_F(LaunchRecorderTest, ABranchAtWhichLanesPartIsAStep) {
  const auto parts = [&](const std::string& turns) {
    const timing::LaunchTrace trace =
        run("mov.u32 %r1, %laneid;\nmov.u32 %r0, 0;\nLOOP:\nadd.u32 %r0, %r0, 1;\n" + turns + "@%p0 bra LOOP;\n");
    return count(trace.clusters[0].shape->warps[0], StepKind::part);
  };
  EXPECT_EQ(parts("setp.lt.u32 %p0, %r0, 3;\n"), 0u);
  EXPECT_EQ(parts("setp.lt.u32 %p0, %r0, %r1;\n"), 30u);  // 31 lanes leave in turn, the last two after one turn
}

TEST_F(LaunchRecorderTest, AnAtomicOperationReturnsWhatIsRead) {
  const timing::LaunchTrace trace = run(R"(atom.global.add.u32 %r0, [%out], 1;
    atom.global.add.u32 %r1, [%out], %r0;)");
  const timing::ClusterShape& shape = *trace.clusters[0].shape;
  for (const auto& steps : shape.warps) {
    std::vector<bool> returns;
    for (const auto& step : steps) {
      if (step.kind == StepKind::access) returns.push_back(shape.accesses[step.value].returns);
    }
    EXPECT_EQ(returns, (std::vector{true, false}));
  }
}

TEST_F(LaunchRecorderTest, AtomicOperationsSayHowManyLanesMeet) {
  const timing::LaunchTrace trace = run(R"(mov.u32 %r0, %tid.x;
    and.b32 %r1, %r0, 3;
    mul.wide.u32 %rd0, %r1, 4;
    add.u64 %rd0, %out, %rd0;
    atom.global.add.u32 %r2, [%rd0], %r0;
    mov.u32 %r3, tile;
    mul.lo.u32 %r4, %r1, 4;
    add.u32 %r3, %r3, %r4;
    red.shared.add.u32 [%r3], %r0;
    red.shared.add.u32 [%r3], 1;
    red.global.add.f32 [%out], 0f3F800000;)");
  const timing::ClusterShape& shape = *trace.clusters[0].shape;
  ASSERT_EQ(shape.accesses.size(), 8u);
  EXPECT_EQ(shape.accesses[0].same, 8u);
  EXPECT_FALSE(shape.accesses[0].floating);
  EXPECT_EQ(shape.accesses[0].sectors, 1u);
  const auto passes = [&](size_t of_warp) {
    for (const auto& steps : shape.warps) {
      std::vector<uint32_t> all;
      for (const auto& step : steps) {
        if (step.kind == StepKind::access) all.push_back(shape.accesses[step.value].passes);
      }
      if (all.size() == 4) return all[of_warp];
    }
    return 0u;
  };
  EXPECT_EQ(passes(1), 8u);  // a word is served for each lane,
  EXPECT_EQ(passes(2), 1u);  // but where they count, for all at once
  EXPECT_TRUE(std::any_of(shape.accesses.begin(), shape.accesses.end(),
                          [](const auto& each) { return each.floating && each.same == 32; }));
}

TEST_F(LaunchRecorderTest, DivisionsAndRootsOfTinyNumbersCallAFunction) {
  const auto calls = [&](const std::string& instruction, const std::string& x, const std::string& y) {
    const timing::LaunchTrace trace =
        run("mov.f32 %f0, " + x + ";\nmov.f32 %f1, " + y + ";\n" + instruction + ";\nst.global.f32 [%out], %f2;\n");
    const std::vector<timing::Step>& steps = trace.clusters[0].shape->warps[0];
    return std::any_of(steps.begin(), steps.end(),
                       [](const timing::Step& step) { return step.end == timing::RunEnd::function; });
  };
  const std::string one = "0f3F800000", tiny = "0f00012345", least = "0f00800000", huge = "0f7F000000";
  const std::string divide = "div.rn.f32 %f2, %f0, %f1";
  EXPECT_FALSE(calls(divide, one, one));
  EXPECT_TRUE(calls(divide, tiny, one));
  EXPECT_TRUE(calls(divide, one, tiny));
  EXPECT_TRUE(calls(divide, tiny, tiny));
  EXPECT_TRUE(calls(divide, least, huge));  // the quotient is none
  EXPECT_FALSE(calls(divide, "0f00000000", one));
  EXPECT_FALSE(calls("div.full.f32 %f2, %f0, %f1", tiny, one));
  EXPECT_FALSE(calls("rcp.rn.f32 %f2, %f0", least, one));
  EXPECT_TRUE(calls("rcp.rn.f32 %f2, %f0", "0f00600000", one));
  EXPECT_FALSE(calls("sqrt.rn.f32 %f2, %f0", "0f0D000000", one));
  EXPECT_TRUE(calls("sqrt.rn.f32 %f2, %f0", "0f0CF00000", one));
}

// As ptxas 13.0 does it: tests/silicon/parallel_patterns.cu, block_scan.
TEST_F(LaunchRecorderTest, ABranchOverFewInstructionsIsNone) {
  const timing::LaunchTrace trace = run(R"(mov.u32 %r0, %tid.x;
    setp.ge.u32 %p0, %r0, 0;
    @%p0 bra NEAR;
    add.u32 %r1, %r0, 1;
    add.u32 %r1, %r1, 1;
    NEAR:
    add.u32 %r2, %r0, 1;
    @%p0 bra FAR;
    add.u32 %r1, %r0, 1;
    add.u32 %r1, %r1, 1;
    add.u32 %r1, %r1, 1;
    add.u32 %r1, %r1, 1;
    add.u32 %r1, %r1, 1;
    FAR:
    add.u32 %r3, %r0, 1;)");
  const timing::Code& code = *trace.code;
  EXPECT_EQ(std::count_if(
                code.begin(), code.end(),
                [](const auto& each) { return each.kind == timing::InstructionClass::control && !each.reads.empty(); }),
            1);
  // The other begins a piece after it and one where it goes; the end is one, too.
  EXPECT_EQ(std::count_if(code.begin() + 1, code.end(), [](const auto& each) { return each.first; }), 3);
}

TEST_F(LaunchRecorderTest, ABarrierThatIsInitialisedAgainHasGatesOfItsOwn) {
  const timing::LaunchTrace trace = run(R"(mov.u32 %r0, %tid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra END;
    mov.u32 %r1, 0;
    LOOP:
    mbarrier.init.shared.b64 [full], 1;
    mbarrier.arrive.shared.b64 _, [full];
    mbarrier.inval.shared.b64 [full];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p1, %r1, 300;
    @%p1 bra LOOP;
    END:)");
  const timing::ClusterShape& shape = *trace.clusters[0].shape;
  ASSERT_EQ(shape.gates.size(), 300u);
  for (const timing::Gate& gate : shape.gates) EXPECT_EQ(gate.arrivals, 1u);
}

TEST_F(LaunchRecorderTest, BlocksThatDoTheSameShareADescription) {
  const timing::LaunchTrace trace = run(R"(mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd0, %r0, 4;
    add.u64 %rd0, %out, %rd0;
    st.global.u32 [%rd0], %r0;)",
                                        4);
  ASSERT_EQ(trace.clusters.size(), 4u);
  for (const timing::ClusterTrace& cluster : trace.clusters) EXPECT_EQ(cluster.shape, trace.clusters[0].shape);
  const timing::ClusterShape& shape = *trace.clusters[0].shape;
  ASSERT_EQ(shape.accesses.size(), 2u);
  EXPECT_TRUE(shape.accesses[0].store);
  EXPECT_EQ(shape.accesses[0].sectors, 4u);  // 128 bytes
  EXPECT_EQ(shape.accesses[0].lines, 1u);
}

// As ptxas 13.0 does it with a row of a tile in shared memory.
TEST_F(LaunchRecorderTest, NeighbouringLoadsOfSharedMemoryAreJoined) {
  const timing::LaunchTrace trace = run(R"(mov.u32 %r0, %tid.x;
    shl.b32 %r1, %r0, 5;
    mov.u32 %r2, tile;
    add.u32 %r3, %r2, %r1;
    ld.shared.f32 %f0, [%r3+4];
    ld.shared.f32 %f1, [%r3];
    add.f32 %f4, %f0, %f1;
    ld.shared.f32 %f2, [%r3+8];
    ld.shared.f32 %f3, [%r3+12];
    ld.shared.f32 %f5, [%r3+16];
    st.shared.f32 [%r3], %f4;
    ld.shared.f32 %f6, [%r3+20];
    mul.lo.u32 %r4, %r0, 12;
    add.u32 %r5, %r2, %r4;
    ld.shared.f32 %f7, [%r5];
    ld.shared.f32 %f8, [%r5+4];)");
  const timing::ClusterShape& shape = *trace.clusters[0].shape;
  // 16 bytes; the word behind them; the store; the word after it; two that are aligned to 4 bytes.
  for (const auto& steps : shape.warps) EXPECT_EQ(count(steps, StepKind::access), 6u);
  const timing::Code& code = *trace.code;
  const auto joined = std::find_if(code.begin(), code.end(), [](const auto& each) { return each.joined == 16; });
  ASSERT_NE(joined, code.end());
  EXPECT_EQ(joined->writes.size(), 4u);
  EXPECT_EQ(std::count_if(code.begin(), code.end(), [](const auto& each) { return each.absorbed; }), 3);
  EXPECT_EQ(shape.accesses[0].passes, 8u);  // 16 bytes each of 32: four lanes a pass
}

TEST_F(LaunchRecorderTest, StoresToPartsOfSectorsAreCounted) {
  const timing::LaunchTrace trace = run(R"(mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd0, %r0, 4;
    add.u64 %rd0, %out, %rd0;
    st.global.u32 [%rd0], %r0;
    mul.wide.u32 %rd1, %r0, 64;
    add.u64 %rd1, %out, %rd1;
    st.global.u32 [%rd1], %r0;)");
  const timing::ClusterShape& shape = *trace.clusters[0].shape;
  EXPECT_EQ(shape.accesses[0].partial_lines, 0u);
  EXPECT_EQ(shape.accesses[1].sectors, 32u);
  EXPECT_EQ(shape.accesses[1].lines, 16u);
  EXPECT_EQ(shape.accesses[1].partial_lines, 16u);
}

TEST_F(LaunchRecorderTest, OfALargeLaunchTheFirstBlocksAreRecorded) {
  const std::string body = "mov.u32 %r0, %tid.x;\nst.global.u32 [%out], %r0;";
  const timing::LaunchTrace all = run(body, 60), some = run(body, 60, 0, 2), few = run(body, 12, 0, 2);
  EXPECT_EQ(all.clusters.size(), 60u);
  EXPECT_EQ(all.extrapolation, 1);
  EXPECT_EQ(few.clusters.size(), 12u);   // six rounds are still recorded
  ASSERT_EQ(some.clusters.size(), 32u);  // blocks that do little fill the chip sixteen times
  EXPECT_EQ(some.clusters.back().number, 31u);
  EXPECT_NEAR(some.extrapolation, 60 / 32., 1e-9);
  EXPECT_EQ(some.described_part, 1);
}

TEST_F(LaunchRecorderTest, OfLongLoopsStretchesAreRecorded) {
  // 4096 loads of each warp before a barrier, and as many after it.
  const std::string loop = R"(mov.u32 %r1, 0;
    NAME: and.b32 %r2, %r1, 31;
    mul.wide.u32 %rd0, %r2, 128;
    add.u64 %rd0, %out, %rd0;
    ld.global.u32 %r3, [%rd0];
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, 4096;
    @%p0 bra NAME;
)";
  const auto named = [&](const char* name) {
    std::string text = loop;
    for (size_t at; (at = text.find("NAME")) != std::string::npos;) text.replace(at, 4, name);
    return text;
  };
  const std::string body = named("FIRST") + "bar.sync 0;\n" + named("SECOND");
  const timing::LaunchTrace whole = run(body, 2), thinned = run(body, 2, 0, 2, false, 16'384);
  EXPECT_FALSE(whole.thinned);
  ASSERT_TRUE(thinned.thinned);
  EXPECT_LT(thinned.described_part, 0.3);
  for (const timing::ClusterTrace& cluster : thinned.clusters) {
    for (const auto& steps : cluster.shape->warps) {
      EXPECT_EQ(count(steps, StepKind::wait), 1u);
      const auto wait =
          std::find_if(steps.begin(), steps.end(), [](const auto& step) { return step.kind == StepKind::wait; });
      const size_t before = count({steps.begin(), wait}, StepKind::access), all = count(steps, StepKind::access);
      EXPECT_NEAR(static_cast<double>(before) / static_cast<double>(all), 0.5, 0.15);
      EXPECT_NEAR(static_cast<double>(all) / 8192, thinned.described_part, 0.05);
    }
  }
  const timing::ChipModel& chip = *timing::find_chip_model("H200");
  EXPECT_EQ(timing::replay(thinned, chip).not_modelled, "");
}

TEST_F(LaunchRecorderTest, APartOfALargeLaunchIsTimedAsTheWhole) {
  const std::string body = "mov.u32 %r0, %tid.x;\nst.global.u32 [%out], %r0;";
  const timing::LaunchTrace whole = run(body, 60, 0, 2);
  const uint64_t instructions = thread_instructions;
  const timing::LaunchTrace part = run(body, 60, 0, 2, true);
  // The machine divides the grid, so a part of it may run one cluster more than the first 32.
  EXPECT_LT(thread_instructions, instructions);
  EXPECT_TRUE(part.left_out);
  EXPECT_FALSE(whole.left_out);
  EXPECT_EQ(part.clusters.size(), whole.clusters.size());
  EXPECT_NEAR(part.extrapolation, whole.extrapolation, 1e-9);
  const timing::ChipModel& chip = *timing::find_chip_model("H200");
  EXPECT_EQ(timing::replay(part, chip).cycles, timing::replay(whole, chip).cycles);
  EXPECT_TRUE(timing::replay(part, chip).incomplete);
}

TEST_F(LaunchRecorderTest, AllOfASmallLaunchRunsWhereAPartWouldDo) {
  const std::string body = "mov.u32 %r0, %tid.x;\nst.global.u32 [%out], %r0;";
  EXPECT_FALSE(run(body, 12, 0, 2, true).left_out);
}

TEST_F(LaunchRecorderTest, AllOfALaunchRunsWhereClustersMayInteract) {
  const timing::LaunchTrace part = run("atom.global.add.u32 %r0, [%out], 1;", 60, 0, 2, true);
  EXPECT_FALSE(part.left_out);
  EXPECT_EQ(part.extrapolation, 60 / 32.);
}

TEST_F(LaunchRecorderTest, EverySeedsRunCanBeReplayed) {
  for (const uint64_t seed : {0u, 1u, 2u}) {
    const timing::Result result = timing::replay(run(kCopy, 200, seed), *timing::find_chip_model("H200"));
    EXPECT_GT(result.warps[1].cycles[static_cast<size_t>(timing::Spent::mbarrier)], 200 * 290.) << seed;
  }
}

}  // namespace
}  // namespace stagecraft::emulator::trace
