// The check of global memory in one launch and from launch to launch, by PTX. tests/programs/global_memory_test.cu has
// the patterns of programs.
#include "emulator/checks/checks.hpp"
#include "emulator/checks/global_memory/global_history.hpp"
#include "emulator/checks/global_memory/global_memory_check.hpp"
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class GlobalMemoryTest : public RaceTest {
 protected:
  static constexpr Shape kTwoBlocks{.threads = 32, .blocks = 2};

  GlobalMemoryTest() { machine.announce_global_accesses(true); }

  std::vector<std::unique_ptr<machine::Observer>> make_checks() const override {
    return checks::make_checks(true, false, &history);
  }
  /// Launches in a stream, after what `known` says.
  machine::LaunchResult run_in(uint32_t stream, const WorkClock& known, const std::string& body, Shape shape) {
    WorkStart start;
    start.component = stream;
    start.time = ++times[stream];
    start.known = known;
    start.known.raise(stream, start.time - 1);
    start.stream = fmt::format("stream {}", stream);
    history.begin(start, "kernel k", true);
    prepare = [&](uint64_t out) {
      words = out;
      if (is_initialised) history.written(machine.memory(), out, 4096 * sizeof(uint32_t));
    };
    // A grid with a clock runs as one part.
    return run(body + "mov.u64 %rd19, %globaltimer;\n", shape);
  }
  machine::LaunchResult run_alone(const std::string& body, Shape shape = kTwoBlocks) {
    return run_in(1, {}, body, shape);
  }

  mutable GlobalHistory history;
  std::map<uint32_t, WorkTime> times;
  uint64_t words = 0;           ///< `out` of the last launch
  bool is_initialised = false;  ///< something has written `out` before
};

const std::string kOwnWord = "mad.wide.u32 %rd1, %thread, 4, %out;\n";
const std::string kBlock = "mov.u32 %r5, %ctaid.x;\n";

TEST_F(GlobalMemoryTest, FindsWritesOfTwoBlocksToOneWord) {
  const std::string body = kOwnWord + kBlock + "st.global.u32 [%rd1], %r5;\n";
  expect_one(run_alone(body), "race",
             {"writes", "in global memory", line_of(body, "st.global"), "block (0,0,0) warp 0",
              "nothing orders the two, and both write", "bytes of its own"});
}

TEST_F(GlobalMemoryTest, IsSilentOnWordsOfEachBlock) {
  expect_silence(run_alone(kOwnWord + kBlock + "mad.wide.u32 %rd1, %r5, 128, %rd1;\nst.global.u32 [%rd1], %r5;\n"));
}

TEST_F(GlobalMemoryTest, ToleratesEqualValuesOfOneInstruction) {
  const machine::LaunchResult result = run_alone("st.global.u32 [%out], 7;\n");
  ASSERT_EQ(result.diagnostics.size(), 1u) << text_of(result);
  EXPECT_EQ(result.diagnostics[0].tolerated, "both write the same value");
}

TEST_F(GlobalMemoryTest, ToleratesTheSameBulkStoreOfSeveralLanes) {
  const std::string body =
      "mov.u32 %r1, tile;\ncp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16;\n"
      "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n";
  const machine::LaunchResult result = run_alone(body, {.threads = 32});
  ASSERT_EQ(result.diagnostics.size(), 1u) << text_of(result);
  EXPECT_EQ(result.diagnostics[0].tolerated, "the lanes of one instruction store the same bytes");
  // From other places the lanes may store other bytes.
  const std::string apart = with(body, "mov.u32 %r1, tile;", "mov.u32 %r1, tile;\nmad.lo.u32 %r1, %lane, 16, %r1;");
  expect_one(run_alone(apart, {.threads = 32}), "race", {"[lane 1]", "[lane 0]", "nobody has waited"});
  // And so may two warps, and a lane that comes again.
  const std::string store = "cp.async.bulk.global.shared::cta.bulk_group [%out], [%r1], 16;\n";
  const std::string of_one = "setp.eq.u32 %p2, %lane, 0;\n" + with(body, store, "@%p2 " + store);
  expect_one(run_alone(of_one, {.threads = 64}), "race", {"warp 1 [lane 0]", "warp 0 [lane 0]"});
  expect_one(run_alone(with(of_one, store, store + "@%p2 " + store), {.threads = 32}), "race", {"f.cu:3", "f.cu:4"});
}

TEST_F(GlobalMemoryTest, TellsScopesOfAtomicsApart) {
  is_initialised = true;
  expect_silence(run_alone("atom.global.relaxed.gpu.add.u32 %r1, [%out], 1;\n"));
  expect_one(run_alone("atom.global.relaxed.cta.add.u32 %r1, [%out], 1;\n"), "race", {"writes"});
}

TEST_F(GlobalMemoryTest, FindsAReadOfWhatNothingWrote) {
  const std::string body = kOwnWord + "ld.global.u32 %r1, [%rd1];\n";
  expect_one(run_alone(body, {.threads = 32}), "uninitialised read",
             {line_of(body, "ld.global"), "nothing has written"});
  expect_silence(run_alone(kOwnWord + "st.global.u32 [%rd1], 1;\nld.global.u32 %r1, [%rd1];\n", {.threads = 32}));
}

TEST_F(GlobalMemoryTest, ToleratesAReadThatReachesIntoPadding) {
  const std::string row = "mad.wide.u32 %rd1, %thread, 32, %out;\nst.global.u32 [%rd1], 1;\n";
  const machine::LaunchResult padding =
      run_alone(row + "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1];\n", {.threads = 32});
  ASSERT_EQ(padding.diagnostics.size(), 1u) << text_of(padding);
  EXPECT_NE(padding.diagnostics[0].tolerated, "");
  EXPECT_EQ(padding.diagnostics[0].kind, "uninitialised read");
  expect_one(run_alone(row + "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1+16];\n", {.threads = 32}),
             "uninitialised read", {"reads byte 16 of"});
}

TEST_F(GlobalMemoryTest, FindsAnUnwrittenByteBesideARaceWithAFill) {
  const auto start = [](uint32_t stream) {
    WorkStart made;
    made.component = stream;
    made.time = 1;
    made.stream = fmt::format("stream {}", stream);
    return made;
  };
  prepare = [&](uint64_t out) {
    history.begin(start(2), "cudaMemsetAsync", false);
    history.accessed_by_work(machine.memory(), out, 64, true);
    history.begin(start(1), "kernel k", true);
  };
  const std::string body = kOwnWord + "ld.global.u32 %r1, [%rd1];\nmov.u64 %rd19, %globaltimer;\n";
  const machine::LaunchResult result = run(body, {.threads = 32});
  ASSERT_EQ(result.diagnostics.size(), 2u) << text_of(result);
  EXPECT_EQ(result.diagnostics[0].kind, "race");
  EXPECT_EQ(result.diagnostics[1].kind, "uninitialised read");
}

TEST_F(GlobalMemoryTest, KeepsToItsLimitWithinOneFill) {
  history.limit(uint64_t{4} << 20);
  history.begin({}, "cudaMemset", false);
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  const uint64_t address = allocate<uint8_t>(kBytes);
  const uint32_t before = history.times_forgotten();
  EXPECT_FALSE(history.accessed_by_work(machine.memory(), address, kBytes, true).has_value());
  EXPECT_GT(history.times_forgotten(), before + 1);
  EXPECT_LT(history.shadow().bytes(), kBytes / 2);
}

TEST_F(GlobalMemoryTest, OrdersLanesByWarpBarriersOnly) {
  const std::string body = kOwnWord +
                           "st.global.u32 [%rd1], %lane;\nbar.warp.sync 0xffffffff;\n"
                           "xor.b32 %r1, %thread, 1; mad.wide.u32 %rd2, %r1, 4, %out;\nld.global.u32 %r2, [%rd2];\n";
  expect_silence(run_alone(body, {.threads = 32}));
  expect_one(run_alone(without(body, "bar.warp.sync 0xffffffff;"), {.threads = 32}), "race", {"__syncwarp()"});
}

TEST_F(GlobalMemoryTest, SeesThatEachLaneHasFenced) {
  // After griddepcontrol.wait the lanes may know different things, so that each has a fence of its own.
  const std::string body = "@%first mbarrier.init.shared.b64 [bar], 1;\ngriddepcontrol.wait;\n" + kOwnWord +
                           "st.global.u32 [%rd1], %thread;\nfence.proxy.async;\nbar.sync 0;\n@!%first bra END;\n"
                           "mbarrier.arrive.expect_tx.shared.b64 _, [bar], 256;\n"
                           "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%out], 256, [bar];\n"
                           "WAIT: mbarrier.try_wait.parity.shared.b64 %p7, [bar], 0;\n@!%p7 bra WAIT;\nEND:\n";
  expect_silence(run_alone(body, {.threads = 64}));
  expect_one(run_alone(without(body, "fence.proxy.async;\n"), {.threads = 64}), "missing proxy fence",
             {"reads bytes 0 to 31"});
  // Two groups of a warp fence apart, and a lane that has not is found.
  const std::string apart = with(body, "fence.proxy.async;",
                                 "setp.lt.u32 %p2, %lane, 16;\n@%p2 fence.proxy.async;\n@!%p2 fence.proxy.async;");
  expect_silence(run_alone(apart, {.threads = 64}));
  expect_one(run_alone(without(apart, "@!%p2 fence.proxy.async;"), {.threads = 64}), "missing proxy fence",
             {"reads bytes 64 to 95", "[lanes 16-23] writes"});
}

TEST_F(GlobalMemoryTest, ForgetsWhenItsLimitIsReached) {
  is_initialised = true;
  history.limit(1);
  const std::string body = kOwnWord + "ld.global.u32 %r1, [%rd1];\n";
  const uint32_t before = history.times_forgotten();
  expect_silence(run_alone(body + body + kOwnWord + "st.global.u32 [%rd1], 1;\n", {.threads = 32}));
  EXPECT_GT(history.times_forgotten(), before);
}

TEST_F(GlobalMemoryTest, ForgetsTheOldestAccessesAtItsLimit) {
  constexpr uint64_t kBytes = uint64_t{8} << 20;
  history.limit(kBytes * 2);
  const auto fill = [&](uint32_t stream, WorkTime time, uint64_t address, uint64_t bytes) {
    WorkStart start;  // it knows of no other stream
    start.component = stream;
    start.time = time;
    start.known.raise(stream, time - 1);
    history.begin(start, "cudaMemsetAsync", false);
    return history.accessed_by_work(machine.memory(), address, bytes, true);
  };
  std::vector<uint64_t> parts;
  for (uint32_t i = 0; i < 4; ++i) {
    parts.push_back(allocate<uint8_t>(kBytes));
    EXPECT_FALSE(fill(i + 1, 1, parts[i], kBytes - 8).has_value());  // the last 8 bytes stay unwritten
    EXPECT_FALSE(fill(i + 1, 2, parts[i] + 1, 1).has_value());       // and single bytes have cells of their own
  }
  EXPECT_GT(history.times_forgotten(), 0u);
  EXPECT_FALSE(history.has_forgotten_writes());
  EXPECT_FALSE(fill(11, 1, parts[0], 64).has_value()) << "the oldest accesses are forgotten";
  EXPECT_TRUE(fill(12, 1, parts[3], 64).has_value()) << "the latest are not";
  // What was written stays known.
  GlobalAllocation* const first = history.shadow().find(machine.memory(), parts[0]);
  EXPECT_TRUE(first->tracks_writes);
  EXPECT_EQ(history.shadow().sector(*first, 4096).written, ~0u);
  EXPECT_EQ(history.shadow().sector(*first, kBytes - 32).written, 0x00ffffffu);
}

TEST_F(GlobalMemoryTest, ForgetsWhatIsWrittenIfThatAloneIsTooMuch) {
  constexpr uint64_t kBytes = uint64_t{1} << 20;
  const uint64_t address = allocate<uint8_t>(kBytes);
  history.limit(kBytes / 2);
  history.begin({}, "cudaMemset", false);
  for (uint64_t at = 0; at < kBytes; at += GlobalAllocation::kPageBytes) {
    EXPECT_FALSE(history.accessed_by_work(machine.memory(), address + at, 8, true).has_value());
  }
  EXPECT_TRUE(history.has_forgotten_writes());
  EXPECT_FALSE(history.shadow().find(machine.memory(), address)->tracks_writes);
  EXPECT_LE(history.shadow().bytes(), kBytes / 2);
}

/// What the log of reads must not change.
class LoggedReadTest : public GlobalMemoryTest {
 protected:
  LoggedReadTest() { is_initialised = true; }

  /// A kernel in stream 1 reads the first 32 words.
  void read_words() {
    expect_silence(run_alone(kOwnWord + "ld.global.u32 %r1, [%rd1];\n", {.threads = 32}));
    EXPECT_NE(history.logged_bytes(), 0u);
  }
  std::optional<machine::Diagnostic> access(uint32_t stream, const WorkClock& known, uint64_t address, bool writes,
                                            const WorkClock& known_to_host = {}) {
    WorkStart start;
    start.component = stream;
    start.time = ++times[stream];
    start.known = known;
    start.known_to_host = known_to_host;
    history.begin(start, writes ? "cudaMemsetAsync" : "cudaMemcpyAsync", false);
    return history.accessed_by_work(machine.memory(), address, 16, writes);
  }
  WorkClock after_kernel() const {
    WorkClock clock;
    clock.raise(1, 1);
    return clock;
  }
};

TEST_F(LoggedReadTest, AreFoundByAWriteOfTheSameLaunch) {
  const std::string body =
      "ld.global.u32 %r1, [%out+4];\n" + kBlock + "setp.ne.u32 %p1, %r5, 0;\n@%p1 st.global.u32 [%out+4], %r5;\n";
  expect_one(run_alone(body), "race",
             {"writes bytes 4 to 7", "block (0,0,0) warp 0 [all lanes] reads it at " + line_of(body, "ld.global")});
}

TEST_F(LoggedReadTest, AreOrderedByWhatTheirThreadsKnewThen) {
  const std::string body = kOwnWord +
                           "ld.global.u32 %r1, [%rd1];\nbar.sync 0;\nxor.b32 %r2, %thread, 32;\n"
                           "mad.wide.u32 %rd2, %r2, 4, %out;\nld.global.u32 %r3, [%rd2];\nbar.sync 0;\n"
                           "st.global.u32 [%rd1], 1;\n";
  expect_silence(run_alone(body, {.threads = 64}));
  const std::string without_last = body.substr(0, body.rfind("bar.sync 0;\n")) + body.substr(body.rfind("st.global"));
  const machine::LaunchResult result = run_alone(without_last, {.threads = 64});
  ASSERT_FALSE(result.diagnostics.empty());
  EXPECT_EQ(result.diagnostics[0].kind, "race");
  EXPECT_NE(text_of(result).find("reads it at f.cu:6"), std::string::npos) << text_of(result);
}

TEST_F(LoggedReadTest, AreFoundByALaterWorkThatDoesNotWait) {
  read_words();
  const auto finding = access(2, {}, words, true);
  ASSERT_TRUE(finding.has_value());
  EXPECT_NE(checks::render_text(*finding).find("block (0,0,0) warp 0 [lane 0] reads it at f.cu:2"), std::string::npos)
      << checks::render_text(*finding);
}

TEST_F(LoggedReadTest, AreRememberedAfterAWorkThatWaits) {
  read_words();
  EXPECT_FALSE(access(2, after_kernel(), words + 64, false).has_value());
  EXPECT_NE(history.logged_bytes(), 0u);
  const auto finding = access(3, {}, words + 64, true);
  ASSERT_TRUE(finding.has_value());
  EXPECT_NE(checks::render_text(*finding).find("[lane 16] reads it at f.cu:2"), std::string::npos)
      << checks::render_text(*finding);
}

TEST_F(LoggedReadTest, AreReplacedByAWriteThatWaits) {
  read_words();
  EXPECT_FALSE(access(2, after_kernel(), words, true).has_value());
  const auto finding = access(3, {}, words, true);
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(checks::render_text(*finding).find("reads it"), std::string::npos) << checks::render_text(*finding);
}

TEST_F(LoggedReadTest, AreDroppedWhenTheHostHasWaited) {
  read_words();
  EXPECT_FALSE(access(2, after_kernel(), words + 64, false, after_kernel()).has_value());
  EXPECT_EQ(history.logged_bytes(), 0u);
}

TEST(WorkClockTest, JoinsComponents) {
  WorkClock one, other;
  one.raise(1, 4);
  other.raise(1, 2);
  other.raise(3, 5);
  one.join(other);
  EXPECT_EQ(one.at(1), 4u);
  EXPECT_EQ(one.at(2), 0u);
  EXPECT_EQ(one.at(3), 5u);
  EXPECT_EQ(one.at(9), 0u);
}

TEST(GlobalEntryTest, KnowsWhichLanesAccessedAByte) {
  const GlobalEntry row{1, 0, 2};
  EXPECT_EQ(row.lanes_of(0, 4, 0), 1u);
  EXPECT_EQ(row.lanes_of(2, 4, 0), 3u);
  EXPECT_EQ(row.moved(6).lanes_of(0, 1, 0), 2u);
  EXPECT_EQ(row.moved(6).lanes_of(0, 4, 0), 6u);
  const GlobalEntry together{1};
  EXPECT_EQ(together.moved(6).lanes_of(0, 4, 0xf0), 0xf0u);
}

TEST(GlobalShadowTest, KeepsWhatIsKnownOfASectorWhenItIsSplit) {
  GlobalShadow shadow;
  GlobalSector sector;
  sector.cell.write = {1, 4, 2};
  const uint64_t empty = shadow.bytes();
  EXPECT_EQ(shadow.parts(sector, PartsOfSectors::kWordShift).cells[3].write, (GlobalEntry{1, 7, 2, 0}));
  const SectorParts bytes = shadow.parts(sector, PartsOfSectors::kByteShift);
  EXPECT_EQ(bytes.shift, 0u);
  EXPECT_EQ(bytes.cells[13].write, (GlobalEntry{1, 7, 2, 1}));
  // Bytes stay bytes, and parts that were released are taken again.
  EXPECT_EQ(shadow.parts(sector, PartsOfSectors::kWordShift).cells, bytes.cells);
  shadow.drop_parts(sector);
  EXPECT_EQ(shadow.bytes(), empty);
  EXPECT_EQ(shadow.parts(sector, PartsOfSectors::kByteShift).cells, bytes.cells);
}

TEST(GlobalShadowTest, FetchesTheCellOfJustTheseBytes) {
  GlobalShadow shadow;
  GlobalSector sector;
  EXPECT_EQ(shadow.fetch_part(sector, 4, 4), nullptr);  // it has no parts
  const SectorParts words = shadow.parts(sector, PartsOfSectors::kWordShift);
  EXPECT_EQ(shadow.fetch_part(sector, 68, 4), &words.cells[1]);
  EXPECT_EQ(shadow.fetch_part(sector, 66, 4), nullptr);  // of two cells
  EXPECT_EQ(shadow.fetch_part(sector, 64, 8), nullptr);
  EXPECT_EQ(shadow.fetch_part(sector, 68, 1), nullptr);  // of a part of one
  const SectorParts bytes = shadow.parts(sector, PartsOfSectors::kByteShift);
  EXPECT_EQ(shadow.fetch_part(sector, 68, 1), &bytes.cells[4]);
  EXPECT_EQ(shadow.fetch_part(sector, 68, 4), nullptr);
}

TEST(GlobalShadowTest, SplitsASectorAndJoinsItAgain) {
  GlobalShadow shadow;
  GlobalAllocation allocation;
  allocation.size = 4096;
  allocation.pages.resize(1);
  allocation.all_written.resize(1);
  uint32_t cells = 0;
  const auto count = [&](GlobalCell& cell, uint64_t, uint32_t, GlobalSector&) {
    cell.write = GlobalEntry{7};
    ++cells;
  };
  for_each_cell(shadow, allocation, 32, 96, true, count);
  EXPECT_EQ(cells, 3u);  // one for each sector
  for_each_cell(shadow, allocation, 36, 8, true, count);
  EXPECT_EQ(cells, 5u);  // of 4 bytes
  for_each_cell(shadow, allocation, 41, 2, true, count);
  EXPECT_EQ(cells, 7u);  // of 1 byte
  EXPECT_NE(shadow.sector(allocation, 32).parts, 0u);
  for_each_cell(shadow, allocation, 32, 32, true, count);
  EXPECT_EQ(shadow.sector(allocation, 32).parts, 0u);
  EXPECT_EQ(shadow.sector(allocation, 32).cell.write.record(), 7u);
}

}  // namespace
}  // namespace stagecraft::emulator::checks
