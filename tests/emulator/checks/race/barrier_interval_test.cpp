// Tests the accesses that the race check defers until another one may race with them.
#include "emulator/checks/race/page_ledger.hpp"
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

using BarrierIntervalTest = RaceTest;

/// Warp 0 does `work` so many times, with the round in %r1; then warp 1 does `end`. No barrier is between the two.
std::string rounds(uint32_t count, const std::string& work, const std::string& end) {
  return fmt::format(R"(mov.u32 %r1, 0; mov.u32 %r9, tile;
    @%first st.shared.u32 [tile+4032], %r1;
    bar.sync 0;
    setp.eq.u32 %p1, %warp, 1;
    @%p1 bra SECOND;
    AGAIN:
    {}
    add.u32 %r1, %r1, 1;
    setp.lt.u32 %p2, %r1, {};
    @%p2 bra AGAIN;
    membar.cta;
    st.volatile.shared.u32 [tile+4032], %r1;
    bra END;
    SECOND:
    ld.volatile.shared.u32 %r3, [tile+4032];
    setp.eq.u32 %p3, %r3, 0;
    @%p3 bra SECOND;
    {}
    END:)",
                     work, count, end);
}

constexpr uint32_t kMoreThanFit = 10000;

TEST_F(BarrierIntervalTest, RemembersMoreReadsThanItDefers) {
  // Warp 1 writes at the end what was read in early rounds only.
  const std::string read = R"(min.u32 %r4, %r1, 200; add.u32 %r4, %r4, %lane; mad.lo.u32 %r4, %r4, 4, %r9;
    ld.shared.u32 %r5, [%r4];)";
  expect_silence(run(rounds(kMoreThanFit, read, "st.shared.u32 [%own+1024], %lane;")));
  const std::string body = rounds(kMoreThanFit, read, "@%p1 st.shared.u32 [%own], %lane;");
  expect_one(run(body), "race",
             {"warp 1 [lane 0] st.shared.u32 at " + line_of(body, "@%p1 st.shared"), "warp 0 [",
              "reads it at " + line_of(body, "ld.shared.u32")});
}

TEST_F(BarrierIntervalTest, RemembersWhichBytesWereRead) {
  // Reads the first byte of each word.
  const std::string read = R"(min.u32 %r4, %r1, 200; add.u32 %r4, %r4, %lane; mad.lo.u32 %r4, %r4, 4, %r9;
    ld.shared.u8 %r5, [%r4];)";
  expect_silence(run(rounds(kMoreThanFit, read, "st.shared.u8 [%own+1], %lane;")));
  expect_one(run(rounds(kMoreThanFit, read, "st.shared.u8 [%own], %lane;")), "race", {"reads it", "warp 1"});
}

TEST_F(BarrierIntervalTest, RemembersWhoAddedWhere) {
  const std::string add = "min.u32 %r4, %r1, 15; mad.lo.u32 %r4, %r4, 4, %r9;\nred.shared.add.u32 [%r4], 1;";
  expect_silence(run(rounds(kMoreThanFit, add, "red.shared.add.u32 [%own], 1;")));
  expect_silence(run(rounds(kMoreThanFit, add, "ld.shared.u32 %r5, [%own];")));
  const std::string body = rounds(kMoreThanFit, add, "ld.shared.u32 %r5, [tile+12];");
  expect_one(run(body), "race", {"reads tile+0xc", "warp 0 [all lanes] writes it", line_of(body, "red.shared")});
}

/// Warp 0 works in its own half of the tile, warp 1 in the other; `between` is put between two uses of a word by
/// different lanes of a warp.
std::string own_halves(const std::string& between) {
  return fmt::format(R"(mul.lo.u32 %r4, %warp, 2048; add.u32 %r4, %r4, %own; mov.u32 %r6, 0;
    AGAIN:
    st.shared.u32 [%r4], %thread;
    ld.shared.u32 %r5, [%r4];
    add.u32 %r5, %r5, 1;
    st.shared.u32 [%r4], %r5;
    {}
    ld.shared.u32 %r5, [%r4+4];
    {}
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p2, %r6, 20;
    @%p2 bra AGAIN;)",
                     between, between);
}

TEST_F(BarrierIntervalTest, LetsWarpsWorkOnWhatIsTheirOwn) {
  const std::string meet = "bar.warp.sync 0xffffffff;";
  expect_silence(run(own_halves(meet)));
  expect_silence(run(own_halves("bar.sync 0;")));
  const auto found = run(own_halves(""));
  EXPECT_EQ(found.diagnostics.size(), 2u) << text_of(found);
}

TEST_F(BarrierIntervalTest, StillKnowsWhatWasInOrderWhenItMustLookAtIt) {
  // The last line makes the check look at all deferred accesses, and races with one of them.
  const std::string body = own_halves("bar.warp.sync 0xffffffff;") + "\nld.shared.u32 %r5, [%r4+8];\n";
  expect_silence(run(body));
  expect_one(run(body + "st.shared.u32 [%r4], %lane;"), "race", {"f.cu:14", "f.cu:13"});
}

TEST_F(BarrierIntervalTest, KnowsWhatWasInOrderInTheMiddleOfAnAccess) {
  // The lanes read in three pages. Other lanes have written in the second one before; the last line makes the check
  // look at that.
  expect_silence(run(R"(st.shared.u32 [%own+1024], %thread;
    bar.warp.sync 0xffffffff;
    mov.u32 %r1, tile; mad.lo.u32 %r1, %thread, 96, %r1;
    ld.shared.u32 %r2, [%r1];
    bar.warp.sync 0xffffffff;
    st.shared.u32 [%own], %thread;)",
                     {.threads = 32}));
}

TEST_F(BarrierIntervalTest, TellsLanesApartThatActTogether) {
  // Half of the lanes add, the other half reads the very word: nothing orders these.
  const std::string body = R"(st.shared.u32 [%own], %lane;
    bar.sync 0;
    setp.lt.u32 %p1, %lane, 16;
    st.shared.u32 [%own+2176], %lane;
    @%p1 red.shared.add.u32 [tile+2048], 1;
    {}
    @!%p1 ld.shared.u32 %r5, [tile+2048];)";
  const Shape warp{.threads = 32};
  expect_one(run(fmt::format(fmt::runtime(body), ""), warp), "race", {"f.cu:5", "f.cu:7"});
  expect_silence(run(fmt::format(fmt::runtime(body), "bar.warp.sync 0xffffffff;"), warp));
}

TEST_F(BarrierIntervalTest, KnowsThatACopyMayOutliveABarrier) {
  const std::string body = R"(mov.u64 %rd1, %out;
    @%first cp.async.ca.shared.global [tile+64], [%rd1], 4;
    @%first cp.async.commit_group;
    {}
    bar.sync 0;
    ld.shared.u32 %r1, [tile+64];
    cp.async.wait_all;)";
  expect_silence(run(fmt::format(fmt::runtime(body), "cp.async.wait_group 0;")));
  expect_one(run(fmt::format(fmt::runtime(body), "")), "race", {"tile+0x40", "f.cu:2", "f.cu:6"});
}

TEST_F(BarrierIntervalTest, ForgetsNoWriteThatAnAsynchronousOperationNeedsAFenceFor) {
  const std::string body = R"(red.shared.add.u32 [%own], 1;
    bar.sync 0;
    {}
    bar.sync 0;
    @%first cp.async.bulk.global.shared::cta.bulk_group [%out], [tile], 256;
    @%first cp.async.bulk.commit_group;
    @%first cp.async.bulk.wait_group 0;)";
  expect_silence(run(fmt::format(fmt::runtime(body), "fence.proxy.async;")));
  expect_one(run(fmt::format(fmt::runtime(body), "")), "missing proxy fence", {"f.cu:5", "f.cu:1"});
}

class PageLedgerTest : public testing::Test {
 protected:
  static constexpr uint32_t kPage = 1024, kWords = 2;  // log2 of the bytes of a word

  PageLedgerTest() { ledger_.begin(kPage, kWords); }
  /// Makes an access by lanes that are `step` bytes apart, from `begin` on.
  bool access(bool writes, uint32_t begin, uint32_t step, LedgerEntry entry, machine::LaneMask lanes = 0xffffffffu,
              uint32_t bytes = 4) {
    std::array<uint32_t, machine::kWarpSize> addresses;
    for (uint32_t lane = 0; lane < machine::kWarpSize; ++lane) addresses[lane] = begin + lane * step;
    entry.writes = writes;
    return ledger_.note({addresses.data(), lanes, bytes}, kPage, kPage, entry);
  }
  bool reads(uint32_t begin, uint32_t step, LedgerEntry entry, machine::LaneMask lanes = 0xffffffffu) {
    return access(false, begin, step, entry, lanes);
  }
  bool writes(uint32_t begin, uint32_t step, LedgerEntry entry, machine::LaneMask lanes = 0xffffffffu) {
    return access(true, begin, step, entry, lanes);
  }

  static constexpr LedgerEntry kNow{.warp = 3, .time = 7, .known = 6}, kLater{.warp = 3, .time = 8, .known = 7};
  static constexpr LedgerEntry kOther{.warp = 4, .time = 9, .known = 8};

 private:
  PageLedger ledger_;
};

TEST_F(PageLedgerTest, LetsEachThreadUseWhatIsItsOwn) {
  EXPECT_TRUE(writes(kPage, 4, kNow));
  EXPECT_TRUE(reads(kPage, 4, kNow));
  EXPECT_TRUE(writes(kPage, 4, kNow));
  EXPECT_TRUE(reads(kPage + 512, 12, kNow));
  EXPECT_TRUE(writes(kPage + 512, 12, kNow));
}

TEST_F(PageLedgerTest, AsksForASyncwarpBetweenLanes) {
  EXPECT_TRUE(writes(kPage, 4, kNow));
  EXPECT_TRUE(reads(kPage + 4, 4, kLater));  // what was known is that time 7 is over
  EXPECT_FALSE(writes(kPage + 8, 4, kLater));
  EXPECT_FALSE(reads(kPage, 8, kLater, 0x2));
}

TEST_F(PageLedgerTest, LetsManyReadWhatNobodyWrites) {
  EXPECT_TRUE(reads(kPage, 4, kNow));
  EXPECT_TRUE(reads(kPage, 0, kOther));
  EXPECT_TRUE(reads(kPage, 4, kOther));
  EXPECT_FALSE(writes(kPage, 4, kLater, 0x1));
}

TEST_F(PageLedgerTest, RemembersThatSomeLanesOfAWarpHaveRead) {
  EXPECT_TRUE(reads(kPage, 0, kNow));
  EXPECT_TRUE(reads(kPage + 4, 0, kNow));
  EXPECT_FALSE(writes(kPage, 4, kNow, 0x1));
  EXPECT_TRUE(writes(kPage + 4, 4, kLater, 0x1));
}

TEST_F(PageLedgerTest, TakesThePartOfARowThatIsInThePage) {
  EXPECT_TRUE(access(true, kPage - 64, 8, kNow, 0xffffffffu, 8));  // lanes 8 and on begin with the page
  EXPECT_FALSE(access(false, kPage, 8, kNow, 0x0000ff00u, 8));
  EXPECT_TRUE(access(false, kPage - 64, 8, kNow, 0x0000ff00u, 8));
  EXPECT_TRUE(access(true, 2 * kPage - 64, 8, kNow, 0xffffffffu, 8));
  EXPECT_FALSE(reads(2 * kPage - 4, 4, kOther, 0x1));
}

}  // namespace
}  // namespace stagecraft::emulator::checks
