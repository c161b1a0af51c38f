// Accesses of another block's shared memory, and whether that block waits for them before it ends.
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class RemoteExitTest : public RaceTest {
 protected:
  static constexpr Shape kPair{.threads = 32, .blocks = 2, .cluster_blocks = 2};
  static inline const std::string kMeet = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
  /// Block 1 accesses `tile` or `bar` of block 0, whose address is in %other. Block 0 ends later in this run.
  static std::string access(const std::string& instruction, const std::string& of_target = {},
                            const std::string& at_the_end = {}) {
    return "@%first mbarrier.init.shared.b64 [bar], 32;\n@%first fence.mbarrier_init.release.cluster;\n" +
           std::string("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n") +
           "setp.eq.u32 %p1, %rank, 0;\n@%p1 bra TARGET;\n"
           "mapa.shared::cluster.u32 %other, %own, 0;\n"
           "mov.u32 %r4, bar; mapa.shared::cluster.u32 %r4, %r4, 0;\n" +
           instruction + "bra END;\nTARGET:\nnanosleep.u32 20000;\n" + of_target + "END:\n" + at_the_end;
  }
};

TEST_F(RemoteExitTest, FindsAStoreThatTheTargetDoesNotWaitFor) {
  const std::string body = access("st.shared::cluster.u32 [%other], %lane;\n");
  expect_one(run(body, kPair), "missing wait",
             {"block (1,0,0) warp 0", line_of(body, "st.shared::cluster"),
              "writes shared memory of block (0,0,0), which may have ended by then", "cluster.sync()"});
}

TEST_F(RemoteExitTest, FindsALoadThatTheTargetDoesNotWaitFor) {
  expect_one(run(access("ld.shared::cluster.u32 %r1, [%other];\n"), kPair), "missing wait",
             {"reads shared memory of block (0,0,0)"});
}

TEST_F(RemoteExitTest, FindsAnArrivalThatNobodyWaitsFor) {
  expect_one(run(access("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n"), kPair), "missing wait",
             {"arrives at an mbarrier in shared memory of block (0,0,0)"});
}

TEST_F(RemoteExitTest, IsSilentWhereTheBlocksMeetAtTheEnd) {
  for (const std::string& meet : {kMeet, std::string("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n")}) {
    expect_silence(run(access("st.shared::cluster.u32 [%other], %lane;\n", "", meet), kPair));
    expect_silence(run(access("ld.shared::cluster.u32 %r1, [%other];\n", "", meet), kPair));
    expect_silence(run(access("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n", "", meet), kPair));
  }
}

TEST_F(RemoteExitTest, IsSilentWhereTheTargetWaitsForTheLastArrival) {
  const std::string wait =
      "AGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;\n@!%p2 bra AGAIN;\n";
  for (const std::string order : {"release", "relaxed"}) {
    const std::string arrive = "mbarrier.arrive." + order + ".cluster.shared::cluster.b64 _, [%r4];\n";
    expect_silence(run(access(arrive, wait), kPair));
  }
  expect_silence(run(access("ld.shared::cluster.u32 %r1, [%other];\n"
                            "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n",
                            wait),
                     kPair));
}

TEST_F(RemoteExitTest, FindsAnAccessAfterTheArrivalThatTheTargetWaitsFor) {
  const std::string wait =
      "AGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar], 0;\n@!%p2 bra AGAIN;\n"
      "nanosleep.u32 20000;\n";
  expect_one(run(access("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n"
                        "ld.shared::cluster.u32 %r1, [%other];\n",
                        wait),
                 kPair),
             "missing wait", {"reads shared memory of block (0,0,0)"});
}

// Each block is to arrive at the second barrier of both; each waits for its own.
TEST_F(RemoteExitTest, NamesAnArrivalInItsOwnBlockThatIsMeantForTheTarget) {
  const auto body = [](uint32_t other) {
    return std::string(
               "@%first mbarrier.init.shared.b64 [bar], 32;\n@%first mbarrier.init.shared.b64 [bar+8], 64;\n"
               "@%first fence.mbarrier_init.release.cluster;\n"
               "barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;\n"
               "mov.u32 %r4, bar; mapa.shared::cluster.u32 %r5, %r4, 0; mapa.shared::cluster.u32 %r6, %r4, %rank;\n") +
           fmt::format("xor.b32 %r7, %rank, {}; mapa.shared::cluster.u32 %r7, %r4, %r7;\n", other) +
           "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5];\n"
           "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r7+8];\n"
           "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6+8];\n"
           "AGAIN:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [bar+8], 0;\n@!%p2 bra AGAIN;\n"
           "setp.eq.u32 %p1, %rank, 0;\n@!%p1 bra END;\nnanosleep.u32 20000;\nEND:\n";
  };
  expect_silence(run(body(1), kPair));
  const std::string wrong = body(0);
  expect_one(run(wrong, kPair), "missing wait",
             {line_of(wrong, "[%r5]"), "arrives at an mbarrier in shared memory of block (0,0,0)",
              "the block waits for its bar[1], at which warp 0 of block rank 1 never arrives",
              "arrives twice in one phase at bar[1] of its own block, at " + line_of(wrong, "[%r7+8]") + " and at " +
                  line_of(wrong, "[%r6+8]"),
              "is one of the two meant for block rank 0?"});
}

}  // namespace
}  // namespace stagecraft::emulator::checks
