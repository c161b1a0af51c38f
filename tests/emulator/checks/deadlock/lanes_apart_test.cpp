// Tests which place a deadlock is blamed on where lanes of one warp wait at two.
#include "checks/deadlock/deadlock_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class LanesApartTest : public DeadlockFixture {
 protected:
  /// Runs `body` on two warps; %p2 is true in lanes 16 to 31. Returns the report of the deadlock.
  std::string report_of(const std::string& body) {
    return DeadlockFixture::report_of(
        compile_body("mov.u32 %r3, %laneid; setp.ge.u32 %p2, %r3, 16; mov.u32 %r4, 0;\n" + body), 64);
  }
  /// Three turns of a loop.
  static std::string in_a_loop(const std::string& turn) {
    return "LOOP:\n" + turn + "add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 3; @%p3 bra LOOP;\n";
  }
  static inline const std::string kShuffle = "shfl.sync.idx.b32 %r5, %r4, 0, 31, 0xffffffff;\n";
};

TEST_F(LanesApartTest, BlamesAShuffleInABranchAndNotTheBarrierAfterIt) {
  const std::string turn = "@%p2 bra JOIN;\n" + kShuffle + "JOIN: bar.sync 0;\n";
  for (const std::string& body : {turn, in_a_loop(turn)}) {
    const std::string text = report_of(body);
    expect_words(text, {"[lanes 0-15] shfl.sync.idx.b32"});
    expect_words(text, {"only lanes 0-15 came to shfl.sync.idx.b32, which needs all 32 lanes"});
  }
}

TEST_F(LanesApartTest, BlamesABarrierInABranchAndNotTheOperationOfTheWarpAfterIt) {
  const std::string turn = "@%p2 bra JOIN;\nbarrier.sync 0;\nJOIN: bar.warp.sync 0xffffffff;\n";
  for (const std::string& body : {turn, in_a_loop(turn)}) {
    const std::string text = report_of(body);
    expect_words(text, {"[lanes 0-15] barrier.sync"});
    expect_words(text, {"only lanes 0-15 of warp 0 came to barrier.sync, and lanes 16-31 went on to bar.warp.sync"});
  }
}

TEST_F(LanesApartTest, BlamesTheFirstOfTwoOperationsOfTheWarpWhereAsManyLanesWaitAtEach) {
  expect_words(report_of("@%p2 bra JOIN;\n" + kShuffle + "JOIN: bar.warp.sync 0xffffffff;\n"),
               {"only lanes 0-15 came to shfl.sync.idx.b32"});
}

TEST_F(LanesApartTest, DoesNotSayWhichWhereEachHalfTakesAWayOfItsOwn) {
  const std::string text =
      report_of("@%p2 bra OTHER;\n" + kShuffle + "bra END;\nOTHER: bar.warp.sync 0xffffffff;\nEND:\n");
  expect_words(text, {"lanes of one warp took different paths"});
  EXPECT_EQ(text.find("came to"), std::string::npos) << text;
}

TEST_F(LanesApartTest, BlamesTheClusterWhereTheOtherLanesWaitForThoseOfABranch) {
  expect_words(report_of("@%p2 bra OTHER;\nbarrier.cluster.arrive; barrier.cluster.wait;\nbra END;\n"
                         "OTHER: bar.warp.sync 0xffffffff;\nEND:\n"),
               {"[lanes 0-15] barrier.cluster.wait", "likely cause: a thread of the cluster never arrives"});
}

}  // namespace
}  // namespace stagecraft::emulator::checks
