#include "emulator/timing/replay.hpp"

#include <gtest/gtest.h>

#include "emulator/timing/report.hpp"

namespace stagecraft::emulator::timing {
namespace {

constexpr double kNear = 1e-6;

/// A launch of equal clusters of one block, whose warps the test fills in.
class ReplayTest : public testing::Test {
 protected:
  ClusterShape shape;
  Code code;
  MachineCode machine_code;
  ChipModel chip = *find_chip_model("H200");

  ReplayTest() {  // all multiprocessors are alike
    chip.copy_drift = 0;
    chip.l2_distance = {0};
  }

  void step(uint32_t warp, StepKind kind, uint32_t value, uint32_t pc = 0) {
    if (shape.warps.size() <= warp) shape.warps.resize(warp + 1);
    shape.warps[warp].push_back({kind, false, false, value, pc});
  }
  uint32_t gate(GateKind kind, uint32_t arrivals) {
    shape.gates.push_back({kind, arrivals});
    return static_cast<uint32_t>(shape.gates.size()) - 1;
  }
  uint32_t operation(Engine engine, uint64_t bytes, std::vector<Signal> signals) {
    Operation made;
    made.engine = engine;
    made.bytes = bytes;
    made.targets = {0};
    made.signals = std::move(signals);
    shape.operations.push_back(made);
    return static_cast<uint32_t>(shape.operations.size()) - 1;
  }
  /// @param apart  by how much a cluster's first address is after that of the one before; the second is the same for
  /// all
  Result run(uint32_t clusters = 1, uint32_t blocks_per_multiprocessor = 1, uint64_t apart = 0) {
    LaunchTrace trace;
    trace.code = std::make_shared<const Code>(code);
    if (!machine_code.empty()) trace.machine_code = std::make_shared<const MachineCode>(machine_code);
    trace.warps_per_block = static_cast<uint32_t>(shape.warps.size());
    trace.blocks_per_multiprocessor = blocks_per_multiprocessor;
    const auto shared = std::make_shared<const ClusterShape>(shape);
    for (uint32_t i = 0; i < clusters; ++i) trace.clusters.push_back({i, shared, {i * apart}, {}});
    return replay(trace, chip);
  }
  static double time_of(const Result& result, uint32_t warp, Spent on) {
    return result.warps[warp].cycles[static_cast<size_t>(on)];
  }
};

TEST_F(ReplayTest, AWarpWaitsForTheCopyThatFillsItsStage) {
  const uint32_t full = gate(GateKind::mbarrier, 1);
  step(0, StepKind::issue, operation(Engine::copy_in, 16384, {{full, Stage::done}}));
  step(1, StepKind::wait, full);
  const Result result = run();
  // The latency of a copy from L2, and the way into shared memory.
  const double expected = chip.copy_latency_l2 + 16384 / chip.copy_bytes;
  EXPECT_NEAR(time_of(result, 1, Spent::mbarrier), expected, kNear);
  EXPECT_NEAR(result.cycles, chip.launch + expected, kNear);
}

TEST_F(ReplayTest, CopiesOfOneGroupShareTheWayAndNoneWaitsForAllOfAnothers) {
  const uint32_t full = gate(GateKind::mbarrier, 1);
  step(0, StepKind::issue, operation(Engine::copy_in, 65536, {{full, Stage::done}}));
  shape.operations[0].rows = 512;
  shape.operations[0].row_bytes = shape.operations[0].pitch = 128;
  step(1, StepKind::wait, full);
  // The first eight blocks go to one group. All of their copies, of other bytes each, end with the last one.
  const Result alone = run(1), together = run(8, 1, 65536);
  const double path_cycles = 65536 / (chip.group_rate * 1e3 / together.megahertz);
  EXPECT_GT(time_of(together, 1, Spent::mbarrier) / 8, time_of(alone, 1, Spent::mbarrier));
  EXPECT_GT(time_of(together, 1, Spent::mbarrier) / 8, 7.5 * path_cycles);
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-23-boxes-and-clocks.jsonl, "tile of 256 rows of 16
// bytes ..., rate, one SM": 257.5 cycles each.
TEST_F(ReplayTest, AShortRowTakesTheCopyEngineACycle) {
  const auto time = [&](uint32_t planes) {
    shape = {};
    const uint32_t full = gate(GateKind::mbarrier, 1);
    Operation& tile = shape.operations[operation(Engine::copy_in, planes * 256 * 16, {{full, Stage::done}})];
    tile.planes = planes;
    tile.rows = 256;
    tile.row_bytes = 16;
    tile.plane_pitch = 16;
    tile.pitch = 8192;
    step(0, StepKind::issue, 0);
    step(0, StepKind::wait, full);
    LaunchTrace trace;
    trace.code = std::make_shared<const Code>(code);
    trace.warps_per_block = 1;
    trace.clusters.push_back({0, std::make_shared<const ClusterShape>(shape), {4096}, {}});
    std::optional<L2Contents> l2;
    replay(trace, chip, l2);
    return replay(trace, chip, l2).cycles;  // all is in L2
  };
  EXPECT_NEAR(time(17) - time(9), 8 * 256, 10);
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-24-branches.jsonl, "loop over ... FFMA, 1 warps".
TEST_F(ReplayTest, ATurnOfALoopWaitsForItsBranch) {
  const auto turn = [&](uint32_t products) {
    code = {{InstructionClass::add, {1}, {1}}};  // where ptxas puts it
    for (uint32_t i = 0; i < products; ++i) code.push_back({InstructionClass::float32, {10 + i % 8}, {10 + i % 8}});
    code.push_back({InstructionClass::logic, {1}, {2}});
    code.push_back({InstructionClass::control, {2}, {}});
    const auto cycles = [&](uint32_t turns, RunEnd end) {
      shape = {};
      for (uint32_t i = 0; i < turns; ++i) step(0, StepKind::run, products + 2), shape.warps[0].back().end = end;
      return run().cycles;
    };
    EXPECT_LT(cycles(9, RunEnd::other), cycles(9, RunEnd::back));
    return cycles(9, RunEnd::turn) - cycles(8, RunEnd::turn);
  };
  EXPECT_NEAR(turn(2), 28, kNear);
  EXPECT_NEAR(turn(8), 28, 1);  // 27 on the chip
  EXPECT_NEAR(turn(16), 28, kNear);
  EXPECT_NEAR(turn(32), 44, kNear);
}

TEST_F(ReplayTest, MachineCodeSaysWhenAWarpWaitsForALoad) {
  // The PTX needs the value at once; the machine code does something else first.
  code.resize(2);
  code[0].kind = InstructionClass::memory;
  code[0].first = code[0].shared = code[0].plain_load = true;
  code[0].writes = {0};
  code[1].kind = InstructionClass::float32;
  code[1].begin = 1;
  code[1].reads = {0};
  shape.accesses.push_back({.shared = true, .passes = 1});
  step(0, StepKind::run, 0, 0);
  step(0, StepKind::access, 0, 0);
  step(0, StepKind::run, 1, 1);
  constexpr uint8_t kLoadStall = 1, kOther = 10, kLast = 4;
  machine_code = {{.pc = 0, .kind = InstructionClass::memory, .stall = kLoadStall, .result = 0, .accesses = true},
                  {.pc = 1, .kind = InstructionClass::logic, .stall = kOther},
                  {.pc = 1, .kind = InstructionClass::float32, .stall = kLast, .waits = 1}};
  const Result result = run();
  EXPECT_NEAR(time_of(result, 0, Spent::running), kLoadStall + kOther + kLast, kNear);
  EXPECT_NEAR(time_of(result, 0, Spent::loads), chip.shared_latency - kOther, 3);
}

TEST_F(ReplayTest, TensorMemoryLimitsTheBlocksOfAMultiprocessor) {
  code.push_back({InstructionClass::float64, {0}, {0}});
  for (uint32_t i = 0; i < 100; ++i) step(0, StepKind::run, 0);
  shape.tensor_columns = 256;
  const double together = run(2 * chip.multiprocessors, 2).cycles;
  shape.tensor_columns = 512;
  EXPECT_GT(run(2 * chip.multiprocessors, 2).cycles, together + chip.next_block);
}

// Measured on an H200: tests/silicon/results/nvidia-h200-2026-11-22.jsonl, "gap between kernels".
TEST_F(ReplayTest, ALaunchThatMayOverlapWaitsWhereItSaysSo) {
  code.push_back({InstructionClass::float64, {0}, {0}});  // 8 cycles
  for (uint32_t i = 0; i < 10; ++i) step(0, StepKind::run, 0);
  step(0, StepKind::depend, 0);
  step(0, StepKind::run, 0);
  const auto cycles = [&](LaunchOrder order) {
    LaunchTrace trace;
    trace.code = std::make_shared<const Code>(code);
    trace.warps_per_block = 1;
    trace.order = order;
    trace.clusters.push_back({0, std::make_shared<const ClusterShape>(shape), {}, {}});
    return replay(trace, chip).cycles;
  };
  EXPECT_NEAR(cycles({}), 1.664 * 1980 + 88, 2);
  EXPECT_NEAR(cycles({.in_graph = true}), 0.704 * 1980 + 88, 2);
  EXPECT_NEAR(cycles({.overlaps = true}), 0.544 * 1980 + 8, 2);
  EXPECT_NEAR(cycles({.in_graph = true, .overlaps = true}), 0.416 * 1980 + 8, 2);
  EXPECT_NEAR(cycles({.alone = true}), 1.621 * 1980 + 88, 2);
}

TEST_F(ReplayTest, AGateOpensWithItsLastArrival) {
  const uint32_t empty = gate(GateKind::mbarrier, 2);
  code.push_back({InstructionClass::float64, {0}, {0}});  // 8 cycles
  step(0, StepKind::signal, empty);
  step(1, StepKind::run, 0);
  step(1, StepKind::signal, empty);
  step(2, StepKind::wait, empty);
  const Result result = run();
  EXPECT_NEAR(time_of(result, 1, Spent::running), 8, kNear);
  EXPECT_NEAR(time_of(result, 2, Spent::mbarrier), 8 + chip.arrival + chip.poll, kNear);
}

// Measured on an H200: tests/silicon/results, cluster-products: with four copies of 16 KiB under way a fence takes as
// long as they do, and without copies no longer than an arrival that releases.
TEST_F(ReplayTest, AFenceOfTheClusterWaitsForTheCopiesUnderWay) {
  const uint32_t full = gate(GateKind::mbarrier, 1), freed = gate(GateKind::mbarrier, 2);
  const auto fence = [&](uint32_t warp) {
    step(warp, StepKind::signal, freed);
    shape.warps[warp].back().fence = true;
  };
  fence(0);
  fence(1);
  EXPECT_NEAR(time_of(run(), 0, Spent::fence), chip.release_fence, kNear);
  shape.warps.clear();
  const uint32_t copied = operation(Engine::copy_in, 65536, {{full, Stage::done}});
  const uint32_t asked = gate(GateKind::mbarrier, 1);
  step(0, StepKind::issue, copied);
  step(0, StepKind::signal, asked);
  fence(0);
  step(1, StepKind::wait, asked);
  fence(1);
  const Result result = run();
  const double lands = chip.copy_latency_l2 - chip.poll + 65536 / chip.copy_bytes;
  EXPECT_NEAR(time_of(result, 0, Spent::fence), lands, kNear);
  EXPECT_NEAR(time_of(result, 1, Spent::fence), lands - chip.arrival - chip.poll, kNear);
}

TEST_F(ReplayTest, ProductsFollowEachOther) {
  const uint32_t done = gate(GateKind::products, 1);
  for (uint32_t i = 0; i < 8; ++i) {
    Operation product;
    product.engine = Engine::product;
    product.m = 64;
    product.n = 256;
    product.k = 16;
    product.a_in_shared = true;
    if (i == 7) product.signals = {{done, Stage::done}};
    shape.operations.push_back(product);
    step(0, StepKind::issue, i);
  }
  step(0, StepKind::wait, done);
  const Result result = run();
  // Measured on an H200: a group of 8 takes 1102.9 cycles.
  EXPECT_NEAR(time_of(result, 0, Spent::products), 1103, 1);
  EXPECT_EQ(result.operations, 8 * 2. * 64 * 256 * 16);
  EXPECT_NEAR(result.tensor_busy, 1024, kNear);
}

TEST_F(ReplayTest, WarpsOfASubPartitionShareItsPipes) {
  for (uint32_t i = 0; i < 64; ++i) code.push_back({InstructionClass::float32, {100 + i}, {i}});
  for (const uint32_t warp : {0u, 4u}) step(warp, StepKind::run, 63);
  const Result result = run();
  EXPECT_NEAR(result.cycles - chip.launch, 128, 1);
  EXPECT_NEAR(time_of(result, 0, Spent::crowded), 64, 1);
}

TEST_F(ReplayTest, ABranchAtWhichLanesPartTakesLonger) {
  code.push_back({InstructionClass::control, {}, {}});
  for (uint32_t i = 0; i < 2; ++i) step(0, StepKind::run, 0);
  const double together = run().cycles;
  step(0, StepKind::part, 0);
  const Result result = run();
  EXPECT_NEAR(result.cycles - together, 15, kNear);
}

TEST_F(ReplayTest, BlocksWaitForAPlace) {
  code.push_back({InstructionClass::float64, {0}, {0}});
  for (uint32_t i = 0; i < 100; ++i) step(0, StepKind::run, 0);
  const double one = run(1).cycles, full = run(132).cycles, more = run(133).cycles, two = run(133, 2).cycles;
  EXPECT_NEAR(one, full, kNear);
  EXPECT_NEAR(more - full, 800 + chip.next_block, kNear);
  EXPECT_LT(two, more - 700);
  // Those that follow start one after the other: 132 within 156 cycles.
  EXPECT_NEAR(run(264).cycles - more, 131 / chip.block_rate, kNear);
}

TEST_F(ReplayTest, AStoreIsReadBeforeItIsDone) {
  const uint32_t read = gate(GateKind::copies, 1), written = gate(GateKind::copies, 1);
  step(0, StepKind::issue, operation(Engine::copy_out, 16384, {{read, Stage::source_read}, {written, Stage::done}}));
  step(0, StepKind::wait, read);
  step(1, StepKind::wait, written);
  const Result result = run();
  // Measured on an H200: 567 and 591 cycles.
  EXPECT_NEAR(time_of(result, 0, Spent::copies), 567, 1);
  EXPECT_NEAR(time_of(result, 1, Spent::copies), 591, 1);
}

TEST_F(ReplayTest, AStoreMayEndAfterItsBlock) {
  const uint32_t written = gate(GateKind::copies, 1);
  step(0, StepKind::issue, operation(Engine::copy_out, 16384, {{written, Stage::done}}));
  const Result result = run(1000);
  EXPECT_TRUE(result.not_modelled.empty());
  EXPECT_EQ(result.bytes, 1000 * 16384.);
}

TEST_F(ReplayTest, AReplayThatCannotGoOnHasNoTime) {
  const uint32_t never = gate(GateKind::mbarrier, 2);
  step(0, StepKind::signal, never);
  step(1, StepKind::wait, never);
  const Result result = run(2);
  EXPECT_EQ(last_line(result), "not modelled: 2 of 4 warps wait in the replay for arrivals that were not recorded");
  const std::string text = text_of(result, chip, "gemm", [](uint32_t) { return ""; });
  EXPECT_EQ(text, "stagecraft: gemm on the model of the H200\n" + last_line(result) + "\n");
}

TEST_F(ReplayTest, AClusterThatFindsNoPlaceHasNoTime) {
  shape.blocks = 2;
  step(0, StepKind::signal, gate(GateKind::mbarrier, 1));
  step(1, StepKind::signal, 0);
  EXPECT_EQ(last_line(run(3, 0)), "not modelled: 3 of 3 clusters of 2 blocks found no place on the model of the H200");
}

TEST_F(ReplayTest, AWaitForALoadIsThatOfTheInstructionThatNeedsIt) {
  code = {{InstructionClass::memory, {1}, {2}},
          {InstructionClass::float32, {5}, {6}},
          {InstructionClass::float32, {2}, {7}}};
  shape.accesses.push_back({.sectors = 1, .lines = 1});
  shape.warps = {{{StepKind::access, false, false, 0, 0}, {StepKind::run, false, false, 2, 1}}};
  LaunchTrace trace;
  trace.code = std::make_shared<const Code>(code);
  trace.warps_per_block = 1;
  trace.clusters.push_back({0, std::make_shared<const ClusterShape>(shape), {}, {request_of(1, 1)}});
  const Result result = replay(trace, chip);
  EXPECT_EQ(result.stalls.count(1), 0u);
  ASSERT_EQ(result.stalls.count(2), 1u);
  EXPECT_GT(result.stalls.at(2), 100);
}

TEST_F(ReplayTest, ALaunchEndsAfterAtomicOperationsThatNobodyWaitsFor) {
  code.push_back({InstructionClass::memory, {1}, {}});
  shape.accesses.push_back({.atomic = true, .sectors = 1, .same = 32, .lines = 1});
  shape.warps = {{{StepKind::access, false, false, 0, 0}}};
  LaunchTrace trace;
  trace.code = std::make_shared<const Code>(code);
  trace.warps_per_block = 1;
  trace.clusters.push_back({0, std::make_shared<const ClusterShape>(shape), {}, {request_of(1, 1)}});
  EXPECT_GT(replay(trace, chip).cycles, chip.launch + chip.l2_latency);
}

TEST_F(ReplayTest, ARestThatWasNotRecordedTakesAsLong) {
  code.push_back({InstructionClass::float64, {0}, {0}});
  for (uint32_t i = 0; i < 100; ++i) step(0, StepKind::run, 0);
  LaunchTrace trace;
  trace.code = std::make_shared<const Code>(code);
  trace.warps_per_block = 1;
  trace.clusters.push_back({0, std::make_shared<const ClusterShape>(shape), {}, {}});
  const double once = replay(trace, chip).cycles - chip.launch;
  trace.extrapolation = 6;
  trace.described_part = 0.5;
  trace.blocks = 300;
  const Result result = replay(trace, chip);
  EXPECT_NEAR(result.cycles - chip.launch, 6 * once, kNear);
  EXPECT_EQ(result.extrapolated, "1 of 300 blocks, the first 50% of what each does");
}

TEST_F(ReplayTest, TheSameTraceGivesTheSameResult) {
  const uint32_t full = gate(GateKind::mbarrier, 1);
  step(0, StepKind::issue, operation(Engine::copy_in, 4096, {{full, Stage::done}}));
  step(1, StepKind::wait, full);
  const Result once = run(500), again = run(500);
  EXPECT_EQ(once.cycles, again.cycles);
  EXPECT_EQ(once.stalls, again.stalls);
}

TEST(TimingReportTest, EndsWithTheTimeAndTheRate) {
  Result result;
  result.cycles = 185'000;
  result.megahertz = 1850;
  result.multiprocessors = 148;
  result.operations = 111.2e9;
  result.tensor_busy = 0.81 * result.cycles * result.multiprocessors;
  EXPECT_EQ(last_line(result), "modelled: 100.0 us, 1112 TFLOP/s at 1.85 GHz, tensor cores 81% busy");
  result.operations = 0;
  result.bytes = 400e6;
  EXPECT_EQ(last_line(result), "modelled: 100.0 us, 4000 GB/s at 1.85 GHz");
}

TEST(TimingReportTest, NamesWhatWarpsWaitFor) {
  Result result;
  result.cycles = 1000;
  result.megahertz = 1980;
  result.multiprocessors = 132;
  result.warps.resize(2);
  result.warps[0].all = result.warps[1].all = 1000;
  result.warps[0].cycles[static_cast<size_t>(Spent::mbarrier)] = 900;
  result.warps[0].cycles[static_cast<size_t>(Spent::running)] = 100;
  result.warps[1].cycles[static_cast<size_t>(Spent::running)] = 1000;
  result.stalls[7] = 900;
  result.sustained_microseconds = 0.6;
  result.sustained_megahertz = 1650;
  const std::string text =
      text_of(result, *find_chip_model("H200"), "gemm", [](uint32_t pc) { return pc == 7 ? "gemm.cu:88" : ""; });
  EXPECT_NE(text.find("warp 0        10% running; waits: 90% mbarriers"), std::string::npos) << text;
  EXPECT_NE(text.find("45% of the warps' time at gemm.cu:88"), std::string::npos) << text;
  EXPECT_NE(text.find("when such launches go on for long: 0.6 us, at 1.65 GHz"), std::string::npos) << text;
}

}  // namespace
}  // namespace stagecraft::emulator::timing
