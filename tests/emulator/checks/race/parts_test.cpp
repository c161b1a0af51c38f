// Tests the checks of a grid that runs in parts: on one thread or many, the reports are the same, in the same order.
#include <atomic>

#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class PartsTest : public RaceTest {
 protected:
  /// Launches so many blocks, in parts on 1, 2 and 4 threads. The reports must all be the same.
  machine::LaunchResult run_in_parts(const std::string& body, uint32_t blocks, uint32_t block_threads = 64) {
    machine::LaunchResult first;
    for (const uint32_t count : {1u, 2u, 4u}) {
      threads = count;
      machine::LaunchResult result = run(body, {.threads = block_threads, .blocks = blocks});
      if (count == 1) {
        first = std::move(result);
        continue;
      }
      EXPECT_EQ(text_of(result), text_of(first)) << "on " << count << " threads";
      EXPECT_EQ(result.fault, first.fault);
      EXPECT_EQ(result.stopped, first.stopped);
      EXPECT_EQ(result.cycles, first.cycles);
    }
    return first;
  }
  std::vector<std::unique_ptr<machine::Observer>> make_checks() const override {
    ++parts_with_checks;
    return RaceTest::make_checks();
  }
  mutable std::atomic<uint32_t> parts_with_checks = 0;

  static std::vector<std::string> sources_of(const machine::LaunchResult& result) {
    std::vector<std::string> sources;
    for (const machine::Diagnostic& diagnostic : result.diagnostics) sources.push_back(diagnostic.place.source);
    return sources;
  }
};

constexpr uint32_t kBlocks = 40;  // of which each of 16 parts has two or three

/// Warp 0 writes and warp 1 reads the same words, with nothing in between.
const std::string kRace = R"(mov.u32 %r1, tile; mad.lo.u32 %other, %lane, 4, %r1; mov.u32 %r2, %ctaid.x;
setp.eq.u32 %p0, %warp, 0;
@%p0 st.shared.u32 [%other], %r2;
@!%p0 ld.shared.u32 %r3, [%other];
)";
/// Returns a loop of so many rounds of 3 instructions.
std::string loop(uint32_t rounds, const std::string& name) {
  return fmt::format("mov.u32 %r4, {0}; {1}: sub.u32 %r4, %r4, 1; setp.ne.u32 %p1, %r4, 0; @%p1 bra {1};\n", rounds,
                     name);
}
/// Makes only the block with this number execute `body`.
std::string only_of(uint32_t block, const std::string& name) {
  return fmt::format("mov.u32 %r5, %ctaid.x; setp.ne.u32 %p2, %r5, {}; @%p2 bra {};\n", block, name);
}

TEST_F(PartsTest, AreSilentWhereNothingIsWrong) {
  expect_silence(run_in_parts(with(kRace, "@!%p0 ld", "bar.sync 0; @!%p0 ld"), kBlocks));
}

TEST_F(PartsTest, HaveChecksOfTheirOwn) {
  threads = 2;
  run(kRace, {.blocks = kBlocks});
  EXPECT_EQ(parts_with_checks, 16u);
  // A grid whose blocks may wait for each other has one set of checks.
  parts_with_checks = 0;
  run(kRace + "atom.global.add.u32 %r6, [%out], 1;\n", {.blocks = kBlocks});
  EXPECT_EQ(parts_with_checks, 1u);
}

TEST_F(PartsTest, TellOnceWhatEachOfThemFinds) {
  const machine::LaunchResult result = run_in_parts(kRace, kBlocks);
  expect_one(result, "race", {"block (0,0,0)", line_of(kRace, "st.shared"), line_of(kRace, "ld.shared")});
}

TEST_F(PartsTest, TellWhatTheyFindInTheOrderOfVirtualTime) {
  // Block 0 reaches its race last, block 30 first.
  std::string body;
  const auto race_of = [&](uint32_t block, uint32_t rounds) {
    const std::string label = fmt::format("NOT_{}", block);
    body += only_of(block, label) + loop(rounds, fmt::format("AGAIN_{}", block)) + kRace + label + ":\n";
    return fmt::format("f.cu:{}", std::count(body.begin(), body.end(), '\n') - 1);  // of the read
  };
  const std::string last = race_of(0, 9000), second = race_of(1, 3000), first = race_of(30, 1);
  const machine::LaunchResult result = run_in_parts(body, kBlocks);
  EXPECT_EQ(sources_of(result), (std::vector{first, second, last})) << text_of(result);
}

TEST_F(PartsTest, DoNotTellWhatWasFoundAfterAnotherWasStopped) {
  // On one thread block 0 runs to its end before block 9 begins, which in virtual time is stopped long before. The
  // finding of block 20 is earlier still.
  const std::string trap = only_of(9, "NOT_9") + loop(3000, "AGAIN_9") + "trap;\nNOT_9:\n";
  const std::string late = only_of(0, "NOT_0") + loop(20000, "AGAIN_0") + kRace + "NOT_0:\n";
  const std::string early = only_of(20, "NOT_20") + kRace + "NOT_20:\n";
  const std::string body = trap + late + early;
  const machine::LaunchResult result = run_in_parts(body, kBlocks);
  const auto lines = std::count(body.begin(), body.end(), '\n');
  EXPECT_EQ(sources_of(result), (std::vector{fmt::format("f.cu:{}", lines - 1), line_of(body, "trap;")}))
      << text_of(result);
  EXPECT_TRUE(result.stopped);
  // Without the trap, everything is reported.
  EXPECT_EQ(run_in_parts(without(body, "trap;\n"), kBlocks).diagnostics.size(), 2u);
}

TEST_F(PartsTest, TellADeadlockOnceAndBehindWhatTheyFoundBefore) {
  const std::string hang = R"(bar.sync 0;
@%first mbarrier.init.shared.b64 [bar], 1;
bar.sync 0;
AGAIN: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0; @!%p1 bra AGAIN;
)";
  const machine::LaunchResult result = run_in_parts(kRace + hang, kBlocks);
  EXPECT_EQ(result.fault, machine::FaultKind::deadlock);
  ASSERT_EQ(result.diagnostics.size(), 2u) << text_of(result);
  EXPECT_EQ(result.diagnostics[0].kind, "race");
  EXPECT_EQ(result.diagnostics[1].kind, "deadlock");
  EXPECT_NE(result.diagnostics[1].message.find("bar"), std::string::npos) << text_of(result);
  EXPECT_EQ(result.diagnostics[1].place.block_x, 0u);
}

TEST_F(PartsTest, TellNoMoreThanAWholeGrid) {
  // Each block has a pair of lines of its own.
  std::string body;
  for (uint32_t block = 0; block < kBlocks; ++block) {
    const std::string label = fmt::format("NOT_{}", block);
    body += only_of(block, label) + loop(1 + 70 * (kBlocks - block), fmt::format("AGAIN_{}", block)) + kRace + label +
            ":\n";
  }
  const machine::LaunchResult result = run_in_parts(body, kBlocks);
  ASSERT_EQ(result.diagnostics.size(), machine::kMostFindings);
  EXPECT_EQ(result.diagnostics.front().place.block_x, kBlocks - 1);
}

TEST_F(PartsTest, ReportOtherFlawsOnceToo) {
  const std::string body = R"(st.shared.u32 [%own], %thread;
bar.sync 0;
mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd0, %r1, 256; add.u64 %rd0, %rd0, %out; @!%first bra DONE;
cp.async.bulk.global.shared::cta.bulk_group [%rd0], [tile], 256;
fence.proxy.async;
cp.async.bulk.commit_group;
DONE:
)";
  const machine::LaunchResult result = run_in_parts(body, kBlocks);
  ASSERT_EQ(result.diagnostics.size(), 2u) << text_of(result);
  EXPECT_EQ(result.diagnostics[0].kind, "missing proxy fence");
  EXPECT_NE(text_of(result).find("the next fence.proxy.async of this warp at f.cu:5"), std::string::npos);
  EXPECT_EQ(result.diagnostics[1].kind, "missing wait");
}

TEST_F(PartsTest, ReportUnfreedTensorMemoryOnce) {
  const std::string body = R"(setp.ne.u32 %p0, %warp, 0;
@%p0 bra DONE;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [tile], 32;
DONE:
)";
  const machine::LaunchResult result = run_in_parts(body, kBlocks);
  expect_one(result, "tensor memory leak", {"block (0,0,0)"});
  EXPECT_FALSE(result.stopped);
}

}  // namespace
}  // namespace stagecraft::emulator::checks
