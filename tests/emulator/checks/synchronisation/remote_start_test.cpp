// Accesses of another block's shared memory, and whether it is known that that block has started.
#include "fixtures/race_fixture.hpp"

namespace stagecraft::emulator::checks {
namespace {

class RemoteStartTest : public RaceTest {
 protected:
  static constexpr Shape kPair{.threads = 32, .blocks = 2, .cluster_blocks = 2};
  static constexpr Shape kTwoWarps{.threads = 64, .blocks = 2, .cluster_blocks = 2};
  static inline const std::string kMeet = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
  static inline const std::string kMessage = "shared memory of block (0,0,0), which may not have started";

  /// Block 1 accesses `tile` or `bar` of block 0, whose address is in %other or %r4. All blocks meet at the end.
  static std::string access(const std::string& before, const std::string& instruction) {
    return "@%first mbarrier.init.shared.b64 [bar], 64;\n@%first fence.mbarrier_init.release.cluster;\n" + before +
           "setp.eq.u32 %p1, %rank, 0;\n@%p1 bra END;\n"
           "mapa.shared::cluster.u32 %other, %own, 0;\n"
           "mov.u32 %r4, bar; mapa.shared::cluster.u32 %r4, %r4, 0;\n" +
           instruction + "END:\n" + "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n";
  }
};

const std::string kStore = "st.shared::cluster.u32 [%other], %lane;\n";
const std::string kCopy =
    "@!%first bra END;\nmov.u32 %r6, tile;\n"
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%other], [%r6+128], 16, [%r4];\n";

TEST_F(RemoteStartTest, FindsEachKindOfAccess) {
  const std::vector<std::pair<std::string, std::string>> accesses = {
      {kStore, "writes "},
      {"ld.shared::cluster.u32 %r1, [%other];\n", "reads "},
      {"atom.shared::cluster.add.u32 %r1, [%other], 1;\n", "writes "},
      {"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32 [%other], %lane, [%r4];\n", ""},
      {kCopy, "copies to "}};
  for (const auto& [instruction, verb] : accesses) {
    const std::string body = access("", instruction);
    const std::string text = text_of(run(body, kPair));
    EXPECT_NE(text.find("stagecraft: missing wait"), std::string::npos) << instruction << text;
    EXPECT_NE(text.find(verb + kMessage), std::string::npos) << instruction << text;
    EXPECT_NE(text.find("no barrier of the cluster comes before this access"), std::string::npos) << text;
    const std::string after = text_of(run(access(kMeet, instruction), kPair));
    EXPECT_EQ(after.find("may not have started"), std::string::npos) << after;
  }
}

TEST_F(RemoteStartTest, FindsAStoreAlone) {
  const std::string body = access("", kStore);
  expect_one(run(body, kPair), "missing wait", {"block (1,0,0) warp 0", line_of(body, kStore), "writes " + kMessage});
}

TEST_F(RemoteStartTest, FindsAnArrivalBesideTheUnorderedInitialisation) {
  const std::string arrive = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];\n";
  const std::string text = text_of(run(access("", arrive), kPair));
  EXPECT_NE(text.find("arrives at an mbarrier in " + kMessage), std::string::npos) << text;
  expect_silence(run(access(kMeet, arrive), kPair));
}

/// Each block stores to the other one; `before` and `after` are around that.
std::string store_to_each_other(const std::string& before, const std::string& after) {
  return "xor.b32 %r2, %rank, 1;\nmapa.shared::cluster.u32 %other, %own, %r2;\n" + before + kStore + after +
         "barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;\n";
}

TEST_F(RemoteStartTest, NamesTheWaitThatIsMissing) {
  expect_one(run(store_to_each_other("barrier.cluster.arrive;\n", "barrier.cluster.wait;\n"), kPair), "missing wait",
             {"has arrived at the barrier of the cluster, but not waited for it"});
}

// All threads arrive, and only the first warp waits before it goes on.
TEST_F(RemoteStartTest, AsksForMoreThanAWaitOfAnotherWarp) {
  const std::string first_waits = "setp.ne.u32 %p2, %warp, 0;\n@%p2 bra SECOND;\nbarrier.cluster.wait;\nSECOND:\n";
  const std::string second_waits = "@!%p2 bra PASSED;\nbarrier.cluster.wait;\nPASSED:\n";
  for (const std::string arrive : {"barrier.cluster.arrive.relaxed;\n", "barrier.cluster.arrive;\n"}) {
    expect_one(run(store_to_each_other(arrive + first_waits, second_waits), kTwoWarps), "missing wait",
               {"warp 1", "which may not have started"});
    expect_silence(run(store_to_each_other(arrive + first_waits + "bar.sync 0;\n", second_waits), kTwoWarps));
  }
}

TEST_F(RemoteStartTest, IsSilentAfterARelaxedBarrierOfTheCluster) {
  expect_silence(run(access("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;\n", kStore), kPair));
}

// Block 0 says in global memory that it runs.
TEST_F(RemoteStartTest, IsSilentWhereAFlagSaysThatTheBlockRuns) {
  const auto flag = [](const std::string& store, const std::string& load) {
    return "setp.eq.u32 %p1, %rank, 0;\n@!%p1 bra POLL;\n@%first " + store + "bra READY;\nPOLL:\n" + load +
           "setp.ne.u32 %p3, %r1, 7;\n@%p3 bra POLL;\nREADY:\n";
  };
  for (const std::string order : {"", "bar.warp.sync -1;\n"}) {
    expect_silence(
        run(access(flag("st.release.gpu.global.u32 [%out], 7;\n", "ld.acquire.gpu.global.u32 %r1, [%out];\n") + order,
                   kStore),
            kPair));
  }
  expect_silence(
      run(access(flag("st.relaxed.gpu.global.u32 [%out], 7;\n", "ld.relaxed.gpu.global.u32 %r1, [%out];\n"), kStore),
          kPair));
}

}  // namespace
}  // namespace stagecraft::emulator::checks
